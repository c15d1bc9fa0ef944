"""Plain numbers by label set, with caps; rendered only when somebody looks.

Counters are shown as they were *published*: by the runtime, when they are durable. A counter that has been scraped can
then never go back over a crash, which a rate would take for a reset and count all of it again.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowwater.detector.metrics.catalogue import BY_NAME, CATALOGUE, CLOSED, OPEN_LABELS, Metric, Type

__all__ = ["OTHER", "Exemplar", "Histogram", "Registry", "Series"]

OTHER = "other"
"""The value of what is not told apart."""

UNKNOWN = "unknown"

Labels = tuple[str, ...]


class Exemplar(NamedTuple):
    """Which call a number came of."""

    trace_id: str
    span_id: str
    value: float
    seconds: float


@dataclass(slots=True)
class Histogram:
    """Counts by bucket, not cumulative; the last is +Inf."""

    counts: list[int]
    sum: float
    exemplars: list[Exemplar | None]


class Series(NamedTuple):
    """One label set of a metric. Exactly one of value and histogram says something."""

    metric: Metric
    labels: Labels
    value: float
    histogram: Histogram | None
    exemplar: Exemplar | None


class Registry:
    """All series. Thread-safe.

    Args:
        max_series: label sets of all metrics together; beyond it what is new folds into ``other``.
        max_values: values told apart by open label; see `OPEN_LABELS`.
    """

    def __init__(self, max_series: int = 10_000, max_values: Mapping[str, int] = OPEN_LABELS) -> None:
        self._max_series, self._max_values = max_series, max_values
        self._lock = threading.RLock()
        self._values: dict[str, dict[Labels, float]] = {m.name: {} for m in CATALOGUE if m.type is not Type.HISTOGRAM}
        self._histograms: dict[str, dict[Labels, Histogram]] = {
            m.name: {} for m in CATALOGUE if m.type is Type.HISTOGRAM
        }
        self._exemplars: dict[tuple[str, Labels], Exemplar] = {}
        self._known: dict[str, set[str]] = {label: set() for label in max_values}
        self._count = 0
        self._changed = True
        self._published: Mapping[str, Any] | None = None
        self._series(BY_NAME["lowwater_detector_series"], ())
        for metric in CATALOGUE:
            if metric.type is not Type.GAUGE and not set(metric.labels) & set(OPEN_LABELS):
                for labels in metric.zeros or itertools.product(*(CLOSED[label] for label in metric.labels)):
                    self._series(metric, labels)

    # --- counting ----------------------------------------------------------------------------------------------------

    def inc(self, name: str, labels: Labels = (), by: float = 1, exemplar: Exemplar | None = None) -> None:
        """Count."""
        with self._lock:
            folded = self._series(BY_NAME[name], labels)
            self._values[name][folded] += by
            self._changed = True
            if exemplar is not None:
                self._exemplars[name, folded] = exemplar

    def observe(self, name: str, labels: Labels, value: float, exemplar: Exemplar | None = None) -> None:
        """Put a value into a histogram."""
        metric = BY_NAME[name]
        with self._lock:
            histogram = self._histograms[name][self._series(metric, labels)]
            bucket = bisect_left(metric.buckets, value)
            histogram.counts[bucket] += 1
            histogram.sum += value
            self._changed = self._changed or name not in _OF_SNAPSHOTS
            if exemplar is not None:
                histogram.exemplars[bucket] = exemplar

    def set(self, name: str, labels: Labels, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[name][self._series(BY_NAME[name], labels)] = value

    def replace(self, name: str, values: Mapping[Labels, float]) -> None:
        """Set all series of a gauge; those that are not named are gone. Label sets that fold together are combined."""
        metric = BY_NAME[name]
        with self._lock:
            table = self._values[name]
            self._count -= len(table)
            table.clear()
            for labels, value in values.items():
                known = len(table)
                folded = self._series(metric, labels)
                table[folded] = value if len(table) > known else metric.combine(table[folded], value)

    def announce(self, labels: Mapping[str, str]) -> None:
        """Make the counters and histograms exist, at zero, of which all labels are given or closed.

        Args:
            labels: values by open label, for example of a service, or of a service, an agent and a model.
        """
        with self._lock:
            for metric in CATALOGUE:
                wanted = set(metric.labels) & set(OPEN_LABELS)
                if metric.type is Type.GAUGE or not wanted or wanted - set(labels):
                    continue
                for values in itertools.product(
                    *(
                        [labels[label]] if label in labels else metric.first.get(label, CLOSED[label])
                        for label in metric.labels
                    )
                ):
                    self._series(metric, values)
            self._changed = True

    def retain(self, calls: Collection[Labels]) -> None:
        """Forget the counters and histograms of agents that are gone, and make room for others.

        Args:
            calls: service, agent and model of those to keep. ``other`` stays.
        """
        clean = {tuple(_clean(value) for value in call) for call in calls}
        with self._lock:
            kept: dict[tuple[int, ...], Collection[Labels]] = {
                places: {tuple(call[place] for place in places) for call in clean}
                for places in ((0,), (0, 1), (0, 1, 2))
            }
            for metric in CATALOGUE:
                places = tuple(_OPEN.index(label) for label in metric.labels if label in OPEN_LABELS)
                if metric.type is Type.GAUGE or not places:
                    continue
                table: dict[Labels, Any] = (
                    self._histograms[metric.name] if metric.buckets else self._values[metric.name]
                )
                gone = [
                    labels
                    for labels in table
                    if OTHER not in labels[: len(places)] and labels[: len(places)] not in kept[places]
                ]
                for labels in gone:
                    del table[labels]
                    self._exemplars.pop((metric.name, labels), None)
                self._count -= len(gone)
            for place, label in enumerate(_OPEN):
                self._known[label] &= {call[place] for call in clean}
            self._changed = True

    def calls(self) -> Collection[Labels]:
        """Service, agent and model of all calls that were counted."""
        with self._lock:
            return {labels[:3] for labels in self._values["lowwater_turns_total"]}

    def _series(self, metric: Metric, labels: Labels) -> Labels:
        """The label set that counts for this one, which exists then."""
        table: dict[Labels, Any] = self._histograms[metric.name] if metric.buckets else self._values[metric.name]
        if labels in table:
            return labels
        folded = tuple(self._label(label, value) for label, value in zip(metric.labels, labels, strict=True))
        if folded not in table and self._count >= self._max_series:
            whole = tuple(
                OTHER if label in self._max_values else value
                for label, value in zip(metric.labels, folded, strict=True)
            )
            if whole != folded:
                self._overflow("lowwater_detector_series_overflow_total", ())
            folded = whole
        if folded not in table:
            self._count += 1
            table[folded] = _empty(metric)
        return folded

    def _label(self, label: str, value: str) -> str:
        limit = self._max_values.get(label)
        if limit is None:
            return value
        known = self._known[label]
        value = _clean(value)
        if value in known or value == OTHER:
            return value
        if len(known) >= limit:
            self._overflow("lowwater_detector_label_overflow_total", (label,))
            return OTHER
        known.add(value)
        return value

    def _overflow(self, name: str, labels: Labels) -> None:
        table = self._values[name]
        table[labels] = table.get(labels, 0.0) + 1
        self._changed = True

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Label sets of all metrics."""
        return self._count

    def value(self, name: str, labels: Labels = ()) -> float:
        """The number of one series; 0 where it does not exist."""
        return self._values[name].get(labels, 0.0)

    def publish(self, snapshot: Mapping[str, Any] | None) -> None:
        """Show counters and histograms as they are in a snapshot, from now on; None for as they are now."""
        self._published = snapshot

    def collect(self) -> list[tuple[Metric, list[Series]]]:
        """A copy of everything, by metric."""
        with self._lock:
            self._values["lowwater_detector_series"][()] = float(self._count)
            gauges = {m.name: dict(self._values[m.name]) for m in CATALOGUE if m.type is Type.GAUGE}
            exemplars = dict(self._exemplars)
            buckets = {
                (name, labels): list(each.exemplars)
                for name, table in self._histograms.items()
                for labels, each in table.items()
                if any(each.exemplars)
            }
            published = self._published if self._published is not None else self._copied()
        collected = []
        for metric in CATALOGUE:
            found: list[Series] = []
            if metric.type is Type.HISTOGRAM:
                none: list[Exemplar | None] = [None] * (len(metric.buckets) + 1)
                for labels, (counts, total) in sorted(published["histograms"][metric.name].items()):
                    shown = Histogram(list(counts), total, buckets.get((metric.name, labels), none))
                    found.append(Series(metric, labels, 0.0, shown, None))
            else:
                table = gauges[metric.name] if metric.type is Type.GAUGE else published["counters"][metric.name]
                for labels, value in sorted(table.items()):
                    found.append(Series(metric, labels, value, None, exemplars.get((metric.name, labels))))
            collected.append((metric, found))
        return collected

    # --- over a restart ----------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether anything was counted since the last snapshot."""
        return self._changed

    def snapshot(self) -> dict[str, Any]:
        """Counters and histograms as plain data."""
        with self._lock:
            self._changed = False
            return self._copied()

    def _copied(self) -> dict[str, Any]:
        counters = {m.name: dict(self._values[m.name]) for m in CATALOGUE if m.type is Type.COUNTER}
        histograms = {
            name: {labels: (tuple(each.counts), each.sum) for labels, each in table.items()}
            for name, table in self._histograms.items()
        }
        return {"counters": counters, "histograms": histograms}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Take up a snapshot. What the catalogue no longer has, or has in another shape, is left out."""
        with self._lock:
            for name, table in snapshot["counters"].items():
                for labels, value in table.items():
                    if self._fits(name, labels):
                        self._take_up(BY_NAME[name], labels)
                        self._values[name][labels] += value
            for name, table in snapshot["histograms"].items():
                for labels, (counts, total) in table.items():
                    if self._fits(name, labels) and len(counts) == len(BY_NAME[name].buckets) + 1:
                        self._take_up(BY_NAME[name], labels)
                        histogram = self._histograms[name][labels]
                        histogram.counts = [a + b for a, b in zip(histogram.counts, counts, strict=True)]
                        histogram.sum += total

    def _take_up(self, metric: Metric, labels: Labels) -> None:
        """Let a series of a snapshot exist as it did. The caps were kept when it began; folded now, it would go back."""
        table: dict[Labels, Any] = self._histograms[metric.name] if metric.buckets else self._values[metric.name]
        if labels not in table:
            table[labels] = _empty(metric)
            self._count += 1
        for label, value in zip(metric.labels, labels, strict=True):
            if label in self._known and value != OTHER:
                self._known[label].add(value)

    @staticmethod
    def _fits(name: str, labels: Sequence[str]) -> bool:
        metric = BY_NAME.get(name)
        return metric is not None and len(labels) == len(metric.labels) and metric.type is not Type.GAUGE


_OF_SNAPSHOTS = ("lowwater_detector_checkpoint_seconds",)
"""What taking a snapshot makes change: no reason to take another."""

_OPEN = ("service", "agent", "model")
"""Open labels in the order in which metrics have them, and first."""


def _empty(metric: Metric) -> Histogram | float:
    if not metric.buckets:
        return 0.0
    return Histogram([0] * (len(metric.buckets) + 1), 0.0, [None] * (len(metric.buckets) + 1))


def _clean(value: str) -> str:
    """A label value that Prometheus, OTLP and people can read."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in value[:64])
    return printable.encode("utf-8", "replace").decode() or UNKNOWN
