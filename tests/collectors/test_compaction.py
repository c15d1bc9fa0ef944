"""Compaction markers: what each says, what it does not say, and what only looks like one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.collectors.samples import CANARY, reading_of

from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.dialects.compaction import MARKERS
from lowwater.collectors.extract import read_log
from lowwater.collectors.reading import Compaction, Operation
from lowwater.collectors.records import LogRecord, SpanEvent
from lowwater.collectors.tokens import Hasher


def compaction_of(attributes: dict[str, Any], name: str = "span", **more: Any) -> Compaction:
    found = reading_of(attributes, name, "somebody", **more).compaction
    assert found is not None
    return found


def logged(event_name: str, body: Any = None, **attributes: Any) -> Compaction | None:
    record = LogRecord("a" * 32, "b" * 16, 5, event_name, body, attributes=attributes)
    reading = read_log(record, ReadContext(hasher=Hasher(b"tests")))
    return None if reading is None else reading.compaction


@pytest.mark.parametrize(
    "name", sorted({name for marker in MARKERS for name in marker.names if marker.fixed_outcome is None})
)
def test_a_marker_is_known_as_span_event_and_record(name: str) -> None:
    """Without a single attribute: that it happened is known, how much is not."""
    event = SpanEvent(name, 7, {})
    as_event = reading_of({"gen_ai.operation.name": "chat"}, events=(event,))
    assert as_event.kind is Operation.LLM
    for found in (compaction_of({}, name), as_event.compaction, logged(name)):
        assert found is not None
        assert (found.before_tokens, found.after_tokens, found.outcome) == (None, None, "success")


def test_the_duration_of_a_compaction_span_is_its_own() -> None:
    found = compaction_of({}, "compact_messages", start_time_unix_nano=1_000_000_000, end_time_unix_nano=3_500_000_000)
    assert found.duration_seconds == 2.5


def test_a_stated_duration_wins_over_the_span() -> None:
    attributes = {"openclaw.compaction.duration_ms": 40}
    found = compaction_of(attributes, "openclaw.compaction", start_time_unix_nano=0, end_time_unix_nano=9_000_000_000)
    assert found.duration_seconds == 0.04


def test_the_trigger_of_adk_for_go_is_in_the_name() -> None:
    assert compaction_of({}, "compact_events sliding_window").trigger == "sliding_window"
    assert (
        compaction_of({"gen_ai.compaction.trigger": "token_threshold"}, "compact_events x").trigger == "token_threshold"
    )


def test_an_operation_alone_marks_a_compaction() -> None:
    reading = reading_of({"gen_ai.operation.name": "compact_events"}, name="anything")
    assert reading.kind is Operation.COMPACTION
    assert reading.compaction is not None
    assert reading.compaction.source == "google-adk"


@pytest.mark.parametrize("attribute", ["compaction.compacted", "compaction.triggered"])
def test_a_strategy_that_was_not_triggered_is_no_failure(attribute: str) -> None:
    assert compaction_of({attribute: False}, "compaction.compact").outcome == "no_op"


def test_redpanda_states_categories_that_add_up() -> None:
    before = {"system": 100, "tool_definitions": 50, "text": 400, "tool_results": 450, "messages": 31}
    after = {"system": 100, "tool_definitions": 50, "text": 60}
    attributes = {f"redpanda.compaction.before.{name}": value for name, value in before.items()}
    attributes |= {f"redpanda.compaction.after.{name}": value for name, value in after.items()}
    found = compaction_of(attributes, "redpanda.compaction")
    assert (found.before_tokens, found.after_tokens) == (1_000, 210)


def test_a_category_that_is_no_count_makes_the_sum_unknown() -> None:
    attributes = {"redpanda.compaction.before.text": 400, "redpanda.compaction.before.system": "many"}
    assert compaction_of(attributes, "redpanda.compaction").before_tokens is None


def test_after_is_unknown_when_a_compaction_fails() -> None:
    found = logged("claude_code.compaction", pre_tokens=900, post_tokens=0, success="false", error=CANARY)
    assert found is not None
    assert (found.outcome, found.before_tokens, found.after_tokens) == ("failure", 900, None)


def test_a_skipped_compaction_freed_nothing() -> None:
    found = logged("task.compaction_skipped", None, beforeTokens=900, maxInputTokens=1_000, mode="auto")
    assert found is not None
    assert (found.outcome, found.before_tokens, found.window_tokens, found.trigger) == ("no_op", 900, 1_000, "auto")


def test_a_sentence_is_no_trigger() -> None:
    assert compaction_of({"openclaw.compaction.reason": f"because {CANARY}"}, "openclaw.compaction").trigger is None


SUMMARISERS: list[dict[str, Any]] = [
    {"langsmith.metadata.lc_source": "summarization"},
    {"langsmith.metadata.ls_agent_type": "compaction"},
    {"traceloop.association.properties.lc_source": "summarization"},
    {"langfuse.observation.metadata.lc_source": "summarization"},
    {"metadata": json.dumps({"lc_source": "summarization", "thread_id": CANARY})},
    {"pi.call_kind": "compaction"},
    {"pi.gen_ai.oneshot.kind": "compaction_summary"},
]


@pytest.mark.parametrize("attributes", SUMMARISERS, ids=lambda attributes: next(iter(attributes)))
def test_the_call_that_writes_a_summary_stays_a_call(attributes: dict[str, Any]) -> None:
    reading = reading_of({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 900, **attributes})
    assert reading.kind is Operation.LLM
    assert reading.compaction is not None
    assert reading.compaction.outcome == "success"
    assert "compaction" in reading.dialects


@pytest.mark.parametrize("attributes", SUMMARISERS, ids=lambda attributes: next(iter(attributes)))
def test_what_surrounds_that_call_is_no_second_compaction(attributes: dict[str, Any]) -> None:
    """Chains inherit their call's metadata."""
    assert reading_of({"openinference.span.kind": "CHAIN", **attributes}).compaction is None


