"""Repetition: an agent that does the same again, because it lost what it had or cannot see it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lowwater.collectors.consumers import Provenance
from lowwater.detector.config import DetectorConfig
from lowwater.detector.events import Observation, ToolRun
from lowwater.detector.findings import Advice, Finding, Kind, Severity
from lowwater.detector.operators.base import Episode, Signal, about, span_key
from lowwater.policies.repetition import RepetitionVerdict, ToolCallView, judge_repetition

__all__ = ["RepetitionOperator", "RepetitionState"]

_K = TypeVar("_K")

_MAX_KEYS = 256
_MAX_CALLS = 12
"""Calls remembered per key: enough for the rule, which asks for three, and for prose that returns now and then."""


@dataclass(slots=True)
class _Past:
    """A remembered tool call, with how its result was found in prompts: by text, by call id, or not yet."""

    view: ToolCallView
    call: int
    seen_text: bool = False
    seen_call: bool = False

    def age(self, keys: frozenset[int] | None, refs: frozenset[int], *, compacted: bool) -> None:
        """Note whether a prompt with these blocks still holds the result; without content, until a compaction."""
        if not self.view.held:
            return
        if keys is None:
            gone = compacted
        else:
            by_text = bool(self.view.result_key) and self.view.result_key in keys
            by_call = bool(self.call) and self.call in refs
            # A text once found and now replaced under the same call id was elided.
            gone = not by_text if self.seen_text else not by_call if self.seen_call else compacted
            self.seen_text |= by_text
            self.seen_call |= by_call
        if gone:
            self.view = replace(self.view, held=False, evicted_by_compaction=compacted)


@dataclass(slots=True)
class RepetitionState:
    """State of one context."""

    calls: OrderedDict[tuple[str, int], list[_Past]] = field(default_factory=OrderedDict)
    prose: OrderedDict[str, list[_Past]] = field(default_factory=OrderedDict)
    last: tuple[str, int] | None = None
    streak: int = 0
    graced: set[tuple[str, int]] = field(default_factory=set)
    episode: Episode = field(default_factory=Episode)


class RepetitionOperator:
    """Operator keyed by context: judges the tool calls between two turns."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config

    def initial(self) -> RepetitionState:
        """State of a context that was never seen."""
        return RepetitionState()

    def step(self, state: RepetitionState, seen: Observation) -> Iterator[Finding]:
        """Judge what ran since the previous turn by what the previous prompt held; then look at this prompt."""
        worst: tuple[RepetitionVerdict, ToolRun] | None = None
        seen.entry.actions = len(seen.turn.between)
        for run in seen.turn.between:
            verdict = self._judge(state, seen, run)
            if verdict is None or verdict.kind not in _WRONG:
                continue
            seen.entry.repeated_actions += 1
            if worst is None or _rank(verdict) > _rank(worst[0]):
                worst = (verdict, run)
        if seen.entry.compacted:
            state.graced.clear()
        if seen.failure is None:
            # What a failed call was going to hold tells nothing: a compaction before it is noted with the next call.
            refs = frozenset() if seen.content is None else frozenset(seen.content.refs)
            for past in _all(state):
                past.age(seen.kept, refs, compacted=seen.entry.compacted)
        if not seen.turn.between and state.episode.firing is None:
            return
        seen.repetition = worst[0].kind if worst is not None else None
        yield from state.episode.step(
            Kind.REPETITION,
            span_key(seen),
            None if worst is None else self._signal(*worst),
            about(seen),
            fire_after=1,
            resolve_after=self._config.resolve_after_turns,
        )

    def _judge(self, state: RepetitionState, seen: Observation, run: ToolRun) -> RepetitionVerdict | None:
        tool = run.tool
        key = (tool.name, tool.arguments)
        state.streak = state.streak + 1 if state.last == key else 1
        state.last = key
        if tool.arguments == 0:
            return None
        view = ToolCallView(
            turn=seen.entry.turn,
            arguments_key=tool.arguments,
            result_key=tool.result,
            held=True,
            evicted_by_compaction=False,
            sketch=tool.sketch,
        )
        history = _remembered(state.calls, key)
        prose = _remembered(state.prose, tool.name) if tool.sketch else []
        verdict = judge_repetition(
            [past.view for past in history],
            view,
            grace_used=key in state.graced,
            consecutive=state.streak,
            similar=[past.view for past in prose],
            loop_calls=self._config.loop_calls,
        )
        if verdict.kind == "grace":
            state.graced.add(key)
        past = _Past(view, tool.call)
        for memory in (history, prose) if tool.sketch else (history,):
            memory.append(past)
            del memory[:-_MAX_CALLS]
        return verdict

    @staticmethod
    def _signal(verdict: RepetitionVerdict, run: ToolRun) -> Signal:
        evidence = {
            "repetition": verdict.kind,
            "tool": run.tool.name,
            "calls": verdict.count,
            "consecutive_calls": verdict.consecutive,
        }
        step = {
            "loop": "tell the agent that it holds this result already, or stop it",
            "lost_memory": "raise the working-memory floor: the result was evicted and is needed again",
            "rephrased": "change the plan: the same request in other words brings the same answer",
        }[verdict.kind]
        return Signal(
            verdict.kind,
            Severity.INFO,
            evidence,
            {"calls": Provenance.MEASURED},
            (Advice(step, run.tool.result_tokens),),
        )


_WRONG = ("rephrased", "lost_memory", "loop")


def _rank(verdict: RepetitionVerdict) -> tuple[int, int]:
    return (_WRONG.index(verdict.kind), verdict.count)


def _remembered(table: OrderedDict[_K, list[_Past]], key: _K) -> list[_Past]:
    memory = table.setdefault(key, [])
    table.move_to_end(key)
    if len(table) > _MAX_KEYS:
        table.popitem(last=False)
    return memory


def _all(state: RepetitionState) -> Iterator[_Past]:
    """Every remembered call once; prose is remembered under its tool as well as under its own key."""
    for history in state.calls.values():
        yield from history
