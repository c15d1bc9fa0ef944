"""Values as traces hold them: JSON in strings, OTLP's typed wrappers, numbers as text.

A value that is not what it should be is refused or passed on unchanged, never an error: attribute values are truncated
by size limits and written by anybody.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_TOKENS", "canonical", "count", "first", "load_json", "text_of", "unwrap"]

MAX_TOKENS = 1 << 40
"""Counts above this are refused as absurd; the largest window in use is below 2**24."""

_ABSENT = frozenset({"", "null", "None", "undefined"})

_MAX_DEPTH = 32


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
