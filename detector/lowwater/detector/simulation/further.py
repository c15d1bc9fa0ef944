"""More scenarios: needs that are learned, compaction that fails, budgets that do not add up, and more health."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from lowwater.detector.simulation.agents import SECOND_NS, AgentLoop, Policy, Work
from lowwater.detector.simulation.model import LlmCall, Run, Style
from lowwater.detector.simulation.pools import FanOut, run_fan_out
from lowwater.detector.simulation.quotas import refuse
from lowwater.detector.simulation.stage import Scenario, Stage, calls_of

__all__ = ["FURTHER"]

_CEILING = "lowwater.context.ceiling_tokens"


def _known(loop: AgentLoop) -> AgentLoop:
    """The ceiling is known, and nothing else: what a user has who states no requirement."""
    loop.agent.declared[_CEILING] = loop.window_tokens
    return loop


def _end(stage: Stage, loop: AgentLoop) -> None:
    loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
    stage.truth.calls += loop.truths


def _last(loop: AgentLoop) -> LlmCall:
    *_, last = calls_of(loop.agent)
    return last


# --- starvation without a stated requirement -----------------------------------------------------------------------------


def _learned(seed: int) -> Run:
    """Some runs of a role show what it needs; then its framework begins to drop notes and keep results."""
    stage = Stage("starvation_learned", seed)
    draw = stage.draw
    work = Work(
        turns=26, need_tokens=6_000, question_tokens=(4_000, 4_600), note_tokens=(60, 130), result_tokens=(60, 150)
    )
    after = 0.0
    for _ in range(draw.randint(4, 6)):
        healthy = _known(
            stage.loop(
                work,
                Policy(),
                window_tokens=28_700,
                after_seconds=after,
                declares=False,
                system_tokens=2_200,
                output_tokens=5_000,
            )
        )
        healthy.run()
        stage.watched(healthy)
        after = (healthy.now_ns - stage.start_ns) / SECOND_NS + draw.uniform(5, 60)
    starved = dataclasses.replace(
        work,
        turns=draw.randint(18, 28),
        note_tokens=(180, 300),
        result_tokens=(900, 1_300),
        result_style=draw.choice((Style.JSON, Style.LOG, Style.CODE)),
        retrieve_every=1,
        retrieved_chunks=(1, 2),
        chunk_tokens=(360, 440),
        repeats=True,
    )
    policy = Policy(target_ratio=draw.uniform(0.76, 0.82), drop="working", keep_retrieved=14, keep_results=13)
    loop = _known(
        stage.loop(
            starved,
            policy,
            window_tokens=28_700,
            after_seconds=after,
            declares=False,
            system_tokens=2_200,
            output_tokens=5_000,
        )
    )
    loop.run()
    stage.watched(loop)
    return stage.run()


# --- fan-out -------------------------------------------------------------------------------------------------------------


def _overcommitted(seed: int) -> Run:
    """Budgets are given that the pool cannot hold together; what is then used still fits."""
    stage = Stage("fanout_overcommitted", seed)
    width = stage.draw.randint(7, 11)
    budget = stage.draw.choice((24_000, 28_000, 32_000))
    plan = FanOut(
        width=width, ceiling_tokens=width * budget - stage.draw.randint(2_000, 20_000),
        member=Work(turns=4, result_tokens=(300, 900)), content_budget_tokens=budget, planned_width=width,
    )  # fmt: skip
    _pool(stage, plan, "fanout_overcommitted")
    return stage.run()


def _budgeted(seed: int) -> Run:
    """The same with budgets that fit."""
    stage = Stage("budgets_that_fit", seed)
    width = stage.draw.randint(4, 9)
    plan = FanOut(
        width=width, ceiling_tokens=width * 20_000 + 30_000, content_budget_tokens=14_000, planned_width=width,
        member=Work(turns=4, result_tokens=(600, 1_800)),
    )  # fmt: skip
    _pool(stage, plan)
    return stage.run("fanout")


def _pool(stage: Stage, plan: FanOut, kind: str = "") -> None:
    root, truths, _ = run_fan_out(
        stage.draw, stage.ids, plan, name=f"{stage.role}-lead", start_ns=stage.start_ns, service_agents=stage.role
    )
    stage.agents.append(root)
    stage.truth.calls += truths
    if kind:
        stage.expect(kind, root, next(calls_of(root)).span_id, 1)


# --- compaction ----------------------------------------------------------------------------------------------------------


def _growing(stage: Stage) -> AgentLoop:
    """An agent whose compaction has worked once, and that is now about to be due again."""
    grows = Work(need_tokens=3_000, note_tokens=(200, 400), result_tokens=(500, 1_000))
    window = stage.draw.choice((16_000, 24_000, 32_000))
    loop = stage.loop(grows, Policy(compacts=True), window_tokens=window, staging_tokens=window // 16)
    while not loop.compactions:
        loop.step()
    for _ in range(3):
        loop.step()
    loop.policy = dataclasses.replace(loop.policy, compacts=False)
    while _last(loop).input_tokens < loop.policy.trigger_ratio * window - 1_500:
        loop.step()
    loop.work = Work(need_tokens=3_000, note_tokens=(60, 120), result_tokens=(40, 110))
    return loop


def _failing(seed: int) -> Run:
    """Compaction is tried and fails, again and again."""
    stage = Stage("compaction_failing", seed)
    loop = _growing(stage)
    failures = 0
    while failures < 4:
        if _last(loop).input_tokens > loop.policy.trigger_ratio * loop.window_tokens:
            loop.compact(outcome="failure")
            failures += 1
        call = loop.step()
        if failures == 3:
            stage.expect("compaction_stalled", loop.agent, call.span_id, loop.turn)
            failures += 1
    loop.step()
    _in_debt(stage, loop)
    _end(stage, loop)
    return stage.run()


def _in_debt(stage: Stage, loop: AgentLoop) -> None:
    """What is above its mark for three turns is in debt, whatever keeps compaction from coming."""
    above = 0
    for turn, call in enumerate(calls_of(loop.agent), 1):
        above = above + 1 if call.input_tokens > loop.policy.trigger_ratio * loop.window_tokens else 0
        if above == 1:
            first = call.span_id, turn
        if above == 3:
            stage.expect("compaction_debt", loop.agent, *first)


def _unended(seed: int) -> Run:
    """A compaction begins and is never heard of again; the agent goes on."""
    stage = Stage("compaction_never_ends", seed)
    loop = _growing(stage)
    while _last(loop).input_tokens <= loop.policy.trigger_ratio * loop.window_tokens:
        loop.step()
    loop.compact(outcome="started")
    for number in range(8):
        call = loop.step()
        if number == 5:
            stage.expect("compaction_stalled", loop.agent, call.span_id, loop.turn)
    _in_debt(stage, loop)
    _end(stage, loop)
    return stage.run()


def _deadlock(seed: int) -> Run:
    """Due and not done, and growth will soon have eaten the buffer that compaction needs."""
    stage = Stage("compaction_deadlock", seed)
    loop = _growing(stage)
    loop.work = dataclasses.replace(loop.work, note_tokens=(90, 150), result_tokens=(120, 220))
    above: list[LlmCall] = []
    while len(above) < 5 and _last(loop).input_tokens < loop.window_tokens:
        call = loop.step()
        if call.input_tokens > loop.policy.trigger_ratio * loop.window_tokens:
            above.append(call)
    if len(above) >= 2:
        stage.expect("compaction_deadlock_risk", loop.agent, above[1].span_id, loop.turn - len(above) + 2)
    _in_debt(stage, loop)
    _end(stage, loop)
    return stage.run()


def _ineffective(seed: int) -> Run:
    """Compaction gives back little, and yet enough: the next one is many turns away."""
    stage = Stage("ineffective_compaction", seed)
    window = stage.draw.choice((24_000, 32_000))
    work = Work(turns=60, need_tokens=3_000, note_tokens=(200, 400), result_tokens=(300, 600))
    policy = Policy(compacts=True, summary_tokens=round(0.5 * window))
    loop = stage.loop(work, policy, window_tokens=window)
    loop.run()
    stage.watched(loop)
    return stage.run("compaction")


# --- refusals ------------------------------------------------------------------------------------------------------------


def _debt_or_quota(name: str, *, debt: bool) -> Callable[[int], Run]:
    def make(seed: int) -> Run:
        stage = Stage(name, seed)
        window = 32_000
        policy = Policy(compacts=True, summary_tokens=round((0.83 if debt else 0.3) * window))
        loop = stage.loop(Work(need_tokens=3_000, result_tokens=(700, 1_400)), policy, window_tokens=window)
        loop.agent.declared["lowwater.scheduler.tick_seconds"] = 5.0
        while not loop.compactions:
            loop.step()
        loop.now_ns += (stage.draw.randint(15, 40) if debt else 1) * SECOND_NS
        label = "compaction_debt" if debt else "token_quota"
        # A local governor says 429 and no more when it is in debt; a provider's quota says what it is.
        refused = refuse(loop, stage.draw, "governor" if debt else "token_quota", 3)
        stage.truth.rejections |= dict.fromkeys(refused, label)
        stage.expect("rejection", loop.agent, refused[0], loop.turn + 1, label)
        _end(stage, loop)
        return stage.run()

    return make


# --- health --------------------------------------------------------------------------------------------------------------


def _polling(seed: int) -> Run:
    """The same question to a job every turn, each time with another answer."""
    stage = Stage("polling", seed)
    work = Work(turns=24, need_tokens=2_500, tools_per_turn=(0, 0), note_tokens=(30, 80))
    loop = stage.loop(work, Policy(keep_results=6), window_tokens=stage.draw.choice((32_000, 64_000)))
    for _ in range(work.turns):
        loop.step()
        loop.poll()
    loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
    stage.watched(loop)
    return stage.run("repetition")


def _reread(seed: int) -> Run:
    """After each compaction the agent reads again, once, what it needs and has just lost."""
    stage = Stage("grace_reread", seed)
    work = Work(turns=60, need_tokens=3_000, result_tokens=(700, 1_400))
    loop = stage.loop(work, Policy(compacts=True), window_tokens=stage.draw.choice((24_000, 32_000)))
    compacted = 0
    for _ in range(work.turns):
        loop.step()
        if loop.compactions > compacted:
            compacted = loop.compactions
            for number in range(loop.asked - 4, loop.asked - 2):
                loop.read_again(number)
    loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
    stage.watched(loop)
    return stage.run("repetition")


def _truncated(seed: int) -> Run:
    """Answers run into the limit of the output; there is room in the window all the same."""
    stage = Stage("truncated_answers", seed)
    work = Work(turns=20, need_tokens=4_000, note_tokens=(1_000, 1_000), result_tokens=(200, 500))
    loop = stage.loop(
        work, Policy(keep_results=5), window_tokens=stage.draw.choice((64_000, 128_000)), output_tokens=1_000
    )
    loop.run()
    stage.watched(loop)
    return stage.run("starvation")


def _switched(seed: int) -> Run:
    """The model changes in the middle of a conversation, to a smaller one and back."""
    stage = Stage("model_switch", seed)
    loop = stage.loop(Work(need_tokens=3_000), Policy(keep_results=8), window_tokens=128_000)
    for turn in range(24):
        loop.model = "in-house-mini" if 8 <= turn < 14 else "in-house-1"
        loop.step()
    loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
    stage.watched(loop)
    return stage.run("compaction")


def _interleaved(seed: int) -> Run:
    """Two agents of one role take turns in one conversation: a large context and a small one."""
    stage = Stage("interleaved_agents", seed)
    small = Work(need_tokens=1_500, note_tokens=(40, 90), result_tokens=(40, 120))
    large = Work(need_tokens=3_000, question_tokens=(11_000, 13_000), result_tokens=(300, 700))
    loops = [stage.loop(work, Policy(keep_results=4), window_tokens=32_000) for work in (large, small)]
    loops[1].agent.conversation = loops[0].agent.conversation
    for _ in range(18):
        for loop, other in (loops, loops[::-1]):
            loop.now_ns = max(loop.now_ns, other.now_ns)
            loop.step()
    for loop in loops:
        loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
        stage.watched(loop)
    return stage.run("compaction")


def _retried(seed: int) -> Run:
    """Connections break and the same call is made again: no refusal, nothing rewritten."""
    stage = Stage("retries_that_succeed", seed)
    loop = stage.loop(Work(need_tokens=3_000), Policy(keep_results=6), window_tokens=64_000)
    for turn in range(20):
        if turn % 6 == 4:
            refuse(loop, stage.draw, "broken", 1)
        loop.step()
    loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
    stage.watched(loop)
    return stage.run("rejection")


def _default(seed: int) -> Run:
    """Nobody states what is needed, and the first runs of a role teach it: a cold start."""
    stage = Stage("cold_start", seed)
    for _ in range(stage.draw.randint(1, 3)):
        work = Work(turns=stage.draw.randint(8, 20), need_tokens=2_000, retrieve_every=2, retrieved_chunks=(2, 4))
        loop = _known(stage.loop(work, Policy(keep_retrieved=8, keep_results=6), window_tokens=32_000, declares=False))
        loop.run()
        stage.watched(loop)
    return stage.run("starvation")


def _hours(seed: int) -> Run:
    """Some hours of a fleet at a human pace; half of the agents state nothing but their ceiling."""
    stage = Stage("agent_hours", seed)
    draw = stage.draw
    slow, human, batch = (20.0, 90.0), (60.0, 240.0), (90.0, 400.0)
    full = Policy(compacts=True)
    kinds = (
        (Work(need_tokens=3_000, question_every=1, tools_per_turn=(0, 1), pause_seconds=human), full, 32_000),
        (
            Work(need_tokens=4_000, result_style=Style.CODE, result_tokens=(400, 3_000), pause_seconds=slow),
            Policy(compacts=True, trigger_ratio=draw.choice((0.75, 0.85))),
            64_000,
        ),
        (
            Work(need_tokens=2_000, retrieve_every=1, retrieved_chunks=(3, 5), pause_seconds=human),
            Policy(keep_retrieved=10, keep_results=6, compacts=True),
            32_000,
        ),
        (
            Work(need_tokens=1_500, note_tokens=(40, 120), tools_per_turn=(1, 2), pause_seconds=batch),
            Policy(keep_results=4, compacts=True),
            16_000,
        ),
        (
            Work(need_tokens=3_000, question_every=3, result_tokens=(100, 6_000), pause_seconds=human),
            Policy(keep_results=2, compacts=True),
            64_000,
        ),
        (
            Work(need_tokens=2_500, tools_per_turn=(2, 4), pause_seconds=batch),
            Policy(keep_results=8, compacts=True),
            128_000,
        ),
    )
    for index in range(len(kinds)):
        work, policy, window = kinds[index]
        states = draw.random() < 0.5
        loop = stage.loop(work, policy, window_tokens=window, after_seconds=draw.uniform(0, 600), declares=states)
        loop.agent.name = f"{stage.role}-{index}"
        _known(loop)
        while loop.now_ns < loop.agent.start_ns + 4 * 3_600 * SECOND_NS:
            loop.step()
        loop.agent.end_ns = loop.now_ns + SECOND_NS // 100
        stage.watched(loop)
    return stage.run()


FURTHER = (
    Scenario("starvation_learned", "starvation", "a role's need is learned, then notes go", _learned),
    Scenario("fanout_overcommitted", "fanout", "budgets that the pool cannot hold together", _overcommitted),
    Scenario("compaction_failing", "compaction", "compaction fails again and again", _failing),
    Scenario("compaction_never_ends", "compaction", "compaction begins and never ends", _unended),
    Scenario("compaction_deadlock", "compaction", "the staging buffer is about to be lost", _deadlock),
    Scenario(
        "debt_rejection", "rejection", "refused by a scheduler in debt", _debt_or_quota("debt_rejection", debt=True)
    ),
    Scenario(
        "quota_not_debt", "rejection", "a quota, right after a compaction", _debt_or_quota("quota_not_debt", debt=False)
    ),
    Scenario("budgets_that_fit", "healthy", "budgets that the pool holds", _budgeted, "fanout"),
    Scenario("ineffective_compaction", "healthy", "compaction that gives back little", _ineffective, "compaction"),
    Scenario("polling", "healthy", "the same call, another answer", _polling, "repetition"),
    Scenario("grace_reread", "healthy", "one re-read after a compaction", _reread, "repetition"),
    Scenario("truncated_answers", "healthy", "answers cut at the output limit", _truncated, "starvation"),
    Scenario("model_switch", "healthy", "the model changes and comes back", _switched, "compaction"),
    Scenario("interleaved_agents", "healthy", "two contexts in one conversation", _interleaved, "compaction"),
    Scenario("retries_that_succeed", "healthy", "broken connections, tried again", _retried, "rejection"),
    Scenario("cold_start", "healthy", "nothing is stated or learned yet", _default, "starvation"),
    Scenario("agent_hours", "healthy", "hours of a fleet at a human pace", _hours),
)
