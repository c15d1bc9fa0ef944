"""Langfuse's own attributes: ``langfuse.observation.*``. Names: ``packages/shared/src/server/otel/attributes.ts``."""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.failures import read_failure
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import first, load_json, text_of

__all__ = ["DIALECT"]


def _span(span: SpanRecord, draft: Draft) -> None:
    details = load_json(span.attributes.get("langfuse.observation.usage_details"))
    if isinstance(details, Mapping):
        draft.usage(
            input_tokens=first(details, "input", "prompt_tokens", "input_tokens"),
            output_tokens=first(details, "output", "completion_tokens", "output_tokens"),
            total_tokens=first(details, "total", "total_tokens"),
            cache_read_tokens=first(details, "input_cache_read", "input_cached_tokens", "cache_read_input_tokens"),
            cache_write_tokens=first(details, "input_cache_creation", "cache_creation_input_tokens"),
            reasoning_tokens=first(details, "output_reasoning_tokens", "output_reasoning"),
        )
    if span.attributes.get("langfuse.observation.level") == "ERROR" and span.status_code != "error":
        draft.set("failure", read_failure(None, text_of(span.attributes.get("langfuse.observation.status_message"))))
    parameters = load_json(span.attributes.get("langfuse.observation.model.parameters"))
    if isinstance(parameters, Mapping):
        draft.tokens("max_output_tokens", first(parameters, "max_tokens", "maxOutputTokens", "max_completion_tokens"))


DIALECT = TableDialect(
    name="langfuse",
    versions="Langfuse SDKs 3 and 4, exports of 2025 and 2026",
    namespaces=frozenset({"langfuse"}),
    kinds=(
        (
            "langfuse.observation.type",
            {
                "generation": Operation.LLM,
                "agent": Operation.AGENT,
                "tool": Operation.TOOL,
                "retriever": Operation.RETRIEVAL,
                "embedding": Operation.EMBEDDING,
            },
        ),
    ),
    texts={
        "model": ("langfuse.observation.model.name",),
        "conversation": ("langfuse.session.id", "session.id"),
    },
    messages=("langfuse.observation.input",),
    answers=("langfuse.observation.output",),
    tool_arguments=("langfuse.observation.input",),
    tool_result=("langfuse.observation.output",),
    spans=_span,
)
