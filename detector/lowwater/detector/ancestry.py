"""Where a span stands in its trace: its ancestors that ended, and the agent or tool whose context it belongs to.

Spans of one trace are remembered by span id in a `TraceState`; nothing here looks beyond one trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.directory import BOUNDARIES, Directory
from lowwater.detector.events import Anchor

__all__ = ["Below", "Held", "Span", "TraceState", "ancestors", "ancestry_known", "anchor_of", "remember"]

V = TypeVar("V")

_MAX_DEPTH = 256
"""Spans nest a dozen deep; a longer chain is a cycle or an attack."""

_MAX_KEYS = 20_000
"""Bound of every table of one trace. Duplicates and late parents come soon or never."""


@dataclass(slots=True)
class Span:
    """What is remembered of an ended span, for walks from its descendants."""

    parent: str | None
    kind: Operation
    agent_name: str | None
    conversation: str | None
    end_ns: int


@dataclass(slots=True)
class Below:
    """What was counted below a span that has not ended yet.

    Attributes:
        only: span id of the call, where there is a single one.
        reported: a call below reported usage.
        direct: a call is below without a tool or agent in between.
        sum_tokens: input of the calls below in all.
        largest_tokens: input of the largest of them.
    """

    calls: int = 0
    only: str | None = None
    reported: bool = False
    direct: bool = False
    sum_tokens: int = 0
    largest_tokens: int = 0

    def add(self, other: Below) -> None:
        """Count what was counted below another child, too."""
        self.calls += other.calls
        self.only = None
        self.reported = self.reported or other.reported
        self.direct = self.direct or other.direct
        self.sum_tokens += other.sum_tokens
        self.largest_tokens = max(self.largest_tokens, other.largest_tokens)


@dataclass(slots=True)
class Held:
    """A reading that waits for its ancestors.

    Attributes:
        number: position among all that wait, of all traces.
        call: it is an LLM call that counts.
        rollup: it sums calls, and counts only as long as none of them comes.
    """

    reading: Reading
    number: int
    call: bool = False
    rollup: bool = False


@dataclass(slots=True)
class TraceState:
    """State of one trace; all tables are keyed by span id.

    Attributes:
        spans: ended spans, in the order in which they ended.
        below: what was counted below spans that have not ended.
        anchors: the id by which a span first anchored a context: one that is learned later must not split it.
        joins: log records that wait for their span.
        held: readings that wait for their ancestors.
        counted: calls that count, and whether each is a roll-up.
        boundaries: agents and tools, with name and instance.
        conversation: of the trace; the smallest id, so that it does not depend on the order.
        end_ns: latest end seen.
    """

    spans: dict[str, Span] = field(default_factory=dict)
    below: dict[str, Below] = field(default_factory=dict)
    anchors: dict[str, str] = field(default_factory=dict)
    joins: dict[str, list[Reading]] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    counted: dict[str, bool] = field(default_factory=dict)
    boundaries: dict[str, tuple[Operation, str | None, str | None]] = field(default_factory=dict)
    conversation: str | None = None
    end_ns: int = 0

    def note(self, reading: Reading) -> None:
        """Remember an ended span, and what it says of itself for the sake of its descendants."""
        remember(
            self.spans,
            reading.span_id,
            Span(reading.parent_span_id, reading.kind, reading.agent_name, reading.conversation, reading.end_ns),
        )
        if reading.kind in BOUNDARIES and reading.span_id:
            name = reading.agent_name if reading.kind is Operation.AGENT else None
            remember(self.boundaries, reading.span_id, (reading.kind, name, reading.agent_id))
        if reading.conversation and (self.conversation is None or reading.conversation < self.conversation):
            self.conversation = reading.conversation
        self.end_ns = max(self.end_ns, reading.end_ns)


def remember(table: dict[str, V], key: str, value: V) -> None:
    """Put a value into a table of a trace; the oldest goes where there are too many."""
    table[key] = value
    if len(table) > _MAX_KEYS:
        del table[next(iter(table))]


def ancestors(trace: TraceState, parent: str | None) -> Iterator[str]:
    """Ids from a parent up, as far as the spans have ended; the last may be one that has not."""
    node = parent
    for _ in range(_MAX_DEPTH):
        if node is None:
            return
        yield node
        span = trace.spans.get(node)
        node = span.parent if span is not None else None


def ancestry_known(trace: TraceState, reading: Reading) -> bool:
    """Whether all spans have ended from a reading up to the agent that its context belongs to, or to a root."""
    for node in ancestors(trace, reading.parent_span_id):
        span = trace.spans.get(node)
        if span is None:
            return False
        if span.kind is Operation.AGENT:
            return True
    return True


def anchor_of(trace: TraceState, reading: Reading, directory: Directory) -> tuple[Anchor, str | None]:
    """Whose context a reading belongs to, and the conversation found on the way up."""
    walk = _Walk(trace, reading.trace_id, directory)
    if reading.kind is Operation.AGENT:
        above, conversation = walk.up(reading.parent_span_id, agents_only=True)
        known = trace.anchors.get(reading.span_id)
        instance = known or reading.agent_id or reading.span_id
        anchor = Anchor(instance, True, reading.agent_name, _starter(above))
    else:
        anchor, conversation = walk.up(reading.parent_span_id)
        anchor.name = reading.agent_name or anchor.name
        if reading.agent_id:
            anchor.id, anchor.strong = reading.agent_id, True
    anchor.parent = reading.parent_agent_id or anchor.parent
    return anchor, reading.conversation or conversation


@dataclass(slots=True)
class _Walk:
    trace: TraceState
    trace_id: str
    directory: Directory

    def up(self, start: str | None, *, agents_only: bool = False) -> tuple[Anchor, str | None]:
        """Go up to the nearest agent or tool, to an ancestor that has not ended, or to one that anchored before."""
        trace = self.trace
        conversation: str | None = None
        top = self.trace_id
        for node in ancestors(trace, start):
            span = trace.spans.get(node)
            kind, name, instance = (
                self.directory.boundaries.get((self.trace_id, node)) or trace.boundaries.get(node) or (None, None, None)
            )
            if span is not None:
                conversation = conversation or span.conversation
            boundary = kind is Operation.AGENT or (kind is Operation.TOOL and not agents_only)
            if boundary or span is None or (node in trace.anchors and not agents_only):
                anchor = Anchor(trace.anchors.get(node) or instance or node, boundary, name, open=span is None)
                if not agents_only:
                    remember(trace.anchors, node, anchor.id)
                    if boundary and span is not None:
                        anchor.parent = _starter(self.up(span.parent, agents_only=True)[0])
                return anchor, conversation or self._conversation()
            top = node
        return Anchor(top), conversation or self._conversation()

    def _conversation(self) -> str | None:
        return self.directory.conversations.get(self.trace_id) or self.trace.conversation


def _starter(above: Anchor) -> str | None:
    """Only an agent starts subagents, or what may yet turn out to be one: branches of a workflow share no ceiling."""
    return above.id if above.strong or above.open else None
