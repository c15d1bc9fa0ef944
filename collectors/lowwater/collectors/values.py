"""Values as traces hold them: JSON in strings, OTLP's typed wrappers, numbers as text.

A value that is not what it should be is refused or passed on unchanged, never an error: attribute values are truncated
by size limits and written by anybody.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "MAX_TOKENS",
    "canonical",
    "count",
    "first",
    "is_index",
    "is_withheld",
    "load_json",
    "name_of",
    "text_of",
    "unwrap",
    "word_of",
]

MAX_TOKENS = 1 << 40
"""Counts above this are refused as absurd; the largest window in use is below 2**24."""

_ABSENT = frozenset({"", "null", "None", "undefined"})

_MAX_DEPTH = 32

_MAX_NAME_CHARACTERS = 512
"""Names and ids are shorter; a longer one is told apart by its digest, so that no table holds it."""

_WORD = re.compile(r"[A-Za-z][\w.:-]{0,39}", re.ASCII)


def count(value: Any) -> int | None:
    """A token count out of whatever a trace holds: int, integral float or decimal string, 0 .. `MAX_TOKENS`.

    Anything else is no count: negative, fractional, infinite and absurd numbers are refused.

    >>> count("4530"), count(12.0), count(-3), count(True), count("null")
    (4530, 12, None, None, None)
    """
    number: int | None = None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        number = value
    elif isinstance(value, float):
        number = int(value) if math.isfinite(value) and value == int(value) else None
    elif isinstance(value, str):
        digits = value.strip()
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
    return number if number is not None and 0 <= number <= MAX_TOKENS else None


def first(attributes: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these attributes that is present and not None."""
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


_WITHHELD = frozenset({"[redacted]", "<redacted>", "__redacted__", "redacted"})
_MAX_WITHHELD_CHARACTERS = 12


def is_withheld(value: Any) -> bool:
    """Whether a text only says that a text was here: emitters write a mark where content is not to be captured.

    >>> is_withheld("[REDACTED]"), is_withheld("password: [REDACTED]"), is_withheld(None)
    (True, False, False)
    """
    return isinstance(value, str) and len(value) <= _MAX_WITHHELD_CHARACTERS and value.lower() in _WITHHELD


def is_index(part: str) -> bool:
    """Whether a dotted part of an attribute's name is a position, ``7`` in ``gen_ai.prompt.7.role``."""
    return part.isascii() and part.isdigit() and len(part) < 7


def text_of(value: Any) -> str | None:
    """A non-empty string, or None. Numbers become text; ``"null"`` and ``"None"`` are absent.

    >>> text_of("x"), text_of(7), text_of("null"), text_of(["x"])
    ('x', '7', None, None)
    """
    if isinstance(value, str):
        return None if value in _ABSENT else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def word_of(value: Any) -> str | None:
    """One word of up to 40 ASCII letters, digits and ``_.:-``, as vocabularies have them; a sentence might be content.

    >>> word_of("auto"), word_of("user said: no"), word_of(7)
    ('auto', None, None)
    """
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value not in _ABSENT else None


def name_of(text: str) -> str:
    r"""A name or id that can be written and kept: lone surrogates replaced, and a digest of what is too long.

    >>> name_of("agent-7"), name_of("\ud800"), len(name_of("x" * 100_000))
    ('agent-7', '?', 64)
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # JSON can escape a surrogate that no encoding can write
    return text if len(text) <= _MAX_NAME_CHARACTERS else hashlib.sha256(text.encode()).hexdigest()


def load_json(value: Any) -> Any:
    """Parse a JSON string; a value that is no string, or no JSON document, comes back unchanged."""
    if not isinstance(value, str) or value[:1] not in ("[", "{", '"') or len(value) < 2:
        stripped = value.lstrip()[:1] if isinstance(value, str) else ""
        if stripped not in ("[", "{"):
            return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def unwrap(value: Any, depth: int = 0) -> Any:
    """OTLP's typed values (``{"stringValue": ..}``, ``{"arrayValue": {"values": [..]}}``) as plain ones."""
    if depth > _MAX_DEPTH or not isinstance(value, dict) or len(value) != 1:
        return value
    (name, inner), *_ = value.items()
    if name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        return inner
    if name == "intValue":
        return count(inner) if count(inner) is not None else inner
    if name == "arrayValue":
        return unwrap(inner, depth + 1) if inner else []
    if name == "values" and isinstance(inner, list):
        return [unwrap(item, depth + 1) for item in inner]
    if name == "kvlistValue" and isinstance(inner, Mapping):
        pairs = inner.get("values", ())
        return {item.get("key"): unwrap(item.get("value"), depth + 1) for item in pairs if isinstance(item, Mapping)}
    return value


def canonical(value: Any) -> str:
    """One text for equal values: JSON parsed, keys sorted, spaces gone. Text that is no JSON is stripped.

    >>> canonical('{"b": 1, "a": 2}') == canonical({"a": 2, "b": 1})
    True
    """
    value = unwrap(load_json(value))
    if isinstance(value, str):
        return value.strip()
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        return repr(type(value))
