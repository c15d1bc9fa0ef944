"""JSON values out of text: one per line, spread over lines, or cut off; and the times in them.

Three layouts are read by one function: JSON lines, objects printed one after another over several lines
(the SDK's console exporter), and a single document. A JSON string cannot hold a raw line break, so the
nesting of every line can be counted alone, which keeps the memory at one value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Protocol

import orjson

from lowwater.detector.readers.base import Problems

__all__ = ["MAX_VALUE_BYTES", "Lines", "dump_json", "iterate_values", "nanoseconds", "parse_json", "salvage"]

MAX_VALUE_BYTES = 256 << 20
"""A single value or line longer than this is reported and skipped."""

_SAMPLE_LINES = 20
_SAMPLE_BYTES = 1 << 20
_FIRST_CHECKPOINT = 1 << 20
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of a line whose string has no end: starting again at each quote in it would take quadratic time."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],"]', re.DOTALL)
_CLOSERS = {b"{": b"}", b"[": b"]"}
_UNITS = ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3))
_ISO_FRACTION = re.compile(r"\.(\d+)")


class Lines(Protocol):
    """What values are read from."""

    name: str

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number from 1, line without its end)."""


def parse_json(data: bytes) -> Any:
    """Parse JSON quickly, and tolerantly where strict parsing refuses.

    NaN and infinities, integers beyond 64 bits and broken UTF-8 occur in real traces and are accepted.

    Raises:
        ValueError: the data is no JSON, or nested deeper than the interpreter's stack.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in data and b"Infinity" not in data and not _may_be_valid(error):
            raise
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump_json(value: Any) -> bytes:
    """Compact JSON with sorted keys, of anything that `parse_json` returns."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _may_be_valid(error: orjson.JSONDecodeError) -> bool:
    """Whether the error is of the kind that the tolerant parser forgives; saves a second parse of plain rubbish."""
    return any(word in error.msg for word in ("infinity", "UTF-8", "surrogate"))


def iterate_values(document: Lines, problems: Problems) -> Iterator[tuple[int, Any]]:
    """Yield (line number, parsed value) for every top-level JSON value of a document; streams.

    What does not parse is added to the problems by line, and reading goes on after it. Of a value that the end of the
    file cuts off, the complete part is yielded.
    """
    lines = iter(document.lines())
    sample: list[tuple[int, bytes]] = []
    size = 0
    for number, line in islice(lines, _SAMPLE_LINES):
        sample.append((number, line))
        size += len(line)
        if size > _SAMPLE_BYTES:
            break
    read = _one_per_line if _is_json_lines([line for _, line in sample]) else _over_lines
    return read(document.name, chain(sample, lines), problems)


def _is_json_lines(lines: list[bytes]) -> bool:
    """Whether lines are values by themselves: the first is, or two are although the first is damaged.

    Inside an indented document, lines that parse are indented; a list's first line is a bracket.
    """
    filled = [line for line in lines if line and not line.isspace()]
    if not filled or _parses(filled[0]):
        return True
    return filled[0][:1] != b"[" and sum(line[:2] == b'{"' and _parses(line) for line in filled[1:]) > 1


def _parses(line: bytes) -> bool:
    try:
        parse_json(line)
    except ValueError:
        return False
    return True


def _one_per_line(name: str, lines: Iterator[tuple[int, bytes]], problems: Problems) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        if not line or line.isspace():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            problems.add(name, f"line {number}", f"not JSON: {error}")
        else:
            yield number, value


def _over_lines(name: str, lines: Iterator[tuple[int, bytes]], problems: Problems) -> Iterator[tuple[int, Any]]:
    """Values that span lines, told apart by their brackets."""
    pending: list[bytes] = []
    start = depth = size = 0
    checkpoint = _FIRST_CHECKPOINT
    for number, line in lines:
        if not pending:
            if not line or line.isspace():
                continue
            start, depth, size, checkpoint = number, 0, 0, _FIRST_CHECKPOINT
        depth += _nesting(line)
        size += len(line)
        pending.append(line)
        if depth <= 0:
            yield from _values_in(name, start, b"\n".join(pending), problems)
            pending.clear()
        elif size > checkpoint:
            reason = _hopeless(pending, size)
            checkpoint *= 8
            if reason is not None:
                problems.add(name, f"line {start}", reason)
                pending.clear()
    if pending:
        yield from _cut_off(name, start, b"\n".join(pending), problems)


