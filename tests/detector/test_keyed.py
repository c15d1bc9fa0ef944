"""States by key: bounded, alarming ones last, and through a backing without loss."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.detector.keyed import States


class Shelf:
    """A backing that keeps copies, as a database does."""

    def __init__(self) -> None:
        self.saved: dict[str, list[int]] = {}

    def load(self, key: str) -> list[int] | None:
        return copy.copy(self.saved.get(key))

    def save(self, key: str, state: list[int]) -> None:
        self.saved[key] = copy.copy(state)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers())), st.integers(1, 4))
def test_with_a_backing_nothing_is_lost(steps: list[tuple[str, int]], limit: int) -> None:
    states: States[list[int]] = States(list, limit, backing=Shelf())
    truth: dict[str, list[int]] = {}
    for key, value in steps:
        states.get(key).append(value)
        truth.setdefault(key, []).append(value)
        assert len(states) <= limit
    assert {key: states.peek(key) for key in truth} == truth


def test_the_longest_unused_goes_first() -> None:
    states: States[list[int]] = States(list, 2)
    for key in ("a", "b", "a", "c"):
        states.get(key).append(1)
    assert states.evicted == 1
    assert (states.peek("a"), states.peek("b")) == ([1, 1], None)


def test_states_to_keep_go_last() -> None:
    states: States[list[int]] = States(list, 4, keep=lambda state: bool(state) and state[0] == 7)
    states.get("alarm").append(7)
    for number in range(100):
        states.get(f"quiet{number}").append(0)
    assert states.peek("alarm") == [7]
    assert len(states) == 4


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_memory_is_bounded_where_all_should_stay(limit: int) -> None:
    states: States[list[int]] = States(list, limit, keep=lambda state: True)
    for number in range(10 * limit):
        states.get(str(number)).append(number)
    assert len(states) <= 2 * limit + 1


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        States(list, 0)
