"""What travels between the operators: resolved calls, tool runs, agents, compactions and turns.

A `Reading` is what one span said. An event is what is known once the spans around it are: which of
several spans of one call counts, and whose context it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.content import Content
from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, ToolUse
from lowwater.detector.ledger import LedgerEntry

__all__ = ["AgentRun", "Anchor", "Call", "CompactionMark", "Event", "Observation", "Origin", "ToolRun", "Turn"]


@dataclass(slots=True)
class Anchor:
    """Whose context something belongs to, as far as the trace tells.

    Attributes:
        id: span id of the nearest agent or tool ancestor, or of the nearest ancestor that had not ended;
            the instance id where the source has one; the trace id when there is no ancestor.
        strong: the ancestor is known to be an agent or a tool execution, or the source named the instance.
        name: the agent's name, None if unknown.
        parent: id of the agent that this one was started under, None if there is none or it is unknown.
        open: the ancestor had not ended, so that what it is was not known yet.
    """

    id: str
    strong: bool = False
    name: str | None = None
    parent: str | None = None
    open: bool = False


@dataclass(slots=True)
class Origin:
    """Fields that every event shares."""

    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    timeless: bool
    service: str | None
    conversation: str | None
    anchor: Anchor

    @property
    def time_ns(self) -> int | None:
        """End in Unix nanoseconds, None where the source gave no time."""
        return None if self.timeless or self.end_ns <= 0 else self.end_ns

    @property
    def scope(self) -> str:
        """What contexts are told apart within: the conversation, or the trace where there is none."""
        return f"{self.service or ''}/{self.conversation or self.trace_id}"


@dataclass(slots=True)
class Call:
    """One LLM call, counted once.

    Attributes:
        reading: what its span said, completed from other spans of the same call.
        rollup: the span sums several calls of which none reported its own usage.
    """

    origin: Origin
    reading: Reading
    rollup: bool = False


@dataclass(slots=True)
class ToolRun:
    """One execution of a tool by an agent."""

    origin: Origin
    tool: ToolUse
    failed: bool = False


@dataclass(slots=True)
class AgentRun:
    """An agent's span ended: its context is released."""

    origin: Origin
    kind: Operation
    declared: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class CompactionMark:
    """Somebody announced a compaction.

    Attributes:
        context: key of the context that it speaks of, once that is known.
    """

    origin: Origin
    compaction: Compaction
    model: str | None = None
    context: str | None = None


Event = Call | ToolRun | AgentRun | CompactionMark


@dataclass(slots=True)
class Turn:
    """A call placed in its context.

    Attributes:
        context: key of the context.
        number: counted from 1.
        history: how the prompt relates to the previous one of the context: ``first``, ``appended``, ``rewritten``
            (same conversation, parts gone or replaced), ``compacted`` (a compaction explains it), ``unknown``.
        previous_input_tokens: the last known input of the context.
        compaction: the compaction seen since the previous turn, announced or inferred.
        compaction_inferred: nobody announced it.
        between: tool runs since the previous turn.
        after_calls: the previous answer ended because it called tools; many traces tell that and have no spans of tools.
    """

    call: Call
    context: str
    number: int
    history: str
    input_tokens: int | None
    input_rule: str
    previous_input_tokens: int | None = None
    previous_output_tokens: int | None = None
    compaction: Compaction | None = None
    compaction_inferred: bool = False
    between: tuple[ToolRun, ...] = ()
    after_calls: bool = False


@dataclass(slots=True)
class Observation:
    """A turn with its ledger entry: what the detecting operators see.

    Attributes:
        role: service, agent and model.
        tokens: input tokens by consumer, None where unknown.
        kept: keyed hashes of the blocks held in the prompt, None without content.
        content: the whole prompt's blocks, also where the trace sent only what was new.
        failure: why the call failed, None when it did not.
        repetition: what the repetition rule said of the tool calls since the previous turn.
    """

    turn: Turn
    entry: LedgerEntry
    role: str
    tokens: dict[Consumer, int] | None = None
    kept: frozenset[int] | None = None
    content: Content | None = None
    failure: Failure | None = None
    repetition: str | None = None
