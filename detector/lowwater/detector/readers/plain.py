"""Spans and log records as plain JSON objects: attributes are a mapping, names differ by exporter.

The SDK's console exporters and the span dumps of evaluation tools agree on the model and on little else;
one table of names reads them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.collectors.values import load_json, unwrap
from lowwater.detector.readers.otlp_json import attributes as otlp_attributes
from lowwater.detector.readers.otlp_json import identifier, status_code, synthetic_id
from lowwater.detector.readers.values import nanoseconds

__all__ = ["is_plain_span", "plain_attributes", "plain_log", "plain_span"]

_TRACE_ID = ("trace_id", "traceId", "traceID")
_SPAN_ID = ("span_id", "spanId", "spanID")
_PARENT_ID = ("parent_span_id", "parentSpanId", "parent_id", "parentId")
_NAME = ("name", "spanName", "span_name", "operationName")
_START = ("start_time_unix_nano", "startTimeUnixNano", "start_time", "startTime")
_END = ("end_time_unix_nano", "endTimeUnixNano", "end_time", "endTime")
_EVENTS = ("events", "span_events", "spanEvents")
_EVENT_TIME = ("timestamp", "time_unix_nano", "timeUnixNano", "time")
_SCOPE = ("scope", "instrumentation_scope", "instrumentationScope", "instrumentation_info")
_SCOPE_NAME = ("scope_name", "scopeName")
_SCOPE_VERSION = ("scope_version", "scopeVersion")
_RECORD_TIME = ("timestamp", "observed_timestamp")


def is_plain_span(value: Any) -> bool:
    """Whether an object is a span: it has attributes (a mapping or JSON text), and ids or at least scope and name."""
    if not isinstance(value, dict) or not isinstance(value.get("attributes"), dict | str):
        return False
    identified = _pick(value, _TRACE_ID) is not None and _pick(value, _SPAN_ID) is not None
    return identified or (_pick(value, _NAME) is not None and _pick(value, _SCOPE_NAME) is not None)


def plain_span(value: Mapping[str, Any], ordinal: int) -> SpanRecord:
    """A span out of an object; ids that it lacks are made from its content and its position."""
    context = value.get("context")
    ids = context if isinstance(context, dict) else value
    scope = _pick(value, _SCOPE)
    scope = scope if isinstance(scope, dict) else {}
    status = value.get("status")
    status = status if isinstance(status, dict) else {"code": status}
    return SpanRecord(
        trace_id=identifier(_pick(ids, _TRACE_ID)) or synthetic_id(value, ordinal, 32),
        span_id=identifier(_pick(ids, _SPAN_ID)) or synthetic_id(value, ordinal),
        name=_text(_pick(value, _NAME)),
        parent_span_id=identifier(_pick(value, _PARENT_ID)) or None,
        start_time_unix_nano=nanoseconds(_pick(value, _START)),
        end_time_unix_nano=nanoseconds(_pick(value, _END)),
        status_code=status_code(_pick(status, ("status_code", "code", "statusCode"))),
        status_message=_text(_pick(status, ("description", "message"))),
        scope_name=_text(scope.get("name") or _pick(value, _SCOPE_NAME)),
        scope_version=_text(scope.get("version") or _pick(value, _SCOPE_VERSION)),
        attributes=plain_attributes(value.get("attributes")),
        events=_events(_pick(value, _EVENTS)),
        resource=_resource(value.get("resource")),
    )


def plain_log(value: Mapping[str, Any]) -> LogRecord:
    """A log record out of an object of the SDK's console exporter."""
    found = plain_attributes(value.get("attributes"))
    scope = _pick(value, _SCOPE)
    scope = scope if isinstance(scope, dict) else {}
    times = (nanoseconds(value.get(name)) for name in _RECORD_TIME)
    return LogRecord(
        trace_id=identifier(_pick(value, _TRACE_ID)),
        span_id=identifier(_pick(value, _SPAN_ID)),
        time_unix_nano=next((moment for moment in times if moment), 0),
        event_name=_text(value.get("event_name") or found.get("event.name")),
        body=value.get("body"),
        scope_name=_text(scope.get("name")),
        scope_version=_text(scope.get("version")),
        attributes=found,
        resource=_resource(value.get("resource")),
    )


def plain_attributes(value: Any) -> dict[str, Any]:
    """Attributes as a mapping, also from JSON text or a list of OTLP key-values.

    Values that an exporter left in OTLP's encoding, such as ``{"values": [{"stringValue": ...}]}``, are decoded.
    """
    value = load_json(value)
    if isinstance(value, list):
        return otlp_attributes(value)
    if not isinstance(value, dict):
        return {}
    return {name: unwrap(found) if isinstance(found, dict) else found for name, found in value.items()}


def _pick(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        found = value.get(name)
        if found is not None:
            return found
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _events(events: Any) -> list[SpanEvent]:
    return [
        SpanEvent(
            _text(event.get("name") or event.get("event_name")),
            nanoseconds(_pick(event, _EVENT_TIME)),
            plain_attributes(event.get("attributes")),
        )
        for event in (events if isinstance(events, list) else ())
        if isinstance(event, dict)
    ]


def _resource(resource: Any) -> dict[str, Any]:
    if not isinstance(resource, dict):
        return {}
    return plain_attributes(resource.get("attributes", resource))
