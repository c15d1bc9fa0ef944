"""Compaction in all its spellings: spans, span events and log records become one record.

Sources are named beside each marker. ``gen_ai.conversation.compacted`` and compaction blocks inside messages are read by
`gen_ai` and by the message reader, what Anthropic does on the server by `anthropic`; a falling input alone is no marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import Keys, TableDialect
from lowwater.collectors.reading import Compaction, Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, first, load_json, text_of, word_of

__all__ = ["DIALECT", "MARKERS", "Marker"]

_OPERATION = "gen_ai.operation.name"


@dataclass(frozen=True, slots=True)
class Marker:
    """How one emitter announces a compaction.

    Attributes:
        source: who emits it; the public name of the marker.
        names: names of the span, span event or log record.
        keys: or attributes of which one marks it.
        value: what the value of such an attribute begins with, lower case.
        before, after, window: keys of token counts; one that ends in ``.`` sums the categories below it.
        trigger: keys of what started it.
        outcome: keys of the outcome; booleans and words are understood.
        unmet: what a false outcome means.
        fixed_outcome: the outcome where the name alone tells it.
        milliseconds: keys of the duration.
        own: the span is the compaction; otherwise it is the LLM call that writes the summary.
    """

    source: str
    names: Keys = ()
    keys: Keys = ()
    value: str = ""
    before: Keys = ()
    after: Keys = ()
    window: Keys = ()
    trigger: Keys = ()
    outcome: Keys = ()
    unmet: str = "failure"
    fixed_outcome: str | None = None
    milliseconds: Keys = ()
    own: bool = True

    def matches(self, name: str, attributes: Mapping[str, Any]) -> bool:
        """Whether a span, event or record of this name is the marker."""
        if name in self.names:
            return True
        return any(
            str(attributes.get(key) or "").lower().startswith(self.value) for key in self.keys if key in attributes
        )


def _run_metadata(name: str) -> Keys:
    """Where LangChain's run metadata goes: LangSmith's, Traceloop's and Langfuse's spellings, and the bare one."""
    return (f"langsmith.metadata.{name}", f"traceloop.association.properties.{name}",
            f"langfuse.observation.metadata.{name}", f"metadata.{name}", name)  # fmt: skip


MARKERS: tuple[Marker, ...] = (
    Marker("google-adk", names=("compact_events",), keys=(_OPERATION,), value="compact_events",
           trigger=("gen_ai.compaction.trigger",)),
    Marker("agent-framework", names=("compaction.compact",), before=("compaction.before.tokens",),
           after=("compaction.after.tokens",), trigger=("compaction.strategy",),
           outcome=("compaction.compacted", "compaction.triggered"), unmet="no_op"),
    Marker("pydantic-ai-harness", names=("compact_messages",), before=("compaction.tokens_before",),
           after=("compaction.tokens_after",), trigger=("compaction.strategy",)),
    Marker("redpanda", names=("redpanda.compaction",), before=("redpanda.compaction.before.total_tokens",
           "redpanda.compaction.before.tokens", "redpanda.compaction.before."),
           after=("redpanda.compaction.after.total_tokens", "redpanda.compaction.after.tokens",
           "redpanda.compaction.after.")),
    Marker("claude-code", names=("claude_code.compaction",), before=("pre_tokens",), after=("post_tokens",),
           trigger=("trigger",), outcome=("success",), milliseconds=("duration_ms",)),
    Marker("gemini-cli", names=("gemini_cli.chat_compression",), before=("tokens_before",), after=("tokens_after",)),
    Marker("qwen-code", names=("qwen-code.chat_compression",), before=("tokens_before",), after=("tokens_after",)),
    Marker("openlit", names=("coding_agent.session.compact",), before=("coding_agent.compact.tokens_before",
           "tokens_before"), after=("coding_agent.compact.tokens_after", "tokens_after"),
           trigger=("coding_agent.compact.trigger", "trigger")),
    Marker("pi", keys=("pi.call_kind",), value="compaction", before=("pi.tokens_before",), after=("pi.tokens_after",),
           trigger=("pi.compaction.reason",), own=False),
    Marker("oh-my-pi", keys=("pi.gen_ai.oneshot.kind",), value="compaction", before=("pi.tokens_before",), own=False),
    Marker("openclaw", names=("openclaw.compaction",), before=("openclaw.compaction.tokens_before", "tokens_before"),
           after=("openclaw.compaction.tokens_after", "tokens_after"), trigger=("openclaw.compaction.reason", "reason"),
           milliseconds=("openclaw.compaction.duration_ms", "duration_ms")),
    Marker("cline", names=("task.compaction_executed",), before=("beforeTokens", "tokensBefore", "before"),
           after=("afterTokens", "tokensAfter", "after"), window=("maxInputTokens",), trigger=("mode", "strategy"),
           milliseconds=("durationMs",)),
    Marker("cline", names=("task.compaction_skipped",), before=("beforeTokens", "tokensBefore", "before"),
           window=("maxInputTokens",), trigger=("mode", "strategy"), fixed_outcome="no_op"),
    Marker("langchain", keys=_run_metadata("lc_source"), value="summarization", own=False),
    Marker("langsmith", keys=_run_metadata("ls_agent_type"), value="compaction", own=False),
)  # fmt: skip
"""Every marker that is known, and what it says. Several share key names; the marker decides whose they are."""

_KEYED = frozenset(key for marker in MARKERS for key in marker.keys if key != _OPERATION)
_NAMES = frozenset(name for marker in MARKERS for name in marker.names)
_NO_CATEGORIES = ("messages", "groups", "total", "count")


def _find(name: str, attributes: Mapping[str, Any]) -> Marker | None:
    # ADK for Go appends the trigger to the span's name.
    name = "compact_events" if name.startswith("compact_events ") else name
    return next((marker for marker in MARKERS if marker.matches(name, attributes)), None)


def _in_metadata(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenInference writes LangChain's run metadata as one JSON attribute; its names count like the others."""
    text = attributes.get("metadata")
    if not isinstance(text, str) or ("lc_source" not in text and "ls_agent_type" not in text):
        return attributes
    parsed = load_json(text)
    return {**parsed, **attributes} if isinstance(parsed, dict) else attributes


