"""An exporter that enriches spans and hands them on: the work is done where spans are exported, not where they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from lowwater.collectors.enrich import Enricher

__all__ = ["EnrichingExporter", "enrich_exports"]


class EnrichingExporter(SpanExporter):
    """Wraps an exporter. With a `BatchSpanProcessor` all of its work is done on that processor's thread.

    Args:
        exporter: gets the enriched spans.
        enricher: what to add and to cut.
    """

    def __init__(self, exporter: SpanExporter, enricher: Enricher | None = None) -> None:
        self._exporter = exporter
        self._enrich = enricher if enricher is not None else Enricher()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Enrich and export; what the wrapped exporter answers or raises is passed on."""
        return self._exporter.export([self._enrich(span) for span in spans])

    def shutdown(self) -> None:
        """Shut the wrapped exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the wrapped exporter."""
        return self._exporter.force_flush(timeout_millis)

    def __getattr__(self, name: str) -> Any:
        # What asks the exporter for more than the interface (an endpoint, a test's finished spans) means the wrapped one.
        return getattr(self._exporter, name)


_HOLDERS = (("", "span_exporter"), ("_batch_processor", "_exporter"), ("", "_exporter"))
"""Where the SDK's processors keep their exporter: public until 1.33 and in the simple one; within the batch one later."""


def enrich_exports(processor: SpanProcessor, enricher: Enricher) -> bool:
    """Let a processor export enriched spans; returns whether an exporter was found in it.

    Processors that hold no exporter as the SDK's do stay as they are: give those an `EnrichingExporter`.
    """
    inner = getattr(processor, "_span_processors", None)  # the SDK's processors of processors
    if isinstance(inner, tuple):
        found = [enrich_exports(each, enricher) for each in inner]  # all of them, not only up to the first
        return any(found)
    for owner_name, name in _HOLDERS:
        owner = getattr(processor, owner_name, None) if owner_name else processor
        exporter = getattr(owner, name, None)
        if isinstance(exporter, EnrichingExporter):
            return True
        if isinstance(exporter, SpanExporter):
            try:
                setattr(owner, name, EnrichingExporter(exporter, enricher))
            except AttributeError:  # a property that only shows it
                continue
            return True
    return False
