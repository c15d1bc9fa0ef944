"""The live detector without threads, sockets or clock: readings and times in, lines of findings out, state in a store.

::

    submit --> journal (durable, may be acknowledged) --> reorder --> pipeline --> outputs
                                                             |                        |
                                                             +--> early look          +--> checkpoint: states, lines

The pipeline sees a reading when nothing earlier can come any more, which makes the result that of a replay, and late.
The *early look* runs what still waits through copies of the states every few seconds. What it finds is shown at once as
provisional; the pipeline confirms it under the same id, or it is withdrawn.
"""

from __future__ import annotations

import logging
import sqlite3
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.reading import Reading
from lowwater.collectors.tokens import Hasher
from lowwater.detector.config import DetectorConfig
from lowwater.detector.errors import StateError
from lowwater.detector.findings import Finding, Severity, State
from lowwater.detector.ingest import Ingest
from lowwater.detector.keyed import Backing
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output, Pipeline
from lowwater.detector.runtimes.reorder import Reorder
from lowwater.detector.runtimes.skew import Skew
from lowwater.detector.runtimes.store import Checkpoint, Store

__all__ = ["LiveDetector"]

_log = logging.getLogger(__name__)

Observer = Callable[[Output, bool, int], None]
"""Called with each output, whether it is provisional, and the time of arrival in Unix nanoseconds."""


@dataclass(slots=True)
class Shown:
    """What people have been told and the store must remember.

    Attributes:
        firing: lines of findings that fire, by id.
        provisional: ids among them that the pipeline has not confirmed.
        seen_seconds: arrival time of the last turn of each.
        over: severity, by id, of provisional ones that an early look saw end; the pipeline, when it gets there, has
            nothing new to say of them.
        over_seconds: arrival time at which that was seen.
    """

    firing: dict[str, dict[str, Any]] = field(default_factory=dict)
    provisional: set[str] = field(default_factory=set)
    seen_seconds: dict[str, int] = field(default_factory=dict)
    over: dict[str, int] = field(default_factory=dict)
    over_seconds: dict[str, int] = field(default_factory=dict)


