"""Context windows and compositions that some agents publish about themselves.

Sources: Qwen Code ``qwen-code.context.usage`` (v1), VoltAgent ``usage.prompt_context.*``, Sentry and loongsuite
``gen_ai.context.window_size``, OpenClaw ``openclaw.context.*``, Codex ``model_context_window``, Copilot Chat
``max_prompt_tokens``, Kiro ``kiro.context_usage_percentage``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
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
    percentage = attributes.get("kiro.context_usage_percentage")
    reported = count(first(attributes, "gen_ai.usage.input_tokens", "input_tokens"))
    if isinstance(percentage, int | float) and 1 <= percentage <= 100 and reported:
        draft.set("window_tokens", round(reported * 100 / percentage))


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
    versions="qwen-code v1, VoltAgent 1, Sentry conventions, OpenClaw plugin, Codex, Copilot Chat, Kiro",
    namespaces=frozenset({"qwen-code", "openclaw", "kiro"}),
    keys=frozenset(
        {
            "gen_ai.context.window_size",
            "usage.prompt_context.total_tokens_estimated",
            "usage.prompt_context.system_tokens_estimated",
            "model_context_window",
            "codex.token_usage.context_window",
            "auto_compact_token_limit",
            "copilot_chat.request.max_prompt_tokens",
        }
    ),
    counts={
        "window_tokens": (
            "gen_ai.context.window_size",
            "openclaw.context.limit",
            "model_context_window",
            "codex.token_usage.context_window",
            "copilot_chat.request.max_prompt_tokens",
        ),
        "trigger_tokens": ("auto_compact_token_limit",),
    },
    spans=_span,
)
