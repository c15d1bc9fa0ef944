"""States by key in bounded memory: what every operator's state is kept in, whatever keeps it durable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["Backing", "States"]

S = TypeVar("S")

_MAX_KEPT_TRIES = 32
"""States looked at for one that may go, each time there is one too many."""


class Backing(Protocol[S]):
    """Where states are that are not in memory."""

    def load(self, key: str) -> S | None:
        """The state last saved under a key, None if there is none."""

    def save(self, key: str, state: S) -> None:
        """Take a changed state that leaves memory."""


class States(Generic[S]):
    """States by key; beyond the limit the one that was used longest ago leaves.

    Args:
        make: makes the state of a key that was never seen.
        limit: states in memory at most.
        keep: tells a state that stays while others can go, for example one with a finding that fires. There are at most
            twice the limit in memory: beyond it the oldest goes all the same.
        backing: where a state goes that leaves, and comes back from; without one it is forgotten.

    Attributes:
        evicted: states that were forgotten or moved to the backing.
        changed: keys whose state was handed out since the last checkpoint.
    """

    def __init__(
        self,
        make: Callable[[], S],
        limit: int,
        *,
        keep: Callable[[S], bool] | None = None,
        backing: Backing[S] | None = None,
    ) -> None:
        if limit < 1:
            msg = f"limit must be at least 1, not {limit}"
            raise ValueError(msg)
        self._make = make
        self._limit = limit
        self._keep = keep
        self._backing = backing
        self._states: OrderedDict[str, S] = OrderedDict()
        self.evicted = 0
        self.changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: str) -> S:
        """The state of a key, to be changed by the caller."""
        state = self._states.get(key)
        if state is None:
            state = self._backing.load(key) if self._backing is not None else None
            if state is None:
                state = self._make()
            self._states[key] = state
            if len(self._states) > self._limit:
                self._evict(but=key)
        else:
            self._states.move_to_end(key)
        self.changed.add(key)
        return state

    def in_memory(self, key: str) -> S | None:
        """The state of a key, None if it is not in memory (or was discarded)."""
        return self._states.get(key)

    def peek(self, key: str) -> S | None:
        """The state of a key, to be read only; None if it was never seen."""
        state = self._states.get(key)
        if state is None and self._backing is not None:
            state = self._backing.load(key)
        return state

    def drop(self, key: str) -> None:
        """Forget a key in memory only, and what changed of it."""
        self._states.pop(key, None)
        self.changed.discard(key)

    def discard(self, key: str) -> None:
        """Forget a key for good."""
        if self._states.pop(key, None) is not None:
            self.changed.add(key)

    def oldest(self) -> tuple[str, S] | None:
        """Key and state that were used longest ago."""
        return next(iter(self._states.items()), None)

    def values(self) -> list[S]:
        """States in memory, longest unused first."""
        return list(self._states.values())

    def _evict(self, *, but: str) -> None:
        for _ in range(_MAX_KEPT_TRIES):
            key, state = next(iter(self._states.items()))
            spared = key == but or (self._keep is not None and self._keep(state))
            if spared and len(self._states) <= 2 * self._limit:
                self._states.move_to_end(key)
                continue
            del self._states[key]
            self.evicted += 1
            if self._backing is not None and key in self.changed:
                self._backing.save(key, state)
            self.changed.discard(key)
            if len(self._states) <= self._limit:
                return
