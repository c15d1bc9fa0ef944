"""Bodies of export requests to spans and log records, strictly: what a request says it is must be in it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.readers.framing import count_nested
from lowwater.detector.readers.otlp_json import request_items
from lowwater.detector.readers.otlp_proto import record_items, span_items
from lowwater.detector.readers.values import parse_json
from lowwater.detector.receivers.refusal import Refusal, Why

__all__ = ["MAX_ITEMS", "Encoding", "Rejected", "Signal", "decode"]

MAX_ITEMS = 50_000
"""Spans or log records in one request. The SDK's batches hold 512 and the collector's usually 8,192; an empty span is
two bytes, so a small request could otherwise name millions."""

_ITEM_PATH = (1, 2, 2)
"""Field numbers from a request down to its items: resource, scope, span or log record; the same for both signals."""


class Signal(enum.Enum):
    """What a request carries."""

    TRACES = "traces"
    LOGS = "logs"


class Encoding(enum.Enum):
    """How a request is written."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


@dataclass(slots=True)
class Rejected:
    """What of an accepted request could not be taken; grows while its items are read.

    Attributes:
        count: spans or log records.
        reason: the first reason, for the sender.
    """

    count: int = 0
    reason: str = ""

    def add(self, reason: str) -> None:
        """Count an item."""
        self.count += 1
        self.reason = self.reason or reason


def decode(signal: Signal, encoding: Encoding, body: bytes, rejected: Rejected) -> Iterator[SpanRecord | LogRecord]:
    """The items of a request. Unknown fields are ignored, and items that cannot be used are counted in ``rejected``.

    Raises:
        Refusal: the body is not what it should be, or holds too much. Raised before the first item.
    """
    if encoding is Encoding.JSON:
        return _json(signal, body, rejected)
    if count_nested(body, _ITEM_PATH, MAX_ITEMS) > MAX_ITEMS:
        raise _too_many()
    request = ExportTraceServiceRequest() if signal is Signal.TRACES else ExportLogsServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise Refusal(Why.MALFORMED, "malformed", f"the body is no protobuf export request of {signal.value}") from None
    if signal is Signal.LOGS:
        return record_items(request)
    return span_items(request, rejected.add)


def _json(signal: Signal, body: bytes, rejected: Rejected) -> Iterator[SpanRecord | LogRecord]:
    try:
        request = parse_json(body)
    except ValueError:
        raise Refusal(Why.MALFORMED, "malformed", "the body is no JSON") from None
    if not isinstance(request, dict):
        raise Refusal(Why.MALFORMED, "malformed", "the body is no JSON object of an export request")
    wanted = SpanRecord if signal is Signal.TRACES else LogRecord
    items = list(islice(request_items(request, rejected.add, refuse=rejected.add), MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        raise _too_many()
    return (item for item in items if type(item) is wanted)


def _too_many() -> Refusal:
    return Refusal(
        Why.TOO_LARGE, "too_large", f"the request holds more than {MAX_ITEMS:,} items: let the exporter send fewer"
    )
