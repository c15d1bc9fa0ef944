"""Sorting in bounded memory."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.collectors.content import Content
from lowwater.collectors.reading import Reading
from lowwater.detector import sorting
from lowwater.detector.sorting import sort_readings

TIMES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60)


def reading(number: int, end: int, start: int = 0, blocks: int = 0) -> Reading:
    content = Content(bytearray(blocks)) if blocks else None
    return Reading("t", f"{number:04d}", start_ns=start, end_ns=end, ordinal=number, content=content)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@settings(deadline=None)
@given(TIMES, st.integers(1, 7))
def test_any_budget_gives_the_same_order(times: list[tuple[int, int]], budget: int) -> None:
    readings = [reading(number, end, start) for number, (end, start) in enumerate(times)]
    expected = sorted(readings, key=Reading.order)
    assert list(sort_readings(readings, budget=budget)) == expected
    assert list(sort_readings(readings)) == expected


def test_equal_readings_keep_their_order_through_several_levels_of_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_FAN_IN", 3)
    readings = [Reading("t", "s", name=str(number)) for number in range(200)]
    assert [item.name for item in sort_readings(readings, budget=2)] == [str(number) for number in range(200)]


def test_a_child_comes_before_its_parent_that_ends_with_it() -> None:
    parent, child = reading(1, 10, start=1), reading(2, 10, start=5)
    assert list(sort_readings([parent, child])) == [child, parent]


def test_files_are_removed_at_the_end_and_when_closed(folder: Path) -> None:
    sorted_readings = sort_readings((reading(n, -n) for n in range(100)), budget=10)
    next(sorted_readings)
    assert len(list(folder.glob("lowwater-sort-*/*"))) == 9
    assert (next(folder.iterdir()).stat().st_mode & 0o077) == 0
    assert len(list(sorted_readings)) == 99
    assert list(folder.iterdir()) == []
    early = sort_readings((reading(n, -n) for n in range(100)), budget=10)
    assert isinstance(early, Iterator)
    next(early)
    early.close()  # type: ignore[attr-defined]
    assert list(folder.iterdir()) == []


def test_files_are_removed_when_the_source_fails(folder: Path) -> None:
    def failing() -> Iterator[Reading]:
        yield from (reading(n, n) for n in range(50))
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(sort_readings(failing(), budget=10))
    assert list(folder.iterdir()) == []


def test_what_fits_touches_no_file(folder: Path) -> None:
    assert len(list(sort_readings((reading(n, -n) for n in range(100)), budget=100))) == 100
    assert list(folder.iterdir()) == []


def test_the_size_counts_as_well_as_the_number(folder: Path) -> None:
    fat = (reading(n, -n, blocks=10_000) for n in range(20))
    sorted_readings = sort_readings(fat, budget_bytes=1_000_000)
    next(sorted_readings)
    assert list(folder.glob("lowwater-sort-*/*"))
    assert len(list(sorted_readings)) == 19


def test_memory_is_bounded() -> None:
    """100,000 readings in the budget of 2,000, and in no more memory than a tenth of them takes."""
    order = random.Random(1).sample(range(100_000), 100_000)
    tracemalloc.start()
    try:
        held = [reading(n, n) for n in range(10_000)]
        tenth = tracemalloc.get_traced_memory()[0]
        del held
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        seen = 0
        previous = -1
        for item in sort_readings((reading(n, n) for n in order), budget=2_000):
            seen += 1
            assert item.end_ns > previous
            previous = item.end_ns
        peak = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    assert seen == 100_000
    assert peak < tenth


@pytest.mark.parametrize("budgets", [{"budget": 0}, {"budget_bytes": 0}])
def test_senseless_budgets_are_refused_at_once(budgets: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        sort_readings([], **budgets)


def test_sorting_is_lazy_after_the_source_ended() -> None:
    assert [item.end_ns for item in islice(sort_readings(reading(n, -n) for n in range(5)), 2)] == [-4, -3]
