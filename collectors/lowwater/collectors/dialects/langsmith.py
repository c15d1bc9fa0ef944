"""LangSmith's OpenTelemetry exporter: ``langsmith.*`` beside ``gen_ai.*``.

Names: ``langsmith/_internal/otel/_otel_exporter.py`` of 0.15. ``langsmith.trace.session_id`` is the project, not a
conversation.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import first, load_json

__all__ = ["DIALECT"]


_AGENT_NAME = "langsmith.metadata.lc_agent_name"
"""What an agent is called: metadata, which LangChain hands down to every run below."""


def _kind(span: SpanRecord) -> Operation | None:
    """The run of an agent itself is the chain that is called like it."""
    name = span.attributes.get(_AGENT_NAME)
    chain = span.attributes.get("langsmith.span.kind") == "chain"
    return (
        Operation.AGENT if chain and name and name in (span.name, span.attributes.get("langsmith.trace.name")) else None
    )


def _details(value: Any) -> Mapping[str, Any]:
    """A Python dict written with ``str()``."""
    parsed = load_json(value)
    if isinstance(parsed, str) and parsed.startswith("{") and len(parsed) < 4096:
        try:
            parsed = ast.literal_eval(parsed)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return parsed if isinstance(parsed, Mapping) else {}


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = span.attributes
    details = _details(attributes.get("gen_ai.usage.input_token_details"))
    draft.usage(
        cache_read_tokens=first(details, "cache_read"),
        cache_write_tokens=first(details, "cache_creation"),
        reasoning_tokens=first(_details(attributes.get("gen_ai.usage.output_token_details")), "reasoning"),
    )
    provider = str(first(attributes, "gen_ai.provider.name", "gen_ai.system") or "")
    if draft.reading.usage is not None and not details and provider == "anthropic":
        # Anthropic's raw input_tokens pass through; LangChain's usage_metadata, which adds the cache, has details.
        draft.usage(cache_inclusive=False)


DIALECT = TableDialect(
    name="langsmith",
    versions="langsmith 0.3 to 0.15",
    namespaces=frozenset({"langsmith"}),
    scopes=("langsmith",),
    kinds=(
        (
            "langsmith.span.kind",
            {
                "llm": Operation.LLM,
                "tool": Operation.TOOL,
                "retriever": Operation.RETRIEVAL,
                "embedding": Operation.EMBEDDING,
            },
        ),
    ),
    odd_kinds=_kind,
    texts={
        "agent_name": (_AGENT_NAME,),
        "conversation": (
            "langsmith.metadata.thread_id",
            "langsmith.metadata.conversation_id",
            "langsmith.metadata.session_id",
        ),
    },
    messages=("gen_ai.prompt",),
    answers=("gen_ai.completion",),
    tool_name=("gen_ai.serialized.name", "langsmith.trace.name"),
    tool_arguments=("gen_ai.prompt",),
    tool_result=("gen_ai.completion",),
    spans=_span,
)
