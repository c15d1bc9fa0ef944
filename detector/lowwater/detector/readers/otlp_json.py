"""OTLP as JSON: export requests, one or many to a file, and bare spans.

Read as the OTLP specification asks of receivers: unknown fields are ignored, 64-bit integers are numbers or
strings, enumerations numbers or names; and as exporters write in practice: snake_case fields, base64 ids,
the older instrumentation-library level, the ``batches`` of trace stores.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.values import dump_json, iterate_values

__all__ = ["FORMAT", "MAX_DEPTH", "attributes", "identifier", "request_items", "status_code", "synthetic_id"]

MAX_DEPTH = 16
"""Attribute values nested deeper than this are dropped; real message structures stay below 8."""

_HEX = frozenset("0123456789abcdef")
_BASE64_LENGTHS = frozenset((11, 12, 22, 24))
_URL_SAFE = str.maketrans("-_", "+/")
_RESOURCE_SPANS = ("resourceSpans", "resource_spans", "batches")
_SCOPE_SPANS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_RESOURCE_LOGS = ("resourceLogs", "resource_logs")
_SCOPE_LOGS = ("scopeLogs", "scope_logs", "instrumentationLibraryLogs", "instrumentation_library_logs")
_RESOURCE_METRICS = ("resourceMetrics", "resource_metrics", "resourceProfiles", "resource_profiles")
_REQUEST_FIELDS = (*_RESOURCE_SPANS, *_RESOURCE_LOGS, *_RESOURCE_METRICS)
_STATUS = {
    1: "ok", 2: "error", "1": "ok", "2": "error",
    "OK": "ok", "ERROR": "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error",
}  # fmt: skip


def attributes(items: Any) -> dict[str, Any]:
    """Decode a list of OTLP key-values to plain values; what is malformed is left out."""
    found: dict[str, Any] = {}
    try:
        for item in items:
            key, value = item["key"], item["value"]
            # Strings and integers are nearly all there is: they are decoded here, without a call.
            if type(key) is not str:
                continue
            if type(text := value.get("stringValue")) is str:
                found[key] = text
            elif type(number := value.get("intValue")) is int:
                found[key] = number
            else:
                found[key] = _any_value(value, MAX_DEPTH)
    except (AttributeError, KeyError, TypeError):
        return _checked_attributes(items, MAX_DEPTH)
    return found


def _checked_attributes(items: Any, depth: int) -> dict[str, Any]:
    """The slow path for lists with malformed entries and for nested lists."""
    found: dict[str, Any] = {}
    for item in items if isinstance(items, list) else ():
        key = item.get("key") if isinstance(item, dict) else None
        if isinstance(key, str):
            found[key] = _any_value(item.get("value"), depth)
    return found


def _any_value(value: Any, depth: int) -> Any:
    """Decode an AnyValue; None if it is empty, malformed or nested too deeply."""
    if not isinstance(value, dict):
        return None
    for kind, raw in value.items():
        if kind in ("stringValue", "string_value"):
            return raw if isinstance(raw, str) else None
        decoder = _DECODERS.get(kind)
        if decoder is not None:
            return decoder(raw, depth - 1) if depth > 0 else None
    return None


def _integer(raw: Any, depth: int) -> int | None:
    try:
        return int(raw)
    except (TypeError, ValueError, OverflowError):
        return None


def _double(raw: Any, depth: int) -> float | None:
    try:
        return float(raw)
    except (TypeError, ValueError, OverflowError):
        return None


def _list(raw: Any, depth: int) -> list[Any]:
    values = raw.get("values") if isinstance(raw, dict) else None
    return [_any_value(value, depth) for value in values] if isinstance(values, list) else []


def _mapping(raw: Any, depth: int) -> dict[str, Any]:
    return _checked_attributes(raw.get("values") if isinstance(raw, dict) else None, depth)


def _bytes(raw: Any, depth: int) -> bytes | None:
    try:
        return base64.b64decode(raw)
    except (TypeError, ValueError):
        return None


_DECODERS: dict[str, Callable[[Any, int], Any]] = {
    "intValue": _integer,
    "boolValue": lambda raw, depth: raw if isinstance(raw, bool) else None,
    "doubleValue": _double,
    "arrayValue": _list,
    "kvlistValue": _mapping,
    "bytesValue": _bytes,
    "int_value": _integer,
    "bool_value": lambda raw, depth: raw if isinstance(raw, bool) else None,
    "double_value": _double,
    "array_value": _list,
    "kvlist_value": _mapping,
    "bytes_value": _bytes,
}


def identifier(value: Any) -> str:
    """A trace or span id as lower-case hexadecimal digits; empty if there is none.

    Ids are hexadecimal in OTLP/JSON; some exporters write them as base64, which has another length.
    An id of only zeros is none. An id of no known form is kept as it is.

    >>> identifier("0xFCA792CF0D76089C"), identifier("/KeSzw12CJw="), identifier("0000000000000000")
    ('fca792cf0d76089c', 'fca792cf0d76089c', '')
    """
    if not isinstance(value, str):
        return ""
    # Base64 may begin with "0x" as well, and then has the length of base64.
    text = value[2:] if value.startswith("0x") and len(value) in (18, 34) else value
    lower = text.lower()
    if not _HEX.issuperset(lower):
        decoded = _base64_id(text)
        if decoded is None:
            return text
        lower = decoded
    return lower if lower.strip("0") else ""


def _base64_id(text: str) -> str | None:
    """The hexadecimal digits of an id in base64: 16 or 8 bytes, with or without padding."""
    if len(text) not in _BASE64_LENGTHS:
        return None
    standard = text.translate(_URL_SAFE)
    try:
        decoded = base64.b64decode(standard + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None
    return decoded.hex() if len(decoded) in (8, 16) else None


def status_code(code: Any) -> str:
    """``ok``, ``error`` or ``unset`` out of a status code's number or name."""
    return (
        _STATUS.get(code.upper() if isinstance(code, str) else code, "unset")
        if isinstance(code, str | int)
        else "unset"
    )


