"""Fan-out under one ceiling: how wide, how much in all, and what may move.

The invariant is ``parent_reserve + synthesis_reserve + sum(reserved_i) + sum(allocated_i) <= ceiling``. A width of at
most ``N_max`` is necessary and not sufficient: 8 subagents of 9k + 24k are 264k in a pool of 200k although 12 of the
least useful size would fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowwater.policies.errors import BudgetStarvationError

__all__ = [
    "AggregateVerdict",
    "FanoutPlan",
    "Member",
    "Peak",
    "Redistribution",
    "aggregate_check",
    "aggregate_peak",
    "max_width",
    "plan_fanout",
    "redistribute",
]


@dataclass(frozen=True, slots=True)
class Member:
    """A subagent of a pool, in tokens.

    Attributes:
        id: its identity within the pool.
        reserved_tokens: its overhead: system prompt, schemas, output. Free only when it has ended.
        allocated_tokens: its content budget.
        used_tokens: content that it has used.
        ended: it will not spend any more.
    """

    id: str
    reserved_tokens: int
    allocated_tokens: int
    used_tokens: int = 0
    ended: bool = False


def max_width(
    *,
    ceiling_tokens: int,
    parent_reserve_tokens: int,
    synthesis_reserve_tokens: int,
    overhead_per_subagent_tokens: int,
    min_useful_content_tokens: int,
) -> int:
    """``N_max``: the most subagents that can run at once and still be of use; 0 when not even one can.

    Raises:
        ValueError: a number is negative, or overhead and content are both 0.

    >>> max_width(ceiling_tokens=200_000, parent_reserve_tokens=20_000, synthesis_reserve_tokens=12_000,
    ...           overhead_per_subagent_tokens=9_000, min_useful_content_tokens=5_000)
    12
    """
    _no_negative(
        ceiling_tokens=ceiling_tokens,
        parent_reserve_tokens=parent_reserve_tokens,
        synthesis_reserve_tokens=synthesis_reserve_tokens,
        overhead_per_subagent_tokens=overhead_per_subagent_tokens,
        min_useful_content_tokens=min_useful_content_tokens,
    )
    each = overhead_per_subagent_tokens + min_useful_content_tokens
    if each == 0:
        msg = "overhead_per_subagent_tokens and min_useful_content_tokens must not both be 0"
        raise ValueError(msg)
    return max(0, (ceiling_tokens - parent_reserve_tokens - synthesis_reserve_tokens) // each)


@dataclass(frozen=True, slots=True)
class FanoutPlan:
    """Whether a plan fits before anybody has spent anything.

    Attributes:
        feasible: the invariant holds.
        committed_tokens: its left-hand side.
        excess_tokens: how far it is over the ceiling, 0 or more.
        reason: ``fits`` or ``commitments_exceed_ceiling``.
    """

    feasible: bool
    committed_tokens: int
    excess_tokens: int
    reason: str

    def require(self) -> FanoutPlan:
        """This plan, as a gate before dispatch.

        Raises:
            BudgetStarvationError: it does not fit.
        """
        if not self.feasible:
            msg = (
                f"the fan-out commits {self.committed_tokens} tokens, {self.excess_tokens} over its ceiling: "
                "run fewer subagents at once, in waves, or lower their budgets"
            )
            raise BudgetStarvationError(msg)
        return self


def plan_fanout(
    *, ceiling_tokens: int, parent_reserve_tokens: int, synthesis_reserve_tokens: int, members: Sequence[Member]
) -> FanoutPlan:
    """Check the invariant for the members that are to run at once; one that has ended commits nothing.

    In a pool that measures spend nothing is given back: pass what an ended member spent as a reservation that runs on.

    Raises:
        ValueError: a number is negative.
    """
    _no_negative(
        ceiling_tokens=ceiling_tokens,
        parent_reserve_tokens=parent_reserve_tokens,
        synthesis_reserve_tokens=synthesis_reserve_tokens,
    )
    _check_members(members)
    committed = parent_reserve_tokens + synthesis_reserve_tokens + sum(map(_commitment, members))
    excess = max(0, committed - ceiling_tokens)
    return FanoutPlan(excess == 0, committed, excess, "commitments_exceed_ceiling" if excess else "fits")


def _commitment(member: Member) -> int:
    return 0 if member.ended else member.reserved_tokens + member.allocated_tokens


@dataclass(frozen=True, slots=True)
class Redistribution:
    """Whether budget may move.

    Attributes:
        allowed: the whole amount may move.
        movable_tokens: what the donor could give.
        reason: ``allowed``, ``same_member``, ``recipient_ended``, ``reservation_not_movable``, ``already_spent``,
            ``over_ceiling``.
        members: the members afterwards; unchanged when it is not allowed.
    """

    allowed: bool
    movable_tokens: int
    reason: str
    members: tuple[Member, ...]

    def require(self) -> Redistribution:
        """This decision, as a gate.

        Raises:
            BudgetStarvationError: the amount may not move.
        """
        if not self.allowed:
            msg = f"only {self.movable_tokens} tokens may move ({self.reason}): move unspent content within the ceiling"
            raise BudgetStarvationError(msg)
        return self


def redistribute(
    members: Sequence[Member],
    *,
    donor: str,
    recipient: str,
    amount_tokens: int,
    ceiling_tokens: int,
    parent_reserve_tokens: int,
    synthesis_reserve_tokens: int,
) -> Redistribution:
    """Decide whether content budget may move from one member to another.

    Only unspent content moves, never a reservation: a running child still needs its prompt and its answer. When the
    donor has ended, its reservation and everything unspent are free, to the pool: a member that was started since may
    have taken them, so that what a plan has fit into stays under the ceiling only if that is looked at again.

    Args:
        members: all members of the pool.
        donor: id of the member that gives.
        recipient: id of the member that takes; it must be running.
        amount_tokens: how much is to move.
        ceiling_tokens: as for `plan_fanout`.
        parent_reserve_tokens: as for `plan_fanout`.
        synthesis_reserve_tokens: as for `plan_fanout`.

    Raises:
        ValueError: a member is not in the pool, two have the same id, or a number is negative.
    """
    plan = plan_fanout(
        ceiling_tokens=ceiling_tokens,
        parent_reserve_tokens=parent_reserve_tokens,
        synthesis_reserve_tokens=synthesis_reserve_tokens,
        members=members,
    )
    _no_negative(amount_tokens=amount_tokens)
    by_id = {member.id: member for member in members}
    if len(by_id) < len(members):
        msg = "members must have different ids"
        raise ValueError(msg)
    for name, key in (("donor", donor), ("recipient", recipient)):
        if key not in by_id:
            msg = f"{name} {key!r} is no member of the pool"
            raise ValueError(msg)
    giver, taker = by_id[donor], by_id[recipient]
    unspent = max(0, giver.allocated_tokens - giver.used_tokens)
    whole = max(0, giver.reserved_tokens + giver.allocated_tokens - giver.used_tokens)
    free = whole if giver.ended else unspent
    # A running donor gives up what the recipient takes on; an ended one commits nothing, so the pool must have room.
    movable = min(free, max(0, ceiling_tokens - plan.committed_tokens)) if giver.ended else free
    if donor == recipient:
        reason = "same_member"
    elif taker.ended:
        reason = "recipient_ended"
    elif amount_tokens > whole:
        reason = "already_spent"
    elif amount_tokens > free:
        reason = "reservation_not_movable"
    elif amount_tokens > movable:
        reason = "over_ceiling"
    else:
        from_content = min(amount_tokens, unspent)
        moved = {
            donor: Member(
                giver.id,
                giver.reserved_tokens - (amount_tokens - from_content),
                giver.allocated_tokens - from_content,
                giver.used_tokens,
                giver.ended,
            ),
            recipient: Member(
                taker.id, taker.reserved_tokens, taker.allocated_tokens + amount_tokens, taker.used_tokens, taker.ended
            ),
        }
        return Redistribution(True, movable, "allowed", tuple(moved.get(member.id, member) for member in members))
    return Redistribution(False, movable, reason, tuple(members))


@dataclass(frozen=True, slots=True)
class AggregateVerdict:
    """What a pool holds at one time against its ceiling.

    Attributes:
        overrun_tokens: how far the sum is over the ceiling, 0 or more.
        all_members_green: every member was within its own limit, as far as limits are known; False if one was not.
    """

    overrun_tokens: int
    all_members_green: bool


def aggregate_check(
    *,
    ceiling_tokens: int,
    parent_reserve_tokens: int,
    aggregate_tokens: int,
    occupancy_tokens: Mapping[str, int],
    limits_tokens: Mapping[str, int | None],
) -> AggregateVerdict:
    """Compare a pool's aggregate with its ceiling, and each member with its own limit.

    Args:
        aggregate_tokens: what the members hold at one time, or have spent.
        occupancy_tokens: the most that each member held.
        limits_tokens: each member's own limit, None if it has none.

    Raises:
        ValueError: a number is negative.
    """
    _no_negative(
        ceiling_tokens=ceiling_tokens, parent_reserve_tokens=parent_reserve_tokens, aggregate_tokens=aggregate_tokens
    )
    over = max(0, parent_reserve_tokens + aggregate_tokens - ceiling_tokens)
    green = all(limit is None or occupancy_tokens.get(member, 0) <= limit for member, limit in limits_tokens.items())
    return AggregateVerdict(over, green)


@dataclass(frozen=True, slots=True)
class Peak:
    """The time at which the members of a pool held most together.

    Attributes:
        width: most members holding something at once, at any time.
        tokens: the highest sum of what they held.
        input_tokens: their inputs at that time, largest first.
    """

    width: int
    tokens: int
    input_tokens: tuple[int, ...]


def aggregate_peak(members: Mapping[str, tuple[Sequence[tuple[int, int, int]], int]]) -> Peak:
    """Sweep over time: each member holds what its last step says until its end.

    Args:
        members: per member its steps (time, held tokens, input tokens) in order, and its end; times in any one unit. What
            ends as another begins is not held together with it.
    """
    changes: list[tuple[int, int, str, int, int]] = []
    for member, (steps, end) in members.items():
        changes += [(time, 1, member, held, tokens) for time, held, tokens in steps]
        changes.append((end, 0, member, 0, 0))
    holding: dict[str, tuple[int, int]] = {}
    width, peak, inputs = 0, 0, list[int]()
    for _, starts, member, held, tokens in sorted(changes):
        if not starts:
            holding.pop(member, None)
            continue
        holding[member] = (held, tokens)
        width = max(width, len(holding))
        total = sum(item[0] for item in holding.values())
        if total > peak:
            peak, inputs = total, [item[1] for item in holding.values()]
    return Peak(width, peak, tuple(sorted(inputs, reverse=True)))


def _check_members(members: Sequence[Member]) -> None:
    for member in members:
        _no_negative(
            **{
                f"{member.id}.reserved_tokens": member.reserved_tokens,
                f"{member.id}.allocated_tokens": member.allocated_tokens,
                f"{member.id}.used_tokens": member.used_tokens,
            }
        )


def _no_negative(**values: int) -> None:
    for name, value in values.items():
        if value < 0:
            msg = f"{name} must not be negative, not {value}"
            raise ValueError(msg)
