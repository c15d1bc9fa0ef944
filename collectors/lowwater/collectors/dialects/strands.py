"""Strands Agents: GenAI conventions, memory spans, overflow by exception. Names: ``strands/telemetry/tracer.py`` of 1.62.

Its token counts are those of `gen_ai`, written under old and new names at once; ``invoke_agent`` repeats the agent
object's lifetime total. Arguments and result of a tool stand in events of its span, in either convention's spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_tool
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanEvent, SpanRecord
from lowwater.collectors.values import load_json

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.RETRIEVAL if span.name in ("memory.search", "memory.inject") else None


def _span(span: SpanRecord, draft: Draft) -> None:
    if draft.reading.kind is not Operation.TOOL:
        return
    for event in span.events:
        for name, value in _exchanged(event):
            read_tool(draft, name=None, **{name: value})


def _exchanged(event: SpanEvent) -> Iterator[tuple[str, Any]]:
    """("arguments" or "result", value) of an event on a tool's span."""
    attributes = event.attributes
    if event.name == "gen_ai.tool.message":
        yield "arguments", attributes.get("content")
    elif event.name == "gen_ai.choice":
        yield "result", attributes.get("message")
    elif event.name == "gen_ai.client.inference.operation.details":
        for part in _parts(attributes.get("gen_ai.input.messages")):
            yield "arguments", part.get("arguments")
        for part in _parts(attributes.get("gen_ai.output.messages")):
            yield "result", part.get("response")


def _parts(messages: Any) -> Iterator[Mapping[str, Any]]:
    messages = load_json(messages)
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("parts") if isinstance(message, Mapping) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping):
                yield part


DIALECT = TableDialect(
    name="strands",
    versions="strands-agents 1",
    scopes=("strands.telemetry", "strands-agents"),
    keys=frozenset({"event_loop.cycle_id", "memory.result.count"}),
    kinds=(("gen_ai.operation.name", {"invoke_swarm": Operation.WORKFLOW, "invoke_graph": Operation.WORKFLOW}),),
    odd_kinds=_kind,
    counts={"documents": ("memory.result.count",)},
    spans=_span,
)
