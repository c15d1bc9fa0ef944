"""Sorts readings by event time in bounded memory: what does not fit is spilled to files and merged."""

from __future__ import annotations

import contextlib
import heapq
import pickle
import tempfile
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path

from lowwater.collectors.reading import Reading

__all__ = ["sort_readings", "stored", "storing"]

_BUDGET_BYTES = 64 << 20
_FAN_IN = 64
"""Files merged at once; bounds open files and the read-ahead."""
_READINGS_PER_RECORD = 32
_BYTES_PER_READING = 2_000
"""A reading without content: measured with tracemalloc, rounded up."""
_BYTES_PER_BLOCK = 25
"""The five arrays of `Content`: 1 + 4 + 4 + 8 + 8 bytes."""


def sort_readings(
    readings: Iterable[Reading], *, budget: int = 50_000, budget_bytes: int = _BUDGET_BYTES
) -> Iterator[Reading]:
    """Yield readings ordered by `Reading.order`; equal ones keep the order in which they came.

    Spilled readings lie in a private temporary folder until the iteration ends or is closed. They hold names,
    ids, counts and hashes, as readings always do.

    Args:
        readings: in any order.
        budget: readings held at most.
        budget_bytes: their approximate size at most, in bytes.

    Raises:
        ValueError: a budget is below 1.
    """
    if budget < 1 or budget_bytes < 1:
        raise ValueError(f"the budget must be at least 1, not {budget} readings and {budget_bytes} bytes")
    return _sorted(readings, budget, budget_bytes)


def _sorted(readings: Iterable[Reading], budget: int, budget_bytes: int) -> Iterator[Reading]:
    held: list[Reading] = []
    size = 0
    with _Runs() as runs:
        for reading in readings:
            if held and (len(held) >= budget or size >= budget_bytes):
                held.sort(key=Reading.order)
                runs.add(held)
                held, size = [], 0
            held.append(reading)
            size += _approximate_bytes(reading)
        held.sort(key=Reading.order)
        yield from runs.merged_with(held)


def _approximate_bytes(reading: Reading) -> int:
    blocks = len(reading.content or ()) + len(reading.output or ())
    return _BYTES_PER_READING + _BYTES_PER_BLOCK * blocks


class _Runs:
    """Sorted files. As soon as there are `_FAN_IN` of one size they are merged into one of the next."""

    def __init__(self) -> None:
        self._levels: list[list[Path]] = []
        self._count = 0
        self._cleanup = contextlib.ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *exception: object) -> None:
        self._cleanup.close()

    def add(self, readings: Iterable[Reading], level: int = 0) -> None:
        """Write a sorted run."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(self._written(readings))
        if len(self._levels[level]) == _FAN_IN:
            paths, self._levels[level] = self._levels[level], []
            with contextlib.ExitStack() as files:
                runs = [files.enter_context(contextlib.closing(stored(path))) for path in paths]
                self.add(heapq.merge(*runs, key=Reading.order), level + 1)
            for path in paths:
                path.unlink()

    def merged_with(self, last: list[Reading]) -> Iterator[Reading]:
        """Yield everything in order; ``last`` came after all runs."""
        oldest_first = [path for level in reversed(self._levels) for path in level]
        with contextlib.ExitStack() as files:
            runs = [files.enter_context(contextlib.closing(stored(path))) for path in oldest_first]
            yield from heapq.merge(*runs, last, key=Reading.order)

    def _written(self, readings: Iterable[Reading]) -> Path:
        if self._folder is None:
            self._folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="lowwater-sort-")))
        path = self._folder / str(self._count)
        self._count += 1
        for _ in storing(path, readings):
            pass
        return path


def storing(path: Path, readings: Iterable[Reading]) -> Iterator[Reading]:
    """Write readings to a file while they pass; each is written before anything downstream can change it."""
    source = iter(readings)
    with path.open("wb") as file:
        while batch := list(islice(source, _READINGS_PER_RECORD)):
            pickle.dump(batch, file, pickle.HIGHEST_PROTOCOL)
            yield from batch


def stored(path: Path) -> Generator[Reading, None, None]:
    """Yield the readings of a file that this program wrote into a private folder."""
    with path.open("rb") as file:
        while True:
            try:
                yield from pickle.load(file)  # noqa: S301 - by `storing`, into a private folder
            except EOFError:
                return