def _record(marker: Marker, name: str, attributes: Mapping[str, Any], seconds: float | None) -> Compaction:
    milliseconds = _number(first(attributes, *marker.milliseconds))
    outcome = marker.fixed_outcome or _outcome(marker, attributes)
    before, after = _tokens(attributes, marker.before), _tokens(attributes, marker.after)
    if outcome == "success" and before and after and after >= before:
        outcome = "no_op"
    return Compaction(
        before_tokens=before or None,
        after_tokens=after if outcome != "failure" else None,
        window_tokens=_tokens(attributes, marker.window) or None,
        trigger=word_of(first(attributes, *marker.trigger)) or word_of(name.partition("compact_events ")[2]),
        outcome=outcome,
        duration_seconds=seconds if milliseconds is None else milliseconds / 1000,
        source=marker.source,
    )


def _tokens(attributes: Mapping[str, Any], keys: Keys) -> int | None:
    """The first of the counts that is stated, or the sum of the categories below a prefix."""
    for key in keys:
        if not key.endswith("."):
            if attributes.get(key) is not None:
                return count(attributes[key])
            continue
        parts = [
            count(value)
            for name, value in attributes.items()
            if name.startswith(key) and not any(word in name[len(key) :] for word in _NO_CATEGORIES)
        ]
        if parts:
            return None if None in parts else sum(part or 0 for part in parts)
    return None


def _outcome(marker: Marker, attributes: Mapping[str, Any]) -> str:
    value = first(attributes, *marker.outcome)
    word = str(value).lower()
    if word in ("no_op", "noop", "skipped"):
        return "no_op"
    if word in ("failure", "failed", "error") or (value is None and attributes.get("error")):
        return "failure"
    return marker.unmet if word in ("false", "0") else "success"


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < 1e9 else None


def _kind(span: SpanRecord) -> Operation | None:
    marker = _find(span.name, span.attributes)
    return Operation.COMPACTION if marker is not None and marker.own else None


def _span(span: SpanRecord, draft: Draft) -> None:
    attributes = _in_metadata(span.attributes)
    marker = _find(span.name, attributes)
    seconds = max(0, span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    # A chain inherits the metadata of the call below it: only the call is the summariser.
    if marker is not None and (marker.own or draft.reading.kind is Operation.LLM):
        found = _record(marker, span.name, attributes, seconds if marker.own else None)
        if span.status_code == "error":
            found.outcome, found.after_tokens = "failure", None
        draft.set("compaction", found)
    for event in span.events:
        marker = _find(event.name, event.attributes)
        if marker is not None and marker.own:
            draft.set("compaction", _record(marker, event.name, event.attributes, None))
    if draft.reading.kind is Operation.LLM and _ended_in_compaction(span):
        draft.set("compacted", True)


def _ended_in_compaction(span: SpanRecord) -> bool:
    """The finish reason ``compaction`` of semantic-conventions-genai#162."""
    reasons = span.attributes.get("gen_ai.response.finish_reasons")
    if reasons is None or "compaction" not in str(reasons):
        return False
    parsed = load_json(reasons)
    return "compaction" in parsed if isinstance(parsed, list | tuple) else str(parsed) == "compaction"


def _log(record: LogRecord, draft: Draft) -> bool:
    attributes = {**record.attributes, **(record.body if isinstance(record.body, Mapping) else {})}
    # Claude Code puts the full name into the body and a short one into ``event.name``.
    for name in (record.event_name, record.body):
        marker = _find(name, {}) if isinstance(name, str) else None
        if marker is not None:
            draft.set("compaction", _record(marker, str(name), attributes, None))
            draft.set("parent_span_id", record.span_id)
            draft.set(
                "conversation", text_of(first(attributes, "session.id", "gen_ai.conversation.id", "conversation.id"))
            )
            draft.set("model", text_of(first(attributes, "model", "gen_ai.request.model")))
            return True
    return False


@dataclass(frozen=True, slots=True)
class _CompactionDialect(TableDialect):
    """Matches by name as well: most of these markers are names of spans and events."""

    def matches(self, span: SpanRecord) -> bool:
        attributes = span.attributes
        if span.name in _NAMES or span.name.startswith("compact_events "):
            return True
        # Nearly every span has an operation: its value is looked at before the markers are gone through.
        marked = not _KEYED.isdisjoint(attributes) or str(attributes.get(_OPERATION) or "").startswith("compact_")
        if marked and _find(span.name, attributes) is not None:
            return True
        if any(event.name in _NAMES for event in span.events):
            return True
        metadata = _in_metadata(attributes)
        if metadata is not attributes and _find(span.name, metadata) is not None:
            return True
        return _ended_in_compaction(span)


DIALECT = _CompactionDialect(
    name="compaction", versions="as named beside each marker", odd_kinds=_kind, spans=_span, logs=_log
)
