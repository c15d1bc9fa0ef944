"""Vercel AI SDK: ``ai.*``. Only ``*.doGenerate`` and ``*.doStream`` are calls; what is above them repeats their usage.

Names: ``packages/otel/src/legacy-open-telemetry.ts``; SDK 4 to 6.
"""

from __future__ import annotations

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import first

__all__ = ["DIALECT"]


_DETAILS = frozenset(
    f"ai.usage.inputTokenDetails.{name}" for name in ("noCacheTokens", "cacheReadTokens", "cacheWriteTokens")
)


def _kind(span: SpanRecord) -> Operation | None:
    operation = str(span.attributes.get("ai.operationId") or "")
    if operation.endswith((".doGenerate", ".doStream")):
        return Operation.LLM
    if operation == "ai.toolCall":
        return Operation.TOOL
    if ".doEmbed" in operation:
        return Operation.EMBEDDING
    # The outer span is a loop of calls and tools: the agent, unless something above it says so of itself.
    return Operation.AGENT if operation in ("ai.generateText", "ai.streamText") else None


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = span.attributes
    if not _DETAILS.isdisjoint(attributes):
        # Since version 6, which divides it, "inputTokens" is the whole prompt. Before it was the provider's own number:
        # in version 5 with Anthropic "cachedInputTokens" exceeds it (vercel/ai issue 8349).
        draft.usage(cache_inclusive=True)
    if draft.reading.kind is Operation.LLM:
        answer = {
            "role": "assistant",
            "reasoning": attributes.get("ai.response.reasoning"),
            "content": first(attributes, "ai.response.text", "ai.response.object"),
            "tool_calls": attributes.get("ai.response.toolCalls"),
        }
        if any(value is not None for name, value in answer.items() if name != "role"):
            read_content(draft, answer=answer)


DIALECT = TableDialect(
    name="vercel",
    versions="AI SDK 4 to 6",
    namespaces=frozenset({"ai"}),
    odd_kinds=_kind,
    texts={
        "model": ("ai.response.model", "ai.model.id"),
        "provider": ("ai.model.provider",),
        "response_id": ("ai.response.id",),
        "agent_name": ("ai.telemetry.functionId",),
        "conversation": ("ai.telemetry.metadata.sessionId", "session.id"),
    },
    counts={"max_output_tokens": ("ai.settings.maxOutputTokens", "ai.settings.maxTokens")},
    usage={
        "input_tokens": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
        "output_tokens": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        "total_tokens": ("ai.usage.totalTokens",),
        "cache_read_tokens": ("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
        "cache_write_tokens": ("ai.usage.inputTokenDetails.cacheWriteTokens",),
        "uncached_tokens": ("ai.usage.inputTokenDetails.noCacheTokens",),
        "reasoning_tokens": ("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"),
    },
    tools=("ai.prompt.tools",),
    messages=("ai.prompt.messages",),
    tool_name=("ai.toolCall.name",),
    tool_id=("ai.toolCall.id",),
    tool_arguments=("ai.toolCall.args",),
    tool_result=("ai.toolCall.result",),
    spans=_span,
)
