"""lowwater's own attributes: what operators declare, on spans or through baggage, and announced compactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Compaction
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import count, text_of

__all__ = ["COUNTS", "DIALECT", "SECONDS", "TEXTS"]

COUNTS = frozenset(
    {
        "working_set.required_tokens", "working_set.floor_tokens",
        "context.ceiling_tokens", "context.working_tokens", "context.retrieval_tokens", "context.scratchpad_tokens",
        "context.residual_tokens",
        "reserved.system_tokens", "reserved.tools_tokens", "reserved.output_tokens", "reserved.retry_tokens",
        "reserved.staging_tokens", "scratchpad.reservation_tokens",
        "pool.ceiling_tokens", "pool.parent_reserve_tokens", "pool.synthesis_reserve_tokens", "pool.planned_width",
        "subagent.content_budget_tokens", "subagent.reserved_tokens",
    }
)  # fmt: skip
"""Declared counts, by the part of the attribute's name after ``lowwater.``."""

SECONDS = frozenset({"turn.slo_seconds", "scheduler.tick_seconds"})
TEXTS = frozenset({"pool.id", "pool.measure"})

_PREFIX = "lowwater."
_EVENT = "lowwater.compaction"


def _span(span: SpanRecord, draft: Draft) -> None:
    for key, value in span.attributes.items():
        if key.startswith(_PREFIX):
            declared = _declared(key[len(_PREFIX) :], value)
            if declared is not None:
                draft.reading.declared.setdefault(key[len(_PREFIX) :], declared)
            elif not key.startswith(_EVENT):
                draft.context.refuse("lowwater_attribute_refused")
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
