"""Learners of a requirement that are compared by `requirement.py`: each sees working memory and whether it was squeezed."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import Protocol

from river import drift, stats

__all__ = ["LEARNERS", "Learner"]

WINDOW = 500
MIN_CALLS = 50
Q = 0.95
Z = 1.6449
"""The standard normal's quantile at Q."""


class Learner(Protocol):
    """What the operator teaches and the composer asks."""

    calls: int

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        """Take a call; of a censored one the tokens are a lower bound."""

    def estimate(self) -> int | None:
        """The requirement, None until it can be told."""


class _Counted:
    def __init__(self) -> None:
        self.calls = 0

    def enough(self) -> bool:
        return self.calls >= MIN_CALLS


class NaiveQuantile(_Counted):
    """Rolling quantile of all calls, squeezed or not."""

    def __init__(self) -> None:
        super().__init__()
        self._quantile = stats.RollingQuantile(Q, WINDOW)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        self._quantile.update(float(working_tokens))
        self.calls += 1

    def estimate(self) -> int | None:
        return round(self._quantile.get() or 0) if self.enough() else None


class NaiveMean(_Counted):
    """Exponentially weighted mean and deviation of all calls."""

    def __init__(self) -> None:
        super().__init__()
        self._mean, self._variance = stats.EWMean(0.02), stats.EWVar(0.02)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        self._mean.update(float(working_tokens))
        self._variance.update(float(working_tokens))
        self.calls += 1

    def estimate(self) -> int | None:
        spread = math.sqrt(max(0.0, self._variance.get() or 0.0))
        return round((self._mean.get() or 0.0) + Z * spread) if self.enough() else None


class Dropped(NaiveQuantile):
    """Rolling quantile; squeezed calls are left out."""

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        if not censored:
            super().learn_one(working_tokens)


