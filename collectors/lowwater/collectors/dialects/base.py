"""The interface of a dialect, and the draft that dialects fill.

A span may speak several dialects at once (a gateway dual-writes two; an SDK writes an old and a new
one). All dialects that match read it, in order of trust, into one `Draft`; the first to state a
field wins. Numbers are never added across dialects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lowwater.collectors.content import ContentBuilder
from lowwater.collectors.reading import Operation, Reading, Usage
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.tokens import Hasher
from lowwater.collectors.values import count, load_json

__all__ = ["Dialect", "Draft", "ReadContext", "load_json"]


@dataclass(slots=True)
class ReadContext:
    """What dialects need beside the span.

    Attributes:
        hasher: the process's keyed hash.
        is_retriever: whether a tool of this name fetches from a store.
        rejected: counts, by reason, values that were refused (negative, absurd, wrong type).
    """

    hasher: Hasher = field(default_factory=Hasher)
    is_retriever: Callable[[str], bool] = lambda name: False
    rejected: dict[str, int] = field(default_factory=dict)

    def builder(self) -> ContentBuilder:
        """A new content builder with this context's hash and retriever names."""
        return ContentBuilder(self.hasher, self.is_retriever)

    def refuse(self, reason: str) -> None:
        """Count a refused value."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


class Draft:
    """A reading under construction: `set` keeps the first value of a field and ignores later ones."""

    __slots__ = ("context", "dialects", "reading")

    def __init__(self, reading: Reading, context: ReadContext) -> None:
        self.reading = reading
        self.context = context
        self.dialects: list[str] = []

    def set(self, name: str, value: Any) -> None:
        """Set a field of the reading unless it is known already or the value is None or empty text."""
        if value is None or value == "":
            return
        current = getattr(self.reading, name)
        if current is None or current == "" or (name == "kind" and current is Operation.OTHER):
            setattr(self.reading, name, value)

    def usage(self, **values: Any) -> None:
        """Set fields of the usage that are not known already; values that are no token counts are refused."""
        found = {name: value for name, value in values.items() if value is not None}
        if not found:
            return
        if self.reading.usage is None:
            self.reading.usage = Usage()
        for name, value in found.items():
            if getattr(self.reading.usage, name) is None:
                number = value if name == "cache_inclusive" else count(value)
                if number is None:
                    self.context.refuse("not_a_token_count")
                setattr(self.reading.usage, name, number)

    def tokens(self, name: str, value: Any) -> None:
        """Set a field that is a token count; 0 and what is no count stay unknown."""
        if value is not None:
            self.set(name, count(value) or None)


@runtime_checkable
class Dialect(Protocol):
    """One convention of writing LLM spans.

    Attributes:
        name: permanent name, shown by ``lowwater doctor``.
        versions: which versions of the convention or its producer the dialect knows, for people.
    """

    name: str
    versions: str

    def matches(self, span: SpanRecord) -> bool:
        """Whether the span speaks this dialect. Cheap: called for every span."""

    def kind_of(self, span: SpanRecord) -> Operation | None:
        """What the span is, None if the dialect cannot tell. Asked of all dialects before any reads."""

    def read(self, span: SpanRecord, draft: Draft) -> None:
        """Fill what the span states and nobody stated before. Must not keep the span or any text."""

    def read_log(self, record: LogRecord, draft: Draft) -> bool:
        """Read a log record; False if it is not of this dialect."""
