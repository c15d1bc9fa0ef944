"""OpenLLMetry (Traceloop): ``traceloop.*``, and ``llm.*`` beside ``gen_ai.*``.

Names: ``opentelemetry-semantic-conventions-ai``. Its token counts are those of `gen_ai` and `gen_ai_legacy`.
"""

from __future__ import annotations

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import text_of

__all__ = ["DIALECT"]


def _span(span: SpanRecord, draft: Draft) -> None:
    if span.attributes.get("traceloop.span.kind") == "agent":
        draft.set("agent_name", text_of(span.attributes.get("traceloop.entity.name")))


DIALECT = TableDialect(
    name="openllmetry",
    versions="opentelemetry-semantic-conventions-ai 0.4 and 0.5",
    namespaces=frozenset({"traceloop"}),
    scopes=("opentelemetry.instrumentation.openai_agents", "opentelemetry.instrumentation.langchain"),
    keys=frozenset({"llm.request.type", "llm.usage.total_tokens"}),
    kinds=(
        (
            "traceloop.span.kind",
            {"workflow": Operation.WORKFLOW, "agent": Operation.AGENT, "tool": Operation.TOOL, "task": Operation.OTHER},
        ),
    ),
    texts={
        "model": ("llm.response.model", "llm.request.model"),
        "conversation": (
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.conversation_id",
            "traceloop.association.properties.chat_id",
        ),
    },
    counts={"max_output_tokens": ("llm.request.max_tokens",)},
    usage={"total_tokens": ("llm.usage.total_tokens",)},
    tool_name=("traceloop.entity.name",),
    tool_arguments=("traceloop.entity.input",),
    tool_result=("traceloop.entity.output",),
    spans=_span,
)
