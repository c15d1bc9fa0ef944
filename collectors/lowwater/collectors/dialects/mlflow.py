"""MLflow tracing: ``mlflow.*`` with JSON values. Names: ``mlflow/tracing/constant.py`` of 3.18."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import first, load_json, text_of

__all__ = ["DIALECT"]

_KINDS = {
    "llm": Operation.LLM, "chat_model": Operation.LLM, "agent": Operation.AGENT, "tool": Operation.TOOL,
    "retriever": Operation.RETRIEVAL, "embedding": Operation.EMBEDDING,
}  # fmt: skip


def _kind(span: SpanRecord) -> Operation | None:
    """Attribute values are JSON: the type is a quoted string."""
    return _KINDS.get(str(load_json(span.attributes.get("mlflow.spanType")) or "").lower())


def _span(span: SpanRecord, draft: Draft) -> None:
    usage = load_json(span.attributes.get("mlflow.chat.tokenUsage"))
    if isinstance(usage, Mapping):
        draft.usage(
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            total_tokens=usage.get("total_tokens"),
            cache_read_tokens=first(usage, "cache_read_input_tokens", "cached_tokens"),
            cache_write_tokens=usage.get("cache_creation_input_tokens"),
        )
    for field, key in (
        ("model", "mlflow.llm.model"),
        ("provider", "mlflow.llm.provider"),
        ("conversation", "mlflow.trace.session"),
    ):
        draft.set(field, text_of(load_json(span.attributes.get(key))))
    if draft.reading.kind is Operation.LLM:
        _call(span, draft)
    elif draft.reading.kind is Operation.RETRIEVAL:
        documents = load_json(span.attributes.get("mlflow.spanOutputs"))
        if isinstance(documents, list):
            draft.set("documents", len(documents))


def _call(span: SpanRecord, draft: Draft) -> None:
    """The inputs are the arguments of the client's method: messages, tools and limits."""
    inputs = load_json(span.attributes.get("mlflow.spanInputs"))
    arguments: Mapping[str, Any] = inputs if isinstance(inputs, Mapping) else {}
    draft.tokens("max_output_tokens", first(arguments, "max_tokens", "max_completion_tokens", "max_output_tokens"))
    read_content(
        draft,
        tools=first(span.attributes, "mlflow.chat.tools") or arguments.get("tools"),
        messages=inputs,
        answer=span.attributes.get("mlflow.spanOutputs"),
    )


DIALECT = TableDialect(
    name="mlflow",
    versions="mlflow 3",
    namespaces=frozenset({"mlflow"}),
    odd_kinds=_kind,
    tool_arguments=("mlflow.spanInputs",),
    tool_result=("mlflow.spanOutputs",),
    spans=_span,
)
