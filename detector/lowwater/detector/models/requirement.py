"""The working set that an agent role needs, learned from calls that had room, and from what the others held at least."""

from __future__ import annotations

import math

from river import stats

__all__ = ["RequirementModel"]

_GENERATION = 200
"""Calls with room in one generation. Tasks of some twenty calls give ten tasks: fewer would make every one look a change."""

_GENERATIONS = 8
"""Generations remembered: 1,400 to 1,600 calls with room."""

_BIN = math.log(1.02)
"""Width of a bin of the logarithm: what is told of a call's tokens is off by at most 1 %."""

_RESOLUTION = 32
"""The estimate is made anew whenever this part of what it rests on is new: reading it is then free at most calls."""

_TASK_CALLS = 20.0
"""Calls that count as one when a change is looked for: those of one task are alike."""

_CHANGE_ERRORS = 2.5
"""Standard errors between the newest generation and those before it from which the older ones are forgotten."""

_ROUNDING = 1e-9


class RequirementModel:
    """A high quantile of working memory, in which a starved call counts as a lower bound (Kaplan and Meier's estimate).

    A starved call shows less than was needed. Taught as it is, it would make starvation the norm; left out, it takes the
    largest tasks with it, which are the first to starve. Its weight goes to the calls that held more.
    docs/requirement.md compares this with other ways.

    Args:
        quantile: which quantile is the requirement, in (0, 1).
        min_calls: calls with room before an estimate is given.

    Attributes:
        calls: calls with room that were learned.
    """

    def __init__(self, quantile: float = 0.95, min_calls: int = 50) -> None:
        self._q = quantile
        self._min_calls = min_calls
        self.calls = 0
        # By generation, the newest last: calls by the bin of their logarithm, and the spread of the logarithm.
        self._exact: list[dict[int, int]] = [{}]
        self._bounds: list[dict[int, int]] = [{}]
        self._logs: list[stats.Var] = [stats.Var()]
        self._bounds_in_newest = 0
        self._largest = 0
        self._unread = 0
        self._estimate: int | None = None

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        """Take the working memory of a call, in tokens; of a censored one it is a lower bound."""
        log = math.log(max(1, working_tokens))
        where = round(log / _BIN)
        if censored:
            if self._bounds_in_newest >= _GENERATION:
                return  # as many bounds as calls with room are enough: starving on must not outweigh them
            self._bounds_in_newest += 1
            _count(self._bounds[-1], where)
        else:
            _count(self._exact[-1], where)
            self._logs[-1].update(log)
            self.calls += 1
        self._largest = max(self._largest, working_tokens)
        self._unread += 1
        if not censored and self._logs[-1].mean.n >= _GENERATION:
            self._turn_over()

    def _turn_over(self) -> None:
        keep = 1 if self._has_changed() else _GENERATIONS - 1
        for parts in (self._exact, self._bounds, self._logs):
            del parts[:-keep]
        self._exact.append({})
        self._bounds.append({})
        self._logs.append(stats.Var())
        self._bounds_in_newest = 0

    def _has_changed(self) -> bool:
        if len(self._logs) < 2:
            return False
        before = sum(self._logs[1:-1], self._logs[0])
        error = math.sqrt(before.get() * _TASK_CALLS * (1 / _GENERATION + 1 / before.mean.n))
        return abs(self._logs[-1].mean.get() - before.mean.get()) > _CHANGE_ERRORS * error

    def estimate(self) -> int | None:
        """The requirement in tokens, or None until enough calls with room were seen."""
        if self.calls < self._min_calls:
            return None
        if self._estimate is None or self._unread * _RESOLUTION >= min(self.calls, _GENERATION * len(self._exact)):
            self._estimate, self._unread = min(self._largest, round(math.exp(self._at_quantile() * _BIN))), 0
        return self._estimate

    def _at_quantile(self) -> int:
        """The bin of the quantile; the highest one where lower bounds leave it open."""
        exact, bounds = _sum(self._exact), _sum(self._bounds)
        left, above, where = sum(exact.values()) + sum(bounds.values()), 1.0, 0
        for where in sorted(exact.keys() | bounds.keys()):
            ended = exact.get(where, 0)
            if ended:
                above *= (left - ended) / left
                if above <= 1.0 - self._q + _ROUNDING:
                    return where
            left -= ended + bounds.get(where, 0)
        return where


def _count(counts: dict[int, int], where: int) -> None:
    counts[where] = counts.get(where, 0) + 1


def _sum(parts: list[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for counts in parts:
        for where, count in counts.items():
            total[where] = total.get(where, 0) + count
    return total
