"""What the running detector measures of itself and of the agents, in one registry."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from lowwater.detector.metrics.observe import AgentMetrics
from lowwater.detector.metrics.registry import Registry
from lowwater.detector.pipeline import Output
from lowwater.detector.receivers.decode import Signal
from lowwater.detector.runtimes.live import LiveDetector
from lowwater.detector.sinks.base import Feeder

__all__ = ["Watch"]

_SPACE = "context"
_LAST_SPAN = "lowwater_detector_last_span_timestamp_seconds"
_GAUGES_SECONDS = 0.5
_GAUGES_SHARE = 0.05
"""Part of the time that gauges may take: they are summed over all active contexts, and there may be many."""
_RECEIVED = {
    Signal.TRACES: "lowwater_detector_spans_received_total",
    Signal.LOGS: "lowwater_detector_logs_received_total",
}


class Watch:
    """Counts for the core, the receivers and the sinks. Counting is thread-safe; the rest is the core's.

    Args:
        registry: where to.
        version: of lowwater.
        max_contexts: contexts in the gauges at most.
        forget_after_seconds: counters of an agent that has been silent for so long are forgotten.

    Attributes:
        start_ns: since when the counters count, in Unix nanoseconds: earlier than this process after a restart.
    """

    def __init__(
        self, registry: Registry, *, version: str, max_contexts: int, forget_after_seconds: float = 86_400.0
    ) -> None:
        self.registry = registry
        self.agents = AgentMetrics(registry, max_contexts=max_contexts, forget_after_seconds=forget_after_seconds)
        self.start_ns = time.time_ns()
        self._feeders: Sequence[Feeder] = ()
        self._snapshot: Mapping[str, Any] | None = None
        self._live: LiveDetector | None = None
        self._totals: dict[tuple[str, tuple[str, ...]], float] = {}
        self._committed = False
        self._next_gauges = 0.0
        registry.set("lowwater_build_info", (version,), 1)
        registry.set(_LAST_SPAN, (), 0)

    def attach(self, live: LiveDetector) -> None:
        """Watch a detector that has not recovered yet: what it was before a restart is taken up."""
        self._live = live
        snapshot = live.store.globals("watcher")
        if snapshot is not None and "registry" in snapshot:
            self.registry.restore(snapshot["registry"])
            self.agents.restore(snapshot["runs"], self.start_ns)
            self.start_ns = snapshot["start_ns"]
            self.registry.set(_LAST_SPAN, (), snapshot.get("last_span_seconds", 0))
        for line in live.shown.firing.values():
            self.agents.show(line)
        self.agents.tick(time.time_ns())
        self.registry.publish(self.registry.snapshot())

    def feed(self, feeders: Sequence[Feeder]) -> None:
        """Watch the sinks."""
        self._feeders = feeders
        for feeder in feeders:
            self.registry.inc("lowwater_detector_sink_failures_total", (feeder.name,), 0)

    # --- of the detector ---------------------------------------------------------------------------------------------

    def observe(self, output: Output, provisional: bool, now_ns: int) -> None:
        """The pipeline, or an early look, gave something."""
        self.agents.observe(output, provisional, now_ns)

    def told(self, line: Mapping[str, Any]) -> None:
        """People are shown a line of a finding."""
        self.agents.told(line)

    # --- of the core -------------------------------------------------------------------------------------------------

    def committed(self, readings: int, seconds: float) -> None:
        """A group of readings is durable."""
        self._committed = True
        self.registry.observe("lowwater_detector_commit_seconds", (), seconds)

    def checkpointed(self, seconds: float) -> None:
        """A checkpoint is written: what it holds may be scraped."""
        if self._snapshot is not None:
            self.registry.publish(self._snapshot["registry"])
        self.registry.observe("lowwater_detector_checkpoint_seconds", (), seconds)

    def failed(self, what: str) -> None:
        """Something did not work."""
        self.registry.inc("lowwater_detector_faults_total", (what,))
        if what == "checkpoint":
            # That nothing can be made durable must be seen, even if a crash now took these counts back.
            self.registry.publish(self.registry.snapshot())

    @property
    def changed(self) -> bool:
        """Whether anything was counted since the last snapshot."""
        return self.registry.changed

    def tick(self, now_ns: int) -> None:
        """Bring gauges, and what others count, up to date."""
        started = time.monotonic()
        if started >= self._next_gauges:
            self.agents.tick(now_ns)
            took = time.monotonic() - started
            self._next_gauges = started + max(_GAUGES_SECONDS, took / _GAUGES_SHARE)
        live, registry = self._live, self.registry
        if live is None:
            return
        if self._committed:
            self._committed = False
            registry.set(_LAST_SPAN, (), now_ns // 1_000_000_000)
        registry.set("lowwater_detector_lag_seconds", (), live.reorder.overdue_ns(now_ns) / 1e9)
        registry.set("lowwater_detector_waiting_readings", (), len(live.reorder))
        registry.set("lowwater_detector_state_contexts", (), len(live.pipeline.spaces[_SPACE]))
        self._count("lowwater_detector_late_total", (), live.reorder.late)
        self._count("lowwater_detector_clamped_total", (), sum(dict(live.ingest.times).values()) + live.skew.moved)
        self._count("lowwater_detector_faults_total", ("reading",), live.faults)
        self._count("lowwater_detector_faults_total", ("state",), live.damaged)
        evicted = sum(states.evicted for states in live.pipeline.spaces.values())
        self._count("lowwater_detector_state_evictions_total", ("capacity",), evicted)
        self._count("lowwater_detector_state_evictions_total", ("idle",), live.expired)
        for feeder in self._feeders:
            lacking = live.store.outbox_size(after=feeder.done)
            registry.set("lowwater_detector_sink_pending_lines", (feeder.name,), lacking)

    def snapshot(self) -> Any:
        """The counters, for a checkpoint; they are shown when it is written."""
        self._snapshot = {
            "registry": self.registry.snapshot(),
            "runs": self.agents.snapshot(),
            "start_ns": self.start_ns,
            "last_span_seconds": self.registry.value(_LAST_SPAN),
        }
        return self._snapshot

    def _count(self, name: str, labels: tuple[str, ...], total: float) -> None:
        """Count up to a total that something else counts since this process began."""
        before = self._totals.get((name, labels), 0)
        if total > before:
            self.registry.inc(name, labels, total - before)
            self._totals[name, labels] = total

    # --- of receivers and sinks --------------------------------------------------------------------------------------

    def request(self, protocol: str, code: str) -> None:
        """A request was answered."""
        self.registry.inc("lowwater_detector_requests_total", (protocol, code))

    def received(self, signal: Signal, protocol: str, items: int) -> None:
        """Items are acknowledged."""
        self.registry.inc(_RECEIVED[signal], (protocol,), items)

    def dropped(self, reason: str, items: int) -> None:
        """Items were not taken."""
        self.registry.inc("lowwater_detector_spans_dropped_total", (reason,), items)

    def sink_failed(self, sink: str) -> None:
        """A delivery failed."""
        self.registry.inc("lowwater_detector_sink_failures_total", (sink,))
