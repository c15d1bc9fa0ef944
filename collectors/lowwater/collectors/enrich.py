"""What lowwater adds to a span on its way out of the agent's process: tokens by consumer, counted before content is cut.

The SDK freezes a span's attributes before any end hook runs, so a new read-only span goes on in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status

from lowwater.collectors.names import MEASURED
from lowwater.collectors.retrievers import DEFAULT_RETRIEVERS

if TYPE_CHECKING:
    from lowwater.collectors.measure import Measure

__all__ = ["MAX_TEXT_CHARACTERS", "Enricher", "SpanCopy", "is_content"]

MAX_TEXT_CHARACTERS = 256
"""With content cut, a longer text of any attribute goes, too: nobody can list all keys that hold content."""

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


_CONTENT, _MARK = 1, 2
_MAX_KEYS = 8_192
"""Keys remembered; instrumentations write a few hundred."""
_NOTHING: Mapping[str, Any] = {}


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
        strip_content: cut content: attributes and events that hold it, and texts beyond `MAX_TEXT_CHARACTERS`.
        hash_key: of keyed hashes; one is made for the process where it is None.
        retrievers: glob patterns of names of tools that fetch from a store, beside the usual ones.

    Attributes:
        failed: spans that went on as they were, because lowwater could not read them.
    """

    def __init__(
        self, *, strip_content: bool = False, hash_key: bytes | None = None, retrievers: tuple[str, ...] = ()
    ) -> None:
        self.strip_content = strip_content
        self.failed = 0
        self._options = (hash_key, (*DEFAULT_RETRIEVERS, *retrievers))
        self._measure: Measure | None = None
        self._flags: dict[str, int] = {}

    def __call__(self, span: ReadableSpan) -> ReadableSpan:
        """The span with what is known added, the same object where there is nothing to add. Never raises."""
        try:
            added = self._added(span)
            if self.strip_content:
                return _bare(span, {**_kept(span.attributes or {}), **added}, _events_without_content(span))
            return SpanCopy(span, attributes={**(span.attributes or {}), **added}) if added else span
        except Exception:
            self.failed += 1
            # What could not be read cannot be cut, either: without a promise it goes on, with one only its shell does.
            return _bare(span, {}, ()) if self.strip_content else span

    def _added(self, span: ReadableSpan) -> Mapping[str, Any]:
        attributes = span.attributes
        if not attributes:
            return _NOTHING
        flags = _CONTENT if span.events else 0
        known = self._flags
        for key in attributes:
            flags |= known[key] if key in known else self._flags_of(key)
        # Most spans are no calls of models, and most calls carry no content: those cost a look at their keys.
        if not (flags & _CONTENT or self.strip_content) or MEASURED in attributes:
            return _NOTHING
        measure = self._measure
        if measure is None:
            measure = self._measure = _load(*self._options)
            known.clear()  # of which keys are marks is known from here on
        scope = span.instrumentation_scope
        if not flags & _MARK and not measure.is_marked(scope.name if scope is not None else ""):
            return _NOTHING
        return measure(span, whole=self.strip_content)

    def _flags_of(self, key: str) -> int:
        if len(self._flags) >= _MAX_KEYS:
            self._flags.clear()
        flags = _CONTENT if is_content(key) else 0
        if self._measure is None or self._measure.is_mark(key):
            flags |= _MARK
        self._flags[key] = flags
        return flags


def _load(hash_key: bytes | None, retrievers: tuple[str, ...]) -> Measure:
    """Dialects are loaded by the thread that exports, when the first content comes: an agent starts without them."""
    from lowwater.collectors.measure import Measure  # noqa: PLC0415 - see above

    return Measure(hash_key, retrievers)


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
    return SpanCopy(span, attributes=attributes, events=events, status=Status(span.status.status_code))


def _events_without_content(span: ReadableSpan) -> tuple[Event, ...]:
    return tuple(Event(event.name, _kept(event.attributes or {}), event.timestamp) for event in span.events)


class SpanCopy(ReadableSpan):
    """A new read-only span that is the given one, but for the arguments of `ReadableSpan` that are given."""

    def __init__(self, span: ReadableSpan, **changed: Any) -> None:
        arguments: dict[str, Any] = {
            "name": span.name,
            "context": span.get_span_context(),
            "parent": span.parent,
            "resource": span.resource,
            "attributes": span.attributes,
            "events": span.events,
            "links": span.links,
            "kind": span.kind,
            "status": span.status,
            "start_time": span.start_time,
            "end_time": span.end_time,
            "instrumentation_scope": span.instrumentation_scope,
            **changed,
        }
        super().__init__(**arguments)
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
