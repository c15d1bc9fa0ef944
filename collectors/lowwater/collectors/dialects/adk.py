"""Google ADK: ``gcp.vertex.agent.*`` beside ``gen_ai.*``. Names: ``google/adk/telemetry`` of 2.13."""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import load_json

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.LLM if span.name == "call_llm" else None


def _span(span: SpanRecord, draft: Draft) -> None:
    if draft.reading.kind is not Operation.LLM:
        return
    request = load_json(span.attributes.get("gcp.vertex.agent.llm_request"))
    response = load_json(span.attributes.get("gcp.vertex.agent.llm_response"))
    if isinstance(request, Mapping) and request:
        config = request.get("config")
        config = config if isinstance(config, Mapping) else {}
        draft.tokens("max_output_tokens", config.get("max_output_tokens"))
        read_content(
            draft,
            system=config.get("system_instruction"),
            tools=config.get("tools"),
            messages=request.get("contents"),
        )
    if isinstance(response, Mapping) and response.get("content"):
        read_content(draft, answer=response["content"])


DIALECT = TableDialect(
    name="adk",
    versions="google-adk 1 and 2",
    namespaces=frozenset({"gcp"}),
    scopes=("gcp.vertex.agent",),
    odd_kinds=_kind,
    texts={"conversation": ("gcp.vertex.agent.session_id",)},
    tool_arguments=("gcp.vertex.agent.tool_call_args",),
    tool_result=("gcp.vertex.agent.tool_response",),
    spans=_span,
)
