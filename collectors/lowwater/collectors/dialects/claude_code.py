"""Claude Code's own spans and events: bare keys, cache-exclusive input.

Names: mlflow 3.18 ``tracing/otel/translation/claude_code.py``; with or without the prefix ``claude_code.``. Content is
redacted unless detailed tracing is on, and then ``new_context`` holds only what is new.
"""

from __future__ import annotations

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.failures import read_failure
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, text_of

__all__ = ["DIALECT"]

_KINDS = {"interaction": Operation.AGENT, "llm_request": Operation.LLM, "tool": Operation.TOOL}
_ERRORS = ("claude_code.api_error", "claude_code.api_retries_exhausted")
_REDACTED = "<REDACTED>"


def _kind(span: SpanRecord) -> Operation | None:
    kind = str(span.attributes.get("span.type") or span.name).removeprefix("claude_code.")
    return _KINDS.get(kind)


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = span.attributes
    if draft.reading.kind is not Operation.LLM:
        return
    draft.usage(
        input_tokens=attributes.get("input_tokens"),
        output_tokens=attributes.get("output_tokens"),
        cache_read_tokens=attributes.get("cache_read_tokens"),
        cache_write_tokens=attributes.get("cache_creation_tokens"),
        cache_inclusive=False if "input_tokens" in attributes else None,
    )
    new = attributes.get("new_context")
    if isinstance(new, str) and new != _REDACTED and draft.reading.content is None:
        read_content(draft, messages=new)
        draft.reading.content_is_delta = draft.reading.content is not None
    answer = attributes.get("response.model_output")
    if isinstance(answer, str) and answer != _REDACTED:
        read_content(draft, answer=answer)


def _log(record: LogRecord, draft: Draft) -> bool:
    if record.event_name not in _ERRORS or not record.span_id:
        return False
    draft.set(
        "failure",
        read_failure(
            text_of(record.attributes.get("error_type")),
            text_of(record.attributes.get("error")),
            count(record.attributes.get("status_code")),
        ),
    )
    return True


DIALECT = TableDialect(
    name="claude_code",
    versions="Claude Code 2, beta tracing of 2026",
    namespaces=frozenset({"claude_code"}),
    scopes=("com.anthropic.claude_code", "claude_code"),
    keys=frozenset({"span.type"}),
    odd_kinds=_kind,
    texts={
        "model": ("model",),
        "conversation": ("session.id",),
        "response_id": ("request_id",),
        "agent_id": ("agent_id",),
        "parent_agent_id": ("parent_agent_id",),
        "agent_name": ("agent.name", "query_source"),
    },
    tool_name=("tool_name",),
    tool_id=("tool_use_id",),
    tool_arguments=("tool_input",),
    spans=_span,
    logs=_log,
)
