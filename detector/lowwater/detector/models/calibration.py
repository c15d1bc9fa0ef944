"""How a context's estimated weights map to the provider's tokens, and how large its invisible head is.

``input = head + factor * weight``: many sources show the messages and not the system prompt and tool schemas that
were sent before them. Both unknowns follow from how the reported input grows with the visible content.
"""

from __future__ import annotations

from river import stats

__all__ = ["Calibration"]

_FACTOR_RANGE = (0.4, 3.0)
"""Weights are token estimates; beyond this range the regression has met something else (images, hidden reasoning)."""

_MIN_CALLS = 2
_MIN_SPREAD = 0.05
"""Relative spread of the weights below which a slope cannot be told from noise."""


class Calibration:
    """Running regression of reported input on visible weight, for one context."""

    def __init__(self) -> None:
        self._weight = stats.Mean()
        self._tokens = stats.Mean()
        self._variance = stats.Var()
        self._covariance = stats.Cov()
        self.calls = 0

    def learn_one(self, weight: int, input_tokens: int) -> None:
        """Take a call with known input and visible content."""
        self._weight.update(weight)
        self._tokens.update(input_tokens)
        self._variance.update(weight)
        self._covariance.update(weight, input_tokens)
        self.calls += 1

    def factor(self) -> float:
        """Tokens per unit of weight; 1 until it can be told."""
        mean, variance = self._weight.get(), self._variance.get()
        if self.calls < _MIN_CALLS or variance <= (_MIN_SPREAD * mean) ** 2:
            return 1.0
        low, high = _FACTOR_RANGE
        return min(max(self._covariance.get() / variance, low), high)

    def head_tokens(self) -> int:
        """Tokens of the prompt that the content does not show, 0 or more."""
        return max(0, round(self._tokens.get() - self.factor() * self._weight.get()))
