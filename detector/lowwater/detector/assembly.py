"""Readings to events: count every call once, and find whose context it belongs to.

Readings come in event-time order, so the children of a span come before it. A span that carries usage and has
a counted call below it is a roll-up, whatever its kind; so are the second and third span of one call seen by
several emitters. What such a span knows and the call lacks is filled in; its numbers are never added.

Ancestors end after their calls. A reading is therefore held until its ancestry is known up to an agent or a
root, or until the lateness has passed; an ancestor that is still open then identifies the context by its id.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.reading import Operation, Reading, Usage
from lowwater.detector.directory import BOUNDARIES, Directory
from lowwater.detector.events import AgentRun, Anchor, Call, CompactionMark, Event, Origin, ToolRun

__all__ = ["Assembler"]

_Key = tuple[str, str]


@dataclass(slots=True)
class _Span:
    """What is remembered of an ended span, for walks from its descendants."""

    parent: str | None
    kind: Operation
    agent_name: str | None
    conversation: str | None
    end_ns: int


@dataclass(slots=True)
class _Below:
    """What was counted below a span that has not ended yet."""

    calls: int = 0
    only: _Held | None = None
    reported: bool = False
    direct: bool = False
    """A call is below without a tool or agent in between."""
    sum_tokens: int = 0
    largest_tokens: int = 0
    """Input of the calls below, in all and of the largest."""


@dataclass(slots=True)
class _Held:
    """A reading on its way; what remembers it keeps this and not the reading, which is let go once it went on."""

    reading: Reading | None
    call: bool = False
    rollup: bool = False


@dataclass(slots=True)
class _Answer:
    """An answer of a provider that was counted."""

    held: _Held
    input_tokens: int | None
    output_tokens: int | None
    start_ns: int
    end_ns: int
    timeless: bool

    def is_same(self, other: _Answer) -> bool:
        """Whether two emitters saw one answer: a small model server draws its ids from few numbers.

        Emitters differ in what they count as input, but then they saw the call at the same time.
        """
        if None not in (self.output_tokens, other.output_tokens) and self.output_tokens != other.output_tokens:
            return False
        together = self.start_ns <= other.end_ns and other.start_ns <= self.end_ns
        return (
            together
            or self.timeless
            or other.timeless
            or None in (self.input_tokens, other.input_tokens)
            or self.input_tokens == other.input_tokens
        )


class Assembler:
    """Turns readings in event-time order into events in the same order.

    Args:
        lateness_seconds: how long after its end a reading may wait for its ancestors.
        max_held: readings that may wait at once; beyond it the oldest go on with what is known.
        directory: names known from elsewhere.

    Attributes:
        counts: ``duplicate_spans``, ``duplicate_calls``, ``rollups``, ``unjoined_records``, ``hurried``.
    """

    def __init__(
        self, *, lateness_seconds: float = 60.0, max_held: int = 20_000, directory: Directory | None = None
    ) -> None:
        self.directory = directory if directory is not None else Directory()
        self.counts: dict[str, int] = {}
        self._lateness_ns = int(lateness_seconds * 1e9)
        self._max_held = max_held
        self._watermark = 0
        self._held: deque[tuple[_Held, Reading]] = deque()
        self._spans: OrderedDict[_Key, _Span] = OrderedDict()
        self._below: OrderedDict[_Key, _Below] = OrderedDict()
        self._anchors: OrderedDict[_Key, str] = OrderedDict()
        self._joins: OrderedDict[_Key, list[Reading]] = OrderedDict()
        self._responses: OrderedDict[str, _Answer] = OrderedDict()
        self._counted: OrderedDict[_Key, _Held] = OrderedDict()

    def push(self, reading: Reading) -> Iterator[Event]:
        """Take the next reading; yield the events that are complete now."""
        key = (reading.trace_id, reading.span_id)
        if reading.joins:
            self._join_later(key, reading)
            return
        if key in self._spans:
            self._count("duplicate_spans")
            return
        for record in self._joins.pop(key, ()):
            _complete(reading, record)
        held = _Held(reading)
        self._settle_call(key, held, reading)
        self._spans[key] = _Span(
            reading.parent_span_id, reading.kind, reading.agent_name, reading.conversation, reading.end_ns
        )
        self.directory.note(reading)
        if held.call or reading.compaction or reading.kind in (*BOUNDARIES, Operation.RETRIEVAL):
            self._held.append((held, reading))
        self._watermark = max(self._watermark, reading.end_ns)
        yield from self._release()

    def flush(self) -> Iterator[Event]:
        """The input is over: yield all that is still held."""
        while self._held:
            yield from self._events(*self._held.popleft())
        self._count("unjoined_records", sum(map(len, self._joins.values())))
        self._joins.clear()

    # --- counting once -----------------------------------------------------------------------------------------------

    def _settle_call(self, key: _Key, held: _Held, reading: Reading) -> None:
        below = self._below.pop(key, None)
        is_llm = reading.kind is Operation.LLM
        has_usage = _has_usage(reading.usage)
        if below is not None and (is_llm or has_usage) and not (is_llm and _is_call_of_its_own(reading, below)):
            self._count("rollups")
            if below.calls == 1 and below.only is not None and below.only.reading is not None:
                # Another emitter of the call knows all of it; an agent or step above a single call knows its sums.
                _complete(below.only.reading, reading, _FILLED if is_llm else _FILLED_BY_ROLLUPS)
                below.reported = below.reported or _has_usage(below.only.reading.usage)
            elif has_usage and not below.reported:
                held.call = held.rollup = True
        elif is_llm or (has_usage and reading.kind is not Operation.EMBEDDING):
            held.rollup = not is_llm
            held.call = not self._is_known_answer(reading, held) and not self._is_within_a_call(reading)
        if held.call:
            _bounded(self._counted, key, held)
            below = below or _Below()
            below.calls += 1
            below.only = held if below.calls == 1 else None
            below.reported = below.reported or has_usage
            below.direct = True
            tokens = (reading.usage.input_tokens if reading.usage is not None else None) or 0
            below.sum_tokens += tokens
            below.largest_tokens = max(below.largest_tokens, tokens)
        if below is not None and reading.parent_span_id:
            below.direct = below.direct and reading.kind not in BOUNDARIES
            self._carry_up((reading.trace_id, reading.parent_span_id), below)

    def _is_known_answer(self, reading: Reading, held: _Held) -> bool:
        """Whether another emitter, or a forked history, already reported this answer of the provider."""
        if not reading.response_id:
            return False
        usage = reading.usage or Usage()
        answer = _Answer(
            held, usage.input_tokens, usage.output_tokens, reading.start_ns, reading.end_ns, reading.timeless
        )
        known = self._responses.get(reading.response_id)
        if known is None or not known.is_same(answer):
            _bounded(self._responses, reading.response_id, answer)
            return False
        self._count("duplicate_calls")
        if known.held.reading is not None:
            _complete(known.held.reading, reading)
        return True

    def _is_within_a_call(self, reading: Reading) -> bool:
        """Whether an ancestor came first, by a coarse or skewed clock, and was counted for this call.

        A roll-up that was kept for want of calls below gives way; a call is completed by this span instead.
        """
        node = reading.parent_span_id
        for _ in range(_MAX_DEPTH):
            if node is None:
                return False
            key = (reading.trace_id, node)
            above = self._counted.get(key)
            if above is not None and above.call:
                if not above.rollup:
                    self._count("rollups")
                    if above.reading is not None:
                        _complete(above.reading, reading)
                    return True
                above.call = above.rollup = False
                self._count("rollups")
            span = self._spans.get(key)
            node = span.parent if span is not None else None
        return False

    def _carry_up(self, parent: _Key, below: _Below) -> None:
        known = self._below.get(parent)
        if known is None:
            _bounded(self._below, parent, below)
            return
        known.calls += below.calls
        known.only = None
        known.reported = known.reported or below.reported
        known.direct = known.direct or below.direct
        known.sum_tokens += below.sum_tokens
        known.largest_tokens = max(known.largest_tokens, below.largest_tokens)

    # --- ancestry ----------------------------------------------------------------------------------------------------

    def _release(self) -> Iterator[Event]:
        while self._held:
            held, head = self._held[0]
            # A roll-up waits in any case: a call below it may come late, and then it does not count.
            waits = held.rollup or not self._ancestry_known(head)
            if waits and head.end_ns + self._lateness_ns > self._watermark:
                if len(self._held) <= self._max_held:
                    break
                self._count("hurried")
            yield from self._events(*self._held.popleft())
        # Walks start from held readings only, which are not older than the lateness.
        horizon = self._watermark - 2 * self._lateness_ns
        while self._spans and (
            next(iter(self._spans.values())).end_ns < horizon or len(self._spans) > 10 * self._max_held
        ):
            self._spans.popitem(last=False)

    def _ancestry_known(self, reading: Reading) -> bool:
        if reading.kind is Operation.AGENT:
            return self._agent_known(reading.trace_id, reading.parent_span_id)
        node = reading.parent_span_id
        for _ in range(_MAX_DEPTH):
            if node is None:
                return True
            span = self._spans.get((reading.trace_id, node))
            if span is None:
                return False
            if span.kind in BOUNDARIES:
                return span.kind is Operation.AGENT or self._agent_known(reading.trace_id, span.parent)
            node = span.parent
        return True

    def _agent_known(self, trace_id: str, node: str | None) -> bool:
        """Whether the nearest agent from here up has ended, or there is none."""
        for _ in range(_MAX_DEPTH):
            if node is None:
                return True
            span = self._spans.get((trace_id, node))
            if span is None:
                return False
            if span.kind is Operation.AGENT:
                return True
            node = span.parent
        return True

    def _anchor(self, reading: Reading) -> tuple[Anchor, str | None]:
        """The anchor of a reading, and the conversation found on the way up."""
        if reading.kind is Operation.AGENT:
            above, conversation = self._walk(reading.trace_id, reading.parent_span_id, agents_only=True)
            known = self._anchors.get((reading.trace_id, reading.span_id))
            instance = known or reading.agent_id or reading.span_id
            anchor = Anchor(instance, True, reading.agent_name, _starter(above))
        else:
            anchor, conversation = self._walk(reading.trace_id, reading.parent_span_id)
            anchor.name = reading.agent_name or anchor.name
            if reading.agent_id:
                anchor.id, anchor.strong = reading.agent_id, True
        anchor.parent = reading.parent_agent_id or anchor.parent
        return anchor, reading.conversation or conversation

    def _walk(self, trace_id: str, start: str | None, *, agents_only: bool = False) -> tuple[Anchor, str | None]:
        """Go up to the nearest agent or tool, to an ancestor that has not ended, or to one that anchored before."""
        conversation: str | None = None
        top, node = trace_id, start
        for _ in range(_MAX_DEPTH):
            if node is None:
                break
            key = (trace_id, node)
            span = self._spans.get(key)
            kind, name, instance = self.directory.boundaries.get(key, (None, None, None))
            if span is not None:
                conversation = conversation or span.conversation
            boundary = kind is Operation.AGENT or (kind is Operation.TOOL and not agents_only)
            if boundary or span is None or (key in self._anchors and not agents_only):
                # The id that anchored first stays: an instance id that is learned later must not split the context.
                anchor = Anchor(self._anchors.get(key) or instance or node, boundary, name, open=span is None)
                if not agents_only:
                    _bounded(self._anchors, key, anchor.id)
                    if boundary and span is not None:
                        anchor.parent = _starter(self._walk(trace_id, span.parent, agents_only=True)[0])
                return anchor, conversation or self._conversation(trace_id)
            top, node = node, span.parent
        return Anchor(top), conversation or self._conversation(trace_id)

    def _conversation(self, trace_id: str) -> str | None:
        return self.directory.conversations.get(trace_id)

    # --- events ------------------------------------------------------------------------------------------------------

    def _events(self, held: _Held, reading: Reading) -> Iterator[Event]:
        held.reading = None
        anchor, conversation = self._anchor(reading)
        origin = Origin(
            reading.trace_id,
            reading.span_id,
            reading.start_ns,
            reading.end_ns,
            reading.timeless,
            reading.service,
            conversation,
            anchor,
        )
        if reading.compaction is not None:
            yield CompactionMark(origin, reading.compaction, reading.model)
        if held.call:
            yield Call(origin, reading, held.rollup)
        if reading.kind in (Operation.TOOL, Operation.RETRIEVAL) and reading.tool is not None:
            yield ToolRun(origin, reading.tool, reading.failure is not None)
        if reading.kind is Operation.AGENT:
            yield AgentRun(origin, reading.kind, dict(reading.declared))

    def _join_later(self, key: _Key, record: Reading) -> None:
        if key in self._spans:  # the record came after its span
            for _, waiting in self._held:
                if (waiting.trace_id, waiting.span_id) == key:
                    _complete(waiting, record)
                    return
            self._count("unjoined_records")
            return
        known = self._joins.setdefault(key, [])
        if record.timeless or not any(_is_same_record(record, other) for other in known):
            known.append(record)
        if len(self._joins) > _MAX_KEYS:
            self._count("unjoined_records", len(self._joins.popitem(last=False)[1]))

    def _count(self, what: str, amount: int = 1) -> None:
        if amount:
            self.counts[what] = self.counts.get(what, 0) + amount


def _starter(above: Anchor) -> str | None:
    """Only an agent starts subagents, or what may yet turn out to be one: branches of a workflow share no ceiling."""
    return above.id if above.strong or above.open else None


_MAX_DEPTH = 256
"""Spans nest a dozen deep; a longer chain is a cycle or an attack."""

_MAX_KEYS = 50_000
"""Bound of every table of ids: at some 300 bytes each, 15 MB. Duplicates and late parents come soon or never."""


def _bounded(table: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value
    if len(table) > _MAX_KEYS:
        table.popitem(last=False)


def _is_same_record(one: Reading, other: Reading) -> bool:
    """Whether a log record was exported twice."""
    return (
        one.end_ns > 0
        and (one.end_ns, one.name, one.dialects) == (other.end_ns, other.name, other.dialects)
        and (
            (one.content.keys if one.content is not None else None)
            == (other.content.keys if other.content is not None else None)
        )
    )


def _has_usage(usage: Usage | None) -> bool:
    return usage is not None and bool(
        usage.input_tokens or usage.output_tokens or usage.cache_read_tokens or usage.cache_write_tokens
    )


def _is_call_of_its_own(reading: Reading, below: _Below) -> bool:
    """Whether a model call that its tools' subagents run below made a request itself, by numbers that are not theirs."""
    tokens = reading.usage.input_tokens if reading.usage is not None else None
    return not below.direct and bool(tokens) and tokens not in (below.sum_tokens, below.largest_tokens)


