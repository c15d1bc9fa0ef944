"""Copilot Chat: GenAI conventions, its own session ids. Names: ``src/platform/otel/common/genAiAttributes.ts``."""

from __future__ import annotations

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import count, first

__all__ = ["DIALECT"]


def _span(span: SpanRecord, draft: Draft) -> None:
    # The limit it states is of the prompt alone, where a window also holds the answer.
    prompt = count(span.attributes.get("copilot_chat.request.max_prompt_tokens"))
    if prompt:
        answer = count(first(span.attributes, "gen_ai.request.max_tokens", "gen_ai.request.max_completion_tokens"))
        draft.set("window_tokens", prompt + (answer or 0))


DIALECT = TableDialect(
    name="copilot_chat",
    versions="vscode-copilot-chat of 2026",
    namespaces=frozenset({"copilot_chat"}),
    texts={
        "conversation": ("copilot_chat.chat_session_id",),
        "parent_agent_id": ("copilot_chat.parent_chat_session_id",),
    },
    spans=_span,
)
