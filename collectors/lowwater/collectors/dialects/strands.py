"""Strands Agents: GenAI conventions, memory spans, overflow by exception. Names: ``strands/telemetry/tracer.py`` of 1.62.

Its token counts are those of `gen_ai`, written under old and new names at once; ``invoke_agent`` repeats the agent
object's lifetime total.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.RETRIEVAL if span.name in ("memory.search", "memory.inject") else None


DIALECT = TableDialect(
    name="strands",
    versions="strands-agents 1",
    scopes=("strands.telemetry", "strands-agents"),
    keys=frozenset({"event_loop.cycle_id", "memory.result.count"}),
    odd_kinds=_kind,
    counts={"documents": ("memory.result.count",)},
)
