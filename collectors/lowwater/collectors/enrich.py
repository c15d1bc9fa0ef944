"""What lowwater adds to a span on its way out of the agent's process: tokens by consumer, counted before content is cut.

The SDK freezes a span's attributes before any end hook runs, so a new read-only span goes on in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.dialects.lowwater import MEASURED
from lowwater.collectors.extract import read_span
from lowwater.collectors.reading import Failure, Operation, Reading, ToolUse
from lowwater.collectors.sdk import record_of
from lowwater.collectors.tokens import apportion
from lowwater.collectors.usage import resolve_input
from lowwater.collectors.values import word_of

__all__ = ["MAX_TEXT_CHARACTERS", "Enricher", "is_content"]

MAX_TEXT_CHARACTERS = 256
"""With content cut, a longer text of any attribute goes, too: nobody can list all keys that hold content."""

_NAMES = (
    "lowwater.reserved.system_tokens", "lowwater.reserved.tools_tokens", "lowwater.context.retrieval_tokens",
    "lowwater.context.scratchpad_tokens", "lowwater.context.working_tokens",
)  # fmt: skip
"""Attributes of the split, in the order of `CONSUMERS`."""

_CONTENT_PARTS = frozenset(
    {
        "messages", "message", "prompt", "prompts", "completion", "content", "contents", "input", "output", "inputs",
        "outputs", "arguments", "args", "result", "results", "response_text", "text", "body", "instructions",
        "system_instructions", "definitions", "documents", "document", "query", "value", "values", "parameters",
        "llm_request", "llm_response", "tool_call_args", "tool_response", "spaninputs", "spanoutputs", "all_messages",
        "all_messages_events", "final_result", "events", "input_messages", "output_messages", "reasoning", "thinking",
        "toolcalls", "tool_calls", "user_prompt", "system_prompt", "new_context", "full_command", "question",
        "answer", "description", "transcript", "object", "stacktrace",
    }
)  # fmt: skip
"""A key with such a part, between dots, holds content in some dialect (compared in lower case)."""

_NUMBERS = frozenset({"usage", "token_count", "tokens"})
"""A key with such a part holds numbers, whatever else it is called (``gen_ai.usage.input_tokens``)."""


def is_content(key: str) -> bool:
    """Whether an attribute of this name holds content.

    >>> is_content("gen_ai.input.messages"), is_content("gen_ai.usage.input"), is_content("gen_ai.request.model")
    (True, False, False)
    """
    parts = key.lower().split(".")
    return not _CONTENT_PARTS.isdisjoint(parts) and _NUMBERS.isdisjoint(parts)


class Enricher:
    """Makes enriched spans. Keeps no span and no text.

    Args:
        context: hash and retriever names.
        strip_content: cut content: attributes and events that hold it, and texts beyond `MAX_TEXT_CHARACTERS`.

    Attributes:
        failed: spans that went on as they were, because lowwater could not read them.
    """

    def __init__(self, context: ReadContext | None = None, *, strip_content: bool = False) -> None:
        self._context = context if context is not None else ReadContext()
        self.strip_content = strip_content
        self.failed = 0

    def __call__(self, span: ReadableSpan) -> ReadableSpan:
        """The span with what is known added, the same object where there is nothing to add. Never raises."""
        try:
            added = self._added(span)
            if self.strip_content:
                return _bare(span, {**_kept(span.attributes or {}), **added}, _events_without_content(span))
            return _Enriched(span, {**(span.attributes or {}), **added}, span.events, span.status) if added else span
        except Exception:
            self.failed += 1
            # What could not be read cannot be cut, either: without a promise it goes on, with one only its shell does.
            return _bare(span, {}, ()) if self.strip_content else span

    def _added(self, span: ReadableSpan) -> dict[str, Any]:
        attributes = span.attributes
        if not attributes or MEASURED in attributes:  # nothing to read, or done before by a second exporter's
            return {}
        reading = read_span(record_of(span), self._context)
        added = _split(reading, attributes) if reading.kind is Operation.LLM else {}
        if self.strip_content:
            added |= _tool(reading.tool) | _failure(reading.failure)
        return added


def _split(reading: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    content = reading.content
    if content is None or not len(content) or reading.content_is_delta:
        return {}
    weights = content.consumer_weights()
    added: dict[str, Any] = {MEASURED: list(weights)}
    total, _ = resolve_input(reading.usage, content_tokens=_spoken(content))
    if total is None or not sum(weights) or any(name in attributes for name in _NAMES):
        return added
    calls = BlockKind.TOOL_ARGUMENTS in content.kinds or BlockKind.TOOL_RESULT in content.kinds
    if weights[0] > 0 and (weights[1] > 0 or not calls):  # else a part of the head is hidden, and no share is right
        added.update(zip(_NAMES, apportion(total, weights), strict=True))
    return added


def _tool(tool: ToolUse | None) -> dict[str, Any]:
    """What repetition is judged by, when the arguments themselves are cut."""
    if tool is None:
        return {}
    found = {"arguments_key": tool.arguments, "result_key": tool.result}
    added: dict[str, Any] = {f"lowwater.tool.{name}": f"{value:016x}" for name, value in found.items() if value}
    if tool.retriever:
        added["lowwater.tool.retriever"] = True
    if tool.result_tokens is not None:
        added["lowwater.tool.result_tokens"] = tool.result_tokens
    return added


def _failure(failure: Failure | None) -> dict[str, Any]:
    """What a refusal is classified by, when its message is cut."""
    if failure is None:
        return {}
    found = {
        "status": failure.status,
        "code": word_of(failure.code),
        "signals": list(failure.signals) or None,
        "retry_after_seconds": failure.retry_after_seconds,
        "upstream": failure.upstream or None,
    }
    return {f"lowwater.failure.{name}": value for name, value in found.items() if value is not None}


def _spoken(content: Content) -> int:
    return sum(weight for kind, weight, *_ in content.blocks() if kind is not BlockKind.TOOL_SCHEMA)


def _kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if not is_content(key) and _is_short(value)}


def _is_short(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return len(value) <= MAX_TEXT_CHARACTERS
    if isinstance(value, (tuple, list)):
        return all(_is_short(each) for each in value)
    return not isinstance(value, Mapping)


def _bare(span: ReadableSpan, attributes: Mapping[str, Any], events: Any) -> ReadableSpan:
    # A status is described by an exception's message, and that by what the provider or a tool was given.
    return _Enriched(span, attributes, events, Status(span.status.status_code))


def _events_without_content(span: ReadableSpan) -> tuple[Event, ...]:
    return tuple(Event(event.name, _kept(event.attributes or {}), event.timestamp) for event in span.events)


class _Enriched(ReadableSpan):
    """A span with other attributes and events; all else is the original's."""

    def __init__(self, span: ReadableSpan, attributes: Mapping[str, Any], events: Any, status: Status) -> None:
        super().__init__(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=events,
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self._counts = (span.dropped_attributes, span.dropped_events, span.dropped_links)

    @property
    def dropped_attributes(self) -> int:
        """What the SDK's limits cost the original."""
        return self._counts[0]

    @property
    def dropped_events(self) -> int:
        """As `dropped_attributes`."""
        return self._counts[1]

    @property
    def dropped_links(self) -> int:
        """As `dropped_attributes`."""
        return self._counts[2]
