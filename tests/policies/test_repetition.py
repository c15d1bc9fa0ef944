"""Loop, lost memory, grace, polling and the same request in other words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.sketch import sketch
from lowwater.collectors.tokens import Hasher
from lowwater.policies.repetition import ToolCallView, judge_repetition


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


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=24),
    st.integers(0, 2),
    st.booleans(),
    st.integers(1, 30),
    st.integers(2, 10),
)
def test_never_a_loop_below_the_configured_number(
    rows: list[tuple[int, bool, bool]], result: int, grace: bool, consecutive: int, loop_calls: int
) -> None:
    history = [
        view(turn, outcome, held=held, compacted=compacted) for turn, (outcome, held, compacted) in enumerate(rows)
    ]
    found = judge_repetition(
        history, view(99, result), grace_used=grace, consecutive=consecutive, loop_calls=loop_calls
    )
    if found.kind == "loop":
        assert loop_calls <= found.count <= len(history) + 1
        assert found.consecutive >= loop_calls or found.count >= 2 * loop_calls


@pytest.mark.parametrize("loop_calls", [2, 3, 7])
def test_a_loop_begins_at_its_number(loop_calls: int) -> None:
    def judge(executions: int) -> str:
        history = [view(turn) for turn in range(executions - 1)]
        current = view(executions)
        return judge_repetition(history, current, grace_used=False, consecutive=executions, loop_calls=loop_calls).kind

    assert judge(loop_calls) == "loop"
    assert judge(loop_calls - 1) == ("first" if loop_calls == 2 else "repeat")


@pytest.mark.parametrize(
    ("results", "held", "kind"),
    [
        ((7, 7, 7), (True, True), "loop"),
        ((0, 0, 0), (True, True), "loop"),  # results unknown: the arguments are all there is
        ((7, 0, 7), (True, True), "loop"),  # what is not known does not differ
        ((7, 7, 8), (True, True), "polling"),
        ((8, 7, 7), (True, True), "repeat"),  # only two with this result
        ((7, 7, 7), (False, True), "repeat"),  # the one before was evicted: only two in sight
        ((7, 7, 7), (False, False), "lost_memory"),
        ((7, 7, 8), (False, False), "lost_memory"),  # nothing in sight to compare the new result with
    ],
)
def test_what_counts_towards_a_loop(results: tuple[int, int, int], held: tuple[bool, bool], kind: str) -> None:
    history = [view(1, results[0], held=held[0]), view(2, results[1], held=held[1])]
    assert judge_repetition(history, view(3, results[2]), grace_used=False, consecutive=3).kind == kind


def alike(positions: int, key: int, *, held: bool = True) -> ToolCallView:
    """Another instruction, whose signature agrees with the judged one's in so many of twenty positions."""
    signature = tuple(range(positions)) + tuple(range(100 * key, 100 * key + 20 - positions))
    return ToolCallView(key, key, held=held, sketch=signature)


@pytest.mark.parametrize(
    ("similar", "kind"),
    [
        ([alike(7, 1), alike(7, 2)], "rephrased"),  # 7 of 20 is the threshold
        ([alike(7, 1), alike(6, 2)], "first"),
        ([alike(7, 1)], "first"),  # two in all
        ([alike(7, 1), alike(20, 2, held=False)], "first"),  # its answer is gone: asking again is no circle
        ([alike(7, 1), alike(20, 99)], "first"),  # the same words: the loop rule's
        ([alike(7, 1), ToolCallView(2, 2)], "first"),  # no prose
        ([alike(7, 1), ToolCallView(2, 2, sketch=tuple(range(19)))], "first"),  # signatures of different size
    ],
)
def test_rephrasing_needs_three_near_identical_requests_in_sight(similar: list[ToolCallView], kind: str) -> None:
    current = ToolCallView(99, 99, sketch=tuple(range(20)))
    assert judge_repetition([], current, grace_used=False, similar=similar).kind == kind


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="loop_calls"):
        judge_repetition([], view(1), grace_used=False, loop_calls=1)
    with pytest.raises(ValueError, match="consecutive"):
        judge_repetition([], view(1), grace_used=False, consecutive=0)
