"""OTLP as protobuf: one request, or many with length prefixes.

The collector's file exporter writes every request after its length as a 4-byte big-endian number
(``format: proto``); until it compressed whole files, it also wrote zstd-compressed protobuf or JSON
requests in the same frames (``compression: zstd``). Others write varint lengths, protobuf's own way to
delimit messages. Source: exporter/fileexporter of opentelemetry-collector-contrib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import zstandard
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.framing import framing_of, messages, salvage
from lowwater.detector.readers.otlp_json import MAX_DEPTH, request_items, synthetic_id
from lowwater.detector.readers.values import MAX_VALUE_BYTES, parse_json
from lowwater.detector.readers.values import salvage as salvage_json

__all__ = ["FORMAT", "decode_request", "record_items", "span_items"]

Note = Callable[[str], None]

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_STATUS = ("unset", "ok", "error")
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8


def decode_request(data: bytes) -> Iterator[SpanRecord | LogRecord] | None:
    """The spans or log records of one serialised export request; None if it is neither.

    Trace and log requests share their outer layout and do not say which they are: a request is one of traces if
    its spans have ids of the right length, one of logs if its records have a time or a body.
    """
    traces = _parsed(ExportTraceServiceRequest(), data)
    if traces is not None and _has_spans(traces):
        return span_items(traces)
    logs = _parsed(ExportLogsServiceRequest(), data)
    if logs is not None and _has_records(logs):
        return record_items(logs)
    empty = traces is not None and not any(
        scope.spans for group in traces.resource_spans for scope in group.scope_spans
    )
    return iter(()) if empty else None


def _parsed(message: Any, data: bytes) -> Any:
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def _has_spans(request: Any) -> bool:
    return any(
        len(span.trace_id) == _TRACE_ID_BYTES and len(span.span_id) == _SPAN_ID_BYTES
        for group in request.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans[:1]
    )


def _has_ids(span: Any) -> bool:
    trace_id, span_id = span.trace_id, span.span_id
    return len(trace_id) == _TRACE_ID_BYTES and len(span_id) == _SPAN_ID_BYTES and any(trace_id) and any(span_id)


def _has_records(request: Any) -> bool:
    return any(
        record.time_unix_nano or record.observed_time_unix_nano or record.HasField("body")
        for group in request.resource_logs
        for scoped in group.scope_logs
        for record in scoped.log_records[:1]
    )


def _attributes(pairs: Any, depth: int = MAX_DEPTH) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # Most values are text; asking which field is set costs more than looking.
        found[pair.key] = value.string_value or _any_value(value, depth)
    return found


def _any_value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None or depth <= 0:
        return None
    if kind == "array_value":
        return [_any_value(item, depth - 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values, depth - 1)
    return getattr(value, kind)


def span_items(request: Any, refuse: Note | None = None) -> Iterator[SpanRecord]:
    """The spans of a parsed trace request.

    Args:
        refuse: called for a span whose ids are missing or of the wrong length, which is then left out. Without it, one
            without ids gets ids of its content and place, and other ids are kept.
    """
    ordinal = 0
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            name, version = scoped.scope.name, scoped.scope.version
            for span in scoped.spans:
                ordinal += 1
                if refuse is not None and not _has_ids(span):
                    refuse("spans without a valid trace id and span id")
                    continue
                parent = span.parent_span_id
                yield SpanRecord(
                    trace_id=span.trace_id.hex() or synthetic_id(span.SerializeToString().hex(), ordinal, 32),
                    span_id=span.span_id.hex() or synthetic_id(span.SerializeToString().hex(), ordinal),
                    name=span.name,
                    parent_span_id=parent.hex() if parent.strip(b"\0") else None,
                    start_time_unix_nano=span.start_time_unix_nano,
                    end_time_unix_nano=span.end_time_unix_nano,
                    status_code=_STATUS[span.status.code] if 0 <= span.status.code < len(_STATUS) else "unset",
                    status_message=span.status.message,
                    scope_name=name,
                    scope_version=version,
                    attributes=_attributes(span.attributes),
                    events=[SpanEvent(e.name, e.time_unix_nano, _attributes(e.attributes)) for e in span.events],
                    resource=resource,
                )


def record_items(request: Any) -> Iterator[LogRecord]:
    """The records of a parsed log request."""
    for group in request.resource_logs:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_logs:
            name, version = scoped.scope.name, scoped.scope.version
            for record in scoped.log_records:
                found = _attributes(record.attributes)
                event_name = record.event_name or found.get("event.name")
                yield LogRecord(
                    trace_id=record.trace_id.hex() if record.trace_id.strip(b"\0") else "",
                    span_id=record.span_id.hex() if record.span_id.strip(b"\0") else "",
                    time_unix_nano=record.time_unix_nano or record.observed_time_unix_nano,
                    event_name=event_name if isinstance(event_name, str) else "",
                    body=_any_value(record.body, MAX_DEPTH),
                    scope_name=name,
                    scope_version=version,
                    attributes=found,
                    resource=resource,
                )


def _unpacked(data: bytes) -> bytes:
    """A frame's payload, decompressed if the exporter compressed it; capped.

    Raises:
        ValueError: it cannot be decompressed, or is too large.
    """
    if not data.startswith(_ZSTD_MAGIC):
        return data
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            unpacked = reader.read(MAX_VALUE_BYTES + 1)
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged zstd frame: {error}") from None
    if len(unpacked) > MAX_VALUE_BYTES:
        raise ValueError(f"request larger than {MAX_VALUE_BYTES >> 20} MiB when decompressed")
    return unpacked


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[SpanRecord | LogRecord]:
    ordinal = 0

    def note(reason: str) -> None:
        problems.add(document.name, f"record {ordinal}", reason)

    for data, whole in messages(document.chunks(), note):
        ordinal += 1
        try:
            payload = _unpacked(data)
        except ValueError as error:
            note(str(error))
            continue
        if not whole:
            note("the file is cut off inside this record: its complete part was read")
        yield from _payload_items(payload, whole, note, ordinal)


def _payload_items(payload: bytes, whole: bool, note: Note, ordinal: int) -> Iterator[SpanRecord | LogRecord]:
    if payload.startswith(b"{"):
        request = _json(payload, whole)
        if isinstance(request, dict):
            yield from request_items(request, note, ordinal)
        else:
            note("the JSON of this record cannot be read")
        return
    items = decode_request(payload if whole else salvage(payload))
    if items is None:
        note("neither a trace request nor a log request")
    else:
        yield from items


def _json(data: bytes, whole: bool) -> Any:
    """A JSON payload, or its complete part; None if there is none."""
    try:
        return parse_json(data) if whole else salvage_json(data)
    except ValueError:
        return None


FORMAT = Format(
    name="otlp-proto",
    description="OTLP requests as protobuf: one, or many with 4-byte or varint lengths",
    read=_read,
    sniff_bytes=lambda head: framing_of(head) is not None,
)
