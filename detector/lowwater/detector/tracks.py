"""Whose context is a call's: follow the tracks of contexts within one conversation or trace.

A call belongs to the context that it continues. With content, the prompt starts with what the context held;
without, its input is at least the last input, and what was read from cache is about that. Calls that overlap in
time never share a context. A prompt that is smaller, or whose beginning changed, is *rewritten* history of the
same context only if something speaks for it: the same agent instance, the same head, an announced compaction.
Otherwise another agent's call was interleaved, or a helper's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.reading import Compaction
from lowwater.collectors.usage import resolve_input
from lowwater.detector.events import AgentRun, Call, CompactionMark, Event, ToolRun, Turn
from lowwater.detector.windows import base_model, model_limits

__all__ = ["ScopeState", "Tracker"]

MAX_TRACKS = 256
"""Contexts remembered per conversation or trace; the longest idle one is dropped beyond it."""

_HEAD = (BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA)

_SHRINK_TOLERANCE = 0.02
"""Providers drop hidden reasoning from history, so a continued prompt may be this much smaller than the last one."""

_CACHE_MATCH = 0.9
"""A cache read of at least this part of the last input means the same prefix; caches work in blocks of up to 2k."""

_ELIDED = 0.6
"""Without content, a prompt of one agent that keeps this part of its size lost some old tool output; a helper's call or a
compaction is a fraction of it (the least elision seen in a real run keeps 0.59 of the characters, tokens fall less)."""

_KEPT = 0.5
"""With content, a prompt that holds this part of the blocks of the one before is the same history with parts replaced."""

_CROWDED = 0.5
"""A drop is taken for compaction only from at least half of the window; helpers are called and tasks begin any time."""


_CALLED = frozenset({"tool_calls", "tool_call", "tool_use", "tool-calls", "tooluse", "function_call"})
"""Finish reasons of answers that call tools."""


@dataclass(slots=True)
class _Track:
    key: str
    model: str | None
    agent: str | None
    anchor: str
    strong: bool
    start_ns: int = 0
    end_ns: int = 0
    turns: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    crowded: bool = False
    called: bool = False
    content: Content | None = None
    marks: list[Compaction] = field(default_factory=list)
    tools: list[ToolRun] = field(default_factory=list)
    before_drop: tuple[int, int] | None = None


@dataclass(slots=True)
class ScopeState:
    """State of one conversation or trace."""

    tracks: list[_Track] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    exclusive: frozenset[tuple[str, str, str | None]] = frozenset()
    waiting_tools: list[ToolRun] = field(default_factory=list)
    waiting_marks: list[CompactionMark] = field(default_factory=list)


class Tracker:
    """Operator keyed by scope: places calls into contexts and attaches what happened in between."""

    def initial(self) -> ScopeState:
        """State of a scope that was never seen."""
        return ScopeState()

    def step(self, state: ScopeState, event: Event) -> Iterator[Turn | ToolRun | AgentRun | CompactionMark]:
        """Take the next event of the scope; calls come out as turns, the rest as it is."""
        if isinstance(event, Call):
            yield self._place(state, event)
            return
        if isinstance(event, ToolRun):
            track = _of_anchor(state, event.origin.anchor.id)
            if track is not None:
                track.tools.append(event)
            else:
                state.waiting_tools.append(event)
                del state.waiting_tools[:-MAX_TRACKS]
        elif isinstance(event, CompactionMark):
            track = _of_mark(state, event)
            if track is not None:
                track.marks.append(event.compaction)
                event.context = track.key
            else:
                state.waiting_marks.append(event)
                del state.waiting_marks[:-MAX_TRACKS]
        yield event

    def _place(self, state: ScopeState, call: Call) -> Turn:
        reading = call.reading
        producer = (reading.scope, reading.scope_version, reading.provider)
        tokens, rule = resolve_input(
            reading.usage,
            exclusive_seen=producer in state.exclusive,
            content_tokens=None if reading.content is None or reading.content_is_delta else _spoken(reading.content),
        )
        if rule == "cache_exceeds_input":
            state.exclusive |= {producer}
        track, history = self._choose(state, call, tokens)
        if track is None:
            track = self._new_track(state, call)
            history = "first"
        return self._advance(state, track, call, tokens, rule, history)

    # --- which track -------------------------------------------------------------------------------------------------

    def _choose(self, state: ScopeState, call: Call, tokens: int | None) -> tuple[_Track | None, str]:
        candidates = [track for track in state.tracks if _compatible(track, call)]
        best: _Track | None = None
        best_score: tuple[int, float, int] = (0, 0.0, 0)
        best_history = "unknown"
        for track in candidates:
            rank, closeness, history = _relation(track, call, tokens)
            same = track.anchor == call.origin.anchor.id
            if rank == 0 or (not same and rank < _CONTINUES):
                continue
            score = (rank, closeness, int(same))
            if score > best_score:
                best, best_score, best_history = track, score, history
        return best, best_history

    def _new_track(self, state: ScopeState, call: Call) -> _Track:
        anchor, reading = call.origin.anchor, call.reading
        base = f"{call.origin.scope}/{anchor.name or anchor.id}/{reading.model or ''}"
        number = state.names.get(base, 0)
        state.names[base] = number + 1
        track = _Track(f"{base}#{number}" if number else base, reading.model, anchor.name, anchor.id, anchor.strong)
        state.tracks.append(track)
        if len(state.tracks) > MAX_TRACKS:
            state.tracks.remove(min(state.tracks, key=lambda item: (item.end_ns, item.key)))
        return track

    # --- moving on ---------------------------------------------------------------------------------------------------

    def _advance(
        self, state: ScopeState, track: _Track, call: Call, tokens: int | None, rule: str, history: str
    ) -> Turn:
        origin, reading = call.origin, call.reading
        self._collect_waiting(state, track, call)
        own = reading.compaction
        # A call that failed or was aborted says nothing of what came after a compaction: the mark waits for the next.
        waits = reading.failure is not None and own is None and bool(track.marks)
        mark = None if waits else _combined(track.marks)
        compaction = own or mark
        if reading.content is not None and reading.content.compacted and track.content is not None:
            already = track.content.compacted
            compaction = compaction or (None if already else Compaction(source="content"))
        if reading.compacted and compaction is None:
            compaction = Compaction(source="gen_ai.conversation.compacted")
        inferred = False
        effective = compaction is not None and compaction.outcome == "success"
        if history in ("rewritten", "dropped"):
            if effective:
                history = "compacted"
            elif history == "dropped":
                history, inferred = "compacted", True
                compaction = Compaction(before_tokens=track.input_tokens, after_tokens=tokens, source="inferred")
        elif effective and tokens is not None and history != "first":
            history = "compacted"
        if waits and history == "rewritten":
            history = "unknown"
        refused = tokens is None and reading.failure is not None
        turn = Turn(
            call=call,
            context=track.key,
            number=track.turns + 1,
            history=history,
            input_tokens=tokens,
            input_rule=rule,
            previous_input_tokens=track.input_tokens,
            previous_output_tokens=track.output_tokens,
            compaction=compaction,
            compaction_inferred=inferred,
            between=() if refused else tuple(track.tools),
            after_calls=track.called,
        )
        track.turns += 1
        if not refused:  # else what the tools returned stands in the prompt of the next try
            track.tools = []
        if not waits:
            track.marks = []
        track.before_drop = (track.input_tokens or 0, track.output_tokens or 0) if inferred else None
        track.start_ns, track.end_ns = origin.start_ns, max(track.end_ns, origin.end_ns)
        track.anchor, track.strong = origin.anchor.id, origin.anchor.strong or track.strong
        track.agent = track.agent or origin.anchor.name
        if tokens is not None:
            track.input_tokens = tokens
            track.output_tokens = None if reading.usage is None else reading.usage.output_tokens
            track.called = not _CALLED.isdisjoint(map(str.lower, reading.finish_reasons))
            track.crowded = _is_crowded(reading.model, reading.window_tokens, tokens)
        if reading.content is not None and not reading.content_is_delta:
            track.content = reading.content
        return turn

    def _collect_waiting(self, state: ScopeState, track: _Track, call: Call) -> None:
        """Tools and marks that came before the first call of their context."""
        anchor = call.origin.anchor.id
        mine = [run for run in state.waiting_tools if run.origin.anchor.id == anchor]
        if mine:
            track.tools = mine + track.tools
            state.waiting_tools = [run for run in state.waiting_tools if run.origin.anchor.id != anchor]
        marks = [mark for mark in state.waiting_marks if mark.origin.anchor.id == anchor]
        if marks:
            track.marks = [mark.compaction for mark in marks] + track.marks
            state.waiting_marks = [mark for mark in state.waiting_marks if mark.origin.anchor.id != anchor]


_SAME_INSTANCE, _REWRITTEN, _CONTINUES, _PREFIX = 1, 2, 3, 4
"""Ranks of a relation, weakest first; 0 is none."""


def _relation(track: _Track, call: Call, tokens: int | None) -> tuple[int, float, str]:
    """(rank, closeness, history) of a call to a track; closeness orders tracks of one rank, larger is closer."""
    reading = call.reading
    content = None if reading.content_is_delta else reading.content
    if content is not None and track.content is not None:
        rank, closeness, history = _content_relation(track.content, content, same=_one_instance(track, call))
        if history == "rewritten" and closeness < _KEPT and _is_drop(track, tokens):
            history = "dropped"
        return rank, closeness, history
    same = track.anchor == call.origin.anchor.id
    if tokens is None or track.input_tokens is None:
        return (_SAME_INSTANCE, 0.0, "unknown") if same else (0, 0.0, "unknown")
    cached = (reading.usage.cache_read_tokens or 0) if reading.usage is not None else 0
    if cached and cached >= track.input_tokens * _CACHE_MATCH:
        return _CONTINUES, 1.0 - abs(cached - track.input_tokens) / max(cached, track.input_tokens), "appended"
    before = track.before_drop
    if before is not None and before[0] <= tokens <= (before[0] + before[1]) * (1 + _SHRINK_TOLERANCE) + 64:
        # The context went on from before the drop: what was taken for its compaction was somebody else's call.
        return _CONTINUES, 1.0, "appended"
    if tokens >= track.input_tokens * (1 - _SHRINK_TOLERANCE):
        return _CONTINUES, track.input_tokens / max(tokens, 1), "appended"
    if same and track.marks:
        return _REWRITTEN, 0.5, "rewritten"
    if _one_instance(track, call) and tokens >= track.input_tokens * _ELIDED:
        return _REWRITTEN, 0.3, "rewritten"
    if _one_instance(track, call) and track.crowded:
        return _REWRITTEN, 0.1, "dropped"
    return 0, 0.0, "unknown"


def _is_drop(track: _Track, tokens: int | None) -> bool:
    """Whether a full context became much smaller, as a compaction makes it that nobody announced."""
    return tokens is not None and track.crowded and tokens < (track.input_tokens or 0) * _ELIDED


def _one_instance(track: _Track, call: Call) -> bool:
    """Whether the call is of the track's agent: under one span that is an agent, or has not ended yet, or of one name.

    Live, an agent's span ends long after its calls, and what it is shows only then. A workflow's does, too: what is
    taken for a compaction there and was another's call is taken back when the context goes on (``before_drop``).
    """
    anchor = call.origin.anchor
    return track.anchor == anchor.id and (track.strong or anchor.open or track.agent is not None)


def _content_relation(old: Content, new: Content, *, same: bool) -> tuple[int, float, str]:
    length = len(old)
    if length and old.keys == new.keys[:length]:
        return _PREFIX, float(length), "appended"
    held = set(_spoken_keys(old))
    kept = held.intersection(_spoken_keys(new))
    share = len(kept) / len(held) if held else 0.0
    heads_equal = _head_keys(old) == _head_keys(new)
    if held and share == 1.0 and heads_equal:
        return _PREFIX, float(len(held)), "appended"
    if share >= _KEPT or (heads_equal and (kept or new.compacted)):
        return _CONTINUES, share, "rewritten"
    if same and heads_equal:
        return _REWRITTEN, share, "rewritten"
    return 0, 0.0, "unknown"


def _spoken_keys(content: Content) -> Iterator[int]:
    for kind, key in zip(content.kinds, content.keys, strict=True):
        if kind not in _HEAD:
            yield key


def _head_keys(content: Content) -> frozenset[int]:
    return frozenset(key for kind, key in zip(content.kinds, content.keys, strict=True) if kind in _HEAD)


def _spoken(content: Content) -> int:
    """Estimated tokens without tool schemas, which providers rewrite before they count them."""
    return sum(
        weight for kind, weight in zip(content.kinds, content.weights, strict=True) if kind != BlockKind.TOOL_SCHEMA
    )


def _compatible(track: _Track, call: Call) -> bool:
    anchor, reading, origin = call.origin.anchor, call.reading, call.origin
    if track.model and reading.model and base_model(track.model) != base_model(reading.model):
        return False
    if track.agent is not None and anchor.name is not None and track.agent != anchor.name:
        return False
    if track.anchor != anchor.id and track.strong and anchor.strong and origin.conversation is None:
        return False
    return not _parallel(track, call)


def _parallel(track: _Track, call: Call) -> bool:
    """Whether the call ran beside the track's last one. Recorded times overlap a little in sequence, too."""
    origin = call.origin
    if origin.timeless or not origin.start_ns or not track.start_ns:
        return False
    overlap = min(track.end_ns, origin.end_ns) - max(track.start_ns, origin.start_ns)
    shorter = min(track.end_ns - track.start_ns, origin.end_ns - origin.start_ns)
    return overlap > 0 and overlap > shorter / 2


def _is_crowded(model: str | None, window_tokens: int | None, tokens: int) -> bool:
    limits = model_limits(model)
    window = window_tokens or (limits.window_tokens if limits is not None else None)
    return window is not None and tokens >= _CROWDED * window


def _of_anchor(state: ScopeState, anchor: str) -> _Track | None:
    found = [track for track in state.tracks if track.anchor == anchor]
    return max(found, key=lambda track: (track.end_ns, track.key)) if found else None


def _of_mark(state: ScopeState, mark: CompactionMark) -> _Track | None:
    """The context that an announcement speaks of: its own instance's, else the only one, else the last active."""
    found = _of_anchor(state, mark.origin.anchor.id)
    if found is not None or mark.origin.anchor.strong:
        return found
    return max(state.tracks, key=lambda track: (track.end_ns, track.key), default=None)


def _combined(marks: list[Compaction]) -> Compaction | None:
    """Several announcements since the last call: the last success counts, else the last of all."""
    for mark in reversed(marks):
        if mark.outcome == "success":
            return mark
    return marks[-1] if marks else None
