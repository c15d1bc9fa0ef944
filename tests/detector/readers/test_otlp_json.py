"""OTLP as JSON, as specified and as exporters write it."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.readers.base import Item, Problems
from lowwater.detector.readers.opening import OpenDocument
from lowwater.detector.readers.otlp_json import FORMAT, attributes, identifier, status_code

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"


def read(data: Any, problems: Problems | None = None) -> list[Item]:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    found = Problems() if problems is None else problems
    return list(FORMAT.read(OpenDocument("f", lambda: io.BytesIO(raw), found), ReadContext(), found))


def spans(data: Any, problems: Problems | None = None) -> list[SpanRecord]:
    return [item for item in read(data, problems) if isinstance(item, SpanRecord)]


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE, "spanId": SPAN, "name": "chat", **fields}


def request(*items: Any, scope: str = "scopeSpans") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "svc"}}]}
    scoped = {"scope": {"name": "lib", "version": "1.2"}, "spans": list(items)}
    return {"resourceSpans": [{"resource": resource, scope: [scoped]}]}


def test_a_span_is_read_with_its_origin() -> None:
    (found,) = spans(
        request(
            span(
                parentSpanId="EEE19B7EC3C1B173",
                startTimeUnixNano="1544712660000000000",
                endTimeUnixNano=1544712661000000000,
                attributes=[{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "4530"}}],
                status={"code": 2, "message": "boom"},
                events=[{"name": "exception", "timeUnixNano": "7", "attributes": [{"key": "k", "value": {}}]}],
                futureField={"ignored": True},
            )
        )
    )
    assert (found.trace_id, found.span_id, found.parent_span_id) == (TRACE, SPAN, "eee19b7ec3c1b173")
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (1544712660000000000, 1544712661000000000)
    assert found.attributes == {"gen_ai.usage.input_tokens": 4530}
    assert (found.status_code, found.status_message) == ("error", "boom")
    assert (found.scope_name, found.scope_version) == ("lib", "1.2")
    assert found.resource == {"service.name": "svc"}
    assert [(event.name, event.time_unix_nano, event.attributes) for event in found.events] == [
        ("exception", 7, {"k": None})
    ]


def test_attribute_values_of_every_kind() -> None:
    values: list[tuple[dict[str, Any], Any]] = [
        ({"stringValue": "x"}, "x"),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": 5}, 5),
        ({"boolValue": False}, False),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "Infinity"}, float("inf")),
        ({"bytesValue": base64.b64encode(b"\0\1").decode()}, b"\0\1"),
        ({"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "a"}]}}, [1, "a"]),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}, {"k": True}),
        ({"array_value": {"values": [{"string_value": "s"}]}}, ["s"]),
        ({}, None),
    ]
    encoded = [{"key": str(index), "value": value} for index, (value, _) in enumerate(values)]
    assert attributes(encoded) == {str(index): plain for index, (_, plain) in enumerate(values)}


def test_deeply_nested_values_are_dropped() -> None:
    value: dict[str, Any] = {"stringValue": "deep"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    assert "deep" not in repr(attributes([{"key": "k", "value": value}]))


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        5,
        "x",
        {"a": 1},
        [1],
        [{"value": {}}],
        [{"key": 3}],
        [{"key": "k", "value": 3}],
        [{"key": [], "value": {}}],
    ],
)
def test_malformed_attributes_are_left_out(malformed: Any) -> None:
    good = {"key": "good", "value": {"intValue": 1}}
    assert {name: value for name, value in attributes(malformed).items() if value is not None} == {}
    if isinstance(malformed, list):
        assert attributes([*malformed, good])["good"] == 1


def test_names_in_snake_case_older_levels_and_batches() -> None:
    plain = spans(request(span()))
    old = spans(request(span(), scope="instrumentationLibrarySpans"))
    snake = {
        "resource_spans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"string_value": "svc"}}]},
                "scope_spans": [
                    {
                        "scope": {"name": "lib", "version": "1.2"},
                        "spans": [{"trace_id": TRACE, "span_id": SPAN, "name": "chat"}],
                    }
                ],
            }
        ]
    }
    store = {"batches": request(span())["resourceSpans"]}
    assert plain == old == spans(snake) == spans(store) == spans({"trace": request(span())}) == spans([request(span())])


def test_ids_in_base64() -> None:
    encoded = base64.b64encode(bytes.fromhex(TRACE)).decode()
    assert identifier(encoded) == identifier(encoded.rstrip("=")) == identifier(TRACE.upper()) == TRACE
    assert identifier(base64.b64encode(bytes.fromhex(SPAN)).decode()) == SPAN
    assert identifier("0" * 16) == identifier("") == identifier(None) == ""
    assert identifier("obs-1") == "obs-1"


@given(st.binary(min_size=8, max_size=8).filter(any))
@example(bytes.fromhex("d310000000000000"))
def test_an_id_survives_every_encoding(raw: bytes) -> None:
    forms = (raw.hex(), raw.hex().upper(), "0x" + raw.hex(), base64.b64encode(raw).decode())
    assert {identifier(form) for form in forms} == {raw.hex()}


def test_status_codes() -> None:
    assert {status_code(code) for code in (1, "1", "OK", "STATUS_CODE_OK")} == {"ok"}
    assert {status_code(code) for code in (2, "2", "Error", "STATUS_CODE_ERROR")} == {"error"}
    others: list[Any] = [0, None, 99, "what", [], "STATUS_CODE_UNSET"]
    assert {status_code(code) for code in others} == {"unset"}


def test_log_records_carry_event_name_and_body() -> None:
    record = {
        "timeUnixNano": "0",
        "observedTimeUnixNano": "12",
        "traceId": TRACE,
        "spanId": SPAN,
        "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}},
        "attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.user.message"}}],
    }
    (found,) = read({"resourceLogs": [{"scopeLogs": [{"scope": {"name": "lib"}, "logRecords": [record]}]}]})
    assert found == LogRecord(TRACE, SPAN, 12, "gen_ai.user.message", {"content": "hi"}, "lib", "", found.attributes)  # type: ignore[union-attr]


def test_json_lines_keep_the_good_lines() -> None:
    problems = Problems()
    good = json.dumps(request(span())).encode()
    assert len(spans(b"\r\n".join([good, b'{"resourceSpans": [', b"", good, b'{"other": 1}']), problems)) == 2
    assert [problem.place for problem in problems.kept] == ["line 2", "line 5"]


def test_a_request_that_is_cut_off_gives_its_complete_spans() -> None:
    text = json.dumps(request(*(span(name=f"call {n}") for n in range(5))), indent=2).encode()
    problems = Problems()
    found = spans(text[: int(len(text) * 0.7)], problems)
    assert [item.name for item in found][:3] == ["call 0", "call 1", "call 2"]
    assert problems.total == 1


def test_a_bare_span_gets_stable_ids() -> None:
    bare = {
        "name": "ChatCompletion",
        "attributes": [{"key": "k", "value": {"intValue": "1"}}],
        "status": {"code": "STATUS_CODE_ERROR"},
    }
    (first,), (again,) = spans(bare), spans(json.dumps(bare, indent=3).encode())
    assert first == again
    assert (len(first.trace_id), len(first.span_id), first.status_code) == (32, 16, "error")
    two = spans(json.dumps(bare).encode() + b"\n" + json.dumps(bare).encode())
    assert len({item.span_id for item in two}) == 2


def test_metrics_are_said_not_to_be_read() -> None:
    problems = Problems()
    assert read({"resourceMetrics": [{"scopeMetrics": []}]}, problems) == []
    assert "metrics" in problems.kept[0].reason


@pytest.mark.parametrize(
    "hostile",
    [
        {"resourceSpans": [1, None, {"resource": 5, "scopeSpans": [{"scope": [], "spans": [3, {}]}]}]},
        {"resourceSpans": [{"scopeSpans": {"spans": 1}}]},
        {"resourceSpans": [{"resource": {"attributes": {"a": 1}}, "scopeSpans": [{"spans": "no"}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5, "events": [1], "status": [], "name": {}}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [None, {"body": 5, "timeUnixNano": "1e400"}]}]}]},
        request(span(startTimeUnixNano=-1, endTimeUnixNano="9" * 40, events={"name": 1}, attributes=7)),
    ],
)
def test_hostile_shapes_never_raise(hostile: Any) -> None:
    for item in spans(hostile):
        assert item.start_time_unix_nano == item.end_time_unix_nano == 0


LISTS = ["resourceSpans", "scopeSpans", "spans", "attributes", "events", "resourceLogs", "scopeLogs", "logRecords"]
FIELDS = [*LISTS, "key", "value", "stringValue", "arrayValue", "values", "name", "status", "traceId", "resource"]
SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=25,
)


@given(SCRAPS)
def test_scrambled_requests_never_raise(value: Any) -> None:
    read(value)
    read({"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]})
    read({"resourceLogs": [{"scopeLogs": [{"logRecords": [value]}]}]})
