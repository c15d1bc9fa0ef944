"""Readings made by hand, for tests of what comes after the dialects."""

from __future__ import annotations

from typing import Any

from lowwater.collectors.content import BlockKind, Content, ContentBuilder
from lowwater.collectors.reading import Operation, Reading, ToolUse, Usage
from lowwater.collectors.tokens import Hasher

HASHER = Hasher(b"tests")
SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND


def content(*blocks: tuple[BlockKind, str] | tuple[BlockKind, str, str]) -> Content:
    """Content of (kind, text) or (kind, text, tool-call id) blocks."""
    builder = ContentBuilder(HASHER)
    for kind, text, *call in blocks:
        builder.add(kind, text, call_id=call[0] if call else None)
    built = builder.build()
    return built if built is not None else Content()


def call(
    span_id: str,
    at: float = 0.0,
    *,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    seconds: float = 1.0,
    trace: str = "t1",
    parent: str | None = None,
    **fields: Any,
) -> Reading:
    """An LLM call that ends ``at`` seconds after the tests' epoch and took ``seconds``."""
    usage = None
    if input_tokens is not None or output_tokens is not None:
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return Reading(
        trace_id=trace,
        span_id=span_id,
        parent_span_id=parent,
        start_ns=START + round((at - seconds) * SECOND),
        end_ns=START + round(at * SECOND),
        kind=Operation.LLM,
        usage=usage,
        **fields,
    )


def span(
    span_id: str,
    kind: Operation,
    start: float,
    end: float,
    *,
    trace: str = "t1",
    parent: str | None = None,
    **fields: Any,
) -> Reading:
    """Any other span, by start and end in seconds after the tests' epoch."""
    return Reading(
        trace_id=trace,
        span_id=span_id,
        parent_span_id=parent,
        start_ns=START + round(start * SECOND),
        end_ns=START + round(end * SECOND),
        kind=kind,
        **fields,
    )


def tool(
    span_id: str,
    at: float,
    name: str = "read",
    arguments: str = "a",
    result: str = "r",
    *,
    call_id: str = "",
    tokens: int = 100,
    retriever: bool = False,
    **fields: Any,
) -> Reading:
    """A tool run of half a second that ends ``at``."""
    use = ToolUse(
        name,
        call=HASHER.hash(call_id) if call_id else 0,
        arguments=HASHER.hash(arguments),
        result=HASHER.hash(result),
        result_tokens=tokens,
        retriever=retriever,
    )
    return span(span_id, Operation.TOOL, at - 0.5, at, tool=use, **fields)
