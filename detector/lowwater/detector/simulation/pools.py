"""Orchestrators that send out subagents: in parallel or in waves, within their pool's ceiling or beyond it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lowwater.detector.simulation.agents import SECOND_NS, AgentLoop, Ids, Policy, Work
from lowwater.detector.simulation.model import Agent, CallTruth, LlmCall

__all__ = ["FanOut", "run_fan_out"]


_MEMBER = Work(turns=5, need_tokens=3_000, result_tokens=(1_500, 4_000))


@dataclass(frozen=True, slots=True)
class FanOut:
    """A fan-out.

    Attributes:
        width: subagents at once.
        waves: how many times so many, one wave after the other.
        ceiling_tokens: the pool's shared ceiling.
        member_window_tokens: each subagent's own window, which it never reaches.
        member: what each subagent does.
        overhead_tokens: system prompt of a subagent, beside its tools' schemas.
        synthesis_tokens: reserved for the results that come back.
        content_budget_tokens: stated for each subagent; None for none.
        planned_width: stated on the orchestrator's span; None for none.
        declares: state the ceiling and the reserve on the orchestrator's span.
    """

    width: int = 4
    waves: int = 1
    ceiling_tokens: int = 200_000
    member_window_tokens: int = 200_000
    member: Work = _MEMBER
    overhead_tokens: int = 3_000
    synthesis_tokens: int = 2_000
    content_budget_tokens: int | None = None
    planned_width: int | None = None
    declares: bool = True


def run_fan_out(
    draw: random.Random, ids: Ids, plan: FanOut, *, name: str, start_ns: int, service_agents: str
) -> tuple[Agent, list[CallTruth], int]:
    """An orchestrator's run, the truth of all its calls, and the most that its members held at one time, in tokens."""
    root = Agent(ids.span(), ids.trace(), name, f"{name}-{ids.text()}", start_ns, start_ns, f"conv-{ids.text()}")
    if plan.declares:
        root.declared |= {
            "lowwater.pool.ceiling_tokens": plan.ceiling_tokens,
            "lowwater.pool.synthesis_reserve_tokens": plan.synthesis_tokens,
        }
    if plan.planned_width is not None:
        root.declared["lowwater.pool.planned_width"] = plan.planned_width
    root.model_window_tokens = plan.member_window_tokens
    lead = AgentLoop(
        draw, ids, root, Work(turns=1, need_tokens=2_000, tools_per_turn=(0, 0)), Policy(), declares=False,
        output_tokens=1_000,
    )  # fmt: skip
    lead.step()
    truths, steps = list(lead.truths), []
    peak = 0
    for _ in range(plan.waves):
        wave_start_ns = lead.now_ns + SECOND_NS // 20
        ends, held = [wave_start_ns], []
        for number in range(plan.width):
            member = Agent(
                ids.span(), root.trace_id, service_agents, f"{service_agents}-{ids.text()}",
                wave_start_ns + number * SECOND_NS // 50, 0, model_window_tokens=plan.member_window_tokens,
            )  # fmt: skip
            if plan.content_budget_tokens is not None:
                member.declared["lowwater.subagent.content_budget_tokens"] = plan.content_budget_tokens
                member.declared["lowwater.subagent.reserved_tokens"] = plan.overhead_tokens + 550  # its tools' schemas
            loop = AgentLoop(
                draw, ids, member, plan.member, Policy(), system_tokens=plan.overhead_tokens, declares=False
            )
            steps.append(loop.run())
            truths += loop.truths
            ends.append(member.end_ns)
            held.append([(call.start_ns, call.input_tokens + call.output_tokens) for call in _calls(member)])
        lead.now_ns = max(ends)
        peak = max(peak, _peak(held))
    root.steps += steps
    lead.pause((0.05, 0.2))
    lead.turn += 1
    lead.call()
    truths.append(lead.truths[-1])
    root.end_ns = lead.now_ns + SECOND_NS // 100
    return root, truths, peak


def _calls(agent: Agent) -> list[LlmCall]:
    return [step for step in agent.steps if isinstance(step, LlmCall)]


def _peak(held: list[list[tuple[int, int]]]) -> int:
    """The highest sum, where each holds what its latest call left, from that call's start on."""
    changes = sorted((when, index, tokens) for index, steps in enumerate(held) for when, tokens in steps)
    now = [0] * len(held)
    most = 0
    for _, index, tokens in changes:
        now[index] = tokens
        most = max(most, sum(now))
    return most
