"""Spans and log records to readings: every dialect that matches reads, in order of trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowwater.collectors.dialects import Dialect, Draft, ReadContext, load_dialects
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.failures import span_failure
from lowwater.collectors.reading import Operation, Reading
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import text_of

__all__ = ["read_log", "read_span"]


def read_span(span: SpanRecord, context: ReadContext, dialects: Sequence[Dialect] | None = None) -> Reading:
    """Read a span. A span that speaks no dialect gives a plain reading: its place among the others still counts.

    Args:
        span: not kept.
        context: hash, retriever names, counts of what was refused.
        dialects: in order of trust; all built-in and installed ones by default.
    """
    reading = Reading(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id or None,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        name=span.name[:200],
        scope=span.scope_name,
        scope_version=span.scope_version,
        service=_service(span.resource),
    )
    if not span.attributes and not span.events and not span.scope_name:
        return reading
    draft = Draft(reading, context)
    matching = _matching(span, context) if dialects is None else _that_match(dialects, span, context)
    if not matching:
        return reading
    # What the span is comes first: the dialect that knows is not always the one that has the numbers.
    for dialect in matching:
        draft.set("kind", _guarded(dialect, dialect.kind_of, context, span))
    for dialect in matching:
        _guarded(dialect, dialect.read, context, span, draft)
    reading.dialects = tuple(dialect.name for dialect in matching)
    if reading.kind is not Operation.OTHER:
        reading.failure = reading.failure or span_failure(span)
    return reading


def read_log(record: LogRecord, context: ReadContext, dialects: Sequence[Dialect] | None = None) -> Reading | None:
    """Read a log record, or None if no dialect knows it.

    A record of a span is joined to it; a compaction that belongs to none stands for itself.
    """
    reading = Reading(
        trace_id=record.trace_id,
        span_id=record.span_id,
        end_ns=record.time_unix_nano,
        start_ns=record.time_unix_nano,
        name=record.event_name[:200],
        scope=record.scope_name,
        scope_version=record.scope_version,
        service=_service(record.resource),
    )
    draft = Draft(reading, context)
    for dialect in load_dialects()[0] if dialects is None else dialects:
        if _guarded(dialect, dialect.read_log, context, record, draft):
            reading.dialects = (dialect.name,)
            if reading.compaction is not None:
                reading.kind = Operation.COMPACTION
                reading.span_id = f"{record.span_id}/{record.event_name}/{record.time_unix_nano}"
            else:
                reading.joins = True
            return reading
    return None


_TABLE: type = TableDialect
_MAX_SHAPES = 4_096
_shapes: dict[int, list[tuple[Dialect, bool]]] = {}
"""Dialects that may match a span of some scope with some set of keys, and whether that is settled by scope and keys alone.
Instrumentations write few such shapes over and over. Only their hashes are kept: keys may be as long as anybody likes."""


def _guarded(dialect: Dialect, method: Callable[..., Any], context: ReadContext, *arguments: Any) -> Any:
    """What a dialect's method returns; None where it fails: one span in one dialect is not worth the agent or the stream.

    Built-in dialects do not fail; plug-ins may.
    """
    try:
        return method(*arguments)
    except Exception:
        context.refuse(f"dialect_failed:{dialect.name}")
        return None


def _that_match(dialects: Sequence[Dialect], span: SpanRecord, context: ReadContext) -> list[Dialect]:
    return [dialect for dialect in dialects if _guarded(dialect, dialect.matches, context, span)]


def _matching(span: SpanRecord, context: ReadContext) -> list[Dialect]:
    shape = hash((span.scope_name, frozenset(span.attributes)))
    candidates = _shapes.get(shape)
    if candidates is None:
        candidates = []
        for dialect in load_dialects()[0]:
            settled = dialect.__class__ is _TABLE
            if not settled or dialect.matches(span):
                candidates.append((dialect, settled))
        if len(_shapes) >= _MAX_SHAPES:
            _shapes.clear()
        _shapes[shape] = candidates
    return [dialect for dialect, settled in candidates if settled or _guarded(dialect, dialect.matches, context, span)]


def _service(resource: Mapping[str, Any]) -> str | None:
    name = text_of(resource.get("service.name"))
    return None if name is None or name.startswith("unknown_service") else name
