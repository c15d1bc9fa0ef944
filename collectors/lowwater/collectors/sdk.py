"""A span of the SDK as the record that dialects read."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from lowwater.collectors.records import SpanEvent, SpanRecord

__all__ = ["record_of"]

_STATUS = {StatusCode.UNSET: "unset", StatusCode.OK: "ok", StatusCode.ERROR: "error"}


def record_of(span: ReadableSpan) -> SpanRecord:
    """The record of an ended span; it shares the span's attributes."""
    context, parent, scope = span.get_span_context(), span.parent, span.instrumentation_scope
    return SpanRecord(
        trace_id=format_trace_id(context.trace_id) if context is not None else "",
        span_id=format_span_id(context.span_id) if context is not None else "",
        name=span.name,
        parent_span_id=format_span_id(parent.span_id) if parent is not None else None,
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
        status_code=_STATUS[span.status.status_code],
        status_message=span.status.description or "",
        scope_name=scope.name if scope is not None else "",
        scope_version=(scope.version or "") if scope is not None else "",
        attributes=span.attributes or {},
        events=[SpanEvent(event.name, event.timestamp, event.attributes or {}) for event in span.events],
        resource=span.resource.attributes,
    )
