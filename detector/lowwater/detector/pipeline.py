"""Which operators run on which keys, in which order. The only module that names them all.

::

    Reading --Assembler--> Event --Tracker (conversation or trace)--> Turn --Composer (context, role)--> Observation
        --Repetition, Starvation, Compaction (context)--> Finding
        --Rejections (role)--> Finding
        --Fanout (trace)--> Finding, PoolReport
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from lowwater.collectors.reading import Reading
from lowwater.detector.assembly import Assembler
from lowwater.detector.composer import Composer, ContextState, RoleState, role_key
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.events import AgentRun, CompactionMark, Event, Turn
from lowwater.detector.findings import Finding
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.compaction import CompactionOperator, CompactionState
from lowwater.detector.operators.fanout import FanoutOperator, FanoutState, PoolReport
from lowwater.detector.operators.rejections import RejectionOperator, RejectionState
from lowwater.detector.operators.repetition import RepetitionOperator, RepetitionState
from lowwater.detector.operators.starvation import StarvationOperator, StarvationState
from lowwater.detector.tracks import ScopeState, Tracker

__all__ = ["Output", "Pipeline"]

Output = LedgerEntry | Finding | PoolReport | CompactionMark

S = TypeVar("S")


class _Keyed(Generic[S]):
    """States by key, bounded: the one that was used longest ago is dropped and counted."""

    def __init__(self, make: Callable[[], S], limit: int) -> None:
        self._make = make
        self._limit = limit
        self.states: OrderedDict[str, S] = OrderedDict()
        self.evicted = 0

    def get(self, key: str) -> S:
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = self._make()
            if len(self.states) > self._limit:
                self.states.popitem(last=False)
                self.evicted += 1
        else:
            self.states.move_to_end(key)
        return state


class Pipeline:
    """Readings in event-time order to ledger entries, findings and pool reports.

    Args:
        config: thresholds and declared values.
        directory: names known from elsewhere; see `Directory`.
        max_contexts: contexts whose state is kept; the longest idle one is dropped beyond it.
    """

    def __init__(
        self, config: DetectorConfig | None = None, *, directory: Directory | None = None, max_contexts: int = 20_000
    ) -> None:
        self.config = config or DetectorConfig()
        self.assembler = Assembler(lateness_seconds=self.config.lateness_seconds, directory=directory)
        tracker, composer = Tracker(), Composer(self.config)
        self._tracker, self._composer = tracker, composer
        self._repetition = RepetitionOperator(self.config)
        self._starvation = StarvationOperator(self.config)
        self._compaction = CompactionOperator(self.config)
        self._rejections = RejectionOperator(self.config)
        self._fanout = FanoutOperator()
        self._scopes: _Keyed[ScopeState] = _Keyed(tracker.initial, max_contexts)
        self._pools: _Keyed[FanoutState] = _Keyed(self._fanout.initial, max_contexts)
        self._contexts: _Keyed[ContextState] = _Keyed(composer.initial, max_contexts)
        self._repetitions: _Keyed[RepetitionState] = _Keyed(self._repetition.initial, max_contexts)
        self._starvations: _Keyed[StarvationState] = _Keyed(self._starvation.initial, max_contexts)
        self._compactions: _Keyed[CompactionState] = _Keyed(self._compaction.initial, max_contexts)
        self._roles: _Keyed[RoleState] = _Keyed(composer.initial_role, max_contexts)
        self._rejected: _Keyed[RejectionState] = _Keyed(self._rejections.initial, max_contexts)

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

    def finish(self) -> Iterator[Output]:
        """The input is over."""
        for event in self.assembler.flush():
            yield from self._event(event)

    def _event(self, event: Event) -> Iterator[Output]:
        scope = event.origin.scope
        for placed in self._tracker.step(self._scopes.get(scope), event):
            if isinstance(placed, Turn):
                yield from self._turn(placed)
            elif isinstance(placed, AgentRun):
                yield from self._fanout.step(self._pools.get(placed.origin.trace_id), placed)
            elif isinstance(placed, CompactionMark):
                self._rejections.note_compaction(self._rejected.get(_role_of_mark(placed)), placed)
                yield placed

    def _turn(self, turn: Turn) -> Iterator[Output]:
        role_state = self._roles.get(role_key(turn))
        seen = self._composer.step(self._contexts.get(turn.context), role_state, turn)
        # Repetition comes first: it raises the severity of a starvation finding.
        findings: list[Finding] = []
        if turn.between or turn.context in self._repetitions.states:
            findings += self._repetition.step(self._repetitions.get(turn.context), seen)
        findings += self._starvation.step(self._starvations.get(turn.context), role_state, seen)
        yield seen.entry
        yield from findings
        rejected = self._rejected.get(_role_of_turn(turn))
        tick = self._rejections.tick_seconds(rejected, seen)
        yield from self._compaction.step(self._compactions.get(turn.context), seen)
        yield from self._rejections.step(rejected, seen, self._compactions.get(turn.context).record, tick)
        yield from self._fanout.step(self._pools.get(turn.call.origin.trace_id), seen)


def _role_of_turn(turn: Turn) -> str:
    origin = turn.call.origin
    return f"{origin.service or ''}/{origin.anchor.name or ''}"


def _role_of_mark(mark: CompactionMark) -> str:
    return f"{mark.origin.service or ''}/{mark.origin.anchor.name or ''}"
