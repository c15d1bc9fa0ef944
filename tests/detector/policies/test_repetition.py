"""Loop, lost memory, grace, polling and the same request in other words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.sketch import sketch
from lowwater.collectors.tokens import Hasher
from lowwater.detector.policies.repetition import ToolCallView, judge_repetition


def view(turn: int, result: int = 7, *, held: bool = True, compacted: bool = False, text: str = "") -> ToolCallView:
    return ToolCallView(
        turn, hash(text) & 0xFFFF or 1, result, held, compacted, sketch(text, Hasher(b"t")) if text else ()
    )


def test_three_in_a_row_with_the_same_result_are_a_loop_and_two_are_not() -> None:
    assert judge_repetition([view(1)], view(2), grace_used=False, consecutive=2).kind == "repeat"
    found = judge_repetition([view(1), view(2)], view(3), grace_used=False, consecutive=3)
    assert (found.kind, found.count, found.consecutive) == ("loop", 3, 3)


def test_scattered_calls_need_twice_as_many() -> None:
    """A check that passes after every edit is no loop."""
    history = [view(turn) for turn in range(4)]
    assert judge_repetition(history, view(9), grace_used=False, consecutive=1).kind == "repeat"
    assert judge_repetition([*history, view(8)], view(9), grace_used=False, consecutive=1).kind == "loop"


def test_changing_results_are_polling() -> None:
    history = [view(turn, result=turn) for turn in range(1, 9)]
    assert judge_repetition(history, view(10, result=99), grace_used=False, consecutive=9).kind == "polling"


def test_after_an_eviction_one_reread_is_granted_and_the_next_is_lost_memory() -> None:
    gone = [view(1, held=False, compacted=True)]
    assert judge_repetition(gone, view(5), grace_used=False).kind == "grace"
    assert judge_repetition(gone, view(5), grace_used=True).kind == "lost_memory"


def test_what_was_elided_without_a_compaction_is_lost_memory_at_once() -> None:
    assert judge_repetition([view(1, held=False)], view(5), grace_used=False).kind == "lost_memory"


REQUESTS = (
    "Please continue to scroll through the page to find specific information about the board of directors",
    "Please continue to scroll or navigate through the page to find the specific information about the board of directors",
    "Continue to scroll or navigate through the page to find specific information about the board of directors now",
)


def test_the_same_request_in_other_words_is_rephrased() -> None:
    history = [view(1, text=REQUESTS[0]), view(2, text=REQUESTS[1])]
    found = judge_repetition([], view(3, text=REQUESTS[2]), grace_used=False, similar=history)
    assert (found.kind, found.count) == ("rephrased", 3)


def test_unrelated_requests_are_not() -> None:
    others = [
        "Search the web for the timetable of the night train to Vienna please",
        "Write a summary of the meeting notes for the finance team by noon",
    ]
    history = [view(turn, text=text) for turn, text in enumerate(others)]
    assert judge_repetition([], view(3, text=REQUESTS[2]), grace_used=False, similar=history).kind == "first"


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=12), st.integers(0, 2), st.booleans()
)
def test_a_loop_has_at_least_its_number_of_calls(rows: list[tuple[int, bool, bool]], result: int, grace: bool) -> None:
    history = [
        view(turn, result, held=held, compacted=compacted) for turn, (result, held, compacted) in enumerate(rows)
    ]
    found = judge_repetition(history, view(99, result), grace_used=grace, consecutive=len(history) + 1)
    if found.kind == "loop":
        assert found.count >= 3
    if not history:
        assert found.kind == "first"


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="loop_calls"):
        judge_repetition([], view(1), grace_used=False, loop_calls=1)
    with pytest.raises(ValueError, match="consecutive"):
        judge_repetition([], view(1), grace_used=False, consecutive=0)
