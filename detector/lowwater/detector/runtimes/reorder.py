"""Readings as they arrive to readings in event-time order, with a bound on how long anything waits.

A reading is let go once everything that can still come before it would be later than the lateness: when the latest end
seen is that far ahead, or when it has been here that long. What comes later than that goes through at once, and is
counted. Ends beyond the time of arrival are clocks that run ahead; they move nothing but themselves.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from lowwater.collectors.reading import Reading

__all__ = ["Reorder"]

_Order = tuple[int, int, int, str, str]


class Reorder:
    """A reorder buffer.

    Args:
        lateness_seconds: how long a reading waits for earlier ones, in event time and in time of arrival.

    Attributes:
        late: readings that came after later ones had been let go.
    """

    def __init__(self, lateness_seconds: float) -> None:
        self._lateness_ns = int(lateness_seconds * 1e9)
        self._heap: list[tuple[_Order, int, Reading]] = []
        self._arrivals: deque[tuple[int, _Order]] = deque()
        self._latest_ns = 0
        self._gone: _Order = (-1, 0, 0, "", "")
        self.late = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, reading: Reading, *, number: int, now_ns: int) -> None:
        """Take a reading.

        Args:
            number: its journal id; also the last tie-break of the order.
            now_ns: time of arrival in Unix nanoseconds.
        """
        order = reading.order()
        if order < self._gone:
            self.late += 1
        heapq.heappush(self._heap, (order, number, reading))
        self._arrivals.append((now_ns, order))
        self._latest_ns = max(self._latest_ns, min(reading.end_ns, now_ns))

    def overdue_ns(self, now_ns: int) -> int:
        """For how long the reading that came first has been due, 0 where nothing is."""
        return max(0, now_ns - self._arrivals[0][0] - self._lateness_ns) if self._arrivals and self._heap else 0

    def release(self, now_ns: int) -> Iterator[tuple[int, Reading]]:
        """Yield journal ids and readings that need not wait any longer, in event-time order."""
        bound = self._gone
        while self._arrivals and self._arrivals[0][0] + self._lateness_ns <= now_ns:
            bound = max(bound, self._arrivals.popleft()[1])
        horizon = self._latest_ns - self._lateness_ns
        while self._heap and (self._heap[0][0] <= bound or self._heap[0][0][0] <= horizon):
            order, number, reading = heapq.heappop(self._heap)
            self._gone = max(self._gone, order)
            yield number, reading

    def drain(self) -> Iterator[tuple[int, Reading]]:
        """Yield all that waits, in order."""
        self._arrivals.clear()
        while self._heap:
            order, number, reading = heapq.heappop(self._heap)
            self._gone = max(self._gone, order)
            yield number, reading

    def waiting(self) -> list[Reading]:
        """What waits, in order."""
        return [reading for _, _, reading in sorted(self._heap, key=lambda item: item[:2])]
