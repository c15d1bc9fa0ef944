"""Compaction in all its spellings: spans, span events and log records become one record.

Sources are named beside each marker. ``gen_ai.conversation.compacted`` and compaction blocks inside messages are read by
`gen_ai` and by the message reader; a falling input alone is no marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import Keys, TableDialect
from lowwater.collectors.reading import Compaction, Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, first, load_json, text_of

__all__ = ["DIALECT", "MARKERS", "Marker"]


@dataclass(frozen=True, slots=True)
class Marker:
    """How one emitter announces a compaction.

    Attributes:
        source: who emits it; the public name of the marker.
        names: names of the span, span event or log record; a name ending in ``*`` is a prefix.
        key: or an attribute that marks it, with the value it must have (None: any true value).
        before, after, window: keys of token counts.
        trigger: keys of what started it.
        outcome: keys of the outcome; booleans and words are understood.
        seconds, milliseconds: keys of the duration.
        own: the span is the compaction; otherwise it is a call that did one.
    """

    source: str
    names: Keys = ()
    key: tuple[str, str | None] | None = None
    before: Keys = ()
    after: Keys = ()
    window: Keys = ()
    trigger: Keys = ()
    outcome: Keys = ()
    seconds: Keys = ()
    milliseconds: Keys = ()
    own: bool = True
    fixed_outcome: str | None = None

    def matches(self, name: str, attributes: Mapping[str, Any]) -> bool:
        """Whether a span, event or record of this name is the marker."""
        for known in self.names:
            if name == known or (known.endswith("*") and name.startswith(known[:-1])):
                return True
        if self.key is None:
            return False
        value = attributes.get(self.key[0])
        if self.key[1] is None:
            return value not in (None, False, "", "false", 0)
        return str(value).lower().startswith(self.key[1])


MARKERS: tuple[Marker, ...] = (
    Marker("google-adk", names=("compact_events", "compact_events *"), key=("gen_ai.operation.name", "compact_events"),
           trigger=("gen_ai.compaction.trigger",)),
    Marker("agent-framework", names=("compaction.compact",), before=("compaction.before.tokens",),
           after=("compaction.after.tokens",), trigger=("compaction.triggered",), outcome=("compaction.compacted",)),
    Marker("pydantic-ai-harness", names=("compact_messages",), before=("compaction.tokens_before",),
           after=("compaction.tokens_after",), trigger=("compaction.strategy",)),
    Marker("redpanda", names=("redpanda.compaction",), before=("redpanda.compaction.before.total_tokens",
           "redpanda.compaction.before.tokens"), after=("redpanda.compaction.after.total_tokens",
           "redpanda.compaction.after.tokens")),
    Marker("claude-code", names=("claude_code.compaction",), before=("pre_tokens",), after=("post_tokens",),
           trigger=("trigger",), outcome=("success",), milliseconds=("duration_ms",)),
    Marker("gemini-cli", names=("gemini_cli.chat_compression",), before=("tokens_before",), after=("tokens_after",)),
    Marker("qwen-code", names=("qwen-code.chat_compression",), before=("tokens_before",), after=("tokens_after",)),
    Marker("openlit", names=("coding_agent.session.compact",), before=("coding_agent.compact.tokens_before",
           "tokens_before"), after=("coding_agent.compact.tokens_after", "tokens_after"),
           trigger=("coding_agent.compact.trigger", "trigger")),
    Marker("pi", key=("pi.call_kind", "compaction"), before=("pi.tokens_before",), after=("pi.tokens_after",),
           trigger=("pi.compaction.reason",), own=False),
    Marker("oh-my-pi", key=("pi.gen_ai.oneshot.kind", "compaction"), before=("pi.tokens_before",), own=False),
    Marker("openclaw", names=("openclaw.compaction",), before=("openclaw.compaction.tokens_before", "tokens_before"),
           after=("openclaw.compaction.tokens_after", "tokens_after"), trigger=("openclaw.compaction.reason", "reason"),
           milliseconds=("openclaw.compaction.duration_ms", "duration_ms")),
    Marker("cline", names=("task.compaction_executed",), before=("beforeTokens", "before_tokens"),
           after=("afterTokens", "after_tokens"), window=("maxInputTokens",), trigger=("mode", "strategy"),
           milliseconds=("durationMs",)),
    Marker("cline", names=("task.compaction_skipped",), before=("beforeTokens", "before_tokens"),
           window=("maxInputTokens",), trigger=("mode", "strategy"), fixed_outcome="no_op"),
    Marker("langchain", key=("langsmith.metadata.lc_source", "summarization"), own=False),
    Marker("langchain", key=("lc_source", "summarization"), own=False),
    Marker("langsmith", key=("langsmith.metadata.ls_agent_type", "compaction"), own=False),
    Marker("traceloop-langchain", key=("traceloop.association.properties.lc_source", "summarization"), own=False),
)  # fmt: skip
"""Every marker that is known, and what it says. Several share key names; the marker decides whose they are."""

_KEYED = frozenset(marker.key[0] for marker in MARKERS if marker.key is not None)
_NAMES = frozenset(name.rstrip("*") for marker in MARKERS for name in marker.names)


def _find(name: str, attributes: Mapping[str, Any]) -> Marker | None:
    return next((marker for marker in MARKERS if marker.matches(name, attributes)), None)


def _record(marker: Marker, attributes: Mapping[str, Any], seconds: float | None) -> Compaction:
    duration = _number(first(attributes, *marker.seconds))
    if duration is None:
        milliseconds = _number(first(attributes, *marker.milliseconds))
        duration = seconds if milliseconds is None else milliseconds / 1000
    outcome = marker.fixed_outcome or _outcome(first(attributes, *marker.outcome), attributes)
    before, after = count(first(attributes, *marker.before)), count(first(attributes, *marker.after))
    if outcome == "success" and before and after and after >= before:
        outcome = "no_op"
    return Compaction(
        before_tokens=before or None,
        after_tokens=after if outcome != "failure" else None,
        window_tokens=count(first(attributes, *marker.window)) or None,
        trigger=_word(first(attributes, *marker.trigger)),
        outcome=outcome,
        duration_seconds=duration,
        source=marker.source,
    )


def _outcome(value: Any, attributes: Mapping[str, Any]) -> str:
    word = str(value).lower()
    if word in ("false", "failure", "failed", "error") or (value is None and attributes.get("error")):
        return "failure"
    return "no_op" if word in ("no_op", "noop", "skipped") else "success"


def _word(value: Any) -> str | None:
    text = text_of(value) if not isinstance(value, bool) else None
    return text[:40] if text is not None and " " not in text[:40] else None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e9 else None


def _kind(span: SpanRecord) -> Operation | None:
    marker = _find(span.name, span.attributes)
    return Operation.COMPACTION if marker is not None and marker.own else None


def _span(span: SpanRecord, draft: Draft) -> None:
    marker = _find(span.name, span.attributes)
    seconds = max(0, span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    if marker is not None:
        found = _record(marker, span.attributes, seconds if marker.own else None)
        if span.status_code == "error":
            found.outcome, found.after_tokens = "failure", None
        draft.set("compaction", found)
    for event in span.events:
        marker = _find(event.name, event.attributes)
        if marker is not None:
            draft.set("compaction", _record(marker, event.attributes, None))
    _anthropic(span, draft)


def _anthropic(span: SpanRecord, draft: Draft) -> None:
    """Server-side compaction, where a span carries Anthropic's usage as JSON: it is told by the iterations only."""
    usage = load_json(first(span.attributes, "anthropic.usage", "gen_ai.response.usage", "gen_ai.usage.raw"))
    iterations = (
        usage.get("iterations")
        if isinstance(usage, Mapping)
        else load_json(span.attributes.get("gen_ai.usage.iterations"))
    )
    for item in iterations if isinstance(iterations, list) else ():
        if isinstance(item, Mapping) and item.get("type") == "compaction":
            draft.set(
                "compaction", Compaction(before_tokens=count(item.get("input_tokens")), source="usage.iterations")
            )


def _log(record: LogRecord, draft: Draft) -> bool:
    attributes = {**record.attributes, **(record.body if isinstance(record.body, Mapping) else {})}
    marker = _find(record.event_name, attributes)
    if marker is None:
        return False
    draft.set("compaction", _record(marker, attributes, None))
    draft.set("conversation", text_of(first(attributes, "session.id", "gen_ai.conversation.id", "conversation.id")))
    draft.set("model", text_of(first(attributes, "model", "gen_ai.request.model")))
    return True


@dataclass(frozen=True, slots=True)
class _CompactionDialect(TableDialect):
    """Matches by name as well: most of these markers are names of spans and events."""

    def matches(self, span: SpanRecord) -> bool:
        if span.name in _NAMES or span.name.startswith("compact_events") or not _KEYED.isdisjoint(span.attributes):
            return _find(span.name, span.attributes) is not None
        return any(event.name in _NAMES for event in span.events) or "anthropic.usage" in span.attributes


DIALECT = _CompactionDialect(
    name="compaction", versions="as named beside each marker", odd_kinds=_kind, spans=_span, logs=_log
)
