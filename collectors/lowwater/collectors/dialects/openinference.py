"""OpenInference (Arize): ``openinference.span.kind``, ``llm.*``, indexed messages.

Names: ``openinference-semantic-conventions``, ``openinference/semconv/trace``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content, read_tool
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import count, first, is_index, load_json, text_of

__all__ = ["DIALECT"]

_KINDS = {
    "llm": Operation.LLM,
    "agent": Operation.AGENT,
    "tool": Operation.TOOL,
    "retriever": Operation.RETRIEVAL,
    "embedding": Operation.EMBEDDING,
}

_EXCLUSIVE_SCOPES = ("openinference.instrumentation.claude_agent_sdk",)
"""Reports Anthropic's ``input_tokens`` as the prompt count, cached part left out (seen in 0.1.8)."""


_MODELS = ("llm.response.model_name", "llm.model_name", "llm.request.model_name")

_HIDDEN = "__REDACTED__"
"""What stands for messages that the instrumentation was told to hide. Whole values are `is_withheld`'s, as in any dialect."""

_MAX_PARTS = 12
"""The deepest names have eight parts; more would nest without end."""


def _tree(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Attributes ``PREFIX.N.a.b`` as a list of nested mappings, in the order of N; inner indexes become lists."""
    root: dict[str, Any] = {}
    start = prefix + "."
    for key, value in attributes.items():
        if key.startswith(start):
            node = root
            parts = key[len(start) :].split(".", _MAX_PARTS)
            for part in parts[:-1]:
                inner = node.setdefault(part, {})
                if not isinstance(inner, dict):
                    break
                node = inner
            else:
                node.setdefault(parts[-1], value)
    return [item for item in _listed(root) if isinstance(item, dict)] if root else []


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(map(is_index, node)):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(value) for key, value in node.items()}


def _messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]] | None:
    messages = []
    for item in _tree(attributes, prefix):
        message = item.get("message", item)
        if not isinstance(message, dict):
            continue
        plain = {key: value for key, value in message.items() if key in ("role", "name", "tool_call_id", "content")}
        parts = message.get("contents")
        if isinstance(parts, list):
            plain["content"] = [part.get("message_content", part) for part in parts if isinstance(part, dict)]
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            plain["tool_calls"] = [call.get("tool_call", call) for call in calls if isinstance(call, dict)]
        if plain.get("content") == _HIDDEN or any(
            isinstance(part, dict) and part.get("text") == _HIDDEN for part in plain.get("content") or ()
        ):
            return None  # what some messages said is unknown, and so is every share
        messages.append(plain)
    return messages or None


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes, kind = span.attributes, draft.reading.kind
    parameters = load_json(attributes.get("llm.invocation_parameters"))
    if isinstance(parameters, Mapping):
        limit = first(parameters, "max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens")
        draft.tokens("max_output_tokens", limit if count(limit) is not None else None)
        window = first(parameters, "context_window")
        draft.tokens("window_tokens", window if count(window) is not None else None)
        if first(attributes, *_MODELS) is None:  # a call that was refused
            draft.set("model", text_of(parameters.get("model")))
    if span.scope_name.startswith(_EXCLUSIVE_SCOPES) and "llm.token_count.prompt" in attributes:
        draft.usage(cache_inclusive=False)
    if kind is Operation.LLM:
        tools = _tree(attributes, "llm.tools")
        schemas = [first(item.get("tool", item), "json_schema") or item for item in tools]
        read_content(
            draft,
            tools=schemas or None,
            messages=_messages(attributes, "llm.input_messages")
            or _tree(attributes, "llm.prompts")
            or first(attributes, "llm.prompts", "input.value"),
            answer=_messages(attributes, "llm.output_messages") or attributes.get("output.value"),
        )
        reason = text_of(first(attributes, "llm.finish_reason"))
        if reason is not None and not draft.reading.finish_reasons:
            draft.reading.finish_reasons = (reason[:40],)
    elif kind in (Operation.TOOL, Operation.RETRIEVAL):
        documents = [item.get("document", item) for item in _tree(attributes, "retrieval.documents")]
        if documents and draft.reading.documents is None:
            draft.reading.documents = len(documents)
        read_tool(
            draft,
            name=text_of(attributes.get("tool.name")) or (span.name if kind is Operation.RETRIEVAL else None),
            call_id=text_of(first(attributes, "tool.id", "tool_call.id")),
            arguments=first(attributes, "input.value", "tool.parameters"),
            result=documents or attributes.get("output.value"),
        )


DIALECT = TableDialect(
    name="openinference",
    versions="openinference-semantic-conventions 0.1",
    namespaces=frozenset({"openinference", "llm"}),
    scopes=("openinference.",),
    kinds=(("openinference.span.kind", _KINDS), ("aws.genai.span_kind", _KINDS)),
    texts={
        "model": _MODELS,
        "provider": ("llm.provider", "llm.system"),
        "conversation": ("session.id",),
        "agent_name": ("agent.name",),
    },
    usage={
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "total_tokens": ("llm.token_count.total",),
        "cache_read_tokens": (
            "llm.token_count.prompt_details.cache_read",
            "llm.token_count.prompt_details.cache_input",
        ),
        "cache_write_tokens": ("llm.token_count.prompt_details.cache_write",),
        "reasoning_tokens": ("llm.token_count.completion_details.reasoning",),
    },
    spans=_span,
)
