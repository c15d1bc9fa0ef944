"""Clocks that run ahead: a span cannot have ended after it arrived.

Left as they are, such times would release what waits for earlier spans. A clock that is ahead by less than an hour is
set back, for all spans of its service alike, so that their order stays; a single time further ahead is a broken one, and
becomes the time of arrival.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from lowwater.collectors.reading import Reading

__all__ = ["Skew"]

_MOST_NS = 3_600 * 1_000_000_000
_MAX_SERVICES = 1_000


class Skew:
    """Sets clocks back.

    Attributes:
        moved: readings whose times were changed.
    """

    def __init__(self) -> None:
        self._ahead_ns: OrderedDict[str, int] = OrderedDict()
        self.moved = 0

    def set_back(self, readings: Sequence[Reading], now_ns: int) -> None:
        """Change times in place, so that none is later than the arrival."""
        for reading in readings:
            ahead_ns = reading.end_ns - now_ns
            if 0 < ahead_ns <= _MOST_NS:
                service = reading.service or ""
                self._ahead_ns[service] = max(ahead_ns, self._ahead_ns.pop(service, 0))
                if len(self._ahead_ns) > _MAX_SERVICES:
                    self._ahead_ns.popitem(last=False)
        if not self._ahead_ns and all(reading.end_ns <= now_ns for reading in readings):
            return
        for reading in readings:
            shift_ns = self._ahead_ns.get(reading.service or "", 0)
            if reading.end_ns - shift_ns > now_ns:
                shift_ns = reading.end_ns - now_ns
            if shift_ns and not reading.timeless and reading.end_ns:
                reading.end_ns = max(0, reading.end_ns - shift_ns)
                reading.start_ns = max(0, reading.start_ns - shift_ns)
                self.moved += 1
