"""The one thread that owns the live detector and its store: it commits, decides, and writes checkpoints.

Everything else asks it through a queue. It works in slices of a few milliseconds, so that a sender never waits for the
detector to think: what came in meanwhile is committed in one transaction, and only then acknowledged.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from lowwater.collectors.reading import Reading
from lowwater.detector.runtimes.live import LiveDetector
from lowwater.detector.runtimes.store import MAX_OUTBOX, Line

__all__ = ["Busy", "Core", "Outlet", "Watcher"]

T = TypeVar("T")

_SLICE_SECONDS = 0.005
_IDLE_SECONDS = 0.25
_RETRY_SECONDS = 1.0
_TICK_SECONDS = 0.25
_EXPIRE_SECONDS = 30.0
_LOOK_SHARE = 0.2
"""Part of the time that early looks may take: after one of two seconds the next comes eight later at the earliest."""

_log = logging.getLogger(__name__)


class Busy(Exception):  # noqa: N818 - a state, no fault
    """Too much waits to be processed: try again later."""


class Outlet(Protocol):
    """A sink of finding lines with a thread of its own."""

    name: str

    @property
    def wants(self) -> int:
        """How many more lines it can queue."""

    @property
    def done(self) -> int:
        """Id of the last line that has been delivered, or refused for good."""

    def offer(self, lines: Sequence[Line]) -> None:
        """Queue lines."""


class Watcher(Protocol):
    """What measures the core; called in its thread."""

    def committed(self, readings: int, seconds: float) -> None:
        """A group of readings was committed to the journal."""

    def checkpointed(self, seconds: float) -> None:
        """A checkpoint was written."""

    def failed(self, what: str) -> None:
        """Something did not work: ``commit``, ``checkpoint``, ``reading`` or ``outbox``."""

    def tick(self, now_ns: int) -> None:
        """A quarter of a second has gone by, or more."""

    @property
    def changed(self) -> bool:
        """Whether `snapshot` would say anything new."""

    def snapshot(self) -> Any:
        """Plain data that a checkpoint must hold beside the states."""


def _uncancellable() -> Future[Any]:
    """A future that whoever waits may leave, but not cancel: what was asked happens, and the others get their answers."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


