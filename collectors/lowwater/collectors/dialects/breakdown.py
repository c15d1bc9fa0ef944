"""Context windows and compositions that some agents publish about themselves.

Sources: Qwen Code ``qwen-code.context.usage`` (v1), VoltAgent ``usage.prompt_context.*``, Sentry and loongsuite
``gen_ai.context.window_size``, OpenClaw ``openclaw.context.*``, Codex ``model_context_window``, Kiro
``kiro.context_usage_percentage``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import count, first, load_json

__all__ = ["DIALECT"]

_QWEN = "qwen-code.context.usage"
_VOLT = "usage.prompt_context."

_QWEN_PARTS: Mapping[str, Consumer] = {
    "system_prompt_tokens": Consumer.SYSTEM,
    "memory_files_tokens": Consumer.SYSTEM,
    "skills_tokens": Consumer.SYSTEM,
    "builtin_tools_tokens": Consumer.TOOLS,
    "mcp_tools_tokens": Consumer.TOOLS,
    "messages_tokens": Consumer.WORKING,
}
"""Files and skills that are loaded at the start stay in every call, as the system prompt does."""

_VOLT_PARTS: Mapping[str, Consumer] = {
    "system_tokens_estimated": Consumer.SYSTEM,
    "tool_tokens_estimated": Consumer.TOOLS,
    "non_system_message_tokens_estimated": Consumer.WORKING,
}

_WINDOWS = (
    "gen_ai.context.window_size",
    "openclaw.context.limit",
    "model_context_window",
    "codex.token_usage.context_window",
)

_RATIOS: Mapping[str, float] = {"gen_ai.context.utilization": 1.0, "kiro.context_usage_percentage": 100.0}
"""Used part of the window, and the value that means all of it."""

_LEAST_RATIO = 0.01
"""A smaller ratio was rounded too coarsely to give the window."""

_INPUTS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "input_tokens",
)
"""Where the input stands that such a ratio, or ``used``, is about."""


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = span.attributes
    usage = load_json(attributes.get(_QWEN))
    if isinstance(usage, Mapping):
        window, reserve = count(usage.get("window_size_tokens")), count(usage.get("compaction_reserve_tokens"))
        draft.tokens("window_tokens", window)
        draft.tokens("reserved_staging_tokens", reserve)
        if window and reserve and reserve < window:
            draft.set("trigger_tokens", window - reserve)
        parts = usage.get("breakdown")
        if isinstance(parts, Mapping):
            _take(draft, parts, _QWEN_PARTS)
    _take(draft, {key[len(_VOLT) :]: value for key, value in attributes.items() if key.startswith(_VOLT)}, _VOLT_PARTS)
    reported = count(first(attributes, *_INPUTS))
    ratio = _used_ratio(attributes)
    if ratio and reported and first(attributes, *_WINDOWS) is None:
        draft.set("window_tokens", round(reported / ratio))
    used = count(attributes.get("openclaw.context.used"))
    if used and reported is None and draft.reading.kind is Operation.LLM:
        draft.usage(input_tokens=used, cache_inclusive=True)


def _used_ratio(attributes: Mapping[str, Any]) -> float | None:
    for key, whole in _RATIOS.items():
        value = attributes.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and _LEAST_RATIO <= value / whole <= 1:
            return value / whole
    return None


def _take(draft: Draft, values: Mapping[str, Any], parts: Mapping[str, Consumer]) -> None:
    """Sum the parts by consumer; a breakdown of which a part is no count is not used."""
    if draft.reading.breakdown is not None:
        return
    found: dict[Consumer, int] = {}
    for name, consumer in parts.items():
        if name in values:
            tokens = count(values[name])
            if tokens is None:
                return
            found[consumer] = found.get(consumer, 0) + tokens
    if Consumer.WORKING in found and sum(found.values()) > 0:
        draft.reading.breakdown = found


DIALECT = TableDialect(
    name="breakdown",
    versions="qwen-code v1, VoltAgent 1, Sentry conventions, OpenClaw plugin, Codex, Kiro",
    namespaces=frozenset({"qwen-code", "openclaw", "kiro"}),
    keys=frozenset(
        {
            "gen_ai.context.window_size",
            "gen_ai.context.utilization",
            "usage.prompt_context.total_tokens_estimated",
            "usage.prompt_context.system_tokens_estimated",
            "model_context_window",
            "codex.token_usage.context_window",
            "auto_compact_token_limit",
        }
    ),
    counts={
        "window_tokens": _WINDOWS,
        "trigger_tokens": ("auto_compact_token_limit",),
    },
    spans=_span,
)
