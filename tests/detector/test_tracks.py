"""Calls find their context without ids, and a smaller prompt is not taken for compaction without reason."""

from __future__ import annotations

from collections.abc import Sequence

from tests.detector.builders import call, content, span, tool

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, Usage
from lowwater.detector.assembly import Assembler
from lowwater.detector.events import Turn
from lowwater.detector.tracks import ScopeState, Tracker

S, U, A, R = BlockKind.SYSTEM, BlockKind.USER, BlockKind.ASSISTANT, BlockKind.TOOL_RESULT


def turns(readings: Sequence[Reading]) -> list[Turn]:
    assembler, tracker = Assembler(), Tracker()
    states: dict[str, ScopeState] = {}
    found: list[Turn] = []
    events = [event for reading in sorted(readings, key=Reading.order) for event in assembler.push(reading)]
    for event in events + list(assembler.flush()):
        state = states.setdefault(event.origin.scope, tracker.initial())
        found += [placed for placed in tracker.step(state, event) if isinstance(placed, Turn)]
    return found


def story(readings: Sequence[Reading]) -> list[tuple[str, int, str]]:
    """(context, turn, history) per call, contexts renamed in order of appearance."""
    names: dict[str, str] = {}
    return [
        (names.setdefault(turn.context, "ABCDEFGH"[len(names)]), turn.number, turn.history) for turn in turns(readings)
    ]


def test_growing_input_in_one_trace_is_one_context() -> None:
    made = [call(f"c{n}", n * 2, input_tokens=1000 + n * 300, output_tokens=50) for n in range(1, 4)]
    assert story(made) == [("A", 1, "first"), ("A", 2, "appended"), ("A", 3, "appended")]


def test_interleaved_agents_are_told_apart_by_what_they_continue() -> None:
    """Input tokens of a real coding agent whose helper shares its conversation."""
    numbers = [10491, 8627, 10683, 8630, 10811]
    made = [
        call(f"c{n}", n * 2, input_tokens=value, output_tokens=20, conversation="c")
        for n, value in enumerate(numbers, 1)
    ]
    assert [name for name, _, _ in story(made)] == ["A", "B", "A", "B", "A"]
    assert all(turn.compaction is None for turn in turns(made))


def test_parallel_calls_are_different_contexts() -> None:
    made = [call(f"c{n}", 5 + n / 100, seconds=4, input_tokens=4420, output_tokens=10) for n in range(4)]
    assert len({name for name, _, _ in story(made)}) == 4


def test_another_model_is_another_context() -> None:
    made = [call("a", 1, input_tokens=51_852, model="big"), call("b", 3, input_tokens=12_238, model="small")]
    assert story(made) == [("A", 1, "first"), ("B", 1, "first")]


def test_an_aborted_call_has_its_turn_and_hides_nothing() -> None:
    made = [
        call("a", 1, input_tokens=174_738, conversation="c"),
        call("b", 3, input_tokens=0, output_tokens=0, conversation="c", failure=Failure(aborted=True)),
        call("c", 5, input_tokens=175_100, conversation="c"),
    ]
    assert story(made) == [("A", 1, "first"), ("A", 2, "unknown"), ("A", 3, "appended")]


def test_an_announced_compaction_waits_for_the_first_call_with_numbers() -> None:
    made = [
        call("a", 1, input_tokens=174_738, conversation="c"),
        span("m", Operation.COMPACTION, 1.5, 2, conversation="c", compaction=Compaction(before_tokens=175_004)),
        call("b", 3, input_tokens=0, output_tokens=0, conversation="c", failure=Failure(aborted=True)),
        call("d", 5, input_tokens=25_739, conversation="c"),
        call("e", 7, input_tokens=26_218, conversation="c"),
    ]
    assert [(turn.history, turn.compaction is not None) for turn in turns(made)] == [
        ("first", False), ("unknown", False), ("compacted", True), ("appended", False),
    ]  # fmt: skip


def test_a_failed_compaction_is_no_eviction() -> None:
    failed = Compaction(before_tokens=100_000, outcome="failure")
    made = [
        call("a", 1, input_tokens=100_000, conversation="c"),
        span("m", Operation.COMPACTION, 1.5, 2, conversation="c", compaction=failed),
        call("b", 3, input_tokens=100_500, conversation="c"),
    ]
    found = turns(made)
    assert found[1].history == "appended"
    assert found[1].compaction == failed


def test_a_drop_from_a_crowded_window_of_one_agent_is_an_inferred_compaction() -> None:
    agent = span("agent", Operation.AGENT, 0, 30)
    made = [
        call(f"c{n}", n * 2, input_tokens=value, parent="agent", window_tokens=200_000)
        for n, value in enumerate([170_000, 30_000, 30_500], 1)
    ]
    found = turns([*made, agent])
    assert [(turn.history, turn.compaction_inferred) for turn in found] == [
        ("first", False),
        ("compacted", True),
        ("appended", False),
    ]


def test_a_small_call_amid_a_crowded_context_is_taken_back_when_the_context_goes_on() -> None:
    agent = span("agent", Operation.AGENT, 0, 30)
    made = [
        call(f"c{n}", n * 2, input_tokens=value, output_tokens=100, parent="agent", window_tokens=200_000)
        for n, value in enumerate([170_000, 900, 170_100], 1)
    ]
    assert [turn.history for turn in turns([*made, agent])][-1] == "appended"


