"""lowwater's own attributes: what operators declare, announced compactions, and what its exporter measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowwater.collectors.consumers import CONSUMERS
from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.names import COUNTS, MEASURED, PREFIX, SECONDS, SPLIT, TEXTS
from lowwater.collectors.reading import Compaction, Failure, ToolUse
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, first, text_of, word_of

__all__ = ["DIALECT"]

_OF_TOOLS, _OF_FAILURES = "lowwater.tool.", "lowwater.failure."
_EVENT = "lowwater.compaction"


def _span(span: SpanRecord, draft: Draft) -> None:
    weights = _weights(span.attributes.get(MEASURED))
    if weights is not None:
        draft.set("weights", weights)
    for key, value in span.attributes.items():
        if key.startswith(PREFIX):
            if key == MEASURED or (weights is not None and key in SPLIT):
                continue
            if key.startswith((_OF_TOOLS, _OF_FAILURES)):
                continue
            declared = _declared(key[len(PREFIX) :], value)
            if declared is not None:
                draft.reading.declared.setdefault(key[len(PREFIX) :], declared)
            elif not key.startswith(_EVENT):
                draft.context.refuse("lowwater_attribute_refused")
    if any(f"{_OF_TOOLS}{name}" in span.attributes for name in ("arguments_key", "result_key")):
        draft.set("tool", _tool(span))
    if f"{_OF_FAILURES}signals" in span.attributes or f"{_OF_FAILURES}status" in span.attributes:
        draft.set("failure", _failure(span))
    for event in span.events:
        if event.name == _EVENT:
            draft.set("compaction", _compaction(event.attributes))


def _log(record: LogRecord, draft: Draft) -> bool:
    if record.event_name != _EVENT:
        return False
    draft.set("compaction", _compaction(record.attributes))
    return True


def _declared(name: str, value: Any) -> int | float | str | None:
    if name in COUNTS:
        return count(value)
    if name in SECONDS:
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            return None
        return seconds if 0 < seconds < 1e9 else None
    return text_of(value) if name in TEXTS else None


def _tool(span: SpanRecord) -> ToolUse:
    """What lowwater's exporter kept of arguments and result when it cut them."""
    attributes = span.attributes
    name = first(attributes, "gen_ai.tool.name", "tool.name", "traceloop.entity.name")
    return ToolUse(
        text_of(name) or span.name[:200],
        arguments=_key(attributes.get(f"{_OF_TOOLS}arguments_key")),
        result=_key(attributes.get(f"{_OF_TOOLS}result_key")),
        result_tokens=count(attributes.get(f"{_OF_TOOLS}result_tokens")),
        retriever=attributes.get(f"{_OF_TOOLS}retriever") is True,
    )


def _key(value: Any) -> int:
    try:
        return int(value, 16) & 0xFFFFFFFFFFFFFFFF
    except (TypeError, ValueError):
        return 0


def _failure(span: SpanRecord) -> Failure:
    attributes = span.attributes
    signals = attributes.get(f"{_OF_FAILURES}signals")
    retry = attributes.get(f"{_OF_FAILURES}retry_after_seconds")
    return Failure(
        type=word_of(text_of(attributes.get("error.type"))),
        status=count(attributes.get(f"{_OF_FAILURES}status")),
        code=word_of(text_of(attributes.get(f"{_OF_FAILURES}code"))),
        signals=tuple(str(each)[:64] for each in signals) if isinstance(signals, (list, tuple)) else (),
        retry_after_seconds=float(retry) if isinstance(retry, (int, float)) and 0 <= retry < 1e9 else None,
        upstream=attributes.get(f"{_OF_FAILURES}upstream") is True,
    )


def _weights(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(CONSUMERS):
        return None
    found = [count(each) for each in value]
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(CONSUMERS) and any(known) else None


def _compaction(attributes: Mapping[str, Any]) -> Compaction:
    plain = {key.removeprefix(f"{_EVENT}."): value for key, value in attributes.items()}
    outcome = text_of(plain.get("outcome")) or "success"
    return Compaction(
        before_tokens=count(plain.get("resident_before_tokens")),
        after_tokens=count(plain.get("resident_after_tokens")),
        window_tokens=count(plain.get("window_tokens")),
        trigger=text_of(plain.get("trigger")),
        outcome=outcome if outcome in ("success", "no_op", "failure", "started") else "success",
        source=_EVENT,
    )


DIALECT = TableDialect(name="lowwater", versions="1", namespaces=frozenset({"lowwater"}), spans=_span, logs=_log)