class Core(threading.Thread):
    """Runs a `LiveDetector`.

    Args:
        live: the detector; after `start` only this thread touches it.
        outlets: where lines go.
        watcher: what measures.
        clock: Unix nanoseconds; time of arrival.
        max_waiting: readings that may wait in memory; beyond it `submit` refuses.
        checkpoint_seconds: how often changes are written, at least.
        look_seconds: how often early looks happen, at most.

    Attributes:
        ready: set when what a crash left has been taken up, or could not be.
        error: why it could not be.
    """

    def __init__(
        self,
        live: LiveDetector,
        watcher: Watcher,
        *,
        outlets: Sequence[Outlet] = (),
        clock: Callable[[], int] = time.time_ns,
        max_waiting: int = 100_000,
        checkpoint_seconds: float = 1.0,
        look_seconds: float = 2.0,
    ) -> None:
        super().__init__(name="lowwater-core", daemon=True)
        self.live = live
        self.ready = threading.Event()
        self.error: Exception | None = None
        self._watcher, self._outlets, self._clock = watcher, outlets, clock
        self._max_waiting = max_waiting
        self._checkpoint_seconds, self._look_seconds = checkpoint_seconds, look_seconds
        self._queue: queue.SimpleQueue[tuple[Sequence[Reading], Future[None]] | Callable[[], None] | None] = (
            queue.SimpleQueue()
        )
        self._queued = 0
        self._queued_lock = threading.Lock()
        self._stopping = False
        self._work: Iterator[None] | None = None
        self._looking_since: float | None = None
        now = time.monotonic()
        self._next_checkpoint = self._next_look = self._next_expire = self._next_tick = now
        self._sent = {outlet.name: live.store.cursor(outlet.name) for outlet in outlets}
        self._cursors = dict(self._sent)

    # --- from other threads ------------------------------------------------------------------------------------------

    def submit(self, readings: Sequence[Reading]) -> Future[None]:
        """Hand over readings; the future is done when they may be acknowledged.

        Raises:
            Busy: too many wait already.
        """
        with self._queued_lock:
            if self.is_full:
                raise Busy
            self._queued += len(readings)
        future: Future[None] = _uncancellable()
        self._queue.put((readings, future))
        return future

    @property
    def is_full(self) -> bool:
        """Whether `submit` refuses."""
        return self._stopping or self._queued + len(self.live.reorder) >= self._max_waiting

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Run a function in the core's thread, between two slices."""
        future: Future[T] = _uncancellable()

        def answer() -> None:
            try:
                future.set_result(question())
            except Exception as error:  # the asker's to handle
                future.set_exception(error)

        self._queue.put(answer)
        return future

    def stop(self) -> None:
        """Take no more, finish what was taken, write a last checkpoint, end. Returns at once; `join` waits."""
        with self._queued_lock:
            self._stopping = True
        self._queue.put(None)

    # --- the thread --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped."""
        try:
            recovered = self.live.recover(self._clock())
        except Exception as error:
            self.error = error
            self.ready.set()
            return
        if recovered:
            _log.info("took up %d readings that no checkpoint held yet", recovered)
        self.ready.set()
        while not self._stopping or not self._queue.empty():
            try:
                self._take_in(0.0 if self._slice() else _IDLE_SECONDS)
                self._housekeeping()
            except Exception:
                # Whatever it is, senders must not be left waiting for a thread that is gone.
                _log.exception("a fault of lowwater, please report it")
                self._watcher.failed("fault")
                time.sleep(_IDLE_SECONDS)
        self._finish()

    def _take_in(self, wait_seconds: float) -> None:
        """Commit all that has come, as one group."""
        group: list[tuple[Sequence[Reading], Future[None]]] = []
        try:
            item = self._queue.get(timeout=wait_seconds) if wait_seconds else self._queue.get_nowait()
            while True:
                if callable(item):
                    item()
                elif item is not None:
                    group.append(item)
                item = self._queue.get_nowait()
        except queue.Empty:
            pass
        if not group:
            return
        readings = [reading for part, _ in group for reading in part]
        started = time.perf_counter()
        try:
            self.live.submit(readings, self._clock())
        except Exception as error:
            _log.error("nothing is acknowledged until the state can be written: %s", error)
            self._watcher.failed("commit")
            for _, future in group:
                future.set_exception(error)
        else:
            self._watcher.committed(len(readings), time.perf_counter() - started)
            for _, future in group:
                future.set_result(None)
        with self._queued_lock:
            self._queued -= len(readings)

    def _slice(self) -> bool:
        """Think for a few milliseconds; returns whether there is more to think about."""
        if self._work is None:
            self._work = self._begin()
        until = time.perf_counter() + _SLICE_SECONDS
        try:
            for _ in self._work:
                if time.perf_counter() >= until:
                    return True
        except Exception:
            _log.exception("a fault of lowwater: what was being processed is left, and the rest goes on")
            self._watcher.failed("fault")
        self._work = None
        if self._looking_since is not None:
            now = time.monotonic()
            self._next_look = now + max(self._look_seconds, (now - self._looking_since) * (1 / _LOOK_SHARE - 1))
            self._looking_since = None
        return False

    def _begin(self) -> Iterator[None]:
        now = time.monotonic()
        if now >= self._next_look:
            self._looking_since = now
            return self.live.look_ahead(self._clock())
        return self.live.advance(self._clock())

    def _housekeeping(self) -> None:
        """What is due: the watcher's tick, a checkpoint, lines for the sinks, what has gone silent."""
        now = time.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + _TICK_SECONDS
        self._watcher.tick(self._clock())
        if now >= self._next_expire:
            self._next_expire = now + _EXPIRE_SECONDS
            self._guarded("expire", lambda: self.live.expire(self._clock()))
        if now >= self._next_checkpoint:
            self._next_checkpoint = now + (self._checkpoint_seconds if self._checkpoint() else _RETRY_SECONDS)
        self._guarded("outbox", self._pump)

    def _checkpoint(self) -> bool:
        if not self.live.changes and not self._watcher.changed:
            return True
        started = time.perf_counter()
        done = self._guarded(
            "checkpoint", lambda: self.live.checkpoint(self._clock(), {"watcher": self._watcher.snapshot()})
        )
        if done:
            self._watcher.checkpointed(time.perf_counter() - started)
        return done

    def _pump(self) -> None:
        """Hand lines to the sinks, and forget those that all sinks have."""
        store = self.live.store
        for outlet in self._outlets:
            wanted = outlet.wants
            lines = store.outbox(after=self._sent[outlet.name], limit=wanted) if wanted > 0 else []
            if lines:
                outlet.offer(lines)
                self._sent[outlet.name] = lines[-1].id
        cursors = {outlet.name: outlet.done for outlet in self._outlets}
        due = cursors != self._cursors or (not cursors and store.outbox_size() > 0)
        if due and self._guarded("outbox", lambda: self._forget_delivered(cursors)):
            self._cursors = cursors

    def _forget_delivered(self, cursors: dict[str, int]) -> None:
        lost = self.live.store.delivered(cursors, keep=MAX_OUTBOX if cursors else 0)
        if lost and cursors:
            _log.error("%d findings were lost: no room is left for what the sinks do not take", lost)
            self._watcher.failed("outbox")

    def _guarded(self, what: str, action: Callable[[], object]) -> bool:
        """Do something that the disk may refuse; what is not done is tried again."""
        try:
            action()
        except (OSError, sqlite3.Error) as error:
            _log.error("%s: %s", what, error)
            self._watcher.failed(what)
            return False
        return True

    def _finish(self) -> None:
        if self.live.store.path is None:  # nothing will take up what waits
            self.live.finish(self._clock())
        self._checkpoint()
        self._guarded("outbox", self._pump)
