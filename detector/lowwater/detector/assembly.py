"""Readings to events: count every call once, and find whose context it belongs to.

Readings come in event-time order, so the children of a span come before it. A span that carries usage and has
a counted call below it is a roll-up, whatever its kind; so are the second and third span of one call seen by
several emitters. What such a span knows and the call lacks is filled in; its numbers are never added.

Ancestors end after their calls. A reading is therefore held until its ancestry is known up to an agent or a
root, or until the lateness has passed; an ancestor that is still open then identifies the context by its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from lowwater.collectors.hollow import is_hollow
from lowwater.collectors.reading import Operation, Reading, Usage
from lowwater.detector.ancestry import Below, Held, TraceState, ancestors, ancestry_known, anchor_of, remember
from lowwater.detector.directory import BOUNDARIES, Directory
from lowwater.detector.events import AgentRun, Call, CompactionMark, Event, Origin, ToolRun
from lowwater.detector.keyed import States

__all__ = ["AnswerState", "Assembler", "AssemblerState", "is_waiting"]


@dataclass(slots=True)
class Answer:
    """An answer of a provider that was counted, to be recognised when another emitter reports it, too."""

    trace_id: str
    span_id: str
    input_tokens: int | None
    output_tokens: int | None
    start_ns: int
    end_ns: int
    timeless: bool

    def is_same(self, other: Answer) -> bool:
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


@dataclass(slots=True)
class AnswerState:
    """State of one response id: the last answer that had it."""

    answer: Answer | None = None


@dataclass(slots=True)
class AssemblerState:
    """What concerns all traces.

    Attributes:
        watermark_ns: the latest end seen.
        deadline_ns: readings that ended by then do not wait any longer.
        waiting: trace and span id of the readings that wait, in order.
        number: of the next one.
        counts: see `Assembler`.
    """

    watermark_ns: int = 0
    deadline_ns: int = 0
    waiting: deque[tuple[str, str]] = field(default_factory=deque)
    number: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class Assembler:
    """Turns readings in event-time order into events in the same order.

    Args:
        lateness_seconds: how long after its end a reading may wait for its ancestors.
        max_held: readings that may wait at once; beyond it the oldest go on with what is known.
        directory: names known from elsewhere.
        traces: where the state of traces is kept: more than ``max_held``, and those that wait (`is_waiting`) stay.
        answers: where the state of response ids is kept.

    Attributes:
        state: what concerns all traces.
        counts: ``duplicate_spans``, ``duplicate_calls``, ``rollups``, ``unjoined_records``, ``hurried``.
    """

    def __init__(
        self,
        *,
        lateness_seconds: float = 60.0,
        max_held: int = 20_000,
        directory: Directory | None = None,
        traces: States[TraceState] | None = None,
        answers: States[AnswerState] | None = None,
    ) -> None:
        self.state = AssemblerState()
        self.traces = traces if traces is not None else States(TraceState, max_held + 1, keep=is_waiting)
        self._answers = answers if answers is not None else States(AnswerState, MAX_ANSWERS)
        self._directory = directory if directory is not None else Directory()
        self._lateness_ns = int(lateness_seconds * 1e9)
        self._max_held = max_held

    @property
    def counts(self) -> dict[str, int]:
        """What was left out, and why."""
        return self.state.counts

    def push(self, reading: Reading) -> Iterator[Event]:
        """Take the next reading; yield the events that are complete now."""
        trace, span_id = self.traces.get(reading.trace_id), reading.span_id
        if reading.joins:
            self._join_later(trace, reading)
            return
        if span_id in trace.spans:
            self._count("duplicate_spans")
            return
        for record in trace.joins.pop(span_id, ()):
            _complete(reading, record)
        held = Held(reading, self.state.number)
        self._settle_call(trace, held)
        trace.note(reading)
        if held.call or reading.compaction or reading.kind in (*BOUNDARIES, Operation.RETRIEVAL):
            trace.held[span_id] = held
            self.state.waiting.append((reading.trace_id, span_id))
            self.state.number += 1
        self.state.watermark_ns = max(self.state.watermark_ns, reading.end_ns)
        yield from self._release()
        self._forget(trace)

    def hurry(self, end_ns: int) -> Iterator[Event]:
        """Readings that ended by then have waited long enough, by a clock that is not the spans'."""
        self.state.deadline_ns = max(self.state.deadline_ns, end_ns)
        yield from self._release()

    def flush(self) -> Iterator[Event]:
        """The input is over: yield all that is still held."""
        while self.state.waiting:
            yield from self._events(*self.state.waiting.popleft())
        for trace in self.traces.values():
            self._count("unjoined_records", sum(map(len, trace.joins.values())))
            trace.joins.clear()

    # --- counting once -----------------------------------------------------------------------------------------------

    def _settle_call(self, trace: TraceState, held: Held) -> None:
        reading = held.reading
        below = trace.below.pop(reading.span_id, None)
        is_llm = reading.kind is Operation.LLM
        has_usage = _has_usage(reading.usage)
        if below is not None and (is_llm or has_usage) and not (is_llm and _is_call_of_its_own(reading, below)):
            self._count("rollups")
            only = trace.held.get(below.only) if below.only is not None else None
            if below.calls == 1 and only is not None:
                # Another emitter of the call knows all of it; an agent or step above a single call knows its sums.
                _complete(only.reading, reading, _FILLED if is_llm else _FILLED_BY_ROLLUPS)
                below.reported = below.reported or _has_usage(only.reading.usage)
            elif has_usage and not below.reported:
                held.call = held.rollup = True
        elif is_llm or (has_usage and reading.kind is not Operation.EMBEDDING):
            held.rollup = not is_llm
            held.call = not self._is_known_answer(reading) and not self._is_within_a_call(trace, reading)
        if held.call:
            remember(trace.counted, reading.span_id, held.rollup)
            below = below or Below()
            below.calls += 1
            below.only = reading.span_id if below.calls == 1 else None
            below.reported = below.reported or has_usage
            below.direct = True
            tokens = (reading.usage.input_tokens if reading.usage is not None else None) or 0
            below.sum_tokens += tokens
            below.largest_tokens = max(below.largest_tokens, tokens)
        if below is not None and reading.parent_span_id:
            below.direct = below.direct and reading.kind not in BOUNDARIES
            known = trace.below.get(reading.parent_span_id)
            if known is None:
                remember(trace.below, reading.parent_span_id, below)
            else:
                known.add(below)

    def _is_known_answer(self, reading: Reading) -> bool:
        """Whether another emitter, or a forked history, already reported this answer of the provider."""
        if not reading.response_id:
            return False
        usage = reading.usage or Usage()
        answer = Answer(
            reading.trace_id,
            reading.span_id,
            usage.input_tokens,
            usage.output_tokens,
            reading.start_ns,
            reading.end_ns,
            reading.timeless,
        )
        state = self._answers.get(reading.response_id)
        known = state.answer
        if known is None or not known.is_same(answer):
            state.answer = answer
            return False
        self._count("duplicate_calls")
        elsewhere = self.traces.peek(known.trace_id)
        first = elsewhere.held.get(known.span_id) if elsewhere is not None else None
        if first is not None:
            _complete(first.reading, reading)
        return True

    def _is_within_a_call(self, trace: TraceState, reading: Reading) -> bool:
        """Whether an ancestor came first, by a coarse or skewed clock, and was counted for this call.

        A roll-up that was kept for want of calls below gives way; a call is completed by this span instead.
        """
        for node in ancestors(trace, reading.parent_span_id):
            rollup = trace.counted.get(node)
            if rollup is None:
                continue
            self._count("rollups")
            above = trace.held.get(node)
            if not rollup:
                if above is not None:
                    _complete(above.reading, reading)
                return True
            del trace.counted[node]
            if above is not None:
                above.call = above.rollup = False
        return False

    # --- waiting for ancestors ---------------------------------------------------------------------------------------

    def _release(self) -> Iterator[Event]:
        while self.state.waiting:
            trace_id, span_id = self.state.waiting[0]
            trace = self.traces.get(trace_id)
            held = trace.held.get(span_id)
            if held is None:  # the stored state of its trace was damaged: it is said where that was found
                self.state.waiting.popleft()
                continue
            # A roll-up waits in any case: a call below it may come late, and then it does not count.
            waits = held.rollup or not ancestry_known(trace, held.reading)
            end_ns = held.reading.end_ns
            if waits and end_ns > max(self.state.deadline_ns, self.state.watermark_ns - self._lateness_ns):
                if len(self.state.waiting) <= self._max_held:
                    return
                self._count("hurried")
            yield from self._events(*self.state.waiting.popleft())

    def _forget(self, trace: TraceState) -> None:
        """Forget ended spans that no walk can start from (what waits is not older than the lateness), and idle traces."""
        horizon = self.state.watermark_ns - 2 * self._lateness_ns
        _prune(trace, horizon)
        for _ in range(2):  # faster than traces can come
            oldest = self.traces.oldest()
            if oldest is None or oldest[1] is trace or oldest[1].end_ns >= horizon or oldest[1].held:
                return
            key, idle = oldest
            if idle.below or idle.joins:  # something in it has not ended
                _prune(self.traces.get(key), horizon)
            else:
                self.traces.discard(key)

    def _events(self, trace_id: str, span_id: str) -> Iterator[Event]:
        trace = self.traces.get(trace_id)
        held = trace.held.pop(span_id, None)
        if held is None:
            return
        reading = held.reading
        anchor, conversation = anchor_of(trace, reading, self._directory)
        origin = Origin(
            trace_id,
            span_id,
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
            content = reading.content
            if content is not None and not reading.content_is_delta and is_hollow(content):
                reading.content = None
            yield Call(origin, reading, held.rollup)
        if reading.kind in (Operation.TOOL, Operation.RETRIEVAL) and reading.tool is not None:
            yield ToolRun(origin, reading.tool, reading.failure is not None)
        if reading.kind is Operation.AGENT:
            yield AgentRun(origin, reading.kind, dict(reading.declared))

    def _join_later(self, trace: TraceState, record: Reading) -> None:
        if record.span_id in trace.spans:  # the record came after its span
            waiting = trace.held.get(record.span_id)
            if waiting is not None:
                _complete(waiting.reading, record)
            else:
                self._count("unjoined_records")
            return
        known = trace.joins.get(record.span_id)
        if known is None:
            known = trace.joins[record.span_id] = []
            if len(trace.joins) > _MAX_JOINS:
                self._count("unjoined_records", len(trace.joins.pop(next(iter(trace.joins)))))
        if record.timeless or not any(_is_same_record(record, other) for other in known):
            known.append(record)

    def _count(self, what: str, amount: int = 1) -> None:
        if amount:
            self.counts[what] = self.counts.get(what, 0) + amount


_MAX_JOINS = 1_000
"""Log records of one trace that wait for their spans."""

MAX_ANSWERS = 50_000
"""At some 300 bytes each, 15 MB. A second report of an answer comes soon or never."""


def _prune(trace: TraceState, horizon: int) -> None:
    while trace.spans:
        oldest = next(iter(trace.spans))
        if trace.spans[oldest].end_ns >= horizon:
            return
        del trace.spans[oldest]


def is_waiting(trace: TraceState) -> bool:
    """Whether a trace holds readings that must not get lost."""
    return bool(trace.held)


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


def _is_call_of_its_own(reading: Reading, below: Below) -> bool:
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
    target.finish_reasons = target.finish_reasons or source.finish_reasons
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
