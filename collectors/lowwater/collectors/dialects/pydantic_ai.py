"""pydantic-ai and Logfire: GenAI conventions with roll-ups under their own key, and older spellings.

Names: ``pydantic_ai/models/instrumented.py``; instrumentation versions 1 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import load_json

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    if span.name.startswith("running tool"):
        # "running 2 tools" only groups; "running tool" is one execution in versions 1 and 2.
        return Operation.TOOL if "gen_ai.tool.name" in span.attributes else Operation.OTHER
    return Operation.AGENT if span.name == "agent run" and "agent_name" in span.attributes else None


def _span(span: SpanRecord, draft: Draft) -> None:
    if draft.reading.kind is not Operation.LLM:
        return
    parameters = load_json(span.attributes.get("model_request_parameters"))
    if isinstance(parameters, Mapping):
        held = [parameters.get(name) for name in ("function_tools", "output_tools")]
        tools = [tool for tools in held if isinstance(tools, list) for tool in tools]
        read_content(draft, tools=tools or None)


DIALECT = TableDialect(
    name="pydantic_ai",
    versions="pydantic-ai 0.1 to 2, instrumentation versions 1 to 4",
    namespaces=frozenset({"pydantic_ai"}),
    scopes=("pydantic-ai",),
    odd_kinds=_kind,
    texts={"agent_name": ("agent_name",), "agent_id": ("gen_ai.agent.call.id",)},
    usage={
        "input_tokens": ("gen_ai.aggregated_usage.input_tokens",),
        "output_tokens": ("gen_ai.aggregated_usage.output_tokens",),
        # Details are named as the provider names them.
        "cache_read_tokens": (
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cache_read_input_tokens",
            "gen_ai.usage.details.cached_tokens",
            "gen_ai.usage.details.cached_content_tokens",
        ),
        "cache_write_tokens": (
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.usage.details.cache_creation_input_tokens",
        ),
        "reasoning_tokens": ("gen_ai.usage.details.reasoning_tokens", "gen_ai.usage.details.thoughts_tokens"),
    },
    messages=("events",),
    tool_arguments=("tool_arguments",),
    tool_result=("tool_response",),
    spans=_span,
)