@pytest.mark.parametrize(
    "attributes",
    [
        {"langsmith.metadata.lc_source": "agent"},
        {"metadata": json.dumps({"note": "lc_source"})},
        {"metadata": "lc_source, not JSON"},
        {"pi.call_kind": "chat"},
        {"output.value": json.dumps({"content": 'say "compaction" and applied_edits'})},
        {"output.value": json.dumps({"usage": {"iterations": [{"type": "message", "input_tokens": 4}]}, "type": "compaction"})},
        {"anthropic.context_management": {"applied_edits": []}},
        {"anthropic.context_management": {"applied_edits": [{"type": "clear_tool_uses", "cleared_input_tokens": 0}]}},
        {"gen_ai.response.finish_reasons": ["stop"]},
    ],
    ids=str,
)  # fmt: skip
def test_what_only_looks_like_one_is_none(attributes: dict[str, Any]) -> None:
    reading = reading_of({"gen_ai.operation.name": "chat", **attributes})
    assert reading.compaction is None
    assert reading.compacted is None
    assert not {"compaction", "anthropic"} & set(reading.dialects)


ITERATIONS = [
    {"type": "compaction", "input_tokens": 55_000, "cache_read_input_tokens": 196, "output_tokens": 300},
    {"type": "message", "input_tokens": 220, "cache_creation_input_tokens": 0, "output_tokens": 40},
]


@pytest.mark.parametrize(
    "attributes",
    [
        {"anthropic.usage": {"input_tokens": 220, "iterations": ITERATIONS}},
        {"gen_ai.usage.iterations": json.dumps(ITERATIONS)},
        {"output.value": json.dumps({"usage": {"iterations": ITERATIONS}})},
        {"mlflow.spanOutputs": json.dumps({"usage": {"iterations": ITERATIONS}})},
        {"ai.response.providerMetadata": json.dumps({"anthropic": {"iterations": [
            {"type": "compaction", "inputTokens": 55_000, "cacheReadInputTokens": 196},
            {"type": "message", "inputTokens": 220},
        ]}})},
    ],
    ids=lambda attributes: next(iter(attributes)),
)  # fmt: skip
def test_compaction_on_the_server_is_read_from_the_iterations(attributes: dict[str, Any]) -> None:
    found = compaction_of({"gen_ai.operation.name": "chat", **attributes})
    assert (found.before_tokens, found.after_tokens, found.source) == (55_196, 220, "usage.iterations")


def test_cleared_tool_results_were_there_before() -> None:
    answer = {
        "usage": {"input_tokens": 1_000, "cache_read_input_tokens": 29_000},
        "context_management": {"applied_edits": [
            {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000},
            {"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": 2_000},
        ]},
    }  # fmt: skip
    found = compaction_of({"gen_ai.operation.name": "chat", "output.value": json.dumps(answer)})
    assert (found.before_tokens, found.after_tokens, found.source) == (82_000, 30_000, "applied_edits")


def test_edits_without_usage_say_that_it_happened() -> None:
    management = {"applied_edits": [{"cleared_input_tokens": 50_000}]}
    found = compaction_of({"gen_ai.operation.name": "chat", "anthropic.context_management": management})
    assert (found.before_tokens, found.after_tokens) == (None, None)


@pytest.mark.parametrize("reasons", [["compaction"], '["compaction"]', ("stop", "compaction"), "compaction"])
def test_the_finish_reason_compaction_flags_the_call(reasons: Any) -> None:
    assert reading_of({"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": reasons}).compacted is True


def test_a_record_of_a_summarising_call_is_no_compaction_of_its_own() -> None:
    """The call's messages come as a record that repeats the call's attributes."""
    record = LogRecord(
        "a" * 32, "b" * 16, 5, "gen_ai.client.inference.operation.details",
        attributes={"pi.call_kind": "compaction", "gen_ai.input.messages": '[{"role": "user", "content": "x"}]'},
    )  # fmt: skip
    reading = read_log(record, ReadContext(hasher=Hasher(b"tests")))
    assert reading is not None
    assert reading.joins
    assert reading.compaction is None
