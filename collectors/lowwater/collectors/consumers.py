"""Who holds tokens of a context, and how much each number may be trusted.

The five consumers partition the input of a call: their tokens sum to it exactly.
Reservations outside the input (``output``, ``retry``, ``staging``) are deducted from the
ceiling only and are therefore no consumers.
"""

from __future__ import annotations

import enum

__all__ = ["CONSUMERS", "Consumer", "Provenance"]


class Consumer(enum.Enum):
    """A holder of input tokens."""

    SYSTEM = "system"
    """System prompt and instructions: reserved, present in every call."""
    TOOLS = "tools"
    """Tool schemas: reserved, present in every call."""
    RETRIEVAL = "retrieval"
    """Chunks injected from a store and still held. Recoverable by querying again."""
    SCRATCHPAD = "scratchpad"
    """Tool exchanges still held: call arguments and results. Recoverable by calling again."""
    WORKING = "working"
    """The live reasoning context: user and assistant text, reasoning, plans, summaries. Lossy to release."""


CONSUMERS: tuple[Consumer, ...] = tuple(Consumer)
"""The consumers in the order in which every table and record lists them."""


class Provenance(enum.IntEnum):
    """Where a number comes from, from weakest to strongest.

    A finding's severity may not exceed what its weakest input earns.
    """

    UNKNOWN = 0
    """Nobody said. The number is null, never zero."""
    DEFAULT = 1
    """A constant of lowwater's, used until something better is known."""
    INFERRED = 2
    """Derived from usage deltas, without content."""
    LEARNED = 3
    """Learned online from observed calls."""
    TABLE = 4
    """From the maintained table of models; the effective window of an account may be smaller."""
    MEASURED = 5
    """Counted in message content and scaled to the provider's total."""
    REPORTED = 6
    """Stated by the agent's or provider's own telemetry."""
    DECLARED = 7
    """Stated by the operator: a ``lowwater.*`` attribute or configuration."""

    @property
    def label(self) -> str:
        """The name used in ledgers and findings, for example ``measured``."""
        return self.name.lower()
