"""The OpenAI Agents SDK's own spans, which are no OpenTelemetry."""

from __future__ import annotations

from typing import Any

import pytest
from tests.collectors.samples import CANARY

from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.dialects.openai_agents import openai_agents_span
from lowwater.collectors.extract import read_span
from lowwater.collectors.reading import Operation, Reading
from lowwater.collectors.tokens import Hasher


def exported(span_data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "object": "trace.span", "id": "span_1", "trace_id": "trace_1", "parent_id": "span_0", "error": None,
        "started_at": "2026-11-30T10:00:00.250000+00:00", "ended_at": "2026-11-30T10:00:01.500000+00:00",
        "span_data": span_data, **changes,
    }  # fmt: skip


def read(span_data: dict[str, Any], group_id: str | None = None, **changes: Any) -> Reading:
    span = openai_agents_span(exported(span_data, **changes), group_id)
    assert span is not None
    return read_span(span, ReadContext(hasher=Hasher(b"tests")))


USAGE = {"input_tokens": 120, "output_tokens": 8, "input_tokens_details": {"cached_tokens": 100}}


def test_a_generation_is_a_call() -> None:
    reading = read({"type": "generation", "model": "m", "model_config": {"max_tokens": 64}, "usage": USAGE,
                    "input": [{"role": "user", "content": CANARY}], "output": [{"role": "assistant", "content": CANARY}]},
                   "thread")  # fmt: skip
    assert (reading.kind, reading.model, reading.max_output_tokens, reading.conversation) == (
        Operation.LLM, "m", 64, "thread",
    )  # fmt: skip
    assert reading.usage is not None
    assert (reading.usage.input_tokens, reading.usage.cache_read_tokens) == (120, 100)
    assert reading.content is not None
    assert reading.output is not None


def test_times_and_ancestry_are_kept() -> None:
    reading = read({"type": "response", "response_id": "resp_1"})
    assert (reading.trace_id, reading.span_id, reading.parent_span_id) == ("trace_1", "span_1", "span_0")
    assert reading.end_ns - reading.start_ns == 1_250_000_000
    assert reading.response_id == "resp_1"


@pytest.mark.parametrize("moment", [None, "", "yesterday", "0001-01-01T00:00:00+00:00", 12])
def test_a_moment_that_is_none_is_unknown(moment: Any) -> None:
    assert read({"type": "generation"}, started_at=moment).start_ns == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("task", Operation.WORKFLOW), ("turn", Operation.OTHER), ("mine", Operation.OTHER)]
)
def test_tasks_and_turns_are_no_calls(name: str, kind: Operation) -> None:
    reading = read({"type": "custom", "name": name, "data": {"usage": USAGE}})
    assert reading.kind is kind
    assert reading.usage is not None
    assert reading.usage.input_tokens == 120


@pytest.mark.parametrize(
    ("span_data", "kind"),
    [
        ({"type": "agent", "name": "bot", "tools": ["read"]}, Operation.AGENT),
        ({"type": "function", "name": "read", "input": CANARY, "output": CANARY}, Operation.TOOL),
        ({"type": "handoff", "from_agent": "a", "to_agent": "b"}, Operation.OTHER),
        ({"type": "guardrail", "name": "g"}, Operation.OTHER),
    ],
)
def test_other_spans_are_told_apart(span_data: dict[str, Any], kind: Operation) -> None:
    assert read(span_data).kind is kind


def test_an_error_is_a_failure_without_its_text() -> None:
    reading = read({"type": "generation"}, error={"message": f"Error code: 429 - {CANARY}", "data": None})
    assert reading.failure is not None
    assert reading.failure.status == 429


@pytest.mark.parametrize(
    "value", [{}, {"object": "trace", "id": "t"}, {"object": "trace.span"}, {"object": "trace.span", "span_data": 3}]
)
def test_what_is_no_span_is_none(value: dict[str, Any]) -> None:
    assert openai_agents_span(value) is None
