"""When compaction is due, what blocks it, and a scheduler that never puts it off for good."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.policies.compaction import (
    CompactionScheduler,
    DebtReason,
    HighWater,
    above_high_water,
    admit_compaction,
    forecast_deadlock,
    is_thrash,
    why_blocked,
)
from lowwater.policies.errors import CompactionStagingDeadlock


def test_the_marks_are_compared_strictly() -> None:
    at = above_high_water(input_tokens=180_000, window_tokens=200_000, trigger_ratio=0.9)
    above = above_high_water(input_tokens=180_001, window_tokens=200_000, trigger_ratio=0.9)
    assert (at.above, above.above, above.which, above.over_tokens) == (False, True, "trigger", 1)


def test_a_scratchpad_with_a_reservation_has_its_own_mark() -> None:
    mark = {
        "input_tokens": 10_000,
        "window_tokens": 32_000,
        "trigger_ratio": 0.9,
        "scratchpad_reservation_tokens": 6_000,
    }
    assert not above_high_water(**mark, scratchpad_tokens=4_200).above  # type: ignore[arg-type]
    found = above_high_water(**mark, scratchpad_tokens=4_201)  # type: ignore[arg-type]
    assert (found.above, found.which, found.over_tokens) == (True, "scratchpad", 1)


@given(st.integers(1, 20_000), st.integers(1, 1_000), st.integers(1, 400))
def test_exactly_the_mark_is_never_above_it(tenth: int, thousandths: int, thousands: int) -> None:
    """0.7 x 90 is less than 63 in floating point; the comparison must not notice."""
    window, ratio = 1_000 * thousands, thousandths / 1_000
    used = thousandths * thousands
    assert not above_high_water(input_tokens=used, window_tokens=window, trigger_ratio=ratio).above
    above = above_high_water(input_tokens=used + 1, window_tokens=window, trigger_ratio=ratio)
    assert (above.which, above.over_tokens) == ("trigger", 1)
    scratchpad = {"input_tokens": 0, "window_tokens": 1_000_000, "scratchpad_reservation_tokens": 10 * tenth}
    assert not above_high_water(**scratchpad, trigger_ratio=0.9, scratchpad_tokens=7 * tenth).above
    above = above_high_water(**scratchpad, trigger_ratio=0.9, scratchpad_tokens=7 * tenth + 1)
    assert (above.which, above.over_tokens) == ("scratchpad", 1)


@pytest.mark.parametrize(
    ("used", "scratchpad", "reservation", "which"),
    [
        (28_801, 0, 6_000, "trigger"),  # a scratchpad below its mark does not hide a full window
        (28_801, 4_201, 6_000, "scratchpad"),
        (28_800, 20_000, None, None),  # without a reservation the scratchpad has no mark
        (28_800, None, 6_000, None),
    ],
)
def test_which_mark_is_crossed(used: int, scratchpad: int | None, reservation: int | None, which: str | None) -> None:
    found = above_high_water(
        input_tokens=used, window_tokens=32_000, trigger_ratio=0.9, scratchpad_tokens=scratchpad,
        scratchpad_reservation_tokens=reservation,
    )  # fmt: skip
    assert (found.which, found.above) == (which, which is not None)


@pytest.mark.parametrize(
    ("used", "growth", "pace", "turns", "seconds"),
    [
        (28_000, 500.0, 2.0, 0.0, 0.0),  # the buffer is all that is left
        (27_999, 0.5, 2.0, 2.0, 4.0),
        (27_999, 0.5, None, 2.0, None),  # pace unknown
        (27_999, 0.0, 2.0, None, None),  # does not grow
        (27_999, -3.0, 2.0, None, None),
        (40_000, -3.0, None, 0.0, 0.0),  # over the window already
    ],
)
def test_the_forecast_at_its_boundaries(
    used: int, growth: float, pace: float | None, turns: float | None, seconds: float | None
) -> None:
    found = forecast_deadlock(
        window_tokens=32_000, input_tokens=used, growth_tokens_per_turn=growth, staging_tokens=4_000,
        seconds_per_turn=pace,
    )  # fmt: skip
    assert (found.turns, found.seconds) == (turns, seconds)


def test_the_forecast_counts_turns_and_seconds_to_the_end_of_the_staging_buffer() -> None:
    forecast = forecast_deadlock(
        window_tokens=32_000,
        input_tokens=26_000,
        growth_tokens_per_turn=500.0,
        staging_tokens=4_000,
        seconds_per_turn=2.0,
    )
    assert (forecast.turns, forecast.seconds) == (4.0, 8.0)
    full = forecast_deadlock(
        window_tokens=32_000, input_tokens=28_000, growth_tokens_per_turn=-1.0, staging_tokens=4_000
    )
    assert full.turns == 0.0
    shrinking = forecast_deadlock(window_tokens=32_000, input_tokens=1, growth_tokens_per_turn=0.0)
    assert shrinking.turns is None


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0.1, 1e5), st.integers(0, 10**6))
def test_a_faster_growth_never_gives_more_time(window: int, used: int, growth: float, staging: int) -> None:
    slow = forecast_deadlock(
        window_tokens=window, input_tokens=used, growth_tokens_per_turn=growth, staging_tokens=staging
    )
    fast = forecast_deadlock(
        window_tokens=window, input_tokens=used, growth_tokens_per_turn=2 * growth, staging_tokens=staging
    )
    assert slow.turns is not None
    assert fast.turns is not None
    assert fast.turns <= slow.turns


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"in_flight": True, "resident_after_tokens": 31_000}, DebtReason.IN_FLIGHT_OR_FAILING),
        ({"failures": 1}, DebtReason.IN_FLIGHT_OR_FAILING),
        ({"resident_after_tokens": 28_800}, DebtReason.FLOOR_ABOVE_TRIGGER),
        ({"resident_after_tokens": 28_799}, DebtReason.UNKNOWN),
        ({"summarizer_window_tokens": 29_999}, DebtReason.DOES_NOT_FIT_SUMMARIZER),
        ({"summarizer_window_tokens": 30_000}, DebtReason.UNKNOWN),
        ({"summarizer_window_tokens": 1, "resident_after_tokens": 28_800}, DebtReason.FLOOR_ABOVE_TRIGGER),
        ({"summarizer_window_tokens": 1, "staging_tokens": 9_000}, DebtReason.DOES_NOT_FIT_SUMMARIZER),
        ({"staging_tokens": 9_000, "turn_slo_seconds": 1.0, "turn_seconds": 2.0}, DebtReason.STAGING_UNAVAILABLE),
        ({"turn_slo_seconds": 1.75, "turn_seconds": 1.5, "compaction_seconds": 0.25}, DebtReason.UNKNOWN),
        ({"turn_slo_seconds": 1.75, "turn_seconds": 1.76}, DebtReason.LATENCY_BUDGET),
        ({"turn_slo_seconds": 1.75, "compaction_seconds": 9.0}, DebtReason.UNKNOWN),  # how long turns take is unknown
        ({"staging_tokens": 2_001}, DebtReason.STAGING_UNAVAILABLE),
        ({"staging_tokens": 2_000}, DebtReason.UNKNOWN),
        ({"turn_slo_seconds": 1.8, "turn_seconds": 1.6, "compaction_seconds": 0.34}, DebtReason.LATENCY_BUDGET),
        ({}, DebtReason.UNKNOWN),
    ],
)
def test_the_most_specific_reason_that_the_numbers_show(facts: dict[str, float], reason: DebtReason) -> None:
    found = why_blocked(input_tokens=30_000, window_tokens=32_000, trigger_tokens=28_800, **facts)  # type: ignore[arg-type]
    assert found is reason


@pytest.mark.parametrize(
    ("hits", "thrash"),
    [
        ([10, 13, 16, 19], True),
        ([10, 13, 16, 20], False),  # the last after four turns
        ([1, 40, 42, 44, 46], True),
        ([1, 2, 3, 7, 8, 9, 13], False),  # twice in a row, twice
        ([1, 2, 3, 4, 90], True),  # it happened, though it is over
        ([1, 2, 3], False),
        ([5], False),
        ([], False),
    ],
)
def test_thrash_is_three_quick_returns_to_the_limit(hits: list[int], thrash: bool) -> None:
    assert is_thrash(hits) is thrash


class Agent:
    """The incident: a 32k window, 6k of it for the scratchpad, 340 ms per 12k tokens compacted, a target of 1.8 s a turn."""

    window, staging, reservation, slo_seconds = 32_000, 2_000, 6_000, 1.8
    seconds_per_token = 0.340 / 12_000
    growth = 500
    turn_seconds = 1.75

    def __init__(self) -> None:
        self.scratchpad = 700

    def input_tokens(self) -> int:
        return 8_500 + self.scratchpad

    def span_tokens(self) -> int:
        """What a compaction summarises: all but the system prompt."""
        return self.input_tokens() - 1_000

    def compact(self) -> None:
        self.scratchpad = 700


def test_a_rule_that_always_honours_the_latency_target_stalls() -> None:
    agent, turn = Agent(), 0
    while agent.input_tokens() + agent.staging <= agent.window and turn < 200:
        agent.scratchpad += agent.growth
        turn += 1
        if agent.turn_seconds + agent.seconds_per_token * agent.span_tokens() <= agent.slo_seconds:
            agent.compact()
    assert 40 < turn < 60


def test_the_scheduler_runs_two_hundred_turns_without_a_stall() -> None:
    """It compacts every seven or eight turns, soon after 0.70 of the reservation, although each one costs the target."""
    agent = Agent()
    scheduler = CompactionScheduler(
        window_tokens=agent.window, staging_tokens=agent.staging, seconds_per_token=agent.seconds_per_token,
        turn_slo_seconds=agent.slo_seconds, scratchpad_reservation_tokens=agent.reservation,
    )  # fmt: skip
    compacted, shares, seconds = [], [], []
    for turn in range(200):
        agent.scratchpad += agent.growth
        decision = scheduler.at_turn_end(
            input_tokens=agent.input_tokens(),
            scratchpad_tokens=agent.scratchpad,
            turn_seconds=agent.turn_seconds,
            growth_tokens_per_turn=agent.growth,
            span_tokens=agent.span_tokens(),
        )
        assert decision.reason != DebtReason.STAGING_UNAVAILABLE.value
        if decision.admitted:
            compacted.append(turn)
            shares.append(agent.scratchpad / agent.reservation)
            seconds.append(agent.seconds_per_token * agent.span_tokens())
            agent.compact()
    assert {after - before for before, after in pairwise(compacted)} <= {7, 8, 9}
    assert min(shares) > 0.70
    assert max(shares) <= 0.90
    assert sum(seconds) / len(seconds) == pytest.approx(0.360, abs=0.03)


@given(st.lists(st.integers(0, 900), min_size=60, max_size=60), st.floats(0.0, 10.0), st.booleans())
def test_no_latency_target_starves_compaction(growths: list[int], turn_seconds: float, reserved: bool) -> None:
    """Whatever the target, the staging buffer is never lost to a deferral, nor is compaction due for long."""
    scheduler = CompactionScheduler(
        window_tokens=32_000, staging_tokens=2_000, seconds_per_token=1e-4, turn_slo_seconds=0.5, trigger_ratio=0.6,
        scratchpad_reservation_tokens=6_000 if reserved else None,
    )  # fmt: skip
    scratchpad, due = 0, 0
    for growth in growths:
        scratchpad += growth
        decision = scheduler.at_turn_end(
            input_tokens=15_000 + scratchpad,
            scratchpad_tokens=scratchpad,
            turn_seconds=turn_seconds,
            growth_tokens_per_turn=900.0,
        )
        assert decision.reason != DebtReason.STAGING_UNAVAILABLE.value
        due = due + 1 if decision.reason == DebtReason.LATENCY_BUDGET.value else 0
        assert due <= 3
        if reserved and decision.reason == DebtReason.LATENCY_BUDGET.value:
            assert scratchpad + 900 <= 6_000
        if decision.admitted:
            scratchpad = 0


def test_a_deferral_is_granted_while_there_is_room_and_no_longer() -> None:
    arguments = {
        "input_tokens": 10_000, "window_tokens": 32_000, "staging_tokens": 2_000, "expected_seconds": 0.2,
        "turn_slo_seconds": 1.8, "turn_seconds": 1.7, "growth_tokens_per_turn": 500.0,
    }  # fmt: skip

    def decide(left: int, deferred: int = 0) -> str:
        mark = HighWater(above=True, over_tokens=100, which="scratchpad", left_tokens=left)
        return admit_compaction(high_water=mark, deferred_turns=deferred, **arguments).reason  # type: ignore[arg-type]

    assert decide(1_501) == "latency_budget"
    assert decide(1_500) == "overdue"
    assert (decide(1_501, deferred=2), decide(1_501, deferred=3)) == ("latency_budget", "overdue")


@pytest.mark.parametrize(
    ("above", "in_flight", "slo", "reason", "admitted"),
    [
        (False, False, None, "not_due", False),
        (True, True, None, "in_flight_or_failing", False),
        (True, False, None, "due", True),
        (True, False, 1.9, "due", True),
    ],
)
def test_what_else_decides_an_admission(
    above: bool, in_flight: bool, slo: float | None, reason: str, admitted: bool
) -> None:
    decision = admit_compaction(
        high_water=HighWater(above, 1 if above else 0, "trigger" if above else None), input_tokens=20_000,
        window_tokens=32_000, staging_tokens=2_000, expected_seconds=0.2, turn_slo_seconds=slo, turn_seconds=1.7,
        in_flight=in_flight,
    )  # fmt: skip
    assert (decision.reason, decision.admitted) == (reason, admitted)
    assert decision.require() is decision


def test_the_gate_raises_when_staging_cannot_be_had() -> None:
    mark = above_high_water(input_tokens=31_000, window_tokens=32_000, trigger_ratio=0.9)
    decision = admit_compaction(
        high_water=mark, input_tokens=31_000, window_tokens=32_000, staging_tokens=2_000, expected_seconds=0.1
    )
    assert decision.missing_tokens == 1_000
    with pytest.raises(
        CompactionStagingDeadlock, match="stage its summary, 1000 tokens are missing: release scratchpad"
    ):
        decision.require()


def test_a_decision_that_only_waits_passes_the_gate() -> None:
    mark = above_high_water(input_tokens=29_000, window_tokens=32_000, trigger_ratio=0.9)
    decision = admit_compaction(
        high_water=mark, input_tokens=29_000, window_tokens=32_000, staging_tokens=2_000, expected_seconds=1.0,
        turn_slo_seconds=1.8, turn_seconds=1.5,
    )  # fmt: skip
    assert (decision.admitted, decision.reason) == (False, "latency_budget")
    assert decision.require() is decision


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"staging_tokens": 3_000}, "due"),  # fits exactly
        ({"staging_tokens": 3_001}, "staging_unavailable"),
        ({"turn_slo_seconds": 1.75}, "due"),  # 1.5 s + 0.25 s is the target exactly
        ({"turn_slo_seconds": 1.74}, "latency_budget"),
        ({"turn_slo_seconds": 0.24, "turn_seconds": None}, "latency_budget"),  # the compaction alone is over it
        ({"turn_slo_seconds": 0.25, "turn_seconds": None}, "due"),
        ({"turn_slo_seconds": 1.0, "growth_tokens_per_turn": 333.3}, "latency_budget"),  # staging for 3.0003 turns
        ({"turn_slo_seconds": 1.0, "growth_tokens_per_turn": 1_000 / 3}, "overdue"),  # for three
        ({"turn_slo_seconds": 1.0, "growth_tokens_per_turn": -500.0, "deferred_turns": 2}, "latency_budget"),
        ({"turn_slo_seconds": 1.0, "growth_tokens_per_turn": -500.0, "deferred_turns": 3}, "overdue"),
        ({"turn_slo_seconds": 1.0, "in_flight": True, "deferred_turns": 9}, "in_flight_or_failing"),
    ],
)
def test_an_admission_at_its_boundaries(changes: dict[str, Any], reason: str) -> None:
    arguments: dict[str, Any] = {
        "high_water": above_high_water(input_tokens=29_000, window_tokens=32_000, trigger_ratio=0.9),
        "input_tokens": 29_000, "window_tokens": 32_000, "staging_tokens": 2_000, "expected_seconds": 0.25,
        "turn_seconds": 1.5,
    }  # fmt: skip
    assert admit_compaction(**{**arguments, **changes}).reason == reason


def test_the_scheduler_counts_deferrals_and_forgets_them_once_nothing_is_due() -> None:
    scheduler = CompactionScheduler(
        window_tokens=100_000, staging_tokens=0, seconds_per_token=1.0, turn_slo_seconds=1.0
    )

    def turn(input_tokens: int) -> tuple[str, int]:
        decision = scheduler.at_turn_end(input_tokens=input_tokens, scratchpad_tokens=10)
        return decision.reason, scheduler.deferred_turns

    assert [turn(90_001), turn(90_001)] == [("latency_budget", 1), ("latency_budget", 2)]
    assert turn(90_000) == ("not_due", 0)
    assert [turn(90_001) for _ in range(5)] == [
        ("latency_budget", 1), ("latency_budget", 2), ("latency_budget", 3), ("overdue", 0), ("latency_budget", 1),
    ]  # fmt: skip


def test_impossible_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="window_tokens"):
        above_high_water(input_tokens=1, window_tokens=0, trigger_ratio=0.9)
    with pytest.raises(ValueError, match="staging_tokens"):
        forecast_deadlock(window_tokens=1, input_tokens=1, growth_tokens_per_turn=1.0, staging_tokens=-1)
    with pytest.raises(ValueError, match="growth_tokens_per_turn"):
        forecast_deadlock(window_tokens=2, input_tokens=1, growth_tokens_per_turn=float("nan"))
    with pytest.raises(ValueError, match="trigger_ratio"):
        above_high_water(input_tokens=1, window_tokens=1, trigger_ratio=float("nan"))
    with pytest.raises(ValueError, match="deferred_turns"):
        admit_compaction(
            high_water=HighWater(False, 0, None), input_tokens=1, window_tokens=2, staging_tokens=0,
            expected_seconds=0.1, deferred_turns=-1,
        )  # fmt: skip
