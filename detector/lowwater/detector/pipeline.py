"""Which operators run on which keys, in which order. The only module that names them all.

::

    Reading --Assembler--> Event --Tracker (conversation or trace)--> Turn --Composer (context, role)--> Observation
        --Repetition, Starvation, Compaction (context)--> Finding
        --Rejections (role)--> Finding
        --Fanout (trace)--> Finding, PoolReport
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lowwater.collectors.reading import Reading
from lowwater.detector.ancestry import TraceState
from lowwater.detector.assembly import MAX_ANSWERS, AnswerState, Assembler, is_waiting
from lowwater.detector.composer import Composer, ContextState, role_key
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.events import AgentRun, CompactionMark, Event, Turn
from lowwater.detector.findings import Finding
from lowwater.detector.keyed import Backing, States
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.base import Episode
from lowwater.detector.operators.compaction import CompactionOperator, CompactionState
from lowwater.detector.operators.fanout import FanoutOperator, PoolReport
from lowwater.detector.operators.rejections import RejectionOperator
from lowwater.detector.operators.repetition import RepetitionOperator, RepetitionState
from lowwater.detector.operators.starvation import StarvationOperator, StarvationState
from lowwater.detector.tracks import Tracker

__all__ = ["Output", "Pipeline", "TurnState"]

Output = LedgerEntry | Finding | PoolReport | CompactionMark

S = TypeVar("S")

_MAX_HELD = 20_000
"""Readings that may wait for their ancestors at once."""


@dataclass(slots=True)
class TurnState:
    """State of one context: of all operators that see its turns."""

    composed: ContextState = field(default_factory=ContextState)
    starvation: StarvationState = field(default_factory=StarvationState)
    compaction: CompactionState = field(default_factory=CompactionState)
    repetition: RepetitionState | None = None

    def episodes(self) -> tuple[Episode, ...]:
        """Episodes of the context."""
        own = (self.starvation.episode, self.compaction.debt, self.compaction.deadlock, self.compaction.stalled)
        return own if self.repetition is None else (*own, self.repetition.episode)

    def is_alarming(self) -> bool:
        """Whether a finding of the context fires: such a context is forgotten last."""
        return any(episode.firing is not None for episode in self.episodes())


class Pipeline:
    """Readings in event-time order to ledger entries, findings and pool reports.

    Args:
        config: thresholds and declared values.
        directory: names known from elsewhere; see `Directory`.
        max_contexts: contexts whose state is kept in memory; the longest idle one leaves beyond it.
        backings: gives, for a kind of state, where those go that leave memory; without it they are forgotten.

    Attributes:
        spaces: all states, by the name of their kind.
    """

    def __init__(
        self,
        config: DetectorConfig | None = None,
        *,
        directory: Directory | None = None,
        max_contexts: int = 20_000,
        backings: Callable[[str], Backing[Any]] | None = None,
    ) -> None:
        self.config = config or DetectorConfig()
        tracker, composer = Tracker(), Composer(self.config)
        self._tracker, self._composer = tracker, composer
        self._repetition = RepetitionOperator(self.config)
        self._starvation = StarvationOperator(self.config)
        self._compaction = CompactionOperator(self.config)
        self._rejections = RejectionOperator(self.config)
        self._fanout = FanoutOperator()

        self.spaces: dict[str, States[Any]] = {}

        def states(space: str, make: Callable[[], S], limit: int, keep: Callable[[S], bool] | None = None) -> States[S]:
            made = States(make, limit, keep=keep, backing=backings(space) if backings is not None else None)
            self.spaces[space] = made
            return made

        self.assembler = Assembler(
            lateness_seconds=self.config.lateness_seconds,
            max_held=_MAX_HELD,
            directory=directory,
            traces=states("trace", TraceState, max(max_contexts, _MAX_HELD + 1), is_waiting),
            answers=states("answer", AnswerState, MAX_ANSWERS),
        )
        self._scopes = states("scope", tracker.initial, max_contexts)
        self._pools = states("pool", self._fanout.initial, max_contexts)
        self._contexts = states("context", TurnState, max_contexts, TurnState.is_alarming)
        self._roles = states("role", composer.initial_role, max_contexts)
        self._rejected = states("rejection", self._rejections.initial, max_contexts)

    def run(self, readings: Iterable[Reading]) -> Iterator[Output]:
        """Process all readings and what was still held at the end."""
        for reading in readings:
            for event in self.assembler.push(reading):
                yield from self._event(event)
        yield from self.finish()

    def push(self, reading: Reading) -> Iterator[Output]:
        """Process the next reading."""
        for event in self.assembler.push(reading):
            yield from self._event(event)

    def hurry(self, end_ns: int) -> Iterator[Output]:
        """Process readings that ended by then, although their ancestors have not come."""
        for event in self.assembler.hurry(end_ns):
            yield from self._event(event)

    def finish(self) -> Iterator[Output]:
        """The input is over."""
        for event in self.assembler.flush():
            yield from self._event(event)

    def firing(self, entry: LedgerEntry) -> list[Finding]:
        """What fires where a turn just was: in its context, its pools and its role."""
        context, pool = self._contexts.in_memory(entry.context), self._pools.in_memory(entry.trace_id)
        role = self._rejected.in_memory(_role(entry.service, entry.agent))
        episodes: list[Episode] = []
        if context is not None:
            episodes += context.episodes()
        if pool is not None:
            episodes += pool.episodes.values()
        if role is not None:
            caller = role.callers.get(entry.context)
            episodes += [role.share, role.amplification, role.synchrony, *(caller.episodes.values() if caller else ())]
        return [episode.firing for episode in episodes if episode.firing is not None]

    def _event(self, event: Event) -> Iterator[Output]:
        scope = event.origin.scope
        for placed in self._tracker.step(self._scopes.get(scope), event):
            if isinstance(placed, Turn):
                yield from self._turn(placed)
            elif isinstance(placed, AgentRun):
                yield from self._fanout.step(self._pools.get(placed.origin.trace_id), placed)
            elif isinstance(placed, CompactionMark):
                self._rejections.note_compaction(
                    self._rejected.get(_role(placed.origin.service, placed.origin.anchor.name)), placed
                )
                yield placed

    def _turn(self, turn: Turn) -> Iterator[Output]:
        role_state = self._roles.get(role_key(turn))
        state = self._contexts.get(turn.context)
        seen = self._composer.step(state.composed, role_state, turn)
        # Repetition comes first: it raises the severity of a starvation finding.
        findings: list[Finding] = []
        if turn.between or state.repetition is not None:
            state.repetition = state.repetition or self._repetition.initial()
            findings += self._repetition.step(state.repetition, seen)
        findings += self._starvation.step(state.starvation, role_state, seen)
        yield seen.entry
        yield from findings
        rejected = self._rejected.get(_role(seen.entry.service, seen.entry.agent))
        tick = self._rejections.tick_seconds(rejected, seen)
        yield from self._compaction.step(state.compaction, seen)
        yield from self._rejections.step(rejected, seen, state.compaction.record, tick)
        yield from self._fanout.step(self._pools.get(turn.call.origin.trace_id), seen)


def _role(service: str | None, agent: str | None) -> str:
    return f"{service or ''}/{agent or ''}"
