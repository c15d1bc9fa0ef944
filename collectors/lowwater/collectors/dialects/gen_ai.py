"""OpenTelemetry GenAI semantic conventions, current and in the spellings that instrumentations carry along.

Names: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (moved to the semantic-conventions-genai repository in 2026).
The constants of the ``opentelemetry-semantic-conventions`` package are all marked deprecated, so the names stand here.
"""

from __future__ import annotations

from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import first, load_json

__all__ = ["DIALECT", "OPERATIONS"]

OPERATIONS = {
    "chat": Operation.LLM,
    "generate_content": Operation.LLM,
    "text_completion": Operation.LLM,
    "llm_call": Operation.LLM,
    "embeddings": Operation.EMBEDDING,
    "retrieval": Operation.RETRIEVAL,
    "search_memory": Operation.RETRIEVAL,
    "execute_tool": Operation.TOOL,
    "tool_call": Operation.TOOL,
    "invoke_agent": Operation.AGENT,
    "agent_call": Operation.AGENT,
    "create_agent": Operation.OTHER,
    "invoke_workflow": Operation.WORKFLOW,
    "compact_events": Operation.COMPACTION,
}
"""``gen_ai.operation.name``, with the three non-standard names of the Gemini CLI."""

_DETAILS = ("gen_ai.client.inference.operation.details",)


def _span(span: SpanRecord, draft: Draft) -> None:
    for event in span.events:
        # On spans of agents and tools (Strands) it repeats messages of the calls below them.
        if event.name in _DETAILS and draft.reading.kind is Operation.LLM:
            _details(event.attributes, draft)
    reasons = load_json(span.attributes.get("gen_ai.response.finish_reasons"))
    if isinstance(reasons, list) and not draft.reading.finish_reasons:
        draft.reading.finish_reasons = tuple(str(reason)[:40] for reason in reasons[:8])
    compacted = span.attributes.get("gen_ai.conversation.compacted")
    if compacted is not None:
        draft.set("compacted", compacted in (True, "true", "True"))


def _log(record: LogRecord, draft: Draft) -> bool:
    if record.event_name not in _DETAILS:
        return False
    body = record.body if isinstance(record.body, dict) else {}
    _details({**body, **record.attributes}, draft)
    return True


def _details(attributes: Any, draft: Draft) -> None:
    """The event that carries the messages of a call where they are kept off the span."""
    read_content(
        draft,
        system=attributes.get("gen_ai.system_instructions"),
        tools=attributes.get("gen_ai.tool.definitions"),
        messages=first(attributes, "gen_ai.input.messages"),
        answer=first(attributes, "gen_ai.output.messages"),
    )


DIALECT = TableDialect(
    name="gen_ai",
    versions="semantic-conventions-genai of 2026; semconv 1.27 to 1.37 attribute names",
    namespaces=frozenset({"gen_ai"}),
    kinds=(("gen_ai.operation.name", OPERATIONS),),
    texts={
        "model": ("gen_ai.response.model", "gen_ai.request.model"),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "response_id": ("gen_ai.response.id",),
        "conversation": ("gen_ai.conversation.id",),
        "agent_name": ("gen_ai.agent.name",),
    },
    counts={
        "max_output_tokens": ("gen_ai.request.max_tokens", "gen_ai.request.max_completion_tokens"),
        "window_tokens": ("gen_ai.context.window_size",),
    },
    usage={
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "total_tokens": ("gen_ai.usage.total_tokens",),
        "cache_read_tokens": (
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.input_tokens.cached",
        ),
        "cache_write_tokens": (
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_input_tokens",
            "gen_ai.usage.input_tokens.cache_write",
        ),
        "reasoning_tokens": (
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.output_tokens.reasoning",
        ),
    },
    system=("gen_ai.system_instructions",),
    tools=("gen_ai.tool.definitions",),
    messages=("gen_ai.input.messages", "gen_ai.request.messages"),
    answers=("gen_ai.output.messages",),
    tool_name=("gen_ai.tool.name",),
    tool_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments", "gen_ai.tool.input"),
    tool_result=("gen_ai.tool.call.result", "gen_ai.tool.output"),
    tool_type=("gen_ai.tool.type",),
    documents=("gen_ai.retrieval.documents",),
    spans=_span,
    logs=_log,
)
