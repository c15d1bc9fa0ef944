"""Which format a file has, by its content, and reading files of any format.

The registry is ordered: where two formats could read a file, the earlier one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.errors import InputError
from lowwater.detector.readers import (
    cassette,
    chat_log,
    claude_code,
    console,
    flat,
    langfuse,
    mini_swe_agent,
    otlp_json,
    otlp_proto,
    pi,
    swe_agent,
)
from lowwater.detector.readers.base import Format, Item, Problems
from lowwater.detector.readers.opening import OpenDocument, expand, open_document
from lowwater.detector.readers.values import iterate_values

__all__ = ["FORMATS", "FORMAT_NAMES", "FileReport", "detect", "format_named", "read_paths"]

FORMATS: tuple[Format, ...] = (
    otlp_json.FORMAT,
    console.FORMAT,
    langfuse.FORMAT,
    pi.FORMAT,
    claude_code.FORMAT,
    mini_swe_agent.FORMAT,
    swe_agent.FORMAT,
    flat.FORMAT,
    chat_log.FORMAT,
    cassette.FORMAT,
    otlp_proto.FORMAT,
)
"""Every known format."""

FORMAT_NAMES: tuple[str, ...] = tuple(entry.name for entry in FORMATS)
"""The values of ``--format``."""

_SAMPLE_VALUES = 20
_SAMPLE_BYTES = 1 << 20
_SAMPLE_BAD_BYTES = 4 << 20
_HEAD_BYTES = 4096


@dataclass(slots=True)
class FileReport:
    """What became of one file.

    Attributes:
        file: its name as given, or ``-``.
        format: the name of its format; None where it is no trace.
        spans: spans read.
        logs: log records read.
        readings: finished readings, from sources that are no traces.
        bytes: bytes read, before decompression.
        problems: things that could not be read.
    """

    file: str
    format: str | None = None
    spans: int = 0
    logs: int = 0
    readings: int = 0
    bytes: int = 0
    problems: int = 0

    @property
    def items(self) -> int:
        """Everything that was read."""
        return self.spans + self.logs + self.readings

    def count(self, item: Item) -> None:
        """Count one item by its type."""
        if isinstance(item, SpanRecord):
            self.spans += 1
        elif isinstance(item, LogRecord):
            self.logs += 1
        else:
            self.readings += 1


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        InputError: there is none; the message lists the names.
    """
    for candidate in FORMATS:
        if candidate.name == name:
            return candidate
    raise InputError(f"no format is called {name!r}; --format takes one of {', '.join(FORMAT_NAMES)}")


def detect(document: OpenDocument, problems: Problems) -> Format | None:
    """The format of a document by its content; None, and a problem, if it is none of the known.

    Consumes nothing. At most a MiB is looked at, or the first value where that is longer.
    """
    head = document.head(_HEAD_BYTES)
    if not head.strip():
        problems.add(document.name, "byte 0", "the file is empty")
        return None
    values: list[Any] = []
    if head.lstrip()[:1] in (b"{", b"["):
        values = _sample(document)
        for candidate in FORMATS:
            if _matches(candidate, values):
                return candidate
    for candidate in FORMATS:
        if candidate.sniff_bytes is not None and candidate.sniff_bytes(head):
            return candidate
    tried = ", ".join(FORMAT_NAMES)
    problems.add(
        document.name,
        "byte 0",
        f"not a trace: {_seen(values, head)} (tried {tried}); if it is one, name it with --format",
    )
    return None


@dataclass(slots=True)
class _Patient:
    """Lines until too much of what was seen is no JSON: a large log file is not read to its end to find out."""

    document: OpenDocument
    problems: Problems
    name: str = ""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        for line in self.document.preview().lines():
            bad = self.problems.total
            if bad >= _SAMPLE_VALUES or (bad and self.document.bytes_kept > _SAMPLE_BAD_BYTES):
                return
            yield line


def _sample(document: OpenDocument) -> list[Any]:
    """The first values of a JSON document; if it is one sound value, the document is primed with it."""
    unreported = Problems()
    values: list[Any] = []
    for _, value in iterate_values(_Patient(document, unreported), unreported):
        values.append(value)
        if len(values) >= _SAMPLE_VALUES or (len(values) > 1 and document.bytes_kept > _SAMPLE_BYTES):
            return values
    if len(values) == 1 and not unreported.total:
        document.prime(values[0])
    return values


def _matches(candidate: Format, values: list[Any]) -> bool:
    try:
        if candidate.sniff_line is not None:
            objects = (value for value in values if isinstance(value, dict))
            if any(candidate.sniff_line(value) for value in objects):
                return True
        return candidate.sniff_json is not None and len(values) == 1 and candidate.sniff_json(values[0])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False  # shaped like nothing that the format expects


def _seen(values: list[Any], head: bytes) -> str:
    """What the file holds instead, without quoting it."""
    if values:
        return f"JSON, but of no known kind ({type(values[0]).__name__})"
    return "not JSON" if head.isascii() else "neither JSON nor OTLP protobuf"


def read_paths(
    paths: Sequence[str],
    context: ReadContext,
    problems: Problems,
    *,
    format: str | None = None,  # noqa: A002 - the option's name
    on_progress: Callable[[str, int], None] | None = None,
    reports: list[FileReport] | None = None,
) -> Iterator[Item]:
    """Yield everything that files hold, file by file.

    Args:
        paths: files, folders, or ``-`` for standard input.
        context: handed to the formats.
        problems: what could not be read; never an exception.
        format: the name of the format, for files whose detection fails.
        on_progress: called with the file and the bytes read of it so far, before decompression.
        reports: filled with one report per file, which is final when the next file starts.

    Raises:
        InputError: at once, if a path does not exist or the format is unknown; while reading, if a named file may
            not be read. A file that a folder brought in is a problem instead.
    """
    forced = None if format is None else format_named(format)
    files = expand(paths)
    named = frozenset(paths)
    return _read_files(files, named, forced, context, problems, on_progress, reports)


def _read_files(
    files: list[str],
    named: frozenset[str],
    forced: Format | None,
    context: ReadContext,
    problems: Problems,
    on_progress: Callable[[str, int], None] | None,
    reports: list[FileReport] | None,
) -> Iterator[Item]:
    for file in files:
        report = FileReport(file)
        if reports is not None:
            reports.append(report)
        before = problems.total
        on_bytes = None if on_progress is None else partial(on_progress, file)
        try:
            with open_document(file, problems, on_bytes=on_bytes) as document:
                yield from _read_document(document, forced, context, problems, report)
        except InputError as error:
            if file in named:
                raise
            problems.add(file, "byte 0", str(error))
        finally:
            report.problems = problems.total - before


def _read_document(
    document: OpenDocument, forced: Format | None, context: ReadContext, problems: Problems, report: FileReport
) -> Iterator[Item]:
    found = forced or detect(document, problems)
    if found is None:
        report.bytes = document.bytes_read
        return
    report.format = found.name
    before = problems.total
    items = found.read(document, context, problems)
    try:
        for item in items:
            report.count(item)
            yield item
        if forced and not report.items and problems.total == before:
            problems.add(document.name, "byte 0", f"holds nothing of the format {forced.name}; leave --format away")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # A format is to count what it cannot read; what it did not foresee costs the rest of this file, not the run.
        place = f"item {report.items + 1}"
        problems.add(
            document.name, place, f"reading as {found.name} failed: {type(error).__name__}; the rest is not read"
        )
    finally:
        report.bytes = document.bytes_read
