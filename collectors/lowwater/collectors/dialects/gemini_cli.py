"""Gemini CLI: GenAI conventions with operation names of its own. Names: ``docs/cli/telemetry.md``."""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect

__all__ = ["DIALECT"]

DIALECT = TableDialect(
    name="gemini_cli",
    versions="gemini-cli of 2026",
    namespaces=frozenset({"gemini_cli"}),
    scopes=("gemini-cli",),
    texts={"conversation": ("session.id",)},
    tool_id=("gen_ai.tool.call_id",),
)
