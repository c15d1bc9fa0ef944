"""What the OpenTelemetry SDK's console exporters print: spans and log records, one JSON object after another.

Known: opentelemetry-sdk 1.20 to 1.45, indented (the default) or one object per line. The console exporter writes no
instrumentation scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.plain import plain_log, plain_span
from lowwater.detector.readers.values import iterate_values

__all__ = ["FORMAT"]


def _is_span(value: Any) -> bool:
    context = value.get("context") if isinstance(value, dict) else None
    return isinstance(context, dict) and "trace_id" in context and "span_id" in context and "name" in value


def _is_log(value: Any) -> bool:
    return isinstance(value, dict) and "body" in value and "severity_number" in value and "trace_id" in value


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[SpanRecord | LogRecord]:
    for ordinal, (number, value) in enumerate(iterate_values(document, problems)):
        for item in value if isinstance(value, list) else [value]:
            if _is_span(item):
                yield plain_span(item, ordinal)
            elif _is_log(item):
                yield plain_log(item)
            else:
                problems.add(document.name, f"line {number}", "neither a span nor a log record of the console exporter")


def _sniff_document(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return _is_span(first) or _is_log(first)


FORMAT = Format(
    name="console",
    description="what the OpenTelemetry SDK's console exporters print",
    read=_read,
    sniff_line=lambda value: _is_span(value) or _is_log(value),
    sniff_json=_sniff_document,
)
