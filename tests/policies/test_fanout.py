"""How wide, how much in all, what may move: against the invariant."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.policies.errors import BudgetStarvationError
from lowwater.policies.fanout import (
    Member,
    aggregate_check,
    aggregate_peak,
    max_width,
    plan_fanout,
    redistribute,
)

TOKENS = st.integers(0, 50_000)


def members(width: int, overhead: int, content: int) -> list[Member]:
    return [Member(f"m{number}", overhead, content) for number in range(width)]


def test_a_width_below_n_max_can_still_break_the_ceiling() -> None:
    """N_max is 12 for the least useful content; eight with their real budgets are 264k and more in a pool of 200k."""
    widest = max_width(
        ceiling_tokens=200_000, parent_reserve_tokens=20_000, synthesis_reserve_tokens=12_000,
        overhead_per_subagent_tokens=9_000, min_useful_content_tokens=5_000,
    )  # fmt: skip
    assert widest == 12
    plan = plan_fanout(
        ceiling_tokens=200_000, parent_reserve_tokens=0, synthesis_reserve_tokens=0, members=members(8, 9_000, 24_000)
    )
    assert (plan.feasible, plan.committed_tokens, plan.excess_tokens) == (False, 264_000, 64_000)
    with pytest.raises(BudgetStarvationError, match="264000 tokens, 64000 over"):
        plan.require()


@given(st.integers(1, 500_000), TOKENS, TOKENS, st.integers(1, 20_000), TOKENS)
def test_n_max_is_the_largest_width_that_satisfies_the_invariant(
    ceiling: int, parent: int, synthesis: int, overhead: int, content: int
) -> None:
    widest = max_width(
        ceiling_tokens=ceiling, parent_reserve_tokens=parent, synthesis_reserve_tokens=synthesis,
        overhead_per_subagent_tokens=overhead, min_useful_content_tokens=content,
    )  # fmt: skip
    reserves = {"ceiling_tokens": ceiling, "parent_reserve_tokens": parent, "synthesis_reserve_tokens": synthesis}
    if widest:
        committed = parent + synthesis + widest * (overhead + content)
        assert committed <= ceiling
    assert parent + synthesis + (widest + 1) * (overhead + content) > ceiling
    if widest <= 40:
        assert not plan_fanout(**reserves, members=members(widest + 1, overhead, content)).feasible


@given(st.lists(st.tuples(TOKENS, TOKENS, st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(rows: list[tuple[int, int, bool]], rng: random.Random) -> None:
    pool = [
        Member(str(number), reserved, allocated, 0, ended) for number, (reserved, allocated, ended) in enumerate(rows)
    ]
    other = pool[:]
    rng.shuffle(other)
    settings = {"ceiling_tokens": 100_000, "parent_reserve_tokens": 5_000, "synthesis_reserve_tokens": 1_000}
    assert plan_fanout(**settings, members=pool) == plan_fanout(**settings, members=other)


@pytest.mark.parametrize(("width", "excess"), [(1, 0), (4, 0), (5, 1_000), (6, 34_000), (8, 100_000)])
def test_the_plans_of_the_incident(width: int, excess: int) -> None:
    """1.8k + 3.2k + 4k of overhead and 24k of content each, beside the parent's 20k and 16k for the synthesis."""
    plan = plan_fanout(
        ceiling_tokens=200_000, parent_reserve_tokens=20_000, synthesis_reserve_tokens=16_000,
        members=members(width, 1_800 + 3_200 + 4_000, 24_000),
    )  # fmt: skip
    assert (plan.feasible, plan.excess_tokens) == (excess == 0, excess)
    assert plan.committed_tokens == 36_000 + 33_000 * width


@pytest.mark.parametrize(
    ("ceiling", "feasible", "excess", "reason"),
    [(66_100, True, 0, "fits"), (66_099, False, 1, "commitments_exceed_ceiling")],
)
def test_a_plan_that_fills_its_ceiling_fits(ceiling: int, feasible: bool, excess: int, reason: str) -> None:
    plan = plan_fanout(
        ceiling_tokens=ceiling, parent_reserve_tokens=60, synthesis_reserve_tokens=40, members=members(2, 9_000, 24_000)
    )
    assert (plan.feasible, plan.excess_tokens, plan.reason) == (feasible, excess, reason)
    if feasible:
        assert plan.require() is plan


@pytest.mark.parametrize(
    ("ceiling", "widest"), [(0, 0), (31_999, 0), (32_000, 0), (45_999, 0), (46_000, 1), (59_999, 1), (60_000, 2)]
)
def test_how_wide_at_the_boundaries(ceiling: int, widest: int) -> None:
    """32k of reserves and 14k for each; reserves beyond the ceiling leave room for none, not for less than none."""
    found = max_width(
        ceiling_tokens=ceiling, parent_reserve_tokens=20_000, synthesis_reserve_tokens=12_000,
        overhead_per_subagent_tokens=9_000, min_useful_content_tokens=5_000,
    )  # fmt: skip
    assert found == widest


