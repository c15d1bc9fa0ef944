"""Fan-out, compaction debt, rejections and repetition through the whole pipeline, with their look-alikes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.detector.builders import HASHER, SECOND, START, call, content, span, tool
from tests.detector.scenarios import ARGS, RESULT, A, S, U, entries, findings, run, words

from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, ToolUse
from lowwater.collectors.sketch import sketch
from lowwater.detector.config import DetectorConfig, Override
from lowwater.detector.findings import Finding, Kind, Severity, State
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Pipeline
from lowwater.detector.summary import Summary

# --- fan-out ---------------------------------------------------------------------------------------------------------


def fanout(
    width: int,
    tokens: int,
    *,
    ceiling: int | None = 200_000,
    waves: int = 1,
    budget: int | None = None,
    declared: dict[str, Any] | None = None,
) -> list[Reading]:
    """An orchestrator that starts subagents at once, or in waves one after another."""
    pool = dict(declared or {})
    if ceiling is not None:
        pool["pool.ceiling_tokens"] = ceiling
    if budget is not None:
        pool |= {"subagent.content_budget_tokens": budget, "subagent.reserved_tokens": 9_000}
    story = [
        call("p1", 1, input_tokens=5_000, output_tokens=100, parent="lead"),
        span("lead", Operation.AGENT, 0, 1_000, agent_name="lead"),
    ]
    for number in range(width):
        start = 10.0 + (number // -(-width // waves)) * 60
        child = f"child{number}"
        story.append(tool(f"t{number}", start + 41, name="delegate", arguments=child, parent="lead"))
        story.append(
            span(child, Operation.AGENT, start, start + 40, parent="lead", agent_name="worker", declared=dict(pool))
        )
        for turn in (1, 2):
            story.append(
                call(
                    f"{child}-{turn}",
                    start + 10 * turn + number / 100,
                    input_tokens=tokens - 1_000 * (2 - turn),
                    output_tokens=100,
                    parent=child,
                    agent_name="worker",
                    declared=dict(pool),
                    window_tokens=200_000,
                )  # fmt: skip
            )
    return story


def of(kind: Kind, readings: list[Reading], config: DetectorConfig | None = None) -> list[Finding]:
    return [finding for finding in findings(readings, config) if finding.kind is kind]


def test_eight_green_children_break_the_pool_once() -> None:
    fired = of(Kind.FANOUT_OVERRUN, fanout(8, 25_500))
    assert [finding.state for finding in fired] == [State.FIRING, State.RESOLVED]
    assert fired[0].severity is Severity.PAGE
    last = fired[-1].evidence
    assert last["all_members_green"]
    assert last["overrun_tokens"] == 8 * 25_600 + 5_100 - 200_000


@pytest.mark.parametrize("width", [1, 4, 7])
def test_a_pool_that_fits_is_quiet(width: int) -> None:
    assert findings(fanout(width, 24_000)) == []


def test_sequential_waves_are_not_added_up() -> None:
    """Eight children in two waves of four hold half of what eight at once hold."""
    story = fanout(8, 25_500, waves=2)
    assert of(Kind.FANOUT_OVERRUN, story) == []
    pools = {item.run: item for item in run(story) if isinstance(item, PoolReport)}
    assert {pool.width for pool in pools.values()} == {4}
    assert len(pools) == 2


def test_without_a_ceiling_there_are_numbers_and_no_finding() -> None:
    story = fanout(8, 25_500, ceiling=None)
    assert findings(story) == []
    reports = [item for item in run(story) if isinstance(item, PoolReport)]
    assert (reports[-1].width, reports[-1].peak_tokens) == (8, 8 * 25_600)


def test_an_infeasible_plan_is_overcommitted_though_nothing_is_used() -> None:
    fired = of(Kind.FANOUT_OVERCOMMITTED, fanout(8, 3_000, budget=24_000))
    assert fired
    assert fired[0].evidence["committed_tokens"] > 200_000
    assert fired[0].evidence["feasible_width"] == (200_000 - 5_100) // 33_000


def test_a_feasible_wide_plan_is_quiet() -> None:
    assert of(Kind.FANOUT_OVERCOMMITTED, fanout(8, 3_000, budget=14_000)) == []


def test_a_planned_width_counts_before_all_have_started() -> None:
    assert of(Kind.FANOUT_OVERCOMMITTED, fanout(2, 3_000, budget=24_000, declared={"pool.planned_width": 8}))


def test_spend_is_summed_where_the_pool_measures_spend() -> None:
    story = fanout(4, 24_000, ceiling=190_000, declared={"pool.measure": "spend"})
    assert of(Kind.FANOUT_OVERRUN, story)
    assert of(Kind.FANOUT_OVERRUN, fanout(4, 24_000, ceiling=190_000)) == []


def test_a_budget_raised_over_the_ceiling_is_unsafe() -> None:
    story = fanout(4, 3_000, budget=38_000)
    for reading in story:
        if reading.span_id == "child0-2":
            reading.declared["subagent.content_budget_tokens"] = 60_000
    fired = of(Kind.FANOUT_REDISTRIBUTION_UNSAFE, story)
    assert fired
    assert fired[0].evidence["moved_tokens"] == 22_000


@pytest.mark.parametrize(("measure", "unsafe"), [("occupancy", False), ("spend", True)])
def test_what_an_ended_subagent_spent_is_not_given_back(measure: str, unsafe: bool) -> None:
    story = fanout(4, 20_000, budget=30_000, declared={"pool.measure": measure})
    for reading in story:
        if reading.span_id == "child0":
            reading.end_ns = START + 25 * SECOND
        if reading.span_id == "child0-2":
            reading.start_ns = reading.end_ns = START + 22 * SECOND
        if reading.span_id == "child1-2":
            reading.declared["subagent.content_budget_tokens"] = 75_000
    assert bool(of(Kind.FANOUT_REDISTRIBUTION_UNSAFE, story)) is unsafe


# --- compaction ------------------------------------------------------------------------------------------------------


def filling(
    turns: int, *, start: int = 150_000, step: int = 2_000, compact_at: int | None = None, **fields: Any
) -> list[Reading]:
    """A context that grows by a step per turn, and is compacted once if told so."""
    story, tokens = [], start
    for number in range(1, turns + 1):
        if number == compact_at:
            mark = Compaction(before_tokens=tokens, after_tokens=30_000)
            story.append(
                span(
                    f"m{number}",
                    Operation.COMPACTION,
                    number * 10 - 3,
                    number * 10 - 2,
                    conversation="c",
                    compaction=mark,
                )
            )
            tokens = 30_000
        story.append(
            call(
                f"c{number}",
                number * 10.0,
                input_tokens=tokens,
                output_tokens=100,
                conversation="c",
                window_tokens=200_000,
                **fields,
            )
        )
        tokens += step
    return story


def test_debt_fires_after_three_turns_above_the_mark_and_not_before() -> None:
    """The mark of 180,000 is passed at turn 17."""
    assert of(Kind.COMPACTION_DEBT, filling(18)) == []
    (fired,) = of(Kind.COMPACTION_DEBT, filling(19))
    assert fired.evidence["debt_turns"] == 3
    assert fired.severity is Severity.INFO  # nothing says that this agent compacts at all


def test_debt_of_a_framework_that_compacts_is_a_ticket() -> None:
    (fired,) = of(Kind.COMPACTION_DEBT, filling(25, trigger_tokens=170_000))
    assert fired.severity is Severity.TICKET
    assert fired.provenance["trigger_ratio"].label == "reported"


def test_a_compaction_in_time_is_no_finding() -> None:
    assert findings(filling(40, compact_at=17)) == []


def test_a_compaction_ends_the_debt() -> None:
    states = [finding.state for finding in of(Kind.COMPACTION_DEBT, filling(30, compact_at=24))]
    assert states == [State.FIRING, State.RESOLVED]


def test_the_end_of_the_staging_buffer_is_foreseen() -> None:
    config = DetectorConfig(overrides=(Override(staging_tokens=10_000, trigger_ratio=0.8),))
    (fired,) = of(Kind.COMPACTION_DEADLOCK_RISK, filling(20), config)
    assert fired.severity is Severity.PAGE
    assert 0 < fired.evidence["turns_left"] <= 5
    assert fired.evidence["seconds_left"] == pytest.approx(fired.evidence["turns_left"] * 10, rel=0.2)


def test_what_survives_above_the_trigger_cannot_converge() -> None:
    mark = Compaction(before_tokens=190_000, after_tokens=185_000)
    story = [*filling(17), span("m", Operation.COMPACTION, 171, 172, conversation="c", compaction=mark)]
    story += [
        call(
            f"d{n}", 170.0 + 10 * n, input_tokens=185_000 + n, output_tokens=9, conversation="c", window_tokens=200_000
        )
        for n in range(1, 4)
    ]
    fired = of(Kind.COMPACTION_DEADLOCK_RISK, story)
    assert {finding.reason for finding in fired} == {"floor_above_trigger"}


def test_three_failures_are_a_stall() -> None:
    story = filling(12)
    for number in (4, 6, 8):
        story.append(
            span(
                f"f{number}",
                Operation.COMPACTION,
                number * 10 + 1,
                number * 10 + 2,
                conversation="c",
                compaction=Compaction(outcome="failure"),
            )
        )
    (fired,) = [item for item in of(Kind.COMPACTION_STALLED, story) if item.state is State.FIRING]
    assert fired.reason == "failing"


def test_one_that_began_and_never_ended_is_a_stall() -> None:
    story = [
        *filling(12),
        span("s", Operation.COMPACTION, 31, 32, conversation="c", compaction=Compaction(outcome="started")),
    ]
    assert of(Kind.COMPACTION_STALLED, story)[0].reason == "never_ended"


# --- rejections ------------------------------------------------------------------------------------------------------


def refused(span_id: str, at: float, failure: Failure, **fields: Any) -> Reading:
    return call(span_id, at, conversation=fields.pop("conversation", "c"), failure=failure, **fields)


BUDGET = Failure(type="BudgetExceeded", status=429, signals=("budget_exceeded",))
LIMIT = Failure(type="RateLimitError", status=429, signals=("rate_limit",))


def test_a_refusal_of_a_stale_full_context_is_compaction_debt() -> None:
    mark = Compaction(before_tokens=31_000, after_tokens=29_000, window_tokens=32_000)
    story = [
        call("a", 1, input_tokens=31_000, output_tokens=5, conversation="c", window_tokens=32_000),
        span("m", Operation.COMPACTION, 2, 3, conversation="c", compaction=mark),
        call("b", 4, input_tokens=29_000, output_tokens=5, conversation="c", window_tokens=32_000),
        refused("r", 40, BUDGET, declared={"scheduler.tick_seconds": 5.0}),
    ]
    (fired,) = of(Kind.REJECTION, story)
    assert fired.evidence["class"] == "compaction_debt"
    assert fired.evidence["action"] == "request_compaction_then_retry"


def test_the_same_refusal_without_a_record_is_not_called_debt() -> None:
    (fired,) = of(Kind.REJECTION, [call("a", 1, input_tokens=100, conversation="c"), refused("r", 40, BUDGET)])
    assert fired.evidence["class"] == "unknown"


def test_a_rejection_resolves_with_the_next_answer_and_is_one_episode() -> None:
    story = [refused("r1", 1, LIMIT), refused("r2", 3, LIMIT), call("ok", 5, input_tokens=100, conversation="c")]
    assert [(item.state, item.evidence["class"]) for item in of(Kind.REJECTION, story)] == [
        (State.FIRING, "rate_limit"), (State.RESOLVED, "rate_limit"),
    ]  # fmt: skip


def test_an_aborted_call_is_no_rejection() -> None:
    assert findings([refused("r", 1, Failure(type="aborted", aborted=True))]) == []


def test_a_saturated_scheduler_shows_in_the_share_of_debt() -> None:
    story: list[Reading] = []
    mark = Compaction(before_tokens=31_000, after_tokens=29_000, window_tokens=32_000)
    for number in range(8):
        c = f"c{number}"
        story += [
            call(f"a{number}", 1 + number, input_tokens=29_500, output_tokens=5, conversation=c, window_tokens=32_000, seconds=0.1),
            span(f"m{number}", Operation.COMPACTION, 2 + number, 2.5 + number, conversation=c, compaction=mark),
            call(f"b{number}", 10 + number, input_tokens=29_000, output_tokens=5, conversation=c, window_tokens=32_000, seconds=0.1),
            refused(f"r{number}", 60 + number, BUDGET, conversation=c, declared={"scheduler.tick_seconds": 5.0}, seconds=0.1),
        ]  # fmt: skip
    fired = of(Kind.COMPACTION_DEBT_SHARE, story)
    assert fired
    assert fired[0].evidence["debt_rejections"] >= 5


def test_one_doomed_call_retried_over_and_over_is_amplification() -> None:
    story = [refused(f"r{number}", number * 2.0, LIMIT) for number in range(1, 9)]
    (fired,) = of(Kind.RETRY_AMPLIFICATION, story)
    assert fired.evidence["longest_run_of_attempts"] >= 6


def test_three_attempts_at_one_call_are_what_clients_do() -> None:
    assert of(Kind.RETRY_AMPLIFICATION, [refused(f"r{number}", number * 2.0, LIMIT) for number in range(1, 4)]) == []


def test_agents_that_wake_together_are_a_herd() -> None:
    story = []
    for wave in range(4):
        for number in range(8):
            at = 10 + wave * 20 + number * 0.05
            story.append(refused(f"r{wave}-{number}", at, LIMIT, conversation=f"c{number}", seconds=0.01))
    assert of(Kind.RETRY_SYNCHRONY, story)


# --- repetition ------------------------------------------------------------------------------------------------------


def calling(results: list[str], *, arguments: str = "same", compact_after: int | None = None) -> list[Reading]:
    """One tool call between every two turns; the prompt holds all results, or only those since a compaction."""
    story: list[Reading] = []
    held: list[tuple[Any, ...]] = [(S, words(50, "sys")), (U, words(20, "task"))]
    for number, result in enumerate(results, 1):
        story.append(
            call(
                f"c{number}",
                number * 10.0,
                input_tokens=1_000 + 50 * number,
                output_tokens=9,
                conversation="c",
                agent_name="bot",
                content=content(*held),
            )
        )
        story.append(
            tool(
                f"t{number}",
                number * 10.0 + 5,
                arguments=arguments,
                result=result,
                call_id=f"id{number}",
                conversation="c",
                agent_name="bot",
            )
        )
        held += [(ARGS, arguments, f"id{number}"), (RESULT, result, f"id{number}")]
        if number == compact_after:
            story.append(
                span(
                    f"m{number}",
                    Operation.COMPACTION,
                    number * 10 + 6,
                    number * 10 + 7,
                    conversation="c",
                    agent_name="bot",
                    compaction=Compaction(before_tokens=2_000),
                )
            )
            held = held[:2] + [(BLOCK, words(10, "short")) for BLOCK in (A,)]
    story.append(
        call(
            "end",
            len(results) * 10.0 + 10,
            input_tokens=1_000 + 50 * (len(results) + 1),
            output_tokens=9,
            conversation="c",
            agent_name="bot",
            content=content(*held),
        )
    )
    return story


def test_a_loop_while_the_result_is_held() -> None:
    fired = of(Kind.REPETITION, calling(["same"] * 4))
    assert fired[0].reason == "loop"
    assert {item.severity for item in fired} == {Severity.INFO}


def test_polling_is_not_repetition() -> None:
    assert of(Kind.REPETITION, calling([f"state {number}" for number in range(8)])) == []


def test_one_reread_after_a_compaction_is_granted() -> None:
    assert of(Kind.REPETITION, calling(["text", "text"], compact_after=1)) == []


def test_prose_that_goes_in_circles() -> None:
    requests = [
        "please scroll further down the page and look for the board of directors section",
        "please scroll further down the page and look for the section on the board of directors",
        "please scroll down the page further and look for the board of directors section again",
    ]
    story: list[Reading] = []
    for number, request in enumerate(requests * 2, 1):
        story.append(
            call(
                f"c{number}",
                number * 10.0,
                input_tokens=1_000 + number,
                output_tokens=9,
                conversation="c",
                agent_name="bot",
            )
        )
        use = ToolUse(
            "surfer",
            0,
            HASHER.hash(request + str(number)),
            HASHER.hash(str(number)),
            50,
            False,
            sketch(request, HASHER),
        )
        story.append(
            span(
                f"t{number}",
                Operation.TOOL,
                number * 10 + 1,
                number * 10 + 5,
                conversation="c",
                agent_name="bot",
                tool=use,
            )
        )
    assert {item.reason for item in of(Kind.REPETITION, story)} == {"rephrased"}


# --- content-free ----------------------------------------------------------------------------------------------------


def test_without_content_growth_goes_to_the_tools_and_retrievers_in_between() -> None:
    story = [
        call("a", 10, input_tokens=3_000, output_tokens=100, conversation="c"),
        tool("t", 15, conversation="c", tokens=900),
        call("b", 20, input_tokens=4_100, output_tokens=100, conversation="c"),
        tool("r", 25, conversation="c", tokens=600, retriever=True),
        call("d", 30, input_tokens=4_800, output_tokens=100, conversation="c"),
        call("e", 40, input_tokens=5_000, output_tokens=100, conversation="c"),
    ]
    split = [(e.reserved.system, e.retrieval_tokens, e.scratchpad_tokens, e.working_tokens) for e in entries(story)]
    assert split == [(3_000, 0, 0, 0), (3_000, 0, 1_050, 50), (3_000, 600, 1_100, 100), (3_000, 600, 1_100, 300)]
    assert {e.provenance["working_tokens"].label for e in entries(story)} == {"inferred"}


def test_an_inferred_split_never_pages() -> None:
    story = [
        call(
            f"c{n}",
            n * 10.0,
            input_tokens=9_000 + 1_200 * n,
            output_tokens=10,
            conversation="c",
            declared={"working_set.required_tokens": 20_000, "context.ceiling_tokens": 36_000},
        )
        for n in range(1, 14)
    ]
    for n in range(1, 14):
        story += [
            tool(f"t{n}", n * 10 + 4, conversation="c", arguments=str(n)),
            tool(f"r{n}", n * 10 + 5, conversation="c", arguments=str(n), retriever=True),
        ]
    fired = of(Kind.SILENT_STARVATION, story)
    assert fired
    assert {item.severity for item in fired} == {Severity.TICKET}


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_million_conversations_do_not_fill_memory() -> None:
    """Every table of the pipeline has a bound, whatever the ids are."""
    pipeline = Pipeline(max_contexts=50)
    summary = Summary()
    for number in range(6_000):
        reading = call(
            f"c{number}",
            number / 10,
            input_tokens=100,
            output_tokens=1,
            conversation=f"conv{number}",
            trace=f"t{number}",
            response_id=f"r{number}",
        )
        for output in pipeline.push(reading):
            summary.add(output)
    for output in pipeline.finish():
        summary.add(output)
    assert {
        name: len(states) <= 50 for name, states in pipeline.spaces.items() if name not in ("trace", "answer")
    } == dict.fromkeys(("scope", "pool", "context", "role", "rejection"), True)
    assert len(pipeline.spaces["trace"]) <= 10 * 120 + 1  # those of the last two minutes
    assert summary.calls == 6_000
    assert len(summary.contexts) <= 4_000
    assert len(summary.contexts) + summary.dropped_contexts == 6_000


def test_prompts_that_come_and_go_never_page_as_thrash() -> None:
    """No marker, no content, no known trigger: it may as well be one job after another."""
    sizes = [60_000, 90_000, 118_000] * 12
    story = [
        call(f"c{n}", n * 10.0, input_tokens=size, output_tokens=100, conversation="c", window_tokens=128_000)
        for n, size in enumerate(sizes)
    ]
    assert all(finding.severity < Severity.PAGE for finding in findings(story))


def test_a_window_that_was_refuted_stays_refuted() -> None:
    sizes = [150_000, 250_000, 150_000, 185_000, 190_000, 195_000, 198_000]
    story = [
        call(f"c{n}", n * 10.0, input_tokens=size, output_tokens=9, conversation="c", model="claude-haiku-4-5")
        for n, size in enumerate(sizes)
    ]
    assert [entry.ceiling_tokens for entry in entries(story)] == [200_000, *[None] * 6]
    assert findings(story) == []
