"""When compaction is due, what blocks it, when it can no longer run, and a scheduler that never puts it off too long.

A scheduler that defers compaction whenever it would cost the turn its latency target defers it every turn: the busier
the agent, the later it compacts, until the staging buffer cannot be had and nothing can.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lowwater.policies.errors import CompactionStagingDeadlock

__all__ = [
    "Admission",
    "CompactionScheduler",
    "DebtReason",
    "Forecast",
    "HighWater",
    "above_high_water",
    "admit_compaction",
    "forecast_deadlock",
    "is_thrash",
    "why_blocked",
]

SCRATCHPAD_HIGH_WATER_RATIO = 0.70
"""Part of the scratchpad's reservation from which it is to be compacted: the reference incident's scheduler works at
0.70 and stays between 0.55 and 0.72. Later leaves too few turns for the buffer, earlier compacts without need."""

THRASH_TURNS = 3
THRASH_HITS = 3
"""The limit reached again within three turns, three times, is thrash (Claude Code's changelog, claude-code#60600)."""

LATENCY_PATIENCE_TURNS = 3
"""Turns that compaction may be deferred for the sake of the turn's latency. Zero ignores the target; ten and more is
how the reference incident stalled."""


class DebtReason(enum.Enum):
    """Why a compaction that is due did not run. The values are public."""

    STAGING_UNAVAILABLE = "staging_unavailable"
    LATENCY_BUDGET = "latency_budget"
    DOES_NOT_FIT_SUMMARIZER = "does_not_fit_summarizer"
    FLOOR_ABOVE_TRIGGER = "floor_above_trigger"
    IN_FLIGHT_OR_FAILING = "in_flight_or_failing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HighWater:
    """Whether compaction is due.

    Attributes:
        above: it is.
        over_tokens: how far above the mark, 0 or more.
        which: ``scratchpad`` or ``trigger``, None when it is not due.
        left_tokens: what the scratchpad's reservation still holds, 0 or more; None where the trigger is the mark.
    """

    above: bool
    over_tokens: int
    which: str | None
    left_tokens: int | None = None


def above_high_water(
    *,
    input_tokens: int,
    window_tokens: int,
    trigger_ratio: float,
    scratchpad_tokens: int | None = None,
    scratchpad_reservation_tokens: int | None = None,
) -> HighWater:
    """Whether a context is above its high-water mark: of the scratchpad where it has a reservation, else the trigger.

    Both are compared strictly: at the mark compaction starts, above it it is late.

    Raises:
        ValueError: a number is out of range.
    """
    _positive(window_tokens=window_tokens)
    _no_negative(input_tokens=input_tokens)
    if not (math.isfinite(trigger_ratio) and 0 < trigger_ratio <= 1):
        msg = f"trigger_ratio must be in (0, 1], not {trigger_ratio}"
        raise ValueError(msg)
    if scratchpad_reservation_tokens is not None and scratchpad_tokens is not None:
        _positive(scratchpad_reservation_tokens=scratchpad_reservation_tokens)
        _no_negative(scratchpad_tokens=scratchpad_tokens)
        # Ratios are compared, not tokens: a quotient is rounded once and equals the ratio at the mark, where 0.70 * 90 is
        # less than 63.
        if scratchpad_tokens / scratchpad_reservation_tokens > SCRATCHPAD_HIGH_WATER_RATIO:
            over = scratchpad_tokens - SCRATCHPAD_HIGH_WATER_RATIO * scratchpad_reservation_tokens
            left = max(0, scratchpad_reservation_tokens - scratchpad_tokens)
            return HighWater(True, max(1, round(over)), "scratchpad", left)
    if input_tokens / window_tokens > trigger_ratio:
        return HighWater(True, max(1, round(input_tokens - trigger_ratio * window_tokens)), "trigger")
    return HighWater(False, 0, None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long until the staging buffer cannot be had any more; 0 when it cannot be had now, None when never.

    Attributes:
        turns: in turns.
        seconds: in seconds, None also where the pace is unknown.
    """

    turns: float | None
    seconds: float | None


def forecast_deadlock(
    *,
    window_tokens: int,
    input_tokens: int,
    growth_tokens_per_turn: float,
    staging_tokens: int = 0,
    seconds_per_turn: float | None = None,
) -> Forecast:
    """Extrapolate the growth of a context to the point where window less staging is full.

    Raises:
        ValueError: a number is out of range.
    """
    _positive(window_tokens=window_tokens)
    _no_negative(input_tokens=input_tokens, staging_tokens=staging_tokens)
    _finite(growth_tokens_per_turn=growth_tokens_per_turn)
    room = window_tokens - staging_tokens - input_tokens
    if room <= 0:
        return Forecast(0.0, 0.0)
    if growth_tokens_per_turn <= 0:
        return Forecast(None, None)
    turns = room / growth_tokens_per_turn
    return Forecast(turns, None if seconds_per_turn is None else turns * seconds_per_turn)


def why_blocked(
    *,
    input_tokens: int,
    window_tokens: int,
    trigger_tokens: int,
    staging_tokens: int | None = None,
    resident_after_tokens: int | None = None,
    summarizer_window_tokens: int | None = None,
    in_flight: bool = False,
    failures: int = 0,
    turn_slo_seconds: float | None = None,
    turn_seconds: float | None = None,
    compaction_seconds: float | None = None,
) -> DebtReason:
    """The most specific reason that the numbers show why a due compaction does not run.

    Args:
        resident_after_tokens: what the last compaction left; at or above the trigger it cannot converge.
        turn_seconds: how long turns take; with ``compaction_seconds`` on top of it over the SLO, compaction is deferred.
    """
    if in_flight or failures > 0:
        return DebtReason.IN_FLIGHT_OR_FAILING
    if resident_after_tokens is not None and resident_after_tokens >= trigger_tokens:
        return DebtReason.FLOOR_ABOVE_TRIGGER
    if summarizer_window_tokens is not None and input_tokens > summarizer_window_tokens:
        return DebtReason.DOES_NOT_FIT_SUMMARIZER
    if staging_tokens is not None and input_tokens + staging_tokens > window_tokens:
        return DebtReason.STAGING_UNAVAILABLE
    if turn_slo_seconds is None or turn_seconds is None:
        return DebtReason.UNKNOWN
    late = turn_seconds + (compaction_seconds or 0.0) > turn_slo_seconds
    return DebtReason.LATENCY_BUDGET if late else DebtReason.UNKNOWN


def is_thrash(limit_turns: Sequence[int]) -> bool:
    """Whether the limit was reached again within three turns, three times in a row.

    Args:
        limit_turns: turns at which the limit was reached, ascending.

    >>> is_thrash([10, 12, 15, 17]), is_thrash([10, 40, 42, 80])
    (True, False)
    """
    quick = 0
    for before, after in pairwise(limit_turns):
        quick = quick + 1 if after - before <= THRASH_TURNS else 0
        if quick >= THRASH_HITS:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a compaction runs now.

    Attributes:
        admitted: it does.
        reason: why: ``not_due``, ``due``, ``overdue`` (the latency target yields), or why not, as a `DebtReason` value.
        missing_tokens: how much the window lacks for the staging buffer, 0 or more.
    """

    admitted: bool
    reason: str
    missing_tokens: int = 0

    def require(self) -> Admission:
        """This decision, as a gate.

        Raises:
            CompactionStagingDeadlock: the staging buffer cannot be had.
        """
        if self.reason == DebtReason.STAGING_UNAVAILABLE.value:
            msg = (
                f"compaction cannot stage its summary, {self.missing_tokens} tokens are missing: "
                "release scratchpad or retrieval first"
            )
            raise CompactionStagingDeadlock(msg)
        return self


def admit_compaction(
    *,
    high_water: HighWater,
    input_tokens: int,
    window_tokens: int,
    staging_tokens: int,
    expected_seconds: float,
    turn_slo_seconds: float | None = None,
    turn_seconds: float | None = None,
    deferred_turns: int = 0,
    growth_tokens_per_turn: float = 0.0,
    in_flight: bool = False,
) -> Admission:
    """Decide at a turn boundary whether compaction runs now.

    The latency target may defer it, but not for more than `LATENCY_PATIENCE_TURNS` turns, and not into the last turns
    in which the staging buffer can still be had or the scratchpad is still within its reservation.

    Args:
        expected_seconds: how long the compaction will take.
        turn_seconds: how long the turn takes without it.
        deferred_turns: turns for which it was deferred already.
        growth_tokens_per_turn: how fast the context grows; 0 or less where it is not known or does not grow.

    Raises:
        ValueError: a number is out of range.
    """
    _positive(window_tokens=window_tokens)
    _no_negative(input_tokens=input_tokens, staging_tokens=staging_tokens, deferred_turns=deferred_turns)
    _finite(growth_tokens_per_turn=growth_tokens_per_turn, expected_seconds=expected_seconds)
    if not high_water.above:
        return Admission(False, "not_due")
    if in_flight:
        return Admission(False, DebtReason.IN_FLIGHT_OR_FAILING.value)
    missing = input_tokens + staging_tokens - window_tokens
    if missing > 0:
        return Admission(False, DebtReason.STAGING_UNAVAILABLE.value, missing)
    if turn_slo_seconds is not None and (turn_seconds or 0.0) + expected_seconds > turn_slo_seconds:
        left = forecast_deadlock(
            window_tokens=window_tokens,
            input_tokens=input_tokens,
            growth_tokens_per_turn=growth_tokens_per_turn,
            staging_tokens=staging_tokens,
        ).turns
        soon = left is not None and left <= LATENCY_PATIENCE_TURNS
        if high_water.left_tokens is not None:
            soon = soon or high_water.left_tokens <= LATENCY_PATIENCE_TURNS * max(0.0, growth_tokens_per_turn)
        if deferred_turns < LATENCY_PATIENCE_TURNS and not soon:
            return Admission(False, DebtReason.LATENCY_BUDGET.value)
        return Admission(True, "overdue")
    return Admission(True, "due")


@dataclass(slots=True)
class CompactionScheduler:
    """Remembers, for one context, how long compaction has been put off.

    Attributes:
        window_tokens: the window.
        staging_tokens: what a compaction needs beside the context.
        seconds_per_token: what compaction costs per token of the span that it summarises.
        turn_slo_seconds: how long a turn may take, None without a target.
        scratchpad_reservation_tokens: what the scratchpad may hold, None without a reservation.
        trigger_ratio: where compaction starts without one.
        deferred_turns: turns since compaction was due that passed without one.
    """

    window_tokens: int
    staging_tokens: int
    seconds_per_token: float
    turn_slo_seconds: float | None = None
    scratchpad_reservation_tokens: int | None = None
    trigger_ratio: float = 0.90
    deferred_turns: int = 0

    def at_turn_end(
        self,
        *,
        input_tokens: int,
        scratchpad_tokens: int,
        turn_seconds: float | None = None,
        growth_tokens_per_turn: float = 0.0,
        span_tokens: int | None = None,
        in_flight: bool = False,
    ) -> Admission:
        """Decide at the end of a turn, and remember a deferral.

        Args:
            span_tokens: what a compaction would summarise now; the scratchpad where it is not given.

        Raises:
            ValueError: a number is out of range.
        """
        decision = admit_compaction(
            high_water=above_high_water(
                input_tokens=input_tokens,
                window_tokens=self.window_tokens,
                trigger_ratio=self.trigger_ratio,
                scratchpad_tokens=scratchpad_tokens,
                scratchpad_reservation_tokens=self.scratchpad_reservation_tokens,
            ),
            input_tokens=input_tokens,
            window_tokens=self.window_tokens,
            staging_tokens=self.staging_tokens,
            expected_seconds=self.seconds_per_token * (scratchpad_tokens if span_tokens is None else span_tokens),
            turn_slo_seconds=self.turn_slo_seconds,
            turn_seconds=turn_seconds,
            deferred_turns=self.deferred_turns,
            growth_tokens_per_turn=growth_tokens_per_turn,
            in_flight=in_flight,
        )
        self.deferred_turns = 0 if decision.admitted or decision.reason == "not_due" else self.deferred_turns + 1
        return decision


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            msg = f"{name} must be positive, not {value}"
            raise ValueError(msg)


def _finite(**values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            msg = f"{name} must be finite, not {value}"
            raise ValueError(msg)


def _no_negative(**values: int) -> None:
    for name, value in values.items():
        if value < 0:
            msg = f"{name} must not be negative, not {value}"
            raise ValueError(msg)