def synthetic_id(source: Any, ordinal: int, digits: int = 16) -> str:
    """An id for a span that has none, from its content and its position: the same file gives the same ids."""
    return hashlib.blake2b(dump_json(source) + b"#%d" % ordinal, digest_size=digits // 2).hexdigest()


def _first(mapping: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in mapping:
            return mapping[name]
    return None


def _dicts(value: Any, note: Callable[[str], None], what: str) -> Iterator[dict[str, Any]]:
    """The mappings of a list; anything else in their place is a problem."""
    if value is None:
        return
    if not isinstance(value, list):
        note(f"{what} is no list")
        return
    for item in value:
        if isinstance(item, dict):
            yield item
        else:
            note(f"{what} holds something that is no object")


def _time(value: Any) -> int:
    number = value if type(value) is int else _integer(value, 0)
    return number if number is not None and 0 <= number < 1 << 64 else 0


@dataclass(slots=True)
class _Origin:
    """The resource and scope of spans or log records."""

    resource: Mapping[str, Any]
    name: str = ""
    version: str = ""


def _origins(
    groups: Any, scope_names: tuple[str, ...], note: Callable[[str], None]
) -> Iterator[tuple[_Origin, dict[str, Any]]]:
    """Yield (origin, scope group) for every scope of every resource."""
    for group in _dicts(groups, note, "the list of resources"):
        resource = group.get("resource")
        resource_attributes = attributes(resource.get("attributes") or ()) if isinstance(resource, dict) else {}
        for scoped in _dicts(_first(group, scope_names), note, "the list of scopes"):
            scope = _first(scoped, ("scope", "instrumentationLibrary", "instrumentation_library"))
            scope = scope if isinstance(scope, dict) else {}
            name, version = scope.get("name"), scope.get("version")
            yield (
                _Origin(
                    resource_attributes,
                    name if isinstance(name, str) else "",
                    version if isinstance(version, str) else "",
                ),
                scoped,
            )


def request_items(
    request: Mapping[str, Any],
    note: Callable[[str], None],
    ordinal: int = 0,
    *,
    refuse: Callable[[str], None] | None = None,
) -> Iterator[SpanRecord | LogRecord]:
    """Yield the spans and log records of one export request.

    Args:
        request: the parsed request; its metrics are not read.
        note: called with the reason for every part that cannot be read.
        ordinal: position of the request in its source, for spans without ids.
        refuse: called for a span whose ids are missing or of no known form, which is then left out. Without it, one
            without ids gets ids of its content and place, and other ids are kept.
    """
    for origin, scoped in _origins(_first(request, _RESOURCE_SPANS), _SCOPE_SPANS, note):
        for index, span in enumerate(_dicts(scoped.get("spans"), note, "the list of spans")):
            if refuse is not None and not _has_ids(span):
                refuse("spans without a valid trace id and span id")
            else:
                yield _span(span, origin, ordinal + index)
    for origin, scoped in _origins(_first(request, _RESOURCE_LOGS), _SCOPE_LOGS, note):
        records = _first(scoped, ("logRecords", "log_records", "logs"))
        for record in _dicts(records, note, "the list of log records"):
            yield _log(record, origin)


def _has_ids(span: Mapping[str, Any]) -> bool:
    ids = ((("traceId", "trace_id"), 32), (("spanId", "span_id"), 16))
    found = ((identifier(_first(span, names)), digits) for names, digits in ids)
    return all(len(text) == digits and _HEX.issuperset(text) for text, digits in found)


def _span(span: dict[str, Any], origin: _Origin, ordinal: int) -> SpanRecord:
    get = span.get
    name = get("name")
    status = get("status")
    status = status if isinstance(status, dict) else {}
    message = status.get("message")
    span_id = identifier(get("spanId") or get("span_id")) or synthetic_id(span, ordinal)
    return SpanRecord(
        trace_id=identifier(get("traceId") or get("trace_id")) or synthetic_id(span, ordinal, 32),
        span_id=span_id,
        name=name if isinstance(name, str) else "",
        parent_span_id=identifier(get("parentSpanId") or get("parent_span_id")) or None,
        start_time_unix_nano=_time(get("startTimeUnixNano") or get("start_time_unix_nano") or 0),
        end_time_unix_nano=_time(get("endTimeUnixNano") or get("end_time_unix_nano") or 0),
        status_code=status_code(status.get("code")),
        status_message=message if isinstance(message, str) else "",
        scope_name=origin.name,
        scope_version=origin.version,
        attributes=attributes(get("attributes") or ()),
        events=_events(get("events")) if get("events") else (),
        resource=origin.resource,
    )


def _events(events: Any) -> list[SpanEvent]:
    found: list[SpanEvent] = []
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            moment = event.get("timeUnixNano") or event.get("time_unix_nano") or 0
            found.append(
                SpanEvent(str(event.get("name", "")), _time(moment), attributes(event.get("attributes") or ()))
            )
    return found


def _log(record: dict[str, Any], origin: _Origin) -> LogRecord:
    get = record.get
    found = attributes(get("attributes") or ())
    times = ("timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
    event_name = get("eventName") or get("event_name") or found.get("event.name")
    return LogRecord(
        trace_id=identifier(get("traceId") or get("trace_id")),
        span_id=identifier(get("spanId") or get("span_id")),
        time_unix_nano=next((moment for moment in map(_time, map(get, times)) if moment), 0),
        event_name=event_name if isinstance(event_name, str) else "",
        body=_any_value(get("body"), MAX_DEPTH),
        scope_name=origin.name,
        scope_version=origin.version,
        attributes=found,
        resource=origin.resource,
    )


def _is_request(value: dict[str, Any]) -> bool:
    return any(isinstance(value.get(name), list) for name in _REQUEST_FIELDS)


def _is_span(value: dict[str, Any]) -> bool:
    """A span object without the request around it: its attributes are a list of key-values."""
    found = value.get("attributes")
    return (
        isinstance(value.get("name"), str)
        and isinstance(found, list)
        and any(key in value for key in ("traceId", "spanId", "kind", "status", "startTimeUnixNano", "flags"))
        and all(isinstance(item, dict) and "key" in item for item in found[:3])
    )


def _unwrapped(value: Any) -> list[dict[str, Any]]:
    """The requests or spans of a parsed value: itself, those of a list, or the ``trace`` in a store's answer."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    if not isinstance(value, dict):
        return []
    inner = value.get("trace")
    return [inner] if isinstance(inner, dict) and _is_request(inner) else [value]


def _sniff(value: Any) -> bool:
    return any(_is_request(item) or _is_span(item) for item in _unwrapped(value)[:1])


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[SpanRecord | LogRecord]:
    ordinal = 0
    for number, value in iterate_values(document, problems):
        place = f"line {number}"

        def note(reason: str, place: str = place) -> None:
            problems.add(document.name, place, reason)

        for item in _unwrapped(value):
            ordinal += 1
            if _is_request(item):
                if any(name in item for name in _RESOURCE_METRICS):
                    note("metrics are not read, only traces and logs")
                yield from request_items(item, note, ordinal)
            elif _is_span(item):
                yield _span(item, _Origin({}), ordinal)
            elif item:
                note("neither an OTLP request nor a span")


FORMAT = Format(
    name="otlp-json",
    description="OTLP requests as JSON: one, or one per line as the collector's file exporter writes them",
    read=_read,
    sniff_line=_sniff,
    sniff_json=_sniff,
)