def test_a_drop_from_a_roomy_window_is_a_helper_not_a_compaction() -> None:
    agent = span("agent", Operation.AGENT, 0, 30)
    made = [
        call(f"c{n}", n * 2, input_tokens=value, parent="agent", window_tokens=200_000)
        for n, value in enumerate([40_000, 900, 40_500], 1)
    ]
    assert [name for name, _, _ in story([*made, agent])] == ["A", "B", "A"]


def test_with_content_a_prefix_decides() -> None:
    head = (S, "you are a careful agent")
    one = [head, (U, "first task")]
    two = [head, (U, "another task")]
    made = [
        call("a", 1, input_tokens=100, content=content(*one)),
        call("b", 3, input_tokens=100, content=content(*two)),
        call("c", 5, input_tokens=150, content=content(*one, (A, "answer one"))),
        call("d", 7, input_tokens=150, content=content(*two, (A, "answer two"))),
    ]
    assert [name for name, _, _ in story(made)] == ["A", "B", "A", "B"]


def test_elided_tool_output_is_rewritten_history_of_the_same_context() -> None:
    """Messages grow while characters fall: old observations were replaced by a placeholder."""
    head = [(S, "system"), (U, "task")]
    full = [*head, (A, "look"), (R, "long output " * 50), (A, "and"), (R, "short")]
    elided = [*head, (A, "look"), (R, "(lines omitted)"), (A, "and"), (R, "short"), (A, "next"), (R, "more")]
    made = [call("a", 1, content=content(*full)), call("b", 3, content=content(*elided))]
    assert story(made) == [("A", 1, "first"), ("A", 2, "rewritten")]


def test_a_compaction_block_in_the_prompt_is_one_compaction() -> None:
    before = content((S, "system"), (U, "a very long story"))
    after = content((S, "system"), (BlockKind.SUMMARY, "summary"), (U, "go on"))
    after.compacted = True
    longer = content((S, "system"), (BlockKind.SUMMARY, "summary"), (U, "go on"), (A, "yes"))
    longer.compacted = True
    made = [
        call("a", 1, input_tokens=55_000, conversation="c", content=before),
        call("b", 3, input_tokens=220, conversation="c", content=after),
        call("c", 5, input_tokens=239, conversation="c", content=longer),
    ]
    assert [turn.history for turn in turns(made)] == ["first", "compacted", "appended"]


def test_a_conversation_goes_on_in_the_next_trace() -> None:
    made = [
        call("a", 1, input_tokens=1000, output_tokens=10, trace="t1", conversation="c", parent="g1"),
        span("g1", Operation.AGENT, 0, 2, trace="t1", conversation="c", agent_name="bot"),
        call("b", 100, input_tokens=1100, output_tokens=10, trace="t2", conversation="c", parent="g2"),
        span("g2", Operation.AGENT, 98, 101, trace="t2", conversation="c", agent_name="bot"),
    ]
    assert story(made) == [("A", 1, "first"), ("A", 2, "appended")]


def test_agents_in_one_trace_without_conversation_never_share_a_context() -> None:
    made = [
        call("a", 1, input_tokens=225, parent="g1"),
        span("g1", Operation.AGENT, 0, 2, agent_name="coordinator"),
        call("b", 5, input_tokens=400, parent="g2"),
        span("g2", Operation.AGENT, 3, 6, agent_name="helper"),
    ]
    assert story(made) == [("A", 1, "first"), ("B", 1, "first")]


def test_cache_exclusive_numbers_of_a_producer_stay_exclusive_once_proven() -> None:
    made = [
        call("a", 1, conversation="c", scope="x"),
        call("b", 3, conversation="c", scope="x"),
    ]
    made[0].usage = Usage(input_tokens=10, cache_read_tokens=500, cache_write_tokens=0)
    made[1].usage = Usage(input_tokens=900, cache_read_tokens=510, cache_write_tokens=0)
    assert [(turn.input_tokens, turn.input_rule) for turn in turns(made)] == [
        (510, "cache_exceeds_input"), (1410, "producer_observed"),
    ]  # fmt: skip


def test_tools_between_two_calls_are_attached_to_the_second() -> None:
    made = [
        call("a", 1, input_tokens=100, parent="agent"),
        tool("x", 2, parent="agent"),
        tool("y", 3, parent="agent"),
        call("b", 5, input_tokens=400, parent="agent"),
        span("agent", Operation.AGENT, 0, 9),
    ]
    assert [[run.origin.span_id for run in turn.between] for turn in turns(made)] == [[], ["x", "y"]]


def test_a_refused_call_knows_only_the_name_that_was_asked_for() -> None:
    made = [
        call("a", 1, input_tokens=100, conversation="c", model="gpt-4o-2024-08-06"),
        call("b", 3, conversation="c", model="gpt-4o", failure=Failure(status=429)),
        call("d", 5, input_tokens=150, conversation="c", model="gpt-4o-2024-08-06"),
        call("e", 7, input_tokens=160, conversation="c", model="gpt-4o-mini"),
    ]
    assert [name for name, _, _ in story(made)] == ["A", "A", "A", "B"]


def test_what_tools_returned_before_a_refused_call_is_in_the_prompt_of_the_next_try() -> None:
    made = [
        call("a", 1, input_tokens=1_000, output_tokens=20, conversation="c"),
        tool("t", 2, "grep", conversation="c"),
        call("b", 3, conversation="c", failure=Failure(status=429)),
        call("d", 5, input_tokens=1_400, output_tokens=20, conversation="c"),
    ]
    assert [len(turn.between) for turn in turns(made)] == [0, 0, 1]