def test_a_member_that_has_ended_commits_nothing() -> None:
    pool = [Member("a", 9_000, 24_000, 20_000, ended=True), Member("b", 9_000, 24_000)]
    plan = plan_fanout(ceiling_tokens=33_000, parent_reserve_tokens=0, synthesis_reserve_tokens=0, members=pool)
    assert plan.feasible


ROOMY = {"ceiling_tokens": 500_000, "parent_reserve_tokens": 20_000, "synthesis_reserve_tokens": 12_000}
POOL = [
    Member("a", 9_000, 24_000, 4_000),
    Member("b", 9_000, 24_000, 24_000),
    Member("c", 9_000, 24_000, 10_000, ended=True),
    Member("d", 9_000, 24_000, 30_000, ended=True),
]


@pytest.mark.parametrize(
    ("donor", "recipient", "amount", "allowed", "reason"),
    [
        ("a", "b", 0, True, "allowed"),
        ("a", "b", 20_000, True, "allowed"),  # all that is unspent
        ("a", "b", 20_001, False, "reservation_not_movable"),
        ("a", "b", 29_001, False, "already_spent"),
        ("b", "a", 1, False, "reservation_not_movable"),  # nothing unspent
        ("c", "a", 23_000, True, "allowed"),  # ended: its reservation is free too
        ("c", "a", 23_001, False, "already_spent"),
        ("d", "a", 3_000, True, "allowed"),  # ended after it had overrun its content into its reservation
        ("d", "a", 3_001, False, "already_spent"),
        ("a", "c", 1, False, "recipient_ended"),
        ("a", "a", 1, False, "same_member"),
    ],
)
def test_only_unspent_content_moves(donor: str, recipient: str, amount: int, allowed: bool, reason: str) -> None:
    decision = redistribute(POOL, donor=donor, recipient=recipient, amount_tokens=amount, **ROOMY)
    assert (decision.allowed, decision.reason) == (allowed, reason)
    if allowed:
        assert decision.require() is decision
    else:
        with pytest.raises(
            BudgetStarvationError, match=rf"only {decision.movable_tokens} tokens may move \({reason}\)"
        ):
            decision.require()


@given(
    st.lists(st.tuples(TOKENS, TOKENS, TOKENS, st.booleans()), min_size=2, max_size=6),
    st.integers(0, 120_000),
    st.integers(0, 400_000),
)
def test_redistribution_conserves_and_never_takes_a_running_reservation(
    rows: list[tuple[int, int, int, bool]], amount: int, ceiling: int
) -> None:
    pool = [Member(str(number), *row) for number, row in enumerate(rows)]
    settings = {"ceiling_tokens": ceiling, "parent_reserve_tokens": 0, "synthesis_reserve_tokens": 0}
    decision = redistribute(pool, donor="0", recipient="1", amount_tokens=amount, **settings)
    assert sum(item.reserved_tokens + item.allocated_tokens for item in decision.members) == sum(
        item.reserved_tokens + item.allocated_tokens for item in pool
    )
    for before, after in zip(pool, decision.members, strict=True):
        if not before.ended:
            assert after.reserved_tokens == before.reserved_tokens
            assert after.allocated_tokens >= min(before.used_tokens, before.allocated_tokens)


@given(st.lists(st.tuples(TOKENS, TOKENS, TOKENS, st.booleans()), min_size=2, max_size=6), TOKENS, TOKENS)
def test_what_is_allowed_keeps_a_plan_that_fits_under_its_ceiling(
    rows: list[tuple[int, int, int, bool]], amount: int, spare: int
) -> None:
    pool = [Member(str(number), *row) for number, row in enumerate(rows)]
    reserves = {"parent_reserve_tokens": 5_000, "synthesis_reserve_tokens": 1_000}
    committed = plan_fanout(ceiling_tokens=0, **reserves, members=pool).committed_tokens
    settings = {"ceiling_tokens": committed + spare, **reserves}
    decision = redistribute(pool, donor="0", recipient="1", amount_tokens=amount, **settings)
    assert plan_fanout(**settings, members=decision.members).feasible
    if decision.reason in ("already_spent", "reservation_not_movable", "over_ceiling"):
        rest = redistribute(pool, donor="0", recipient="1", amount_tokens=decision.movable_tokens, **settings)
        assert rest.allowed


def test_what_an_ended_member_leaves_cannot_be_given_away_twice() -> None:
    """A third subagent was started in the place of the first; what that had left is its, and no longer the second's."""
    pool = [Member("a", 9_000, 24_000, 10_000, ended=True), Member("b", 9_000, 24_000), Member("c", 9_000, 24_000)]
    settings = {"ceiling_tokens": 66_000, "parent_reserve_tokens": 0, "synthesis_reserve_tokens": 0}
    assert plan_fanout(**settings, members=pool).feasible
    decision = redistribute(pool, donor="a", recipient="b", amount_tokens=1, **settings)
    assert (decision.allowed, decision.movable_tokens, decision.reason) == (False, 0, "over_ceiling")


