"""Langfuse exports: what reaches the dialects, and which token counts do not."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import SpanRecord
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.langfuse import FORMAT
from lowwater.detector.readers.opening import OpenDocument

USAGE = "langfuse.observation.usage_details"


def observation(**fields: Any) -> dict[str, Any]:
    return {
        "id": "371496f71d82baed",
        "traceId": "097f1d8982fa909b8cffb14a166ec272",
        "parentObservationId": "805dc5dff9e33e32",
        "type": "GENERATION",
        "startTime": "2025-12-22T10:46:19.155Z",
        "endTime": "2025-12-22T10:46:22.888Z",
        "name": "turn",
        "model": "model-1",
        "usageDetails": {"input": 5, "output": 94, "total": 99},
        **fields,
    }


def with_attributes(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {"attributes": attributes, "resourceAttributes": {"service.name": "svc"}, "scope": {"name": "lib"}}
    return observation(metadata=json.dumps(metadata), **fields)


def read(value: Any, problems: Problems | None = None) -> list[SpanRecord]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = Problems() if problems is None else problems
    items = FORMAT.read(OpenDocument("f", lambda: io.BytesIO(data), found), ReadContext(), found)
    return [item for item in items if isinstance(item, SpanRecord)]


def export(*observations: dict[str, Any]) -> dict[str, Any]:
    return {"trace": {"id": "t", "sessionId": "s-1", "observations": []}, "observations": list(observations)}


def test_an_observation_becomes_a_span_with_its_origin() -> None:
    item = with_attributes({"gen_ai.usage.input_tokens": "3004"}, level="ERROR", statusMessage="boom", input={"a": 1})
    (span,) = read(export(item))
    assert (span.trace_id, span.span_id, span.parent_span_id) == (
        item["traceId"],
        item["id"],
        item["parentObservationId"],
    )
    assert (span.end_time_unix_nano - span.start_time_unix_nano) == 3_733_000_000
    assert (span.status_code, span.status_message, span.scope_name) == ("error", "boom", "lib")
    assert span.resource == {"service.name": "svc"}
    assert span.attributes["gen_ai.usage.input_tokens"] == "3004"
    assert span.attributes["langfuse.observation.type"] == "generation"
    assert span.attributes["langfuse.observation.input"] == '{"a":1}'
    assert span.attributes["langfuse.observation.model.name"] == "model-1"
    assert span.attributes["session.id"] == "s-1"


def test_counts_estimated_by_the_backend_are_left_out() -> None:
    """Over OpenTelemetry usage stays among the attributes; where it is not there, the backend counted the text."""
    (without,) = read(export(with_attributes({"gen_ai.operation.name": "chat"})))
    (other,) = read(export(with_attributes({"ai.usage.promptTokens": "62"}, usageDetails={"input": 14, "output": 43})))
    assert USAGE not in without.attributes
    assert USAGE not in other.attributes
    assert other.attributes["ai.usage.promptTokens"] == "62"


@pytest.mark.parametrize("metadata", [None, "{}", {"scope": {"name": "langfuse-sdk"}}, "text", {"user": 1}])
def test_counts_of_native_generations_are_kept(metadata: Any) -> None:
    (span,) = read(export(observation(metadata=metadata)))
    assert json.loads(span.attributes[USAGE]) == {"input": 5, "output": 94, "total": 99}
    (plain,) = read(export(observation(metadata=metadata, type="SPAN")))
    assert USAGE not in plain.attributes


def test_the_spans_own_attributes_win() -> None:
    own = {"langfuse.observation.input": "own", "session.id": "own"}
    (span,) = read(export(with_attributes(own, input="backend's")))
    assert (span.attributes["langfuse.observation.input"], span.attributes["session.id"]) == ("own", "own")


@pytest.mark.parametrize(
    "layout",
    [
        export(observation(), observation()),
        {"id": "t", "sessionId": "s-1", "observations": [observation(), observation()]},
        {"data": [observation(sessionId="s-1")] * 2},
        b"\n".join([json.dumps(observation(sessionId="s-1")).encode()] * 2),
    ],
    ids=["export", "trace of the API", "list of the API", "lines"],
)
def test_layouts(layout: Any) -> None:
    assert read(layout) == read(export(observation())) * 2


def test_broken_observations_are_counted() -> None:
    problems = Problems()
    hostile = observation(type=[], metadata="[", usageDetails=3, level={}, name=5, parentObservationId=7, startTime={})
    assert len(read(export(hostile, {"id": 1}), problems)) == 1
    assert [problem.place for problem in problems.kept] == ["line 1, item 2"]


def test_corpus_usage_is_what_the_agents_reported(corpus: Any) -> None:
    def usage(name: str) -> list[tuple[str, Any]]:
        problems = Problems()
        spans = read(corpus.path(f"langfuse/{name}.trace.json").read_bytes(), problems)
        assert problems.total == 0
        assert not any(USAGE in span.attributes for span in spans)
        calls = [span for span in spans if span.attributes["langfuse.observation.type"] == "generation"]
        keys = ("gen_ai.usage.input_tokens", "ai.usage.promptTokens")
        assert all("langfuse.observation.input" in span.attributes for span in calls)
        return [
            (span.name, next((span.attributes[key] for key in keys if key in span.attributes), None)) for span in calls
        ]

    assert sorted(value for _, value in usage("csharp-agent-with-gemini-2026-03-09")) == ["2497", "2546", "3004"]
    assert usage("vercel-aisdk-2025-11-17") == [("ai.generateText", "62"), ("ai.generateText.doGenerate", "62")]
    assert {value for _, value in usage("koog-2025-08-26")} == {None}
    assert {value for _, value in usage("claude-agent-2025-12-22")} == {None}
