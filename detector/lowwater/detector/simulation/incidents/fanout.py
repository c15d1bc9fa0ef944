"""An orchestrator that sends out N subagents under one ceiling, each with an equal split that nobody sums up.

A subagent's context is overhead and content, held until all are collected. In a fan-out each also carries a brief of how
the work is split; a single subagent has none (this is what makes 4 hold more than 4 times one). With the rule,
`plan_fanout` is asked first; a refused plan runs in the widest waves that are not refused.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, Outcome, summarize
from lowwater.policies.fanout import Member, aggregate_check, plan_fanout

__all__ = ["PARAMETERS", "Parameters", "fit", "run"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Given by the design: ceiling, split, overhead. Fitted: content, its deviation, brief.

    Attributes:
        uptake_ratio: assumed; how much of a budget that was moved to it a subagent spends.
    """

    ceiling_tokens: int = 200_000
    split_tokens: int = 24_000
    overhead_tokens: int = 1_800 + 3_200 + 4_000
    uptake_ratio: float = 0.5
    content_tokens: int = 10_000
    brief_tokens: int = 5_000
    deviation_tokens: int = 3_200


PARAMETERS = Parameters()
WIDTHS = (1, 4, 8)


def run(parameters: Parameters, seed: int, rule: bool) -> Outcome:
    """One fan-out of each width."""
    outcome: dict[str, float] = {}
    for width in WIDTHS:
        outcome |= _run(parameters, seed, rule, width)
    return outcome


def _run(p: Parameters, seed: int, rule: bool, width: int) -> dict[str, float]:
    draw = random.Random(f"fanout/{width}/{seed}")
    brief = p.brief_tokens if width > 1 else 0
    contents = [
        round(min(p.split_tokens, max(0.0, draw.gauss(p.content_tokens + brief, p.deviation_tokens))))
        for _ in range(width)
    ]
    at_once = width
    if rule:
        while (
            at_once
            and not plan_fanout(
                ceiling_tokens=p.ceiling_tokens,
                parent_reserve_tokens=0,
                synthesis_reserve_tokens=0,
                members=[Member(str(i), p.overhead_tokens, p.split_tokens) for i in range(at_once)],
            ).feasible
        ):
            at_once -= 1
    waves = [contents[start : start + at_once] for start in range(0, width, at_once)]
    held = max(([p.overhead_tokens + content for content in wave] for wave in waves), key=sum)
    verdict = aggregate_check(
        ceiling_tokens=p.ceiling_tokens,
        parent_reserve_tokens=0,
        aggregate_tokens=sum(held),
        occupancy_tokens={str(i): tokens for i, tokens in enumerate(held)},
        limits_tokens={str(i): p.overhead_tokens + p.split_tokens for i in range(len(held))},
    )
    fair = p.ceiling_tokens / width
    result = {
        f"peak_tokens_{width}": float(sum(held)),
        f"overrun_ratio_{width}": float(verdict.overrun_tokens > 0),
        f"green_ratio_{width}": float(verdict.all_members_green),
        f"refused_ratio_{width}": float(at_once < width),
    }
    if verdict.overrun_tokens:
        result[f"over_tokens_{width}"] = float(verdict.overrun_tokens)
        result[f"over_children_{width}"] = float(sum(tokens > fair for tokens in held))
    if not rule and width == max(WIDTHS):
        # Naive: half of what the least hungry child has not used, reservation and all, goes to the hungriest.
        moved = (p.overhead_tokens + p.split_tokens - min(held)) // 2
        result["naive_overrun_ratio"] = float(sum(held) + p.uptake_ratio * moved > p.ceiling_tokens)
    return result


def fit() -> Parameters:
    """Content from N = 1, brief from N = 4, deviation from the share of overruns at N = 8, one after the other."""

    def mean(trial: Parameters, name: str) -> float:
        return summarize([run(trial, seed, False) for seed in FITTING_SEEDS])[name].mean

    trial = PARAMETERS
    for field, name, target, values in (
        ("content_tokens", "peak_tokens_1", 19_000, range(8_000, 12_001, 500)),
        ("brief_tokens", "peak_tokens_4", 96_000, range(3_000, 7_001, 500)),
        ("deviation_tokens", "overrun_ratio_8", 0.20, range(1_600, 4_001, 200)),
    ):
        trial = min((replace(trial, **{field: value}) for value in values), key=lambda t: abs(mean(t, name) - target))
    return trial
