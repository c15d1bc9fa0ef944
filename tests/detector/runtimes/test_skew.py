"""A clock that runs ahead neither holds anything up nor lets anything pass; the order of its spans stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.detector.builders import START, call

from lowwater.collectors.reading import Reading
from lowwater.detector.runtimes.reorder import Reorder
from lowwater.detector.runtimes.skew import Skew

SECOND = 1_000_000_000


def ahead(service: str, *seconds: float) -> list[Reading]:
    return [call(f"{service}{number}", at, service=service) for number, at in enumerate(seconds)]


def test_the_order_of_a_clock_that_is_ahead_stays() -> None:
    skew, readings = Skew(), ahead("fast", 300, 310, 320)
    skew.set_back(readings, START)
    assert [reading.end_ns - START for reading in readings] == [-20 * SECOND, -10 * SECOND, 0]
    assert [reading.end_ns - reading.start_ns for reading in readings] == [SECOND] * 3
    later = ahead("fast", 330)
    skew.set_back(later, START + 10 * SECOND)
    assert later[0].end_ns == START + 10 * SECOND
    assert skew.moved == 4


def test_other_services_keep_their_times() -> None:
    skew, good = Skew(), ahead("good", -5)
    skew.set_back([*ahead("fast", 300), *good], START)
    assert good[0].end_ns == START - 5 * SECOND


def test_one_broken_time_moves_nothing_but_itself() -> None:
    skew, readings = Skew(), ahead("app", 10 * 365 * 86_400, -5)
    skew.set_back(readings, START)
    assert [reading.end_ns - START for reading in readings] == [0, -5 * SECOND]
    reorder = Reorder(60.0)
    for number, reading in enumerate([*readings, *ahead("other", -3)]):
        reorder.push(reading, number=number, now_ns=START)
    assert list(reorder.release(START + SECOND)) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-100, 10_000)), max_size=20))
def test_nothing_is_later_than_its_arrival(clocks: list[tuple[str, int]]) -> None:
    readings = [call(f"s{number}", at, service=service) for number, (service, at) in enumerate(clocks)]
    Skew().set_back(readings, START)
    assert all(reading.end_ns <= START for reading in readings)
    for service in "abc":
        kept = [reading for reading in readings if reading.service == service]
        before = [at for name, at in clocks if name == service and at <= 3_600]
        after = [
            reading.end_ns
            for reading, (_, at) in zip(kept, [c for c in clocks if c[0] == service], strict=True)
            if at <= 3_600
        ]
        assert sorted(range(len(before)), key=lambda i: before[i]) == sorted(range(len(after)), key=lambda i: after[i])
