"""OpenAI Agents SDK's own tracing, which is not OpenTelemetry: span data objects turned into spans and read.

Names: ``agents/tracing/span_data.py``. Usage on tasks and turns repeats that of the generations below them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import first, text_of

__all__ = ["DIALECT", "openai_agents_span"]

_PREFIX = "openai_agents."
_KINDS = {
    "generation": Operation.LLM, "response": Operation.LLM, "function": Operation.TOOL, "agent": Operation.AGENT,
    "handoff": Operation.OTHER, "task": Operation.WORKFLOW, "turn": Operation.OTHER,
}  # fmt: skip


def openai_agents_span(exported: Mapping[str, Any], group_id: str | None = None) -> SpanRecord | None:
    """One exported span (``Span.export()``) as a span record; None if it is none.

    Args:
        exported: the object that a tracing processor or exporter receives.
        group_id: of the exported trace, which links the traces of one conversation; spans do not repeat it.
    """
    data = exported.get("span_data")
    if exported.get("object") != "trace.span" or not isinstance(data, Mapping):
        return None
    error = exported.get("error")
    attributes = {f"{_PREFIX}{key}": value for key, value in data.items()}
    attributes[f"{_PREFIX}group_id"] = exported.get("group_id") or group_id
    return SpanRecord(
        trace_id=str(exported.get("trace_id") or ""),
        span_id=str(exported.get("id") or ""),
        name=str(data.get("name") or data.get("type") or ""),
        parent_span_id=text_of(exported.get("parent_id")),
        start_time_unix_nano=_nanoseconds(exported.get("started_at")),
        end_time_unix_nano=_nanoseconds(exported.get("ended_at")),
        status_code="error" if isinstance(error, Mapping) else "unset",
        status_message=str(error.get("message") or "") if isinstance(error, Mapping) else "",
        scope_name="openai-agents",
        attributes=attributes,
    )


def _nanoseconds(value: Any) -> int:
    try:
        moment = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0, round(moment.timestamp() * 1_000_000)) * 1_000


def _data(span: SpanRecord) -> Mapping[str, Any]:
    """What a custom span holds; the SDK's own tasks and turns are such spans."""
    data = span.attributes.get(f"{_PREFIX}data")
    return data if isinstance(data, Mapping) else {}


def _kind(span: SpanRecord) -> Operation | None:
    if span.attributes.get(f"{_PREFIX}type") != "custom":
        return None
    name = text_of(first(_data(span), "sdk_span_type")) or text_of(span.attributes.get(f"{_PREFIX}name"))
    return _KINDS[name] if name in ("task", "turn") else Operation.OTHER


def _span(span: SpanRecord, draft: Draft) -> None:
    usage = first(span.attributes, f"{_PREFIX}usage") or _data(span).get("usage")
    if isinstance(usage, Mapping):
        details = usage.get("input_tokens_details")
        draft.usage(
            input_tokens=first(usage, "input_tokens", "prompt_tokens"),
            output_tokens=first(usage, "output_tokens", "completion_tokens"),
            total_tokens=usage.get("total_tokens"),
            cache_read_tokens=details.get("cached_tokens") if isinstance(details, Mapping) else None,
            cache_inclusive=True,
        )
    settings = span.attributes.get(f"{_PREFIX}model_config")
    if isinstance(settings, Mapping):
        draft.tokens("max_output_tokens", settings.get("max_tokens"))
    if draft.reading.kind is Operation.AGENT:
        draft.set("agent_name", text_of(span.attributes.get(f"{_PREFIX}name")))
    if draft.reading.kind is Operation.LLM:
        read_content(
            draft,
            messages=span.attributes.get(f"{_PREFIX}input"),
            answer=span.attributes.get(f"{_PREFIX}output"),
        )


DIALECT = TableDialect(
    name="openai_agents",
    versions="openai-agents 0.2 to 0.14",
    namespaces=frozenset({"openai_agents"}),
    kinds=((f"{_PREFIX}type", _KINDS),),
    odd_kinds=_kind,
    texts={
        "model": (f"{_PREFIX}model",),
        "conversation": (f"{_PREFIX}group_id",),
        "response_id": (f"{_PREFIX}response_id",),
    },
    tool_name=(f"{_PREFIX}name",),
    tool_arguments=(f"{_PREFIX}input",),
    tool_result=(f"{_PREFIX}output",),
    spans=_span,
)