_FILLED = (
    "agent_name", "agent_id", "parent_agent_id", "conversation", "response_id", "model", "provider",
    "max_output_tokens", "window_tokens", "trigger_tokens", "output", "breakdown", "reserved_staging_tokens",
    "compaction", "compacted", "failure", "budget_limit_tokens", "budget_consumed_tokens",
)  # fmt: skip


_FILLED_BY_ROLLUPS = ("agent_name", "conversation", "model", "provider")


def _complete(target: Reading, source: Reading, names: tuple[str, ...] = _FILLED) -> None:
    """Fill what one emitter left open with what another said of the same call; nothing is added or replaced.

    Content of log records is the exception: a call's messages come one record each, and are appended.
    """
    for name in names:
        if getattr(target, name) is None:
            setattr(target, name, getattr(source, name))
    if source.joins and source.content is not None and target.content is not None:
        target.content = target.content.extended(source.content)
    elif target.content is None and names is _FILLED:
        target.content = source.content
    if not _has_usage(target.usage) and source.usage is not None:
        target.usage = source.usage
    elif target.usage is not None and source.usage is not None and _same_numbers(target.usage, source.usage):
        for name in (
            "cache_read_tokens",
            "cache_write_tokens",
            "uncached_tokens",
            "reasoning_tokens",
            "cache_inclusive",
        ):
            if getattr(target.usage, name) is None:
                setattr(target.usage, name, getattr(source.usage, name))
    target.declared = {**source.declared, **target.declared}
    target.dialects = target.dialects + tuple(name for name in source.dialects if name not in target.dialects)


def _same_numbers(one: Usage, other: Usage) -> bool:
    return one.input_tokens == other.input_tokens and one.output_tokens == other.output_tokens
