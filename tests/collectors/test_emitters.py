"""Claude Code, Codex, MLflow and Microsoft's frameworks: what is odd about each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.collectors.samples import CANARY, CHAT, TOOLS, reading_of

from lowwater.collectors.reading import Operation

LLM_REQUEST = {"span.type": "llm_request", "model": "claude", "input_tokens": 4, "cache_read_tokens": 500}


@pytest.mark.parametrize("prefix", ["", "claude_code."])
@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        ("interaction", Operation.AGENT),
        ("llm_request", Operation.LLM),
        ("tool", Operation.TOOL),
        ("tool.blocked_on_user", Operation.OTHER),
    ],
)
def test_claude_code_writes_its_kinds_with_and_without_prefix(prefix: str, kind: str, operation: Operation) -> None:
    assert reading_of({"span.type": prefix + kind}, scope="com.anthropic.claude_code.tracing").kind is operation
    assert reading_of({}, name=f"claude_code.{kind}", scope="com.anthropic.claude_code.tracing").kind is operation


@pytest.mark.parametrize("attributes", [{"span.type": "web"}, {"span.type": "sql", "model": "x"}, {"tool_name": "x"}])
def test_a_span_type_of_others_is_not_claude_code(attributes: dict[str, Any]) -> None:
    """Datadog writes the same key."""
    reading = reading_of(attributes, name="interaction")
    assert (reading.kind, reading.dialects, reading.model) == (Operation.OTHER, (), None)


def test_the_bare_input_of_claude_code_leaves_the_cache_out() -> None:
    usage = reading_of(LLM_REQUEST).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_inclusive) == (4, False)


def test_another_conventions_input_beside_it_may_hold_the_cache() -> None:
    usage = reading_of({**LLM_REQUEST, "gen_ai.usage.input_tokens": 504}).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_inclusive) == (504, None)


def test_the_same_number_under_both_names_is_still_exclusive() -> None:
    usage = reading_of({**LLM_REQUEST, "gen_ai.usage.input_tokens": 4}).usage
    assert usage is not None
    assert usage.cache_inclusive is False


def test_redacted_content_is_no_content() -> None:
    redacted = reading_of({**LLM_REQUEST, "new_context": "<REDACTED>", "response.model_output": "<REDACTED>"})
    assert (redacted.content, redacted.output, redacted.content_is_delta) == (None, None, False)


def test_a_request_without_usage_has_none() -> None:
    assert reading_of({"span.type": "llm_request", "model": "claude"}).usage is None


TURN = {"codex.turn.token_usage.input_tokens": 13_297, "codex.turn.token_usage.cached_input_tokens": 4_480}
THREAD = "019e9bfe-7749-7440-8506-39152afbc9ff"


@pytest.mark.parametrize(
    ("scope", "thread", "conversation"),
    [("codex_cli_rs", THREAD, THREAD), ("codex_cli_rs", 17, None), ("codex_cli_rs", "17", None), ("other", THREAD, None)],
)  # fmt: skip
def test_thread_id_is_a_conversation_only_where_codex_says_so(
    scope: str, thread: Any, conversation: str | None
) -> None:
    assert reading_of({**TURN, "thread.id": thread}, scope=scope).conversation == conversation


def test_a_turn_of_codex_sums_calls_with_the_cached_part() -> None:
    reading = reading_of(TURN, scope="codex_cli_rs")
    assert reading.kind is Operation.AGENT
    assert reading.usage is not None
    assert reading.usage.cache_inclusive is True


def test_mlflow_inputs_are_the_arguments_of_the_call() -> None:
    inputs = {"messages": json.loads(CHAT), "tools": json.loads(TOOLS), "max_tokens": 300, "model": CANARY}
    reading = reading_of({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps(inputs)})
    assert reading.max_output_tokens == 300
    assert reading.content is not None
    assert len(reading.content) == 5


@pytest.mark.parametrize("inputs", ["not json", "[[1]]", "null", '{"messages": 3}', '{"messages": [], "tools": "x"}'])
def test_mlflow_inputs_of_any_shape_are_read(inputs: str) -> None:
    assert reading_of({"mlflow.spanType": "LLM", "mlflow.spanInputs": inputs}).kind is Operation.LLM


@pytest.mark.parametrize(
    ("scope", "dialect"),
    [
        ("autogen-core", "autogen"),
        ("semantic_kernel.functions", "semantic_kernel"),
        ("Microsoft.SemanticKernel.Diagnostics", "semantic_kernel"),
        ("agent_framework", "agent_framework"),
        ("Experimental.Microsoft.Extensions.AI", "agent_framework"),
        ("Microsoft.Agents.AI", "agent_framework"),
        ("strands.telemetry.tracer", "strands"),
        ("gemini-cli", "gemini_cli"),
        ("litellm", "litellm"),
        ("com.anthropic.sdk.python", "anthropic"),
        ("com.anthropic.claude-platform", "anthropic"),
    ],
)
def test_a_framework_is_named_by_its_scope(scope: str, dialect: str) -> None:
    """Where the names are the common ones, only the scope tells whose they are."""
    assert dialect in reading_of({"gen_ai.operation.name": "chat"}, scope=scope).dialects
