"""Named scenarios: faults of the three families, refusals, what only looks like a fault, and plain health."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from lowwater.detector.simulation.agents import AgentLoop, Policy, Work
from lowwater.detector.simulation.further import FURTHER
from lowwater.detector.simulation.model import Agent, LlmCall, Run, Style
from lowwater.detector.simulation.pools import FanOut, run_fan_out
from lowwater.detector.simulation.quotas import refuse
from lowwater.detector.simulation.stage import Scenario, Stage, calls_of

__all__ = ["SCENARIOS", "Scenario"]


# --- starvation ------------------------------------------------------------------------------------------------------


def _starved(seed: int) -> Run:
    stage = Stage("starvation", seed)
    draw = stage.draw
    window = draw.choice((16_000, 28_700, 32_000, 64_000))
    scale = window / 28_700
    work = Work(
        turns=draw.randint(18, 30),
        need_tokens=round(6_000 * scale),
        note_tokens=(round(250 * scale), round(500 * scale)),
        result_tokens=(round(400 * scale), round(900 * scale)),
        result_style=draw.choice((Style.JSON, Style.LOG, Style.CODE)),
        retrieve_every=1,
        retrieved_chunks=(1, 2),
        chunk_tokens=(round(360 * scale), round(440 * scale)),
        repeats=True,
    )
    policy = Policy(
        target_ratio=draw.uniform(0.58, 0.64), drop="working", keep_retrieved=draw.randint(12, 18), keep_results=13
    )
    loop = stage.loop(
        work,
        policy,
        window_tokens=window,
        system_tokens=round(2_200 * scale),
        output_tokens=round(5_000 * scale),
        staging_tokens=round(3_500 * scale),
    )
    loop.run()
    stage.watched(loop)
    return stage.run()


def _floored(seed: int) -> Run:
    stage = Stage("floor_enforced", seed)
    work = Work(turns=24, need_tokens=6_000, note_tokens=(250, 500), result_tokens=(500, 1_200), retrieve_every=2)
    policy = Policy(target_ratio=0.62, drop="results", floor_tokens=6_000, keep_retrieved=14)
    loop = stage.loop(work, policy, window_tokens=28_700, system_tokens=2_200, output_tokens=4_000)
    loop.run()
    stage.watched(loop)
    return stage.run("starvation")


def _transient(seed: int) -> Run:
    """Now and then a large result squeezes working memory for one turn; the framework lets it go at once."""
    stage = Stage("transient", seed)
    work = Work(turns=24, need_tokens=4_000, note_tokens=(100, 200), result_tokens=(100, 200))
    loop = stage.loop(work, Policy(keep_results=1), window_tokens=20_000, output_tokens=2_000)
    for turn in range(work.turns):
        loop.work = dataclasses.replace(work, result_tokens=(12_000, 12_800)) if turn % 7 == 5 else work
        loop.step()
    loop.agent.end_ns = loop.now_ns
    stage.watched(loop)
    return stage.run("starvation")


def _loud(seed: int) -> Run:
    """Short of room, but the gauge shows it, and a compaction comes."""
    stage = Stage("loud", seed)
    work = Work(turns=30, need_tokens=5_000, result_tokens=(900, 1_800))
    loop = stage.loop(work, Policy(compacts=True, trigger_ratio=0.9, summary_tokens=5_500), window_tokens=24_000)
    loop.run()
    stage.watched(loop)
    return stage.run("starvation")


def _full(seed: int) -> Run:
    """Nearly full of its own working memory: full, and as it should be."""
    stage = Stage("healthy_full", seed)
    work = Work(turns=30, need_tokens=6_000, note_tokens=(600, 900), result_tokens=(80, 200), tools_per_turn=(0, 1))
    loop = stage.loop(work, Policy(keep_results=2), window_tokens=32_000)
    loop.run()
    stage.watched(loop)
    return stage.run("starvation")


# --- fan-out ---------------------------------------------------------------------------------------------------------


def _fan_out(stage: Stage, plan: FanOut) -> tuple[Agent, int]:
    root, truths, peak = run_fan_out(
        stage.draw, stage.ids, plan, name=f"{stage.role}-lead", start_ns=stage.start_ns, service_agents=stage.role
    )
    stage.agents.append(root)
    stage.truth.calls += truths
    return root, peak


def _overrun(seed: int) -> Run:
    stage = Stage("fanout_overrun", seed)
    plan = FanOut(
        width=stage.draw.randint(5, 9), ceiling_tokens=60_000, member=Work(turns=6, result_tokens=(1_800, 3_200))
    )
    root, peak = _fan_out(stage, plan)
    if peak > plan.ceiling_tokens:
        first = next(calls_of(root))
        stage.expect("fanout_overrun", root, first.span_id, 1)
    return stage.run()


def _wide(seed: int) -> Run:
    stage = Stage("wide_but_feasible", seed)
    _fan_out(stage, FanOut(width=10, ceiling_tokens=200_000, member=Work(turns=4, result_tokens=(400, 900))))
    return stage.run("fanout")


def _waves(seed: int) -> Run:
    stage = Stage("sequential_waves", seed)
    _fan_out(stage, FanOut(width=3, waves=4, ceiling_tokens=80_000, member=Work(turns=4, result_tokens=(1_500, 2_500))))
    return stage.run("fanout")


# --- compaction ------------------------------------------------------------------------------------------------------


def _debt(seed: int) -> Run:
    """Compaction was seen to work, and then does not come although it is due."""
    stage = Stage("compaction_debt", seed)
    grows = Work(need_tokens=3_000, note_tokens=(200, 400), result_tokens=(500, 1_000))
    creeps = Work(need_tokens=3_000, note_tokens=(60, 120), result_tokens=(40, 110))
    loop = stage.loop(grows, Policy(compacts=True), window_tokens=stage.draw.choice((16_000, 24_000, 32_000)))
    mark_tokens = loop.policy.trigger_ratio * loop.window_tokens
    while not loop.compactions:
        loop.step()
    for _ in range(3):
        loop.step()
    loop.policy = dataclasses.replace(loop.policy, compacts=False)
    while _last(loop).input_tokens < mark_tokens - 1_500:
        loop.step()
    loop.work = creeps
    above: list[LlmCall] = []
    while len(above) < stage.draw.randint(5, 7):
        call = loop.step()
        if call.input_tokens > mark_tokens:
            above.append(call)
    loop.agent.end_ns = loop.now_ns
    stage.truth.calls += loop.truths
    stage.expect("compaction_debt", loop.agent, above[0].span_id, loop.turn - len(above) + 1)
    return stage.run()


def _last(loop: AgentLoop) -> LlmCall:
    *_, last = calls_of(loop.agent)
    return last


def _compacting(seed: int) -> Run:
    stage = Stage("healthy_compaction", seed)
    work = Work(turns=60, need_tokens=3_000, note_tokens=(200, 400), result_tokens=(700, 1_400))
    loop = stage.loop(work, Policy(compacts=True, trigger_ratio=0.80), window_tokens=32_000)
    loop.run()
    stage.watched(loop)
    return stage.run("compaction")


# --- refusals --------------------------------------------------------------------------------------------------------


def _refused(name: str, times: int, *, ends: bool) -> Callable[[int], Run]:
    def make(seed: int) -> Run:
        stage = Stage(name, seed)
        loop = stage.loop(Work(turns=12, need_tokens=3_000), Policy(keep_results=4), window_tokens=64_000)
        for turn in range(8):
            if turn == 5:
                refused = refuse(loop, stage.draw, name, times)
                stage.truth.rejections |= dict.fromkeys(refused, name)
                stage.expect("rejection", loop.agent, refused[0], 6, name)
                if ends:
                    break
            loop.step()
        loop.agent.end_ns = loop.now_ns
        stage.truth.calls += loop.truths
        return stage.run()

    return make


# --- health ----------------------------------------------------------------------------------------------------------


def _healthy(seed: int) -> Run:
    """An hour of a small fleet of all kinds: chats, coding, retrieval, short tasks."""
    stage = Stage("healthy", seed)
    draw = stage.draw
    for _ in range(draw.randint(2, 5)):
        kind = draw.randrange(4)
        work, policy, window = (
            (Work(turns=draw.randint(3, 8), need_tokens=1_500), Policy(), 128_000),
            (
                Work(turns=40, need_tokens=3_000, question_every=2, tools_per_turn=(0, 1), pause_seconds=(20, 90)),
                Policy(),
                128_000,
            ),
            (
                Work(turns=40, need_tokens=4_000, result_style=Style.CODE, result_tokens=(400, 3_000)),
                Policy(compacts=True, trigger_ratio=0.85),
                64_000,
            ),
            (
                Work(turns=20, need_tokens=2_000, retrieve_every=1, retrieved_chunks=(3, 5)),
                Policy(keep_retrieved=10, keep_results=6),
                32_000,
            ),
        )[kind]
        loop = stage.loop(work, policy, window_tokens=window, after_seconds=draw.uniform(0, 600))
        loop.run()
        stage.watched(loop)
    return stage.run()


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("starvation", "starvation", "results and chunks stay, notes go: starved below every gauge", _starved),
        Scenario("fanout_overrun", "fanout", "each subagent in budget, their sum beyond the pool", _overrun),
        Scenario("compaction_debt", "compaction", "compaction is due and does not come", _debt),
        Scenario("rate_limit", "rejection", "refused for its rate, then served", _refused("rate_limit", 2, ends=False)),
        Scenario("token_quota", "rejection", "the quota is used up", _refused("token_quota", 3, ends=True)),
        Scenario("spend_cap", "rejection", "the budget is spent", _refused("spend_cap", 2, ends=True)),
        Scenario("overload", "rejection", "the provider is overloaded", _refused("overload", 2, ends=False)),
        Scenario("context_length", "rejection", "too long for the model", _refused("context_length", 1, ends=True)),
        Scenario("transient", "healthy", "one large result, gone a turn later", _transient, "starvation"),
        Scenario("loud", "healthy", "short of room where the gauge shows it", _loud, "starvation"),
        Scenario("floor_enforced", "healthy", "a floor keeps working memory", _floored, "starvation"),
        Scenario("healthy_full", "healthy", "full of its own working memory", _full, "starvation"),
        Scenario("wide_but_feasible", "healthy", "many subagents that fit", _wide, "fanout"),
        Scenario("sequential_waves", "healthy", "one wave after the other", _waves, "fanout"),
        Scenario("healthy_compaction", "healthy", "compaction that comes when it is due", _compacting, "compaction"),
        Scenario("healthy", "healthy", "a small fleet of all kinds", _healthy),
        *FURTHER,
    )
}
"""By name."""