class LiveDetector:
    """One detector over one store. Not thread-safe: one thread calls everything.

    Args:
        config: thresholds and declared values.
        store: where the journal and the states are.
        observe: called with every output of the pipeline and of early looks.
        told: called with every line of a finding that people are shown.
        max_contexts: contexts in memory; the others are in the store.
        max_stored: states in the store; beyond it those go that were touched longest ago.
        resolve_idle_seconds: a finding whose context, pool or role had no turn for so long, by time of arrival, is
            resolved: its agent ended or hangs. It fires again when it goes on.
        forget_after_seconds: states that nothing has touched for so long, by time of arrival, are forgotten.

    Attributes:
        expired: states that were forgotten.
        damaged: states and readings of the store that could not be read.
        faults: readings whose processing failed by a fault of lowwater.
    """

    def __init__(
        self,
        config: DetectorConfig,
        store: Store,
        *,
        observe: Observer | None = None,
        told: Callable[[dict[str, Any]], None] | None = None,
        max_contexts: int = 20_000,
        max_stored: int = 2_000_000,
        resolve_idle_seconds: float = 900.0,
        forget_after_seconds: float = 86_400.0,
    ) -> None:
        self.config = config
        self.store = store
        self._observe = observe or (lambda output, provisional, now_ns: None)
        self._told = told or (lambda line: None)
        self._max_contexts = max_contexts
        self._max_stored = max_stored
        self._resolve_idle_seconds = resolve_idle_seconds
        self._forget_after_seconds = forget_after_seconds
        self._pending: dict[tuple[str, str], Any] = {}
        """States that left memory since the last checkpoint."""
        self.pipeline = Pipeline(config, max_contexts=max_contexts, backings=self._backing)
        state = store.globals("assembler")
        if state is not None:
            self.pipeline.assembler.state = state
        self.shown: Shown = store.globals("shown") or Shown()
        self.reorder = Reorder(config.lateness_seconds)
        self.ingest = Ingest(ReadContext(hasher=Hasher(store.hash_key()), is_retriever=config.is_retriever))
        self.skew = Skew()
        self._pushed: deque[tuple[int, int]] = deque()
        """When what was pushed while readings waited for their ancestors, by end."""
        self._consumed: list[int] = []
        self._lines: list[dict[str, Any]] = []
        self._fresh = False
        self.expired = 0
        self.damaged = 0
        self.faults = 0

    def recover(self, now_ns: int) -> int:
        """Take up the readings that were acknowledged and not yet part of a checkpoint; returns how many."""
        count = 0
        traces, assembler = self.pipeline.spaces["trace"], self.pipeline.assembler
        held = [(place, traces.get(place[0]).held.get(place[1])) for place in assembler.state.waiting]
        assembler.state.waiting = deque(place for place, item in held if item is not None)
        ends = [item.reading.end_ns for _, item in held if item is not None]
        if ends:
            self._pushed.append((now_ns, max(ends)))
        for number, reading in self.store.journal():
            if reading is None:
                self.damaged += 1
                self._consumed.append(number)
                continue
            self.reorder.push(reading, number=number, now_ns=now_ns)
            count += 1
        self._fresh = count > 0
        return count

    def submit(self, readings: Sequence[Reading], now_ns: int) -> None:
        """Commit readings to the journal and take them. When it returns they may be acknowledged.

        Raises:
            OSError: the journal cannot be written; nothing was taken, and the sender must try again.
        """
        self.skew.set_back(readings, now_ns)
        for number, reading in zip(self.store.append(readings), readings, strict=True):
            self.reorder.push(reading, number=number, now_ns=now_ns)
        self._fresh = self._fresh or bool(readings)

    # --- the pipeline ------------------------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> Iterator[None]:
        """Process what need not wait any longer, one reading per step, so that the caller can do other things."""
        for number, reading in self.reorder.release(now_ns):
            self._push(number, reading, now_ns)
            yield
        lateness_ns = int(self.config.lateness_seconds * 1e9)
        while self._pushed and self._pushed[0][0] + lateness_ns <= now_ns:
            # Spans have stopped coming: the ancestors of these had twice the lateness, as the watermark would give them.
            self._take(list(self.pipeline.hurry(self._pushed.popleft()[1])), now_ns)

    def finish(self, now_ns: int) -> None:
        """The input is over: process everything that waits, as the end of a replay does."""
        for number, reading in self.reorder.drain():
            self._push(number, reading, now_ns)
        self._take(list(self.pipeline.finish()), now_ns)

    def _push(self, number: int, reading: Reading, now_ns: int) -> None:
        self._take(self._safely(self.pipeline, reading), now_ns)
        self._consumed.append(number)
        if self.pipeline.assembler.state.waiting and (not self._pushed or self._pushed[-1][1] < reading.end_ns):
            self._pushed.append((now_ns, reading.end_ns))

    def _safely(self, pipeline: Pipeline, reading: Reading) -> list[Output]:
        """What a reading gives. A fault of ours in one must not cost the others, nor come back with every restart."""
        outputs: list[Output] = []
        try:
            outputs.extend(pipeline.push(reading))
        except Exception as error:
            self.faults += 1
            _log.error(
                "a fault of lowwater, please report it: span %s could not be processed: %s",
                reading.span_id,
                "".join(traceback.format_list(traceback.extract_tb(error.__traceback__))) + type(error).__name__,
            )
        return outputs

    def _take(self, outputs: list[Output], now_ns: int) -> None:
        for output in outputs:
            self._observe(output, False, now_ns)
            if isinstance(output, Finding):
                self._tell(output)
        seen_seconds = now_ns // 1_000_000_000
        for output in outputs:
            if isinstance(output, LedgerEntry):
                for finding in self.pipeline.firing(output):
                    if finding.id not in self.shown.firing:  # it was resolved as idle, and goes on
                        self._tell(finding)
                    self.shown.seen_seconds[finding.id] = seen_seconds
            elif isinstance(output, Finding) and output.id in self.shown.firing:
                self.shown.seen_seconds[output.id] = seen_seconds

    def _tell(self, finding: Finding) -> None:
        line, shown = finding.to_json(), self.shown
        known = shown.firing.get(finding.id)
        told = shown.over.get(finding.id)
        if finding.state is State.RESOLVED:
            if told is not None:
                self._forget_over(finding.id)
            if known is not None:
                self._forget_shown(finding.id)
                self._emit(line)
            return
        if told is not None:
            if finding.severity <= told:
                return
            self._forget_over(finding.id)
        if known is not None and finding.id in shown.provisional:
            told = Severity[known["severity"].upper()]
            if finding.severity < told:
                return  # an early look saw further ahead, and told more; the pipeline gets there, or it is withdrawn
            if finding.severity == told:
                shown.provisional.discard(finding.id)
                shown.firing[finding.id] = line
                return
        shown.provisional.discard(finding.id)
        shown.firing[finding.id] = line
        self._emit(line)

    def _emit(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        self._told(line)

    def _forget_over(self, name: str) -> None:
        self.shown.over.pop(name, None)
        self.shown.over_seconds.pop(name, None)

    def _forget_shown(self, name: str) -> None:
        self.shown.firing.pop(name, None)
        self.shown.seen_seconds.pop(name, None)
        self.shown.provisional.discard(name)

    # --- the early look ----------------------------------------------------------------------------------------------

    def look_ahead(self, now_ns: int) -> Iterator[None]:
        """Run what waits through copies of the states, and show what it finds; one reading per step.

        The pipeline and the journal's readings must not move while it runs; new readings may come.
        """
        if not self._fresh:
            return
        self._fresh = False
        ahead = Pipeline(self.config, max_contexts=self._max_contexts, backings=self._copies)
        ahead.assembler.state = self.store.copied(self.pipeline.assembler.state)
        found: dict[str, Finding] = {}
        ended: dict[str, Finding] = {}

        def note(output: Output) -> None:
            self._observe(output, True, now_ns)
            if isinstance(output, Finding):
                if output.state is State.FIRING:
                    found[output.id] = output
                    ended.pop(output.id, None)
                elif found.pop(output.id, None) is not None:
                    ended[output.id] = output

        for reading in self.reorder.waiting():
            for output in self._safely(ahead, self.store.copied(reading)):
                note(output)
            yield
        for output in ahead.finish():
            note(output)
        self._show(found, ended, now_ns)

    def _show(self, found: dict[str, Finding], ended: dict[str, Finding], now_ns: int) -> None:
        shown = self.shown
        for name, finding in ended.items():
            if name in shown.provisional:
                self._emit(finding.to_json() | {"provisional": True})
                shown.over[name] = int(Severity[shown.firing[name]["severity"].upper()])
                shown.over_seconds[name] = now_ns // 1_000_000_000
                self._forget_shown(name)
        for name, finding in found.items():
            if shown.over.get(name, -1) >= finding.severity:
                continue  # the look before saw it end, and has told
            known = shown.firing.get(name)
            shown.seen_seconds[name] = now_ns // 1_000_000_000
            if known is None or (name in shown.provisional and known["severity"] != finding.severity.label):
                line = finding.to_json() | {"provisional": True}
                shown.firing[name] = line
                shown.provisional.add(name)
                self._emit(line)
        for name in [name for name in shown.provisional if name not in found]:
            self._emit(shown.firing[name] | {"state": State.RESOLVED.value, "reason": "withdrawn"})
            self._forget_shown(name)

    def _copies(self, space: str) -> Backing[Any]:
        return _Copies(self, space)

    # --- the store ---------------------------------------------------------------------------------------------------

    def _backing(self, space: str) -> Backing[Any]:
        return _Stored(self, space)

    def load(self, space: str, key: str) -> Any:
        """The state of a key that is not in memory."""
        place = (space, key)
        if place in self._pending:
            return self._pending[place]
        try:
            return self.store.load(space, key)
        except (StateError, sqlite3.Error):
            # What is damaged is unknown: the context starts anew, which is said in a metric, and nothing stops.
            self.damaged += 1
            return None

    @property
    def changes(self) -> int:
        """States and readings that the next checkpoint will write."""
        changed = sum(len(states.changed) for states in self.pipeline.spaces.values())
        return changed + len(self._pending) + len(self._consumed) + len(self._lines)

    def checkpoint(self, now_ns: int, extra: dict[str, Any] | None = None) -> None:
        """Write what changed, in one transaction.

        Args:
            extra: more that belongs to no key, by name, for example a snapshot of the metrics.

        Raises:
            OSError: it cannot be written; nothing was, and the next checkpoint tries again.
        """
        states = dict(self._pending)
        for space, kept in self.pipeline.spaces.items():
            for key in kept.changed:
                states[space, key] = kept.in_memory(key)
        self.store.commit(
            Checkpoint(
                now_ns // 1_000_000_000,
                states,
                {"assembler": self.pipeline.assembler.state, "shown": self.shown, **(extra or {})},
                self._lines,
                self._consumed,
            )
        )
        self._pending.clear()
        self._lines, self._consumed = [], []
        for kept in self.pipeline.spaces.values():
            kept.changed.clear()

    def expire(self, now_ns: int) -> None:
        """Resolve findings that went silent, and forget states that nothing touches any more."""
        now_seconds = now_ns // 1_000_000_000
        idle = now_seconds - self._resolve_idle_seconds
        for name in [name for name, seen in self.shown.seen_seconds.items() if seen < idle]:
            self._emit(self.shown.firing[name] | {"state": State.RESOLVED.value, "reason": "idle"})
            self._forget_shown(name)
        for name in [name for name, seen in self.shown.over_seconds.items() if seen < idle]:
            self._forget_over(name)
        gone = self.store.expire(int(now_seconds - self._forget_after_seconds), keep=self._max_stored)
        for space, key in gone:
            if key not in self.pipeline.spaces[space].changed:
                self.pipeline.spaces[space].drop(key)
        self.expired += len(gone)


class _Stored:
    """What the pipeline's states fall back on: the store, and what is on its way there."""

    def __init__(self, detector: LiveDetector, space: str) -> None:
        self._detector, self._space = detector, space

    def load(self, key: str) -> Any:
        return self._detector.load(self._space, key)

    def save(self, key: str, state: Any) -> None:
        self._detector._pending[self._space, key] = state


class _Copies:
    """What an early look's states fall back on: copies of the pipeline's, which it may change as it likes."""

    def __init__(self, detector: LiveDetector, space: str) -> None:
        self._detector, self._space = detector, space
        self._changed: dict[str, Any] = {}

    def load(self, key: str) -> Any:
        if key in self._changed:
            return self._changed[key]
        state = self._detector.pipeline.spaces[self._space].peek(key)
        return None if state is None else self._detector.store.copied(state)

    def save(self, key: str, state: Any) -> None:
        self._changed[key] = state
