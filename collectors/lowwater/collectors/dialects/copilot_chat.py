"""Copilot Chat: GenAI conventions, its own session ids. Names: ``src/platform/otel/common/genAiAttributes.ts``."""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect

__all__ = ["DIALECT"]

DIALECT = TableDialect(
    name="copilot_chat",
    versions="vscode-copilot-chat of 2026",
    namespaces=frozenset({"copilot_chat"}),
    texts={
        "conversation": ("copilot_chat.chat_session_id",),
        "parent_agent_id": ("copilot_chat.parent_chat_session_id",),
    },
)
