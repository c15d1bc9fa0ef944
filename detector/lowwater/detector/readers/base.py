"""What a file format is, and how problems in files are reported.

A format turns a document into items: spans and log records for the dialects, or finished readings
where the source is no trace (session logs, recorded provider traffic).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.reading import Reading
from lowwater.collectors.records import LogRecord, SpanRecord

__all__ = ["Document", "Format", "Item", "Problem", "Problems"]

Item = SpanRecord | LogRecord | Reading


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read: where, what, and what to do."""

    file: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.place}: {self.reason}"


@dataclass(slots=True)
class Problems:
    """Collects problems; keeps the first ``limit`` and counts all, so that a broken file cannot fill memory."""

    limit: int = 100
    kept: list[Problem] = field(default_factory=list)
    total: int = 0

    def add(self, file: str, place: str, reason: str) -> None:
        """Count a problem. ``place`` is ``line 12``, ``record 3`` or ``byte 4096``."""
        self.total += 1
        if len(self.kept) < self.limit:
            self.kept.append(Problem(file, place, reason))


class Document(Protocol):
    """One opened input, decompressed."""

    name: str

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number from 1, line without its end); streams."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces; streams."""

    def bytes(self) -> bytes:
        """All bytes. Only for formats that are one document."""

    def json(self) -> Any:
        """The whole document parsed as JSON, parsed once; None if it is not JSON."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        name: the value of ``--format``.
        description: one line for people.
        sniff_line: for JSON-lines formats: whether one parsed line (a dict) looks like it.
        sniff_json: for one-document formats: whether the parsed document looks like it.
        sniff_bytes: for others: whether the first bytes look like it.
        read: yield the items; problems are added, never raised.
    """

    name: str
    description: str
    read: Callable[[Document, ReadContext, Problems], Iterator[Item]]
    sniff_line: Callable[[dict[str, Any]], bool] | None = None
    sniff_json: Callable[[Any], bool] | None = None
    sniff_bytes: Callable[[bytes], bool] | None = None
