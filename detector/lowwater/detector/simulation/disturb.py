"""What happens to spans on their way: order, duplicates, loss, clocks, and identifiers that nobody set."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

from lowwater.collectors.records import SpanRecord

__all__ = ["DISTURBANCES", "disturb"]

SKEW_SECONDS = 37
"""Far beyond what clocks of a fleet differ by when they are synchronised; within the lateness that is allowed."""

LOSS_RATIO = 0.05

_IDS = ("conversation.id", "session.id", "session_id", "agent.id", "thread_id", "user.id")


def _nothing(spans: list[SpanRecord], _: random.Random) -> list[SpanRecord]:
    return spans


def _out_of_order(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return draw.sample(spans, len(spans))


def _duplicates(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return [copy for span in spans for copy in ((span, span) if draw.random() < 0.2 else (span,))]


def _lost(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return [span for span in spans if span.parent_span_id is None or draw.random() >= LOSS_RATIO]


def _skewed(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    """Each trace's process has a clock of its own."""
    offsets: dict[str, int] = {}
    moved = []
    for span in spans:
        offset = offsets.setdefault(span.trace_id, draw.randint(-SKEW_SECONDS, SKEW_SECONDS) * 1_000_000_000)
        events = [dataclasses.replace(event, time_unix_nano=event.time_unix_nano + offset) for event in span.events]
        moved.append(
            dataclasses.replace(
                span,
                start_time_unix_nano=span.start_time_unix_nano + offset,
                end_time_unix_nano=span.end_time_unix_nano + offset,
                events=events,
            )
        )
    return moved


def _without_ids(spans: list[SpanRecord], _: random.Random) -> list[SpanRecord]:
    return [
        dataclasses.replace(
            span,
            attributes={key: value for key, value in span.attributes.items() if not key.endswith(_IDS)},
            _namespaces=None,
        )
        for span in spans
    ]


DISTURBANCES: Mapping[str, Callable[[list[SpanRecord], random.Random], list[SpanRecord]]] = {
    "none": _nothing,
    "out_of_order": _out_of_order,
    "duplicates": _duplicates,
    "clock_skew": _skewed,
    "missing_ids": _without_ids,
    "span_loss": _lost,
}
"""By name. ``span_loss`` drops one span in twenty, roots excepted; losing whole traces changes nothing for the others."""


def disturb(spans: list[SpanRecord], name: str, seed: int) -> list[SpanRecord]:
    """The spans as they arrive.

    Raises:
        KeyError: there is no such disturbance.
    """
    return DISTURBANCES[name](list(spans), random.Random(f"{name}/{seed}"))
