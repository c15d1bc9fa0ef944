"""Spans that are recorded and not sampled: a detector that sees one trace of ten sees no agent whole."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, TraceFlags

from lowwater.collectors.enrich import SpanCopy

__all__ = ["RecordedSpans"]


class RecordedSpans(SpanProcessor):
    """Hands every span that the SDK records to a processor, those not sampled as well.

    Stock processors export sampled spans only. With ``AlwaysRecordSampler`` around a sampler the SDK records the others,
    too; this passes them on as sampled, to the processor that exports to the detector::

        provider = TracerProvider(sampler=AlwaysRecordSampler(TraceIdRatioBased(0.1)))
        provider.add_span_processor(BatchSpanProcessor(to_backend))                    # one of ten, as before
        provider.add_span_processor(RecordedSpans(BatchSpanProcessor(to_lowwater)))    # all of them

    Args:
        processor: whose exporter is to get them all.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        # The SDK's name for processors within a processor: `enrich_exports` finds the exporter by it.
        self._span_processors = (processor,)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass it on."""
        self._span_processors[0].on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass it on, as sampled."""
        context = span.get_span_context()
        if context is not None and not context.trace_flags.sampled:
            flags = TraceFlags(context.trace_flags | TraceFlags.SAMPLED)
            sampled = SpanContext(context.trace_id, context.span_id, context.is_remote, flags, context.trace_state)
            span = SpanCopy(span, context=sampled)
        self._span_processors[0].on_end(span)

    def shutdown(self) -> None:
        """Pass it on."""
        self._span_processors[0].shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass it on."""
        return self._span_processors[0].force_flush(timeout_millis)
