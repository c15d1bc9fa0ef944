"""Runs as files: OTLP as the collector's file exporter writes it, and the truth beside it."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from lowwater.detector.simulation.model import Run

__all__ = ["SCHEMA", "batches", "request_of", "truth_of", "write_json", "write_proto"]

SCHEMA = "lowwater.truth/1"

_IDS = ("traceId", "spanId", "parentSpanId")


def batches(spans: Iterable[ReadableSpan], size: int = 512) -> Iterator[list[ReadableSpan]]:
    """Spans as a batch processor sends them."""
    rest = iter(spans)
    while batch := list(itertools.islice(rest, size)):
        yield batch


def request_of(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """One export request."""
    return encode_spans(spans)


def write_json(spans: Sequence[ReadableSpan], to: IO[bytes]) -> None:
    """One request as a line of OTLP/JSON."""
    document = MessageToDict(request_of(spans))
    for group in document["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                # OTLP/JSON writes ids in hexadecimal digits, protobuf's JSON in base64.
                span.update({key: base64.b64decode(span[key]).hex() for key in _IDS if key in span})
    to.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")


def write_proto(spans: Sequence[ReadableSpan], to: IO[bytes]) -> None:
    """One request after its length in four bytes."""
    data = request_of(spans).SerializeToString()
    to.write(len(data).to_bytes(4, "big") + data)


def truth_of(run: Run) -> dict[str, Any]:
    """What is true of a run, as one line of ``lowwater.truth/1``; ids in hexadecimal digits."""
    truth = run.truth
    return {
        "schema": SCHEMA,
        "scenario": truth.scenario,
        "look_alike": truth.look_alike,
        "service": run.service,
        "seed": run.seed,
        "healthy": truth.healthy,
        "agent_hours": round(truth.agent_hours, 4),
        "expected": [
            {
                **dataclasses.asdict(item),
                "trace_id": f"{item.trace_id:032x}",
                "onset_span_id": f"{item.onset_span_id:016x}",
            }
            for item in truth.expected
        ],
        "calls": [{**dataclasses.asdict(call), "span_id": f"{call.span_id:016x}"} for call in truth.calls],
        "rejections": {f"{span_id:016x}": name for span_id, name in truth.rejections.items()},
    }
