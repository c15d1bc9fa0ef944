"""What comes in: spans and log records as plain values, whatever carried them.

Readers of files and receivers make them from OTLP, the span processor from the SDK's spans. Dialects
see nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LogRecord", "SpanEvent", "SpanRecord"]

_EMPTY: Mapping[str, Any] = {}


@dataclass(slots=True)
class SpanEvent:
    """A timed event on a span."""

    name: str
    time_unix_nano: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SpanRecord:
    """One ended span.

    Attributes:
        trace_id: 32 hexadecimal digits, or whatever the source uses to group spans.
        span_id: 16 hexadecimal digits, or the source's own id.
        parent_span_id: None for a root.
        start_time_unix_nano: 0 when unknown.
        end_time_unix_nano: 0 when unknown.
        status_code: ``unset``, ``ok`` or ``error``.
        status_message: text; read for classification and dropped.
        attributes: values are str, bool, int, float, list, dict, bytes or None.
        resource: the resource's attributes.
    """

    trace_id: str
    span_id: str
    name: str = ""
    parent_span_id: str | None = None
    start_time_unix_nano: int = 0
    end_time_unix_nano: int = 0
    status_code: str = "unset"
    status_message: str = ""
    scope_name: str = ""
    scope_version: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    resource: Mapping[str, Any] = field(default_factory=dict)
    _namespaces: frozenset[str] | None = field(default=None, repr=False, compare=False)

    def namespaces(self) -> frozenset[str]:
        """First dotted parts of the attributes' keys; every dialect asks, so they are computed once."""
        known = self._namespaces
        if known is None:
            known = self._namespaces = frozenset([key.partition(".")[0] for key in self.attributes])
        return known


@dataclass(slots=True)
class LogRecord:
    """One log record or event; message content and compaction come this way in some dialects.

    Attributes:
        trace_id: empty when the record belongs to no trace.
        span_id: empty when the record belongs to no span.
        event_name: the event's name, from the field or the older ``event.name`` attribute.
        body: a string, number, list or mapping.
    """

    trace_id: str = ""
    span_id: str = ""
    time_unix_nano: int = 0
    event_name: str = ""
    body: Any = None
    scope_name: str = ""
    scope_version: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
