"""What a trace tells late, and is needed early: agents end after their calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.collectors.reading import Operation, Reading

__all__ = ["BOUNDARIES", "Directory"]

BOUNDARIES = (Operation.AGENT, Operation.TOOL)
"""An LLM call inside a tool's execution belongs to a context of its own, not to the tool's caller."""


@dataclass(slots=True)
class Directory:
    """What a trace tells late: which spans are agents and tools, agents' names, and the conversation of a trace.

    A replay fills it while reading; live it grows as spans end.
    """

    boundaries: dict[tuple[str, str], tuple[Operation, str | None, str | None]] = field(default_factory=dict)
    conversations: dict[str, str] = field(default_factory=dict)
    limit: int = 50_000

    def note(self, reading: Reading) -> None:
        """Remember what a span says about itself for the sake of its descendants."""
        if reading.kind in BOUNDARIES and reading.span_id:
            if len(self.boundaries) >= self.limit:
                self.boundaries.pop(next(iter(self.boundaries)))
            name = reading.agent_name if reading.kind is Operation.AGENT else None
            self.boundaries[(reading.trace_id, reading.span_id)] = (reading.kind, name, reading.agent_id)
        # The smallest id wins, so that the choice does not depend on the order of the file.
        if reading.conversation and reading.trace_id:
            known = self.conversations.get(reading.trace_id)
            if known is None or reading.conversation < known:
                if known is None and len(self.conversations) >= self.limit:
                    self.conversations.pop(next(iter(self.conversations)))
                self.conversations[reading.trace_id] = reading.conversation