def _hopeless(pending: list[bytes], size: int) -> str | None:
    """Why a long value need not be collected any further, or None: it is too long, or already no JSON."""
    if size > MAX_VALUE_BYTES:
        return f"value longer than {MAX_VALUE_BYTES >> 20} MiB skipped"
    return "not JSON" if salvage(b"\n".join(pending)) is None else None


def _nesting(line: bytes) -> int:
    """Opening less closing brackets of a line, outside strings."""
    bare = _STRING.sub(b"", line) if b'"' in line else line
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _values_in(name: str, number: int, data: bytes, problems: Problems) -> Iterator[tuple[int, Any]]:
    """The value of a balanced stretch of text, or the several values that share it."""
    try:
        yield number, parse_json(data)
        return
    except ValueError as error:
        reason = str(error)
    decoder = json.JSONDecoder()
    text = data.decode("utf-8", "replace").strip()
    place = 0
    while place < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            problems.add(name, f"line {number}", f"not JSON: {reason}")
            return
        yield number, value
        while place < len(text) and text[place].isspace():
            place += 1


def _cut_off(name: str, number: int, data: bytes, problems: Problems) -> Iterator[tuple[int, Any]]:
    value = salvage(data)
    if value is None:
        problems.add(name, f"line {number}", "not JSON, or cut off before anything was complete")
    else:
        problems.add(name, f"line {number}", "cut off: the complete part was read, the rest is missing")
        yield number, value


def salvage(data: bytes) -> Any:
    """The complete part of a JSON value whose end is missing, or None.

    The text is cut before the last element that may be incomplete and the open brackets are closed.

    >>> salvage(b'{"spans": [{"a": 1}, {"a": 2}, {"a"')
    {'spans': [{'a': 1}, {'a': 2}, {}]}
    """
    closers: list[bytes] = []
    cut = 0
    for token in _TOKEN.finditer(data):
        mark = token.group()
        if mark == b",":
            cut = token.start()
            continue
        if mark in _CLOSERS:
            closers.append(_CLOSERS[mark])
        elif mark in (b"}", b"]") and (not closers or closers.pop() != mark):
            return None
        elif mark == b'"':
            break  # a string without end
        elif mark[:1] == b'"':
            continue
        cut = token.end()
    try:
        return parse_json(data[:cut] + b"".join(reversed(closers)))
    except ValueError:
        return None


def nanoseconds(value: Any) -> int:
    """Unix nanoseconds out of a time as files write it; 0 if it is none.

    Numbers and digit strings are taken as seconds, milli-, micro- or nanoseconds by their size (the ranges do not
    meet for any date between 1973 and 2286); other strings as ISO 8601, in UTC where they name no zone.

    >>> nanoseconds("2025-12-22T10:46:19.155Z"), nanoseconds(1766400379155), nanoseconds("soon")
    (1766400379155000000, 1766400379155000000, 0)
    """
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, str):
        text = value.strip()
        if not text.isascii():
            return 0
        if not text.isdigit():
            return _iso_nanoseconds(text)
        value = int(text) if len(text) <= 20 else 0
    if not isinstance(value, int | float) or not 0 < value < 1 << 63:
        return 0
    factor = next((factor for limit, factor in _UNITS if value < limit), 1)
    nanos = round(value * factor)
    return nanos if nanos < 1 << 63 else 0


def _iso_nanoseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(_ISO_FRACTION.sub("", text, count=1))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    fraction = _ISO_FRACTION.search(text)
    nanos = int(fraction.group(1)[:9].ljust(9, "0")) if fraction else 0
    return max(0, int(moment.timestamp()) * 10**9 + nanos)
