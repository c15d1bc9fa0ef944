"""A compaction that is put off every turn for the sake of the turn's latency, until nothing can be written any more.

Before: the scheduler compares the p95 of turns plus the compaction with the target, and defers. With the rule, the
project's `CompactionScheduler` is asked with the duration of the turn that has just ended.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, Outcome, summarize
from lowwater.policies.compaction import CompactionScheduler

__all__ = ["PARAMETERS", "Parameters", "fit", "run"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Given by the design: window, reservation, target, cost, retrieval, turns.

    Attributes:
        resident_after_ratio: part of the reservation that a compaction leaves. The design tells it in the `after` column
            only, as the low end of the occupancy; so that end is no prediction.
        turn_seconds: assumed; median of a turn; p95 is then about 1.65 s, within the target.
        conversation_tokens: assumed; what a compaction summarises beside the scratchpad.
        growth_tokens: fitted; mean growth of the scratchpad in a turn.
    """

    window_tokens: int = 32_000
    reservation_tokens: int = 6_000
    retrieval_tokens: int = 8 * 400
    turn_slo_seconds: float = 1.8
    seconds_per_token: float = 0.340 / 12_000
    turns: int = 200
    resident_after_ratio: float = 0.55
    turn_seconds: float = 1.25
    turn_deviation: float = 0.17
    conversation_tokens: int = 7_000
    staging_tokens: int = 6_000
    growth_tokens: int = 140


PARAMETERS = Parameters()


def run(parameters: Parameters, seed: int, rule: bool) -> Outcome:
    """Turns until the scratchpad's reservation is full, or the last one."""
    p, draw = parameters, random.Random(f"compaction/{seed}")
    scheduler = CompactionScheduler(
        p.window_tokens, p.staging_tokens, p.seconds_per_token, p.turn_slo_seconds, p.reservation_tokens
    )
    p95_seconds = p.turn_seconds * 2.718281828 ** (1.645 * p.turn_deviation)
    scratchpad = 0.0
    deferred = due = 0
    at: list[int] = []
    seconds: list[float] = []
    starts: list[float] = []
    occupancy: list[float] = []
    turn = 0
    for turn in range(1, p.turns + 1):
        scratchpad += p.growth_tokens * draw.uniform(0.5, 1.5)
        took = p.turn_seconds * draw.lognormvariate(0.0, p.turn_deviation)
        pace = draw.uniform(0.85, 1.15)
        if scratchpad > p.reservation_tokens:
            break
        span = p.conversation_tokens + round(scratchpad)
        if at:
            occupancy.append(scratchpad / p.reservation_tokens)
        if rule:
            admission = scheduler.at_turn_end(
                input_tokens=p.retrieval_tokens + span,
                scratchpad_tokens=round(scratchpad),
                turn_seconds=took,
                growth_tokens_per_turn=float(p.growth_tokens),
                span_tokens=span,
            )
            is_due, admitted = admission.reason != "not_due", admission.admitted
        else:
            is_due = scratchpad > 0.70 * p.reservation_tokens
            admitted = is_due and p95_seconds + p.seconds_per_token * span <= p.turn_slo_seconds
        due += is_due
        deferred += is_due and not admitted
        if admitted:
            at.append(turn)
            seconds.append(p.seconds_per_token * span * pace)
            starts.append(scratchpad / p.reservation_tokens)
            scratchpad = p.resident_after_ratio * p.reservation_tokens
            occupancy.append(p.resident_after_ratio)
    stalled = scratchpad > p.reservation_tokens
    outcome = {"stalled_ratio": float(stalled), "turns": float(turn), "deferred_ratio": deferred / max(1, due)}
    if len(at) > 1:
        outcome |= {
            "period_turns": (at[-1] - at[0]) / (len(at) - 1),
            "start_occupancy_ratio": sum(starts) / len(starts),
            "compaction_seconds": sum(seconds) / len(seconds),
            "occupancy_low_ratio": min(occupancy),
            "occupancy_high_ratio": sorted(occupancy)[round(0.95 * (len(occupancy) - 1))],
        }
    return outcome


def fit() -> Parameters:
    """The growth with which 95 % of the runs stall after more than 40 turns: the largest such."""

    def low(growth: int) -> float:
        trial = replace(PARAMETERS, growth_tokens=growth)
        return summarize([run(trial, seed, False) for seed in FITTING_SEEDS[:300]])["turns"].low

    return replace(PARAMETERS, growth_tokens=max(growth for growth in range(100, 181, 2) if low(growth) > 40))