class DroppedP2(_Counted):
    """River's P2 quantile over all time; squeezed calls are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._quantile = stats.Quantile(Q)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        if not censored:
            self._quantile.update(float(working_tokens))
            self.calls += 1

    def estimate(self) -> int | None:
        return round(self._quantile.get() or 0) if self.enough() else None


class Imputed(NaiveQuantile):
    """Rolling quantile; a squeezed call counts as one that needed the present estimate, or what it held if that is more."""

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        if not censored:
            super().learn_one(working_tokens)
        elif self.enough():
            self._quantile.update(float(max(working_tokens, self.estimate() or 0)))


class LogNormal(_Counted):
    """Fading mean and variance of the log; a squeezed call counts as the mean of what lies above its bound (Tobit)."""

    def __init__(self) -> None:
        super().__init__()
        self._mean, self._square = stats.EWMean(0.01), stats.EWMean(0.01)

    def _moments(self) -> tuple[float, float]:
        mean, square = self._mean.get() or 0.0, self._square.get() or 0.0
        return mean, math.sqrt(max(1e-6, square - mean * mean))

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        value = math.log(max(1, working_tokens))
        if not censored:
            self._mean.update(value)
            self._square.update(value * value)
            self.calls += 1
        elif self.enough():
            mean, sigma = self._moments()
            bound = min(4.0, (value - mean) / sigma)
            above = 0.5 * math.erfc(bound / math.sqrt(2))
            hazard = math.exp(-bound * bound / 2) / math.sqrt(2 * math.pi) / max(above, 1e-9)
            self._mean.update(mean + sigma * hazard)
            self._square.update(mean * mean + sigma * sigma + sigma * (value + mean) * hazard)

    def estimate(self) -> int | None:
        mean, sigma = self._moments()
        return round(math.exp(min(20.0, mean + Z * sigma))) if self.enough() else None


class KaplanMeier(_Counted):
    """Quantile of a sliding window in which the weight of squeezed calls goes to the calls that held more.

    Args:
        joint: squeezed calls push others out of the window; otherwise only calls with room do, and a squeezed call
            leaves with those of its time.
        rank: takes the order statistic that a split-conformal bound takes: one observation more.
    """

    def __init__(self, window: int = WINDOW, *, joint: bool = False, rank: bool = False) -> None:
        super().__init__()
        self._window, self._joint, self._rank = window, joint, rank
        self._order: deque[tuple[int, bool]] = deque()
        self._exact: list[int] = []
        self._bounds: list[int] = []

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        self._order.append((working_tokens, censored))
        insort(self._bounds if censored else self._exact, working_tokens)
        self.calls += not censored
        while (len(self._order) > self._window if self._joint else len(self._exact) > self._window) or len(
            self._bounds
        ) > self._window:
            self._pop()

    def _pop(self) -> None:
        value, censored = self._order.popleft()
        values = self._bounds if censored else self._exact
        del values[bisect_left(values, value)]

    def keep(self, count: int) -> None:
        """Forget all but the latest calls."""
        while len(self._order) > count:
            self._pop()

    def estimate(self) -> int | None:
        if not self.enough() or not (self._exact or self._bounds):
            return None
        quantile = Q
        if self._rank:
            size = len(self._exact) + len(self._bounds)
            quantile = min(1.0, math.ceil((size + 1) * Q) / size)
        return kaplan_meier(self._exact, self._bounds, quantile)


def kaplan_meier(exact: list[int], bounds: list[int], quantile: float) -> int:
    """The quantile of sorted values and sorted lower bounds."""
    left, survival, start = len(exact) + len(bounds), 1.0, 0
    for bound in [*bounds, math.inf]:
        upto = bisect_right(exact, bound)
        if survival * (left - (upto - start)) <= (1 - quantile) * left + 1e-9 and upto > start:
            step = max(1, math.ceil(left * (1 - (1 - quantile) / survival) - 1e-9))
            return exact[start + step - 1]
        survival *= (left - (upto - start)) / max(1, left)
        left -= upto - start + 1
        start = upto
    return max(exact[-1:] + bounds[-1:])


class Adwin(KaplanMeier):
    """Kaplan-Meier that forgets what lies before a change that ADWIN finds in the log of what calls with room hold."""

    def __init__(self, delta: float = 0.002) -> None:
        super().__init__()
        self._drift = drift.ADWIN(delta)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        super().learn_one(working_tokens, censored=censored)
        if not censored:
            self._drift.update(math.log(max(1, working_tokens)))
            if self._drift.drift_detected:
                self.keep(max(MIN_CALLS, round(self._drift.width)))


class DroppedAdwin(Adwin):
    """The same without squeezed calls."""

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        if not censored:
            super().learn_one(working_tokens)


class PageHinkley(KaplanMeier):
    """Kaplan-Meier that forgets all but the latest calls when Page and Hinkley's test finds a change."""

    def __init__(self) -> None:
        super().__init__()
        self._drift = drift.PageHinkley(delta=0.05, threshold=25.0)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        super().learn_one(working_tokens, censored=censored)
        if not censored:
            self._drift.update(math.log(max(1, working_tokens)))
            if self._drift.drift_detected:
                self.keep(MIN_CALLS)


class Conformal(_Counted):
    """Adaptive conformal bound: it moves up by much when a call needs more than it, and down by little when one does not.

    A squeezed call below the bound tells nothing, and one above it counts like any other.
    """

    def __init__(self, rate: float = 0.05) -> None:
        super().__init__()
        self._rate, self._log = rate, 0.0
        self._first = stats.Quantile(Q)

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        above = math.log(max(1, working_tokens)) > self._log
        if not censored:
            self.calls += 1
            if self.calls <= MIN_CALLS:
                self._first.update(float(working_tokens))
                self._log = math.log(max(1.0, self._first.get() or 1.0))
                return
        elif not above or not self.enough():
            return
        self._log += self._rate * (float(above) - (1 - Q))

    def estimate(self) -> int | None:
        return round(math.exp(self._log)) if self.enough() else None


LEARNERS: dict[str, Callable[[], Learner]] = {
    "naive quantile": NaiveQuantile,
    "naive mean": NaiveMean,
    "left out": Dropped,
    "left out, P2": DroppedP2,
    "left out, ADWIN": DroppedAdwin,
    "imputed": Imputed,
    "log-normal (Tobit)": LogNormal,
    "Kaplan-Meier": KaplanMeier,
    "Kaplan-Meier, joint window": lambda: KaplanMeier(joint=True),
    "Kaplan-Meier, ADWIN": Adwin,
    "Kaplan-Meier, Page-Hinkley": PageHinkley,
    "Kaplan-Meier, conformal rank": lambda: KaplanMeier(rank=True),
    "adaptive conformal": Conformal,
}
