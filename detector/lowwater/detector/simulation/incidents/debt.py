"""A governor whose sweep compacts contexts one after the other, needed or not, while those in debt back off.

Every tick the governor sweeps `sweep_slots` contexts, round robin. A sweep has a small slice of time: it leaves a context
nearly full. Some agents fill theirs again long before the sweep comes back, and are refused with the word that also means
quota; they back off, 2, 4, 8, 16 s, and no waiting helps. With the rule, a refused agent asks `classify_rejection` with the
governor's record of its context and `enforce_retry_policy` what to do. A requested compaction takes a slot of the next tick
before the sweep does (the same capacity), is a whole one, and ends `compaction_seconds` later. Quota rejections come at
random and are the same in both columns.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace
from typing import Any

from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, Outcome, summarize
from lowwater.policies.rejection import CompactionRecord, RejectionClass, classify_rejection
from lowwater.policies.retry import enforce_retry_policy

__all__ = ["PARAMETERS", "Parameters", "fit", "run"]

_BACKOFF_SECONDS = (2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Given by the design: agents, tick, backoff (held at 16 s). Fitted: fill and quota rate.

    Attributes:
        heavy_agents: assumed; those that fill their context before the sweep returns.
        sweep_slots: assumed; compactions per tick.
        resident_after_ratio: assumed; mean of what a sweep leaves of the window, with deviation 0.02.
        full_after_ratio: assumed; what a whole compaction leaves.
        visits_are_recorded: assumed; the sweep writes a record of a context that it finds too roomy to trim. Without,
            the record of a whole compaction stays until the context is full, and the rule takes it for roomy.
        fill_seconds: fitted; from what a sweep leaves to a full window.
        quota_per_hour: fitted; quota rejections of the whole fleet.
    """

    agents: int = 40
    tick_seconds: float = 5.0
    horizon_seconds: float = 1_800.0
    heavy_agents: int = 12
    sweep_slots: int = 2
    compaction_seconds: float = 0.34
    resident_after_ratio: float = 0.92
    full_after_ratio: float = 0.55
    visits_are_recorded: bool = True
    fill_seconds: float = 62.0
    quota_per_hour: float = 850.0


PARAMETERS = Parameters()


@dataclass(slots=True)
class _Agent:
    compacted_seconds: float
    resident_ratio: float
    full_seconds: float
    refused_seconds: float | None = None
    attempts: int = 0
    wanted: bool = False
    generation: int = 0


def run(parameters: Parameters, seed: int, rule: bool) -> Outcome:  # noqa: PLR0915 - one event loop
    """A fleet over the horizon."""
    p = parameters
    draw, quota = random.Random(f"debt/{seed}"), random.Random(f"debt/quota/{seed}")
    fleet: list[_Agent] = []
    events: list[tuple[float, int, str, int, int]] = []
    count = 0

    def push(when: float, what: str, index: int = 0) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (when, count, what, index, fleet[index].generation if what == "call" else 0))

    def compact(index: int, now: float, whole: bool) -> None:
        agent = fleet[index]
        left = p.full_after_ratio if whole else min(0.99, draw.gauss(p.resident_after_ratio, 0.02))
        pace = p.fill_seconds / (1 - p.resident_after_ratio)
        agent.compacted_seconds, agent.resident_ratio = now, left
        agent.full_seconds = now + pace * (1 - left) * draw.uniform(0.8, 1.2)
        agent.wanted = False
        if agent.refused_seconds is None:
            agent.generation += 1
            push(agent.full_seconds, "call", index)

    fleet += [_Agent(0.0, p.resident_after_ratio, draw.uniform(0, 2 * p.fill_seconds)) for _ in range(p.heavy_agents)]
    for index, agent in enumerate(fleet):
        push(agent.full_seconds, "call", index)
    order = list(range(p.agents))
    draw.shuffle(order)
    push(p.tick_seconds, "tick")
    at, debt, wasted = 0, 0, 0
    requests: list[int] = []
    recoveries: list[float] = []
    while events and events[0][0] < p.horizon_seconds:
        now, _, what, index, generation = heapq.heappop(events)
        if what == "tick":
            for _ in range(p.sweep_slots):
                if requests:
                    push(now + p.compaction_seconds, "whole", requests.pop(0))
                    continue
                if order[at] < p.heavy_agents:
                    push(now + p.compaction_seconds, "sweep", order[at])
                at = (at + 1) % p.agents
            push(now + p.tick_seconds, "tick")
            continue
        agent = fleet[index]
        if what in ("whole", "sweep"):
            resident = 1 - max(0.0, agent.full_seconds - now) * (1 - p.resident_after_ratio) / p.fill_seconds
            if what == "sweep" and resident < p.resident_after_ratio - 0.02:  # nothing that a slice could trim
                if p.visits_are_recorded:
                    agent.compacted_seconds, agent.resident_ratio = now, resident
                continue
            compact(index, now, what == "whole")
            if what == "whole" and agent.refused_seconds is not None:
                agent.generation += 1
                push(now, "call", index)
            continue
        if generation != agent.generation:
            continue
        if now < agent.full_seconds:
            if agent.refused_seconds is not None:
                recoveries.append(now - agent.refused_seconds)
                agent.refused_seconds, agent.attempts = None, 0
            push(agent.full_seconds, "call", index)
            continue
        debt += 1
        wasted += agent.attempts > 0
        agent.refused_seconds = now if agent.refused_seconds is None else agent.refused_seconds
        agent.attempts += 1
        if rule and not agent.wanted:
            verdict = classify_rejection(
                status=429,
                code="budget_exceeded",
                now_seconds=now,
                record=CompactionRecord(agent.compacted_seconds, round(agent.resident_ratio * 100_000), 100_000),
                scheduler_tick_seconds=p.tick_seconds,
            )
            cls = verdict.cls if verdict else RejectionClass.UNKNOWN
            if enforce_retry_policy(cls.value, min(agent.attempts, 3)).compact_first:
                agent.wanted = True
                requests.append(index)
                continue
        push(now + _BACKOFF_SECONDS[min(agent.attempts, len(_BACKOFF_SECONDS)) - 1], "call", index)
    mean = p.quota_per_hour * p.horizon_seconds / 3_600
    quotas = max(0, round(quota.gauss(mean, mean**0.5)))
    outcome = {
        "debt_share_ratio": debt / max(1, debt + quotas),
        "debt_rejections": float(debt),
        "wasted_retries": float(wasted),
    }
    if recoveries:
        outcome["recovery_seconds"] = sum(recoveries) / len(recoveries)
    return outcome


def fit() -> Parameters:
    """The fill from the mean recovery, then the rate of quota rejections from the share of debt."""

    def mean(trial: Parameters, name: str) -> float:
        return summarize([run(trial, seed, False) for seed in FITTING_SEEDS[:40]])[name].mean

    trial = PARAMETERS
    for field, name, target, values in (
        ("fill_seconds", "recovery_seconds", 47.0, range(30, 81, 2)),
        ("quota_per_hour", "debt_share_ratio", 0.71, range(200, 1_601, 50)),
    ):
        changes: list[dict[str, Any]] = [{field: float(value)} for value in values]
        trials = [replace(trial, **change) for change in changes]
        trial = min(trials, key=lambda t: abs(mean(t, name) - target))
    return trial
