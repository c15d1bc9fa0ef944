"""The interface of a dialect, and the draft that dialects fill.

A span may speak several dialects at once (a gateway dual-writes two; an SDK writes an old and a new
one). All dialects that match read it, in order of trust, into one `Draft`; the first to state a
field wins. Numbers are never added across dialects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lowwater.collectors.content import ContentBuilder
from lowwater.collectors.reading import Operation, Reading, Usage
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.tokens import Hasher

__all__ = ["Dialect", "Draft", "ReadContext", "count", "first", "load_json", "text"]


@dataclass(slots=True)
class ReadContext:
    """What dialects need beside the span.

    Attributes:
        hasher: the process's keyed hash.
        is_retriever: whether a tool of this name fetches from a store.
        rejected: counts, by reason, values that were refused (negative, absurd, wrong type).
    """

    hasher: Hasher = field(default_factory=Hasher)
    is_retriever: Callable[[str], bool] = lambda name: False  # noqa: E731 - a default, not a definition
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
                number = value if name == "cache_inclusive" else count(value, self.context)
                setattr(self.reading.usage, name, number)


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

    def read(self, span: SpanRecord, draft: Draft) -> None:
        """Fill what the span states and nobody stated before. Must not keep the span or any text."""

    def read_log(self, record: LogRecord, draft: Draft) -> bool:
        """Read a log record; False if it is not of this dialect."""


MAX_TOKENS = 1 << 40
"""Counts above this are refused as absurd; the largest window in use is below 2**24."""


def count(value: Any, context: ReadContext | None = None) -> int | None:
    """A token count out of whatever a trace holds: int, integral float or decimal string, 0 .. `MAX_TOKENS`.

    Anything else is refused (and counted): a negative, fractional, infinite or absurd number is not a count.

    >>> count("4530"), count(12.0), count(-3), count(True), count("null")
    (4530, 12, None, None, None)
    """
    number: float | int | None = None
    if isinstance(value, bool):
        number = None
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float):
        number = int(value) if math.isfinite(value) and value == int(value) else None
    elif isinstance(value, str):
        stripped = value.strip()
        if stripped.isascii() and stripped.isdigit() and len(stripped) < 16:  # noqa: PLR2004
            number = int(stripped)
    if number is None or not 0 <= number <= MAX_TOKENS:
        if context is not None and value is not None:
            context.refuse("not_a_token_count")
        return None
    return int(number)


def first(attributes: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these attributes that is present and not None."""
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


def text(value: Any) -> str | None:
    """A non-empty string, or None. Numbers and booleans become text; ``"null"`` and ``"None"`` are absent."""
    if isinstance(value, str):
        return None if value in ("", "null", "None", "undefined") else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def load_json(value: Any) -> Any:
    """Parse a JSON string; a value that is no string, or no JSON, comes back unchanged.

    Attribute values are often JSON text, sometimes twice, and truncated by size limits: a value that
    does not parse is not an error.
    """
    if not isinstance(value, str) or not value[:1] in "[{\"" or not value:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
