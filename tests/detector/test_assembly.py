"""Calls are counted once, and anchored to the agent that made them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detector.builders import call, span

from lowwater.collectors.reading import Failure, Operation, Reading, Usage
from lowwater.detector.assembly import Assembler
from lowwater.detector.events import AgentRun, Call, Event


def assemble(readings: Sequence[Reading]) -> list[Event]:
    assembler = Assembler()
    events = [event for reading in sorted(readings, key=Reading.order) for event in assembler.push(reading)]
    return events + list(assembler.flush())


def calls(readings: Sequence[Reading]) -> list[Call]:
    return [event for event in assemble(readings) if isinstance(event, Call)]


def inputs(readings: Sequence[Reading]) -> list[int | None]:
    return [None if item.reading.usage is None else item.reading.usage.input_tokens for item in calls(readings)]


def test_an_agent_span_above_its_calls_is_a_rollup() -> None:
    agent = span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=6256))
    assert inputs(
        [call("a", 2, input_tokens=2366, parent="agent"), call("b", 5, input_tokens=3890, parent="agent"), agent]
    ) == [2366, 3890]


def test_a_span_of_no_kind_above_its_calls_is_a_rollup_too() -> None:
    outer = span("outer", Operation.OTHER, 0, 9, usage=Usage(input_tokens=5550))
    assert inputs(
        [call("a", 2, input_tokens=2546, parent="outer"), call("b", 5, input_tokens=3004, parent="outer"), outer]
    ) == [2546, 3004]


def test_a_rollup_is_seen_through_spans_without_usage_in_between() -> None:
    step = span("step", Operation.OTHER, 0, 3, parent="agent")
    agent = span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=2366))
    assert inputs([call("a", 2, input_tokens=2366, parent="step"), step, agent]) == [2366]


def test_a_rollup_without_calls_below_is_kept_and_marked() -> None:
    (only,) = calls([span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=771))])
    assert only.rollup


def test_a_rollup_above_calls_that_reported_nothing_is_kept_beside_them() -> None:
    agent = span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=900))
    found = calls([call("a", 2, parent="agent"), call("b", 5, parent="agent"), agent])
    assert [item.rollup for item in found] == [False, False, True]


def test_two_emitters_of_one_call_are_one_call_and_complete_each_other() -> None:
    """The outer span knows the usage, the inner one the window."""
    outer = call("outer", 3, input_tokens=157, output_tokens=51, seconds=3)
    inner = call("inner", 2, parent="outer", window_tokens=128_000)
    (only,) = calls([inner, outer])
    assert only.reading.window_tokens == 128_000
    assert only.reading.usage is not None
    assert only.reading.usage.input_tokens == 157


def test_one_answer_reported_by_two_spans_counts_once() -> None:
    """The SDK and the provider each emit a span for one response id."""
    assert inputs(
        [call("a", 2, input_tokens=100, response_id="r1"), call("b", 2.1, input_tokens=100, response_id="r1")]
    ) == [100]


def test_a_duplicated_span_counts_once() -> None:
    one = call("a", 2, input_tokens=100)
    assert inputs([one, call("a", 2, input_tokens=100)]) == [100]


def test_a_parent_ending_at_the_same_instant_still_comes_after_its_child() -> None:
    outer = span("z", Operation.AGENT, 0, 2, usage=Usage(input_tokens=100))
    assert inputs([outer, call("a", 2, input_tokens=100, parent="z")]) == [100]


def test_calls_are_anchored_to_the_nearest_agent_and_named_after_it() -> None:
    outer = span("outer", Operation.AGENT, 0, 20, agent_name="coordinator")
    inner = span("inner", Operation.AGENT, 2, 8, parent="outer", agent_name="researcher")
    found = calls([call("a", 1, parent="outer"), call("b", 5, parent="inner"), inner, outer])
    assert [(item.origin.anchor.id, item.origin.anchor.name) for item in found] == [
        ("outer", "coordinator"),
        ("inner", "researcher"),
    ]


def test_a_call_inside_a_tool_is_not_the_callers() -> None:
    agent = span("agent", Operation.AGENT, 0, 20)
    run = span("tool", Operation.TOOL, 2, 8, parent="agent")
    found = calls([call("a", 1, parent="agent"), call("b", 5, parent="tool"), run, agent])
    assert [item.origin.anchor.id for item in found] == ["agent", "tool"]


def test_an_ancestor_still_open_after_the_lateness_anchors_by_its_id() -> None:
    """The same calls of a long run share an anchor before and after the agent's span has ended."""
    step = [span(f"step{n}", Operation.OTHER, n * 100, n * 100 + 3, parent="agent") for n in range(5)]
    made = [call(f"c{n}", n * 100 + 2, parent=f"step{n}") for n in range(5)]
    agent = span("agent", Operation.AGENT, 0, 500)
    assert {item.origin.anchor.id for item in calls([*step, *made, agent])} == {"agent"}


def test_an_agent_run_names_the_anchor_it_was_started_under() -> None:
    outer = span("outer", Operation.AGENT, 0, 20)
    run = span("tool", Operation.TOOL, 1, 9, parent="outer")
    inner = span("inner", Operation.AGENT, 2, 8, parent="tool")
    ended = [event for event in assemble([inner, run, outer]) if isinstance(event, AgentRun)]
    assert ended[0].origin.anchor.parent == "outer"


