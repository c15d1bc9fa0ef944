"""Flat span JSON: a list of span objects, the same under ``spans``, one object per line, or a single span.

Written by evaluation and trace-store tools (strands-evals, LangWatch, and many home-made dumps).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import SpanRecord
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.plain import is_plain_span, plain_span
from lowwater.detector.readers.values import iterate_values

__all__ = ["FORMAT"]


def _spans(value: Any) -> list[Any]:
    """The span objects of a parsed value."""
    if isinstance(value, dict) and isinstance(value.get("spans"), list):
        value = value["spans"]
    return value if isinstance(value, list) else [value]


def _sniff(value: Any) -> bool:
    return any(is_plain_span(item) for item in _spans(value)[:3])


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[SpanRecord]:
    ordinal = 0
    for number, value in iterate_values(document, problems):
        for index, item in enumerate(_spans(value), 1):
            ordinal += 1
            if is_plain_span(item):
                yield plain_span(item, ordinal)
            else:
                problems.add(
                    document.name, f"line {number}, item {index}", "no span: attributes and a name or ids expected"
                )


FORMAT = Format(
    name="flat",
    description='spans as plain JSON objects: a list, under "spans", or one per line',
    read=_read,
    sniff_line=_sniff,
    sniff_json=_sniff,
)
