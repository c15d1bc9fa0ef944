"""Windows and compositions that agents publish: taken as they are, refused where they cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.collectors.samples import reading_of

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.reading import Reading


def call(**attributes: Any) -> Reading:
    return reading_of({"gen_ai.operation.name": "chat", **attributes})


def qwen(**changes: Any) -> dict[str, Any]:
    usage = {
        "window_size_tokens": 1_000, "compaction_reserve_tokens": 200, "estimated": False,
        "breakdown": {"system_prompt_tokens": 20, "builtin_tools_tokens": 30, "messages_tokens": 50},
    }  # fmt: skip
    return {"qwen-code.context.usage": json.dumps({**usage, **changes})}


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.context.window_size", "openclaw.context.limit", "model_context_window",
        "codex.token_usage.context_window", "copilot_chat.request.max_prompt_tokens",
    ],
)  # fmt: skip
def test_a_stated_window_is_taken(key: str) -> None:
    assert call(**{key: "200000"}).window_tokens == 200_000
    assert call(**{key: 0}).window_tokens is None
    assert call(**{key: -1}).window_tokens is None


def test_a_limit_of_the_prompt_leaves_room_for_the_answer() -> None:
    limit = {"copilot_chat.request.max_prompt_tokens": 64_000}
    assert call(**limit).window_tokens == 64_000
    assert call(**limit, **{"gen_ai.request.max_tokens": 4_000}).window_tokens == 68_000


def test_codex_states_where_it_compacts() -> None:
    assert call(auto_compact_token_limit=244_800).trigger_tokens == 244_800


@pytest.mark.parametrize(
    ("key", "value"), [("gen_ai.context.utilization", 0.25), ("kiro.context_usage_percentage", 25.0)]
)
def test_a_ratio_gives_the_window_where_nothing_else_does(key: str, value: float) -> None:
    assert call(**{key: value, "gen_ai.usage.input_tokens": 50_000}).window_tokens == 200_000
    assert call(**{key: value}).window_tokens is None
    stated = {"gen_ai.usage.input_tokens": 50_000, "gen_ai.context.window_size": 190_000}
    assert call(**{key: value, **stated}).window_tokens == 190_000


@pytest.mark.parametrize("value", [0, 0.001, 1.2, True, "half", float("nan")])
def test_a_ratio_that_is_none_gives_no_window(value: Any) -> None:
    assert call(**{"gen_ai.context.utilization": value, "gen_ai.usage.input_tokens": 50_000}).window_tokens is None


def test_openclaw_used_is_the_input_only_where_no_usage_is() -> None:
    alone = call(**{"openclaw.context.used": 700}).usage
    assert alone is not None
    assert alone.input_tokens == 700
    beside = call(**{"openclaw.context.used": 700, "gen_ai.usage.input_tokens": 650}).usage
    assert beside is not None
    assert beside.input_tokens == 650
    assert reading_of({"gen_ai.operation.name": "invoke_agent", "openclaw.context.used": 700}).usage is None


def test_the_parts_of_qwen_code_sum_to_its_input() -> None:
    reading = call(**qwen())
    assert reading.breakdown == {Consumer.SYSTEM: 20, Consumer.TOOLS: 30, Consumer.WORKING: 50}
    assert (reading.window_tokens, reading.reserved_staging_tokens, reading.trigger_tokens) == (1_000, 200, 800)


@pytest.mark.parametrize(
    "parts", [{}, None, {"system_prompt_tokens": 20}, {"messages_tokens": -5}, {"messages_tokens": "x"}, [1], {"messages_tokens": 0}],
    ids=str,
)  # fmt: skip
def test_an_unusable_breakdown_is_none_and_the_window_stays(parts: Any) -> None:
    reading = call(**qwen(breakdown=parts))
    assert reading.breakdown is None
    assert reading.window_tokens == 1_000


def test_a_reserve_as_large_as_the_window_gives_no_trigger() -> None:
    assert call(**qwen(compaction_reserve_tokens=1_000)).trigger_tokens is None


def test_voltagent_estimates_go_to_consumers() -> None:
    volt = {"system": 100, "tool": 200, "non_system_message": 300, "message": 400, "total": 600}
    reading = call(**{f"usage.prompt_context.{name}_tokens_estimated": value for name, value in volt.items()})
    assert reading.breakdown == {Consumer.SYSTEM: 100, Consumer.TOOLS: 200, Consumer.WORKING: 300}
