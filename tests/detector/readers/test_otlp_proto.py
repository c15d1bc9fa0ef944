"""OTLP as protobuf in every framing, damage included."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.readers.base import Item, Problems
from lowwater.detector.readers.framing import Framing, framing_of, salvage
from lowwater.detector.readers.opening import OpenDocument
from lowwater.detector.readers.otlp_json import request_items
from lowwater.detector.readers.otlp_proto import FORMAT, decode_request


def read(data: bytes, problems: Problems | None = None) -> list[Item]:
    found = Problems() if problems is None else problems
    return list(FORMAT.read(OpenDocument("f", lambda: io.BytesIO(data), found), ReadContext(), found))


def traces(count: int = 3, start: int = 1, *, resource: bool = True) -> Any:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    if resource:
        pair = group.resource.attributes.add(key="service.name")
        pair.value.string_value = "svc"
    scoped = group.scope_spans.add()
    scoped.scope.name = "lib"
    for number in range(start, start + count):
        span = scoped.spans.add(
            trace_id=b"\1" * 16,
            span_id=number.to_bytes(8, "big"),
            name=f"call {number}",
            start_time_unix_nano=number,
            end_time_unix_nano=number + 1,
        )
        span.status.code = Status.STATUS_CODE_ERROR
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = number
        span.attributes.add(key="list").value.array_value.values.add().string_value = "x"
        span.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.bool_value = True
        span.attributes.add(key="empty")
        span.events.add(name="e", time_unix_nano=7).attributes.add(key="k").value.bytes_value = b"\0"
    return request


def logs() -> Any:
    request = ExportLogsServiceRequest()
    record = (
        request.resource_logs.add()
        .scope_logs.add()
        .log_records.add(time_unix_nano=5, trace_id=b"\1" * 16, span_id=b"\2" * 8, event_name="gen_ai.choice")
    )
    record.body.string_value = "hi"
    return request


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def fixed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)


def delimited(*payloads: bytes) -> bytes:
    return b"".join(varint(len(payload)) + payload for payload in payloads)


def names(items: list[Item]) -> list[str]:
    return [item.name for item in items if isinstance(item, SpanRecord)]


FRAMINGS: list[Callable[..., bytes]] = [fixed, delimited, lambda *payloads: b"".join(payloads)]


@pytest.mark.parametrize("frame", FRAMINGS, ids=["fixed32", "varint", "single"])
def test_every_framing_is_recognised_and_read(frame: Callable[..., bytes]) -> None:
    data = frame(*(traces(2, n, resource=n != 3).SerializeToString() for n in (1, 3, 5)))
    problems = Problems()
    assert names(read(data, problems)) == [f"call {n}" for n in range(1, 7)]
    assert problems.total == 0


@given(st.integers(1, 40), st.sampled_from([0, 1, 2]), st.booleans())
@settings(deadline=None)
def test_framing_is_told_from_the_first_bytes(count: int, kind: int, resource: bool) -> None:
    data = FRAMINGS[kind](traces(count, resource=resource).SerializeToString())
    expected = (Framing.FIXED32, Framing.VARINT, Framing.SINGLE)[kind]
    assert framing_of(data[:64]) is expected


OTHER_FILES = [
    b'{"resourceSpans": []}',
    b"interactions:\n- request:\n",
    b"local_path\trepo\n",
    b"\n\n# Title\n",
    b"",
    b"\0",
    b"\n",
]


@pytest.mark.parametrize("text", [*OTHER_FILES, b"PK\x03\x04\x14\x00"])
def test_other_files_are_not_taken_for_protobuf(text: bytes) -> None:
    assert framing_of(text) is None


def test_protobuf_and_json_give_the_same_records() -> None:
    request = traces(4)
    as_json = json.loads(json_format.MessageToJson(request))
    from_json = list(request_items(as_json, pytest.fail))
    assert list(decode_request(request.SerializeToString()) or ()) == from_json


def test_log_requests_are_told_from_trace_requests() -> None:
    (found,) = read(fixed(logs().SerializeToString()))
    assert found == LogRecord("01" * 16, "02" * 8, 5, "gen_ai.choice", "hi")
    mixed = read(fixed(logs().SerializeToString(), traces(1).SerializeToString()))
    assert [type(item) for item in mixed] == [LogRecord, SpanRecord]


def test_frames_compressed_one_by_one_as_older_collectors_wrote_them() -> None:
    pack = zstandard.ZstdCompressor().compress
    request = traces(2)
    as_json = json_format.MessageToJson(request, indent=None).encode()
    assert names(read(fixed(pack(request.SerializeToString()), pack(as_json)))) == ["call 1", "call 2"] * 2


@pytest.mark.parametrize("frame", FRAMINGS, ids=["fixed32", "varint", "single"])
@pytest.mark.parametrize("cut", [1, 40, 150, 400])
def test_a_truncated_tail_is_one_problem_and_costs_only_what_is_incomplete(
    frame: Callable[..., bytes], cut: int
) -> None:
    data = frame(traces(3).SerializeToString(), traces(6, 4).SerializeToString())
    problems = Problems()
    found = names(read(data[:-cut], problems))
    assert found == [f"call {n}" for n in range(1, len(found) + 1)]
    assert len(found) >= 9 - 1 - cut // 100
    assert problems.total == 1
    assert "cut off" in problems.kept[0].reason


def test_a_damaged_record_between_good_ones_is_skipped() -> None:
    good = traces(1).SerializeToString()
    problems = Problems()
    assert len(read(fixed(good, b"\xff" * 30, good), problems)) == 2
    assert [problem.place for problem in problems.kept] == ["record 2"]


def test_a_lying_length_stops_with_a_problem() -> None:
    problems = Problems()
    assert len(read(fixed(traces(2).SerializeToString()) + b"\xff\xff\xff\xff" + b"x" * 50, problems)) == 2
    assert "length" in problems.kept[0].reason


def test_deep_nesting_is_refused() -> None:
    """10,000 levels of list: the record is dropped, nothing recurses."""
    value = b""
    for _ in range(10_000):
        array = b"\x0a" + varint(len(value)) + value
        value = b"\x2a" + varint(len(array)) + array
    pair = b"\x0a\x01k\x12" + varint(len(value)) + value
    span = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + b"\1" * 8 + b"\x4a" + varint(len(pair)) + pair
    scoped = b"\x12" + varint(len(span)) + span
    group = b"\x12" + varint(len(scoped)) + scoped
    problems = Problems()
    assert read(b"\x0a" + varint(len(group)) + group, problems) == []
    assert problems.total == 1


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_requests_never_raise(data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(FRAMINGS))(traces(2).SerializeToString(), logs().SerializeToString())
    mutated = bytearray(original)
    for _ in range(data.draw(st.integers(1, 6))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(mutated[: data.draw(st.integers(0, len(mutated)))]))


@given(st.integers(0, 600))
def test_what_is_salvaged_is_a_valid_request(size: int) -> None:
    """Cutting a request anywhere leaves spans that the whole request has, in order."""
    request = traces(4)
    data = request.SerializeToString()
    kept = ExportTraceServiceRequest.FromString(salvage(data[:size]))
    survivors = [span for group in kept.resource_spans for scoped in group.scope_spans for span in scoped.spans]
    assert survivors == list(request.resource_spans[0].scope_spans[0].spans)[: len(survivors)]
    if size >= len(data):
        assert len(survivors) == 4
