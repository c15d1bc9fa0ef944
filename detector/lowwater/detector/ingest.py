"""Items of a source to readings: dialects applied, times made sane, everything odd counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.extract import read_log, read_span
from lowwater.collectors.reading import Reading
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import name_of
from lowwater.detector.readers.base import Item

__all__ = ["Ingest", "sane_times"]

_LATEST_NS = 4_102_444_800 * 1_000_000_000
"""2100-01-01. Later times are clocks gone wrong: sorted last, they would only hold everything else up."""

_NAMES = (
    "trace_id", "span_id", "parent_span_id", "name", "service", "agent_name", "agent_id", "parent_agent_id",
    "conversation", "response_id", "model", "provider",
)  # fmt: skip
"""What a reading quotes from its source."""

_LONGEST_NS = 30 * 86_400 * 1_000_000_000
"""A span of more than thirty days has a broken start."""


def sane_times(reading: Reading) -> str | None:
    """Clamp impossible times in place; what was wrong, or None.

    A missing or absurd end is replaced by the start, a start after the end or absurdly early by the end. A reading
    with neither is ordered first and shows no time.
    """
    if reading.timeless:
        return None
    wrong: str | None = None
    if not 0 < reading.end_ns < _LATEST_NS:
        wrong = "end_time_missing" if reading.end_ns == 0 else "end_time_absurd"
        reading.end_ns = reading.start_ns if 0 < reading.start_ns < _LATEST_NS else 0
    if reading.start_ns < 0:
        reading.start_ns = reading.end_ns
    if reading.start_ns > reading.end_ns:
        wrong = wrong or "start_after_end"
        reading.start_ns = reading.end_ns
    elif not 0 <= reading.end_ns - reading.start_ns <= _LONGEST_NS:
        wrong = wrong or ("start_time_missing" if reading.start_ns == 0 else "start_time_absurd")
        reading.start_ns = reading.end_ns
    return wrong


def _sane_names(reading: Reading) -> None:
    """Make names and ids short enough to keep and possible to write."""
    for field_name in _NAMES:
        value = getattr(reading, field_name)
        if value and (len(value) > 64 or not value.isascii()):
            setattr(reading, field_name, name_of(value))
    if reading.tool is not None and reading.tool.name:
        reading.tool.name = name_of(reading.tool.name)


@dataclass(slots=True)
class Ingest:
    """Applies dialects to items.

    Attributes:
        context: hash, retriever names, counts of refused values.
        spans: span records read.
        logs: log records read, of which ``logs_used`` said something.
        times: counts of clamped times, by what was wrong.
    """

    context: ReadContext
    spans: int = 0
    logs: int = 0
    logs_used: int = 0
    times: dict[str, int] = field(default_factory=dict)

    def readings(self, items: Iterable[Item]) -> Iterator[Reading]:
        """Yield one reading per span or useful record; finished readings pass through."""
        for item in items:
            reading: Reading | None
            if isinstance(item, SpanRecord):
                self.spans += 1
                reading = read_span(item, self.context)
            elif isinstance(item, LogRecord):
                self.logs += 1
                reading = read_log(item, self.context)
                self.logs_used += reading is not None
            else:
                reading = item
            if reading is None:
                continue
            _sane_names(reading)
            wrong = sane_times(reading)
            if wrong is not None:
                self.times[wrong] = self.times.get(wrong, 0) + 1
            yield reading
