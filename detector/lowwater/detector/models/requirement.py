"""The working set that an agent role needs, learned from its healthy calls."""

from __future__ import annotations

from river import stats

__all__ = ["RequirementModel"]

_WINDOW = 500
"""Calls remembered per role: long enough for a stable upper quantile, short enough to follow a changed task mix."""


class RequirementModel:
    """A high quantile of working memory over healthy calls.

    A starved call shows less than was needed. Taught to the model it would make starvation the norm, so only
    calls that had room are learned: the others are censored observations.

    Args:
        quantile: which quantile is the requirement, in (0, 1).
        min_calls: healthy calls before an estimate is given.
    """

    def __init__(self, quantile: float = 0.95, min_calls: int = 50) -> None:
        self._quantile = stats.RollingQuantile(quantile, window_size=_WINDOW)
        self._min_calls = min_calls
        self.calls = 0

    def learn_one(self, working_tokens: int) -> None:
        """Take the working memory of a healthy call, in tokens."""
        self._quantile.update(float(working_tokens))
        self.calls += 1

    def estimate(self) -> int | None:
        """The requirement in tokens, or None until enough healthy calls were seen."""
        if self.calls < self._min_calls:
            return None
        value = self._quantile.get()
        return None if value is None else round(value)
