"""Claude Code's own spans and events: bare keys, cache-exclusive input.

Names: mlflow 3.18 ``tracing/otel/translation/claude_code.py``; with or without the prefix ``claude_code.``. Content is
redacted unless detailed tracing is on, and then ``new_context`` holds only what is new.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.failures import read_failure
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, text_of

__all__ = ["DIALECT"]

_PREFIX = "claude_code."
_KINDS = {"interaction": Operation.AGENT, "llm_request": Operation.LLM, "tool": Operation.TOOL}
_ERRORS = (f"{_PREFIX}api_error", f"{_PREFIX}api_retries_exhausted")
_REDACTED = "<REDACTED>"


def _kind(span: SpanRecord) -> Operation | None:
    kind = text_of(span.attributes.get("span.type"))
    if kind is None and span.name.startswith(_PREFIX):
        kind = span.name
    return None if kind is None else _KINDS.get(kind.removeprefix(_PREFIX))


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = span.attributes
    if draft.reading.kind is not Operation.LLM:
        return
    bare = count(attributes.get("input_tokens"))
    known = None if draft.reading.usage is None else draft.reading.usage.input_tokens
    draft.usage(
        input_tokens=attributes.get("input_tokens"),
        output_tokens=attributes.get("output_tokens"),
        cache_read_tokens=attributes.get("cache_read_tokens"),
        cache_write_tokens=attributes.get("cache_creation_tokens"),
        # The bare key leaves the cache out; another convention's input on the same span need not.
        cache_inclusive=False if bare is not None and known in (None, bare) else None,
    )
    new = attributes.get("new_context")
    if isinstance(new, str) and new != _REDACTED and draft.reading.content is None:
        read_content(draft, messages=new)
        draft.reading.content_is_delta = draft.reading.content is not None
    answer = attributes.get("response.model_output")
    if isinstance(answer, str) and answer != _REDACTED:
        read_content(draft, answer=answer)


def _log(record: LogRecord, draft: Draft) -> bool:
    # The full name is in the body, a short one in ``event.name``.
    if not record.span_id or (record.event_name not in _ERRORS and record.body not in _ERRORS):
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


@dataclass(frozen=True, slots=True)
class _ClaudeCode(TableDialect):
    """``span.type`` is a common key: only its values tell."""

    def matches(self, span: SpanRecord) -> bool:
        return _kind(span) is not None or TableDialect.matches(self, span)


DIALECT = _ClaudeCode(
    name="claude_code",
    versions="Claude Code 2, beta tracing of 2026",
    namespaces=frozenset({"claude_code"}),
    scopes=("com.anthropic.claude_code", "claude_code"),
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
