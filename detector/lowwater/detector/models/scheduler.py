"""How often a role's compactions run, and how its rejections drift."""

from __future__ import annotations

from river import stats

__all__ = ["DebtShare", "SchedulerTick"]


class SchedulerTick:
    """The interval of a compaction scheduler, learned from the gaps between a role's compactions.

    A scheduler with a tick compacts at multiples of it. The lower quartile of the gaps is near one tick: compactions
    of one wave are closer (ignored below a second), idle ticks make gaps longer.
    """

    def __init__(self) -> None:
        self._gap = stats.Quantile(0.25)
        self._last: float | None = None
        self.gaps = 0

    def learn_one(self, time_seconds: float) -> None:
        """Take the time of a compaction of this role, in Unix seconds."""
        if self._last is not None and time_seconds - self._last >= 1.0:
            self._gap.update(time_seconds - self._last)
            self.gaps += 1
        self._last = max(time_seconds, self._last or time_seconds)

    def estimate_seconds(self) -> float | None:
        """The tick in seconds, None until ten gaps were seen."""
        return float(self._gap.get() or 0.0) if self.gaps >= 10 else None


class DebtShare:
    """The share of a role's rejections that are compaction debt, and whether it has changed."""

    def __init__(self) -> None:
        from river import drift  # noqa: PLC0415 - takes a second (scipy); most traces hold no rejection

        self._share = stats.EWMean(0.1)
        self._drift = drift.ADWIN(clock=1)
        self.rejections = 0
        self.debts = 0
        self.changed = False

    def learn_one(self, is_debt: bool) -> None:
        """Take one rejection."""
        self._share.update(float(is_debt))
        self._drift.update(float(is_debt))
        self.changed = bool(self._drift.drift_detected)
        self.rejections += 1
        self.debts += is_debt

    def share(self) -> float:
        """The recent share of debt, in [0, 1]."""
        return float(self._share.get() or 0.0)
