"""Runs played as if they happened now, through the official OTLP exporter."""

from __future__ import annotations

import copy
import heapq
import time

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from lowwater.detector.simulation.emit import spans
from lowwater.detector.simulation.scenarios import SCENARIOS

__all__ = ["Player"]


class Player:
    """Plays scenarios.

    Args:
        endpoint: of an OTLP/gRPC receiver.
        seed: of the runs.
        story_seconds: what each run is squeezed into.

    Attributes:
        sent: spans that were taken.
    """

    def __init__(self, endpoint: str, seed: int, story_seconds: float) -> None:
        self._exporter = OTLPSpanExporter(endpoint, insecure=True)
        self._seed, self._story_seconds = seed, story_seconds
        self._due: list[tuple[int, int, ReadableSpan]] = []
        self._count = 0
        self.sent = 0

    def begin(self, scenario: str) -> None:
        """Start a scenario now."""
        found = spans(SCENARIOS[scenario].make(self._seed), "gen_ai")
        first_ns = min(span.start_time or 0 for span in found)
        last_ns = max(span.end_time or 0 for span in found)
        scale = self._story_seconds * 1e9 / (last_ns - first_ns)
        now_ns = time.time_ns()

        def when(moment_ns: int | None) -> int:
            return now_ns + int(((moment_ns or first_ns) - first_ns) * scale)

        for span in found:
            moved = _moved(span, when(span.start_time), when(span.end_time))
            self._count += 1
            heapq.heappush(self._due, (when(span.end_time), self._count, moved))

    def play(self) -> None:
        """Send what has ended by now."""
        batch = []
        while self._due and self._due[0][0] <= time.time_ns():
            batch.append(heapq.heappop(self._due)[2])
        if batch and self._exporter.export(batch) is SpanExportResult.SUCCESS:
            self.sent += len(batch)

    @property
    def idle(self) -> bool:
        """Whether everything was sent."""
        return not self._due

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def _moved(span: ReadableSpan, start_ns: int, end_ns: int) -> ReadableSpan:
    """The span at another time, with its events at its end."""
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=[Event(event.name, copy.copy(event.attributes), end_ns) for event in span.events],
        kind=span.kind,
        status=span.status,
        start_time=start_ns,
        end_time=end_ns,
        instrumentation_scope=span.instrumentation_scope,
    )
