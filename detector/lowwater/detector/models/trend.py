"""How fast a context fills, and how long its turns take."""

from __future__ import annotations

from river import stats

__all__ = ["Trend"]

_FADING = 0.3
"""Weight of the newest turn: three turns make two thirds of the mean, so that a change of pace shows within a few."""


class Trend:
    """Exponentially weighted growth per turn and seconds per turn of one context."""

    def __init__(self) -> None:
        self._growth = stats.EWMean(_FADING)
        self._seconds = stats.EWMean(_FADING)
        self.turns = 0
        self.timed = 0

    def learn_one(self, growth_tokens: int, seconds: float | None) -> None:
        """Take one turn without compaction: input added, and time since the previous turn where it is known."""
        self._growth.update(growth_tokens)
        self.turns += 1
        if seconds is not None and seconds > 0:
            self._seconds.update(seconds)
            self.timed += 1

    def growth_tokens_per_turn(self) -> float | None:
        """Tokens per turn; None before the first."""
        return self._growth.get() if self.turns else None

    def seconds_per_turn(self) -> float | None:
        """Seconds per turn; None where times are unknown."""
        return self._seconds.get() if self.timed else None
