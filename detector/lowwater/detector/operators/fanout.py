"""Fan-out pools: subagents that run at once under one orchestrator, summed over time.

Each member stays within its own budget while their sum breaks the pool; only the aggregate over time shows it.
A pool's *run* is a maximal stretch in which its members overlap, so that waves one after another are not added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import Provenance
from lowwater.detector.events import AgentRun, Observation, Origin
from lowwater.detector.findings import Advice, Finding, Kind, Severity
from lowwater.detector.operators.base import Episode, Signal, about_origin
from lowwater.policies.fanout import (
    Member,
    aggregate_check,
    aggregate_peak,
    max_width,
    plan_fanout,
)

__all__ = ["FanoutOperator", "FanoutState", "PoolReport"]

MAX_MEMBERS = 1_024
"""Members remembered per trace; the first ended go first."""

_MAX_STEPS = 64
"""Occupancy changes remembered per member: the peak of a longer-lived member is kept in its last steps."""


@dataclass(slots=True)
class PoolReport:
    """A run of a fan-out, for people and metrics; made also where no ceiling is known and nothing can be judged.

    Attributes:
        pool: declared id, else the orchestrator's anchor.
        width: most members at once.
        members: members in all.
        peak_tokens: highest sum of what the members held at one time, without the orchestrator's own context.
        peak_input_tokens: inputs of the members at that time, largest first.
        first_input_tokens: the input of each member's first call, in the order in which they started.
        parent_peak_tokens: the orchestrator's own largest context, None if not seen.
        spend_tokens: tokens spent by the members in all.
        ceiling_tokens: declared ceiling of the pool, None if unknown.
        feasible: whether what the members have been given fits under the ceiling, None without a ceiling and budgets.
    """

    pool: str
    run: int
    service: str | None
    conversation: str | None
    trace_id: str
    width: int
    members: int
    peak_tokens: int
    peak_input_tokens: tuple[int, ...]
    first_input_tokens: tuple[int, ...]
    parent_peak_tokens: int | None
    spend_tokens: int
    ceiling_tokens: int | None
    start_ns: int | None
    end_ns: int | None
    feasible: bool | None = None


@dataclass(slots=True)
class _Member:
    anchor: str
    span_id: str
    parent: str | None = None
    pool: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    ended: bool = False
    timeless: bool = False
    steps: list[tuple[int, int, int]] = field(default_factory=list)  # (time, held tokens, input tokens)
    first_input_tokens: int | None = None
    overhead_tokens: int | None = None
    ceiling_tokens: int | None = None
    spend_tokens: int = 0
    reserved_tokens: int | None = None
    budget_tokens: int | None = None
    used_tokens: int = 0
    raised_tokens: int = 0


@dataclass(slots=True)
class FanoutState:
    """State of one trace: subagents have conversations of their own, and the trace is what they share."""

    members: dict[str, _Member] = field(default_factory=dict)
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    episodes: dict[str, Episode] = field(default_factory=dict)


class FanoutOperator:
    """Operator keyed by trace: keeps members and judges their pools."""

    def initial(self) -> FanoutState:
        """State of a trace that was never seen."""
        return FanoutState()

    def step(self, state: FanoutState, event: Observation | AgentRun) -> Iterator[Finding | PoolReport]:
        """Take a turn of a member or the end of one; yield reports and findings of its pool."""
        if isinstance(event, Observation):
            if event.entry.rollup:
                return
            origin = event.turn.call.origin
            member = self._member(state, origin)
            self._take_turn(state, member, event)
        else:
            origin = event.origin
            member = self._member(state, origin)
            member.start_ns = min(origin.start_ns or member.start_ns, member.start_ns or origin.start_ns)
            member.end_ns = max(member.end_ns, origin.end_ns)
            member.ended = True
            self._declare(state, member, event.declared)
        pool = member.pool or member.parent
        if pool is None or pool == member.anchor:
            return
        orchestrator = state.members.get(pool)
        if member.pool is None and (orchestrator is None or not orchestrator.steps):
            # What started the members makes no calls itself: a workflow, not an agent with a context to share.
            return
        run = _run_of(state, pool, member)
        if len(run) >= 2:
            yield from self._judge(state, pool, run, origin)

    @staticmethod
    def _member(state: FanoutState, origin: Origin) -> _Member:
        anchor = origin.anchor
        member = state.members.get(anchor.id)
        if member is None:
            if len(state.members) >= MAX_MEMBERS:
                gone = next((key for key, item in state.members.items() if item.ended), next(iter(state.members)))
                del state.members[gone]
            member = state.members[anchor.id] = _Member(anchor.id, origin.span_id, timeless=origin.timeless)
        if anchor.parent is not None:
            member.parent = anchor.parent
        return member

    def _take_turn(self, state: FanoutState, member: _Member, seen: Observation) -> None:
        entry, origin = seen.entry, seen.turn.call.origin
        self._declare(state, member, seen.turn.call.reading.declared)
        if not member.start_ns or (origin.start_ns and origin.start_ns < member.start_ns):
            member.start_ns = origin.start_ns
        member.end_ns = max(member.end_ns, origin.end_ns)
        member.ceiling_tokens = entry.ceiling_tokens or member.ceiling_tokens
        if entry.input_tokens is None:
            return
        held = entry.input_tokens + (entry.output_tokens or 0)
        member.steps.append((origin.start_ns or origin.end_ns, held, entry.input_tokens))
        del member.steps[:-_MAX_STEPS]
        member.spend_tokens += held
        reserved = (entry.reserved.system or 0) + (entry.reserved.tools or 0)
        if member.overhead_tokens is None:
            member.overhead_tokens, member.first_input_tokens = reserved, entry.input_tokens
        member.used_tokens = max(member.used_tokens, held - reserved)

    @staticmethod
    def _declare(state: FanoutState, member: _Member, declared: dict[str, Any]) -> None:
        if isinstance(declared.get("pool.id"), str):
            member.pool = declared["pool.id"]
        # What has no parent and names no pool speaks of the one that it shares with its own subagents.
        pool = member.pool or member.parent or member.anchor
        values = {key: value for key, value in declared.items() if key.startswith("pool.") and key != "pool.id"}
        if values:
            state.declared.setdefault(pool, {}).update(values)
        budget = _tokens(declared.get("subagent.content_budget_tokens"))
        if budget is not None:
            if member.budget_tokens is not None and budget > member.budget_tokens:
                member.raised_tokens += budget - member.budget_tokens
            member.budget_tokens = budget
        member.reserved_tokens = _tokens(declared.get("subagent.reserved_tokens")) or member.reserved_tokens

    # --- judging -----------------------------------------------------------------------------------------------------

    def _judge(
        self, state: FanoutState, pool: str, run: list[_Member], origin: Origin
    ) -> Iterator[Finding | PoolReport]:
        declared = state.declared.get(pool, {})
        ceiling = _tokens(declared.get("pool.ceiling_tokens"))
        top = aggregate_peak({member.anchor: (member.steps, member.end_ns) for member in run})
        width, peak = top.width, top.tokens
        if width < 2:
            return
        spend = sum(member.spend_tokens for member in run)
        parent = state.members.get(pool)
        parent_peak = max((step[1] for step in parent.steps), default=None) if parent is not None else None
        first = run[0]
        number = sum(
            1 for member in state.members.values() if _pool_of(member) == pool and member.end_ns < first.start_ns
        )
        timeless = first.timeless
        report = PoolReport(
            pool=pool,
            run=number,
            service=origin.service,
            conversation=origin.conversation,
            trace_id=origin.trace_id,
            width=width,
            members=len(run),
            peak_tokens=peak,
            peak_input_tokens=top.input_tokens,
            first_input_tokens=tuple(member.first_input_tokens or 0 for member in run),
            parent_peak_tokens=parent_peak,
            spend_tokens=spend,
            ceiling_tokens=ceiling,
            start_ns=None if timeless else first.start_ns or None,
            end_ns=None if timeless else max(member.end_ns for member in run),
        )
        if ceiling is None:
            yield report
            return
        # Which member started first may turn out late, when it ends: what a run is called does not depend on it.
        key = f"{origin.trace_id}/{pool}/{number}"
        parent_reserve = _tokens(declared.get("pool.parent_reserve_tokens"))
        synthesis = _tokens(declared.get("pool.synthesis_reserve_tokens"))
        facts: dict[str, Any] = {
            "pool_ceiling_tokens": ceiling,
            "members": len(run),
            "width": width,
            "parent_reserve_tokens": parent_reserve if parent_reserve is not None else parent_peak,
            "synthesis_reserve_tokens": synthesis,
            "measure": "spend" if declared.get("pool.measure") == "spend" else "occupancy",
        }
        levels = {"pool_ceiling_tokens": Provenance.DECLARED}
        signals = {
            Kind.FANOUT_OVERCOMMITTED: self._overcommitted(run, declared, ceiling, facts, levels),
            Kind.FANOUT_OVERRUN: self._overrun(run, ceiling, peak, spend, facts, levels),
            Kind.FANOUT_REDISTRIBUTION_UNSAFE: self._unsafe(run, ceiling, facts, levels),
        }
        if all(member.budget_tokens is not None for member in run):
            report.feasible = signals[Kind.FANOUT_OVERCOMMITTED] is None
        yield report
        for kind, signal in signals.items():
            episode = state.episodes.setdefault(f"{kind.value}/{key}", Episode())
            subject = about_origin(origin, pool=pool)
            subject.span_id = first.span_id
            over = all(member.ended for member in run)
            if signal is None and episode.firing is not None and not over:
                continue  # what a run has committed or held stays a fact while it lasts
            yield from episode.step(kind, key, signal, subject, fire_after=1, resolve_after=1, onset="")
            if over and signal is not None:
                yield from episode.step(kind, key, None, subject, fire_after=1, resolve_after=1, onset="")

    @staticmethod
    def _overcommitted(
        run: list[_Member],
        declared: dict[str, Any],
        ceiling: int,
        facts: dict[str, Any],
        levels: dict[str, Provenance],
    ) -> Signal | None:
        planned = _tokens(declared.get("pool.planned_width")) or 0
        budgets = [member.budget_tokens for member in run if member.budget_tokens is not None]
        if len(budgets) < len(run):
            return None
        members = [
            Member(
                id=member.anchor,
                reserved_tokens=_overhead(member),
                allocated_tokens=member.budget_tokens or 0,
                used_tokens=member.used_tokens,
                ended=False,
            )
            for member in run
        ]
        typical = max(members, key=lambda member: (member.reserved_tokens + member.allocated_tokens, member.id))
        members += [
            Member(f"planned-{index}", typical.reserved_tokens, typical.allocated_tokens, 0, False)
            for index in range(len(members), planned)
        ]
        plan = plan_fanout(
            ceiling_tokens=ceiling,
            parent_reserve_tokens=facts["parent_reserve_tokens"] or 0,
            synthesis_reserve_tokens=facts["synthesis_reserve_tokens"] or 0,
            members=members,
        )
        if plan.feasible:
            return None
        widest = max_width(
            ceiling_tokens=ceiling,
            parent_reserve_tokens=facts["parent_reserve_tokens"] or 0,
            synthesis_reserve_tokens=facts["synthesis_reserve_tokens"] or 0,
            overhead_per_subagent_tokens=typical.reserved_tokens,
            min_useful_content_tokens=typical.allocated_tokens,
        )
        evidence = {
            **facts,
            "committed_tokens": plan.committed_tokens,
            "excess_tokens": plan.excess_tokens,
            "planned_width": len(members),
            "feasible_width": widest,
        }
        steps = (
            Advice(f"run at most {widest} subagents at once", plan.excess_tokens),
            Advice("lower each subagent's content budget", -(-plan.excess_tokens // len(members))),
        )
        return Signal(plan.reason, Severity.PAGE, evidence, dict(levels), steps)

    @staticmethod
    def _overrun(
        run: list[_Member],
        ceiling: int,
        peak: int,
        spend: int,
        facts: dict[str, Any],
        levels: dict[str, Provenance],
    ) -> Signal | None:
        used = spend if facts["measure"] == "spend" else peak
        verdict = aggregate_check(
            ceiling_tokens=ceiling,
            parent_reserve_tokens=facts["parent_reserve_tokens"] or 0,
            occupancy_tokens={member.anchor: _largest(member) for member in run},
            limits_tokens={member.anchor: _own_limit(member) for member in run},
            aggregate_tokens=used,
        )
        if verdict.overrun_tokens <= 0:
            return None
        evidence = {
            **facts,
            "aggregate_tokens": used,
            "overrun_tokens": verdict.overrun_tokens,
            "all_members_green": verdict.all_members_green,
        }
        steps = (Advice("stop or shrink the newest subagents", verdict.overrun_tokens),)
        return Signal("aggregate_over_ceiling", Severity.PAGE, evidence, dict(levels), steps)

    @staticmethod
    def _unsafe(
        run: list[_Member], ceiling: int, facts: dict[str, Any], levels: dict[str, Provenance]
    ) -> Signal | None:
        raised = sum(member.raised_tokens for member in run)
        if not raised or any(member.budget_tokens is None for member in run):
            return None
        running = [member for member in run if not member.ended]
        committed = (
            (facts["parent_reserve_tokens"] or 0)
            + (facts["synthesis_reserve_tokens"] or 0)
            + sum(_overhead(member) + (member.budget_tokens or 0) for member in running)
        )
        if facts["measure"] == "spend":
            committed += sum(member.spend_tokens for member in run if member.ended)  # spent is not given back
        overdrawn = [member for member in running if (member.budget_tokens or 0) < member.used_tokens]
        if committed <= ceiling and not overdrawn:
            return None
        reason = "over_ceiling_after_move" if committed > ceiling else "donor_below_its_use"
        evidence = {**facts, "moved_tokens": raised, "committed_tokens": committed, "overdrawn_members": len(overdrawn)}
        steps = (Advice("move only unspent content of subagents, never a reservation", raised),)
        return Signal(reason, Severity.TICKET, evidence, dict(levels), steps)


def _pool_of(member: _Member) -> str | None:
    return member.pool or member.parent


def _run_of(state: FanoutState, pool: str, member: _Member) -> list[_Member]:
    """The members that overlap in time with this one, directly or through others, in order of their start."""
    others = [item for item in state.members.values() if _pool_of(item) == pool and item.anchor != pool]
    others.sort(key=lambda item: (item.start_ns, item.anchor))
    runs: list[list[_Member]] = []
    reach = 0
    for item in others:
        if runs and item.start_ns < reach:
            runs[-1].append(item)
        else:
            runs.append([item])
            reach = 0
        reach = max(reach, item.end_ns)
    return next(run for run in runs if member in run)


def _overhead(member: _Member) -> int:
    return member.reserved_tokens if member.reserved_tokens is not None else member.overhead_tokens or 0


def _largest(member: _Member) -> int:
    return max((step[1] for step in member.steps), default=0)


def _own_limit(member: _Member) -> int | None:
    """What the member's own gauge is measured against: its budget with its reservation, else its window."""
    if member.budget_tokens is not None:
        return member.budget_tokens + _overhead(member)
    return member.ceiling_tokens


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