def test_a_cycle_of_parents_ends() -> None:
    loop = [span("x", Operation.OTHER, 0, 3, parent="y"), span("y", Operation.OTHER, 0, 3, parent="x")]
    assert inputs([call("a", 2, input_tokens=5, parent="x"), *loop]) == [5]


def test_log_records_complete_their_span_whichever_comes_first() -> None:
    before = Reading("t1", "a", end_ns=call("a", 1).end_ns, joins=True, max_output_tokens=99)
    (only,) = calls([before, call("a", 2, input_tokens=100)])
    assert only.reading.max_output_tokens == 99
    late = Reading("t1", "a", end_ns=call("a", 3).end_ns, joins=True, max_output_tokens=99)
    (only,) = calls([call("a", 2, input_tokens=100, parent="open"), late])
    assert only.reading.max_output_tokens == 99


@given(st.randoms(use_true_random=False))
def test_order_and_duplicates_of_readings_change_nothing(rng: random.Random) -> None:
    def made() -> list[Reading]:
        agents = [
            span(f"agent{n}", Operation.AGENT, n, n + 9, trace=f"t{n % 2}", usage=Usage(input_tokens=7))
            for n in range(3)
        ]
        return agents + [
            call(
                f"c{n}",
                n / 3 + 1,
                trace=f"t{n % 2}",
                parent=f"agent{n % 3}" if n % 3 % 2 == n % 2 else None,
                input_tokens=100 + n,
            )
            for n in range(12)
        ]

    expected = [(item.reading.span_id, item.origin.anchor) for item in calls(made())]
    shuffled = made() + made()[:5]
    rng.shuffle(shuffled)
    assert [(item.reading.span_id, item.origin.anchor) for item in calls(shuffled)] == expected


@pytest.mark.parametrize("amount", [3_000])
def test_memory_is_bounded_when_parents_never_end(amount: int) -> None:
    assembler = Assembler(max_held=100)
    for number in range(amount):
        list(assembler.push(call(f"c{number}", number / 1000, trace=f"t{number}", parent="never")))
    assert len(assembler.state.waiting) <= 101
    assert len(assembler.traces) <= 1_001
    assert assembler.counts["hurried"] >= amount - 101


def test_a_rollup_that_ends_with_its_call_at_one_coarse_instant_gives_way() -> None:
    """Backends export milliseconds: the outer span may sort first."""
    outer = span("a-outer", Operation.OTHER, 0, 2, usage=Usage(input_tokens=2497))
    inner = call("z-inner", 2, input_tokens=2497, seconds=2, parent="a-outer")
    (only,) = calls([outer, inner])
    assert (only.reading.span_id, only.rollup) == ("z-inner", False)


def test_a_server_span_on_a_late_clock_is_no_second_call() -> None:
    outer = call("client", 2, input_tokens=100, seconds=2)
    inner = call("server", 2.2, input_tokens=100, parent="client")
    (only,) = calls([outer, inner])
    assert only.reading.span_id == "client"


def test_a_failed_agent_does_not_make_its_call_a_failure() -> None:
    agent = span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=100), failure=Failure(status=429))
    (only,) = calls([call("a", 2, input_tokens=100, parent="agent"), agent])
    assert only.reading.failure is None


def test_usage_that_only_the_agent_reports_belongs_to_its_only_call() -> None:
    agent = span("agent", Operation.AGENT, 0, 9, usage=Usage(input_tokens=100), model="m")
    (only,) = calls([call("a", 2, parent="agent"), agent])
    assert only.reading.usage is not None
    assert (only.reading.usage.input_tokens, only.reading.model, only.rollup) == (100, "m", False)


def test_one_id_of_two_answers_is_two_calls() -> None:
    """A model server that draws its ids from few numbers repeats them."""
    first = call("a", 1, input_tokens=100, output_tokens=5, response_id="chatcmpl-7")
    again = call("b", 500, input_tokens=900, output_tokens=60, response_id="chatcmpl-7")
    assert inputs([first, again]) == [100, 900]


def test_emitters_that_count_input_differently_saw_one_answer() -> None:
    whole = call("a", 2, input_tokens=1_000, output_tokens=5, response_id="msg-1", seconds=1.5)
    rest = call("b", 1.9, input_tokens=40, output_tokens=5, response_id="msg-1", seconds=1.3)
    assert len(inputs([whole, rest])) == 1


def test_a_call_whose_tool_runs_a_subagent_is_a_call() -> None:
    """Model call, tool, agent, model calls: the outer call asked for 30,000 tokens of its own."""
    story = [
        call("x", 2, input_tokens=4_000, parent="sub"),
        call("y", 3, input_tokens=5_000, parent="sub"),
        span("sub", Operation.AGENT, 1, 4, parent="tool"),
        span("tool", Operation.TOOL, 1, 5, parent="outer"),
    ]
    assert inputs([*story, call("outer", 6, input_tokens=30_000, seconds=6)]) == [4_000, 5_000, 30_000]
    assert inputs([*story, call("outer", 6, input_tokens=9_000, seconds=6)]) == [4_000, 5_000]


def test_equal_span_ids_of_two_traces_have_an_order() -> None:
    one, other = (call("s", 1, input_tokens=tokens, trace=trace) for tokens, trace in ((1, "t1"), (2, "t2")))
    assert inputs([one, other]) == inputs([other, one])