def test_a_pool_that_is_over_already_may_still_move_what_changes_no_sum() -> None:
    pool = [Member("a", 9_000, 24_000, 4_000), Member("b", 9_000, 24_000)]
    settings = {"ceiling_tokens": 40_000, "parent_reserve_tokens": 0, "synthesis_reserve_tokens": 0}
    assert redistribute(pool, donor="a", recipient="b", amount_tokens=20_000, **settings).allowed


def test_the_aggregate_breaks_while_every_member_is_green() -> None:
    verdict = aggregate_check(
        ceiling_tokens=200_000, parent_reserve_tokens=10_000, aggregate_tokens=196_000,
        occupancy_tokens={str(number): 24_500 for number in range(8)}, limits_tokens={str(number): 33_000 for number in range(8)},
    )  # fmt: skip
    assert (verdict.overrun_tokens, verdict.all_members_green) == (6_000, True)
    at = aggregate_check(
        ceiling_tokens=10,
        parent_reserve_tokens=0,
        aggregate_tokens=10,
        occupancy_tokens={"a": 10},
        limits_tokens={"a": 9},
    )
    assert (at.overrun_tokens, at.all_members_green) == (0, False)


def test_a_member_without_a_limit_is_green_and_one_that_held_nothing_too() -> None:
    verdict = aggregate_check(
        ceiling_tokens=10, parent_reserve_tokens=1, aggregate_tokens=10, occupancy_tokens={"a": 10},
        limits_tokens={"a": None, "b": 0},
    )  # fmt: skip
    assert (verdict.overrun_tokens, verdict.all_members_green) == (1, True)


@pytest.mark.parametrize(
    "name",
    [
        "ceiling_tokens", "parent_reserve_tokens", "synthesis_reserve_tokens", "overhead_per_subagent_tokens",
        "min_useful_content_tokens",
    ],
)  # fmt: skip
def test_a_negative_size_is_named(name: str) -> None:
    sizes = {
        "ceiling_tokens": 10, "parent_reserve_tokens": 1, "synthesis_reserve_tokens": 1,
        "overhead_per_subagent_tokens": 1, "min_useful_content_tokens": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=f"{name} must not be negative, not -1"):
        max_width(**{**sizes, name: -1})


@pytest.mark.parametrize("name", ["ceiling_tokens", "parent_reserve_tokens", "aggregate_tokens"])
def test_a_negative_aggregate_is_named(name: str) -> None:
    sizes = {"ceiling_tokens": 10, "parent_reserve_tokens": 1, "aggregate_tokens": 1}
    with pytest.raises(ValueError, match=name):
        aggregate_check(**{**sizes, name: -1}, occupancy_tokens={}, limits_tokens={})


def test_impossible_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="donor"):
        redistribute(POOL, donor="nobody", recipient="a", amount_tokens=1, **ROOMY)
    with pytest.raises(ValueError, match=r"a\.used_tokens"):
        plan_fanout(
            ceiling_tokens=1, parent_reserve_tokens=0, synthesis_reserve_tokens=0, members=[Member("a", 0, 0, -1)]
        )
    with pytest.raises(ValueError, match="recipient"):
        redistribute(POOL, donor="a", recipient="nobody", amount_tokens=1, **ROOMY)
    with pytest.raises(ValueError, match="different ids"):
        redistribute([*POOL, POOL[0]], donor="a", recipient="b", amount_tokens=1, **ROOMY)
    with pytest.raises(ValueError, match="amount_tokens"):
        redistribute(POOL, donor="a", recipient="b", amount_tokens=-1, **ROOMY)
    with pytest.raises(ValueError, match="must not both be 0"):
        max_width(
            ceiling_tokens=1,
            parent_reserve_tokens=0,
            synthesis_reserve_tokens=0,
            overhead_per_subagent_tokens=0,
            min_useful_content_tokens=0,
        )


def test_the_peak_is_that_of_one_time_not_the_sum_of_peaks() -> None:
    top = aggregate_peak(
        {"a": ([(0, 100, 90), (10, 300, 280)], 20), "b": ([(5, 50, 40)], 10), "c": ([(20, 500, 500)], 30)}
    )
    assert (top.width, top.tokens, top.input_tokens) == (2, 500, (500,))
    both = aggregate_peak({"a": ([(0, 100, 90)], 20), "b": ([(5, 450, 440)], 10)})
    assert (both.width, both.tokens, both.input_tokens) == (2, 550, (440, 90))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 50), st.integers(1, 50), TOKENS), max_size=6)
)
def test_the_peak_lies_between_the_largest_member_and_the_sum(rows: dict[str, tuple[int, int, int]]) -> None:
    top = aggregate_peak(
        {name: ([(start, held, held)], start + length) for name, (start, length, held) in rows.items()}
    )
    held = [row[2] for row in rows.values()]
    assert max(held, default=0) <= top.tokens <= sum(held)
    assert top.width <= len(rows)
