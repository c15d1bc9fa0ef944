"""Flat span JSON in the shapes that tools write."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import SpanRecord
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.flat import FORMAT
from lowwater.detector.readers.opening import OpenDocument

SPAN = {
    "trace_id": "97847cb33dff13e46483685930f4e236",
    "span_id": "771ce4dcbd861745",
    "parent_span_id": "b5aaea6a8c6e066f",
    "name": "chat",
    "start_time": 1784995767655639000,
    "end_time": 1784995767656160000,
    "attributes": {"gen_ai.usage.input_tokens": 157, "reasons": ["stop"]},
    "scope": {"name": "lib", "version": "2.5.0"},
    "status": {"code": "ERROR", "message": "boom"},
    "span_events": [{"name": "e", "timestamp": 1784995767655639001, "attributes": {"k": 1}}],
}


def read(value: Any, problems: Problems | None = None) -> list[SpanRecord]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = Problems() if problems is None else problems
    items = FORMAT.read(OpenDocument("f", lambda: io.BytesIO(data), found), ReadContext(), found)
    return [item for item in items if isinstance(item, SpanRecord)]


def test_every_field_is_read() -> None:
    (span,) = read([SPAN])
    assert (span.trace_id, span.span_id, span.parent_span_id) == tuple(list(SPAN.values())[:3])
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1784995767655639000, 1784995767656160000)
    assert (span.scope_name, span.scope_version, span.status_code, span.status_message) == (
        "lib",
        "2.5.0",
        "error",
        "boom",
    )
    assert span.attributes == SPAN["attributes"]
    assert [(event.name, event.time_unix_nano, event.attributes) for event in span.events] == [
        ("e", 1784995767655639001, {"k": 1})
    ]


@pytest.mark.parametrize(
    "layout",
    [
        [SPAN, SPAN],
        {"spans": [SPAN, SPAN], "session_id": "s"},
        b"\n".join([json.dumps(SPAN).encode()] * 2),
        {"spans": [{**SPAN, "attributes": json.dumps(SPAN["attributes"])}, SPAN]},
    ],
    ids=["list", "under spans", "lines", "attributes as text"],
)
def test_layouts(layout: Any) -> None:
    assert read(layout) == read([SPAN]) * 2


def test_camel_case_and_iso_times() -> None:
    other = {
        "traceId": SPAN["trace_id"],
        "spanId": SPAN["span_id"],
        "parentSpanId": SPAN["parent_span_id"],
        "name": "chat",
        "startTime": "2026-07-25T16:09:27.655639Z",
        "attributes": {},
    }
    (span,) = read([other])
    assert (span.parent_span_id, span.start_time_unix_nano) == ("b5aaea6a8c6e066f", 1784995767655639000)
    assert span.end_time_unix_nano == 0


def test_a_single_span_without_ids_gets_stable_ones_and_typed_lists_are_decoded() -> None:
    single = {"scopeName": "opencode", "spanName": "doStream", "attributes": {"t": {"values": [{"stringValue": "x"}]}}}
    (span,) = read(single)
    assert (span.scope_name, span.name, span.attributes) == ("opencode", "doStream", {"t": ["x"]})
    assert read(json.dumps(single, indent=2).encode()) == [span]
    assert len(span.span_id) == 16


def test_what_is_no_span_is_counted_with_its_place() -> None:
    problems = Problems()
    assert len(read([SPAN, 3, {"attributes": {}}, SPAN], problems)) == 2
    assert [problem.place for problem in problems.kept] == ["line 1, item 2", "line 1, item 3"]


WRONG = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
NESTED = st.dictionaries(st.sampled_from(["name", "code", "attributes"]), WRONG)


@given(st.dictionaries(st.sampled_from([*SPAN, "context", "resource", "events"]), WRONG | NESTED))
def test_spans_with_wrong_types_never_raise(broken: dict[str, Any]) -> None:
    read([{**SPAN, **broken}])


def test_corpus_counts(corpus: Any) -> None:
    files = {
        "adk_live_spans": 7,
        "smolagents_live_spans": 7,
        "openai_agents_genai_live_spans": 17,
        "claude_adot_spans": 8,
    }
    for name, count in files.items():
        problems = Problems()
        spans = read(corpus.path(f"strands-evals/{name}.json").read_bytes(), problems)
        assert (name, len(spans), problems.total) == (name, count, 0)
        assert all(span.start_time_unix_nano < span.end_time_unix_nano for span in spans)
        assert all(span.scope_name and span.name for span in spans)
        assert sum(len(span.attributes) for span in spans) > 8 * count
    (opencode,) = read(corpus.path("langwatch/opencode-B.doStream.json").read_bytes())
    assert len(opencode.attributes["ai.prompt.tools"]) == 11
    assert all(isinstance(tool, str) for tool in opencode.attributes["ai.prompt.tools"])
