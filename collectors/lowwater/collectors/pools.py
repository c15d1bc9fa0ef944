"""Fan-outs as they start: what the subagents of a pool may use together is known before one of them has spent anything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from lowwater.policies.fanout import FanoutPlan, Member, plan_fanout

__all__ = ["OnOvercommit", "Pool", "PoolView"]

MAX_MEMBERS = 1_024
"""Running members remembered per pool: an agent that never says that a subagent ended must not fill the memory."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool at one moment.

    Attributes:
        id: as declared.
        width: subagents that run now.
        ceiling_tokens: what they share; None if nobody said.
        committed_tokens: reserves, and all that has been reserved for and allotted to the running subagents.
        excess_tokens: how far that is over the ceiling, 0 or more; None without a ceiling.
    """

    id: str
    width: int
    ceiling_tokens: int | None
    committed_tokens: int
    excess_tokens: int | None


OnOvercommit = Callable[[PoolView], None]


class Pool:
    """The running subagents of one orchestrator. Used from any thread; takes no lock, as a fork would keep it locked.

    Args:
        id: its name; an id or a role, no text.
        ceiling_tokens: what orchestrator and subagents share.
        parent_reserve_tokens: what the orchestrator's own context needs.
        synthesis_reserve_tokens: what the answers need when they come back.
        on_overcommit: called once, when more has been committed than the ceiling holds.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the attribute's name
        *,
        ceiling_tokens: int | None = None,
        parent_reserve_tokens: int = 0,
        synthesis_reserve_tokens: int = 0,
        on_overcommit: OnOvercommit | None = None,
    ) -> None:
        self.id = id
        self.ceiling_tokens = ceiling_tokens
        self.parent_reserve_tokens, self.synthesis_reserve_tokens = parent_reserve_tokens, synthesis_reserve_tokens
        self._on_overcommit = on_overcommit
        self._members: dict[object, Member] = {}
        self._numbers = itertools.count(1)
        self._told = False

    def plan(self, width: int, *, reserved_tokens: int, content_budget_tokens: int) -> FanoutPlan | None:
        """Whether so many more subagents of this size fit beside those that run; None without a ceiling.

        ``plan(...).require()`` is the gate before dispatch; it raises `BudgetStarvationError`.
        """
        more = [Member(f"planned-{number}", reserved_tokens, content_budget_tokens) for number in range(width)]
        return self._plan([*self._members.values(), *more])

    def join(self, key: object, *, reserved_tokens: int = 0, content_budget_tokens: int = 0) -> FanoutPlan | None:
        """A subagent starts; returns whether all that is committed now fits, None without a ceiling."""
        members = self._members
        if key not in members:
            while len(members) >= MAX_MEMBERS:
                members.pop(next(iter(members)), None)
            members[key] = Member(str(next(self._numbers)), reserved_tokens, content_budget_tokens)
        plan = self._plan(list(members.values()))
        if plan is not None and not plan.feasible and not self._told:
            self._told = True
            if self._on_overcommit is not None:
                self._on_overcommit(self.view())
        return plan

    def leave(self, key: object) -> None:
        """A subagent has ended: what was reserved for it is free."""
        self._members.pop(key, None)
        if not self._members:
            self._told = False  # the next fan-out is another one

    def view(self) -> PoolView:
        """The pool now."""
        members = list(self._members.values())
        committed = self.parent_reserve_tokens + self.synthesis_reserve_tokens
        committed += sum(member.reserved_tokens + member.allocated_tokens for member in members)
        plan = self._plan(members)
        excess = None if plan is None else plan.excess_tokens
        return PoolView(self.id, len(members), self.ceiling_tokens, committed, excess)

    def _plan(self, members: list[Member]) -> FanoutPlan | None:
        if self.ceiling_tokens is None:
            return None
        return plan_fanout(
            ceiling_tokens=self.ceiling_tokens,
            parent_reserve_tokens=self.parent_reserve_tokens,
            synthesis_reserve_tokens=self.synthesis_reserve_tokens,
            members=members,
        )
