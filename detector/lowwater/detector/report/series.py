"""What a chart shows: the calls of each context, thinned where there are more than a chart has room for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output

__all__ = ["Point", "Series", "SeriesBook"]

MAX_POINTS = 240
"""Columns of a chart."""
_MAX_KEPT = 4 * MAX_POINTS
_MAX_CONTEXTS = 2_000


class Point(NamedTuple):
    """One call. Token counts are None where they are unknown."""

    turn: int
    time_ns: int | None
    input_tokens: int | None
    system: int | None
    tools: int | None
    retrieval: int | None
    scratchpad: int | None
    working: int | None
    outside: int
    ceiling: int | None
    residual: int | None
    requirement: int | None
    trigger_ratio: float | None
    regime: str
    compacted: bool
    failed: bool

    @property
    def telling(self) -> tuple[bool, bool, float]:
        """What a thinned chart must not lose, most telling first: starvation, compaction, the least room to spare."""
        spare = float("inf")
        if self.residual is not None and self.requirement is not None:
            spare = self.residual - self.requirement
        return self.regime != "silent_starvation", not self.compacted, spare


@dataclass(slots=True)
class Series:
    """The calls of one context.

    Attributes:
        calls: how many there were; ``points`` holds so many or fewer, the most telling of neighbours.
    """

    key: str
    points: list[Point] = field(default_factory=list)
    calls: int = 0
    _stride: int = 1
    _group: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """Take the next call."""
        self.calls += 1
        self._group.append(point)
        if len(self._group) >= self._stride:
            self._close()
        if len(self.points) > _MAX_KEPT:
            self.points = _thinned(self.points, _MAX_KEPT // 2)
            self._stride *= 2

    def shown(self) -> list[Point]:
        """At most so many points as a chart has columns; the first and the last call are among them."""
        self._close()
        return _thinned(self.points, MAX_POINTS)

    def _close(self) -> None:
        if self._group:
            self.points.append(min(self._group, key=lambda point: point.telling))
            self._group = []


def _thinned(points: list[Point], most: int) -> list[Point]:
    if len(points) <= most:
        return points
    inner = points[1:-1]
    size = -(-len(inner) // (most - 2))
    groups = (inner[start : start + size] for start in range(0, len(inner), size))
    return [points[0], *(min(group, key=lambda point: point.telling) for group in groups), points[-1]]


@dataclass(slots=True)
class SeriesBook:
    """Accumulates the outputs of a pipeline."""

    series: dict[str, Series] = field(default_factory=dict)

    def add(self, output: Output) -> None:
        """Take the next output."""
        if not isinstance(output, LedgerEntry) or output.rollup:
            return
        series = self.series.get(output.context)
        if series is None:
            if len(self.series) >= _MAX_CONTEXTS:
                return
            series = self.series[output.context] = Series(output.context)
        reserved = output.reserved
        series.add(
            Point(
                output.turn, output.time_ns, output.input_tokens, reserved.system, reserved.tools,
                output.retrieval_tokens, output.scratchpad_tokens, output.working_tokens,
                sum(value or 0 for value in (reserved.output, reserved.retry, reserved.staging)),
                output.ceiling_tokens, output.residual_tokens, output.requirement_tokens, output.trigger_ratio,
                output.regime, output.compacted, output.failed,
            )
        )  # fmt: skip
