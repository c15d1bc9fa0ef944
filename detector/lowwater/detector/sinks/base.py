"""What a sink is, and the thread that feeds one: it tries again until the sink has taken or refused for good."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lowwater.detector.runtimes.store import Line

__all__ = ["Feeder", "RefusedError", "Sink", "UnavailableError"]

_MAX_QUEUED = 1_000
_BATCH = 100
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 60.0

_log = logging.getLogger(__name__)


class UnavailableError(Exception):
    """The sink cannot take lines now.

    Attributes:
        retry_after_seconds: when it asks to be tried again, if it does.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class RefusedError(Exception):
    """The sink will never take these lines."""


class Sink(Protocol):
    """Takes lines of findings. Called from one thread."""

    name: str

    def deliver(self, lines: Sequence[dict[str, Any]]) -> None:
        """Take lines; when it returns they are safe there.

        Raises:
            UnavailableError: try them again later.
            RefusedError: they are lost for this sink.
        """

    def close(self) -> None:
        """Nothing more comes."""


class Feeder(threading.Thread):
    """Feeds one sink with lines, in order, each until it is taken or refused.

    Args:
        sink: the sink.
        failed: called with the sink's name for every try that failed.
    """

    def __init__(self, sink: Sink, failed: Callable[[str], None], done: int = 0) -> None:
        super().__init__(name=f"lowwater-sink-{sink.name}", daemon=True)
        self.name = sink.name
        self._sink, self._failed = sink, failed
        self._lines: deque[Line] = deque()
        self._changed = threading.Condition()
        self._stopping_until: float | None = None
        self._done = done

    @property
    def wants(self) -> int:
        """How many more lines it can queue."""
        return _MAX_QUEUED - len(self._lines)

    @property
    def pending(self) -> int:
        """Lines that are queued."""
        return len(self._lines)

    @property
    def done(self) -> int:
        """Id of the last line that was taken or refused."""
        return self._done

    def offer(self, lines: Sequence[Line]) -> None:
        """Queue lines."""
        with self._changed:
            self._lines.extend(lines)
            self._changed.notify()

    def stop(self, within_seconds: float) -> None:
        """Deliver what is queued, for so long at most, and end. Returns at once; `join` waits."""
        with self._changed:
            self._stopping_until = time.monotonic() + within_seconds
            self._changed.notify()

    def run(self) -> None:
        """Until stopped."""
        retry_seconds = _FIRST_RETRY_SECONDS
        while True:
            with self._changed:
                while not self._lines and self._stopping_until is None:
                    self._changed.wait()
                batch = [self._lines[place] for place in range(min(_BATCH, len(self._lines)))]
            if not batch or self._is_over():
                break
            try:
                self._sink.deliver([line.data for line in batch])
            except UnavailableError as error:
                _log.warning("%s: %s", self.name, error)
                self._failed(self.name)
                self._wait(error.retry_after_seconds or retry_seconds)
                retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)
                continue
            except RefusedError as error:
                _log.error("%s: %d findings were refused and are lost there: %s", self.name, len(batch), error)
                self._failed(self.name)
            except Exception:
                _log.exception("%s: a fault of lowwater: %d findings are lost there", self.name, len(batch))
                self._failed(self.name)
            retry_seconds = _FIRST_RETRY_SECONDS
            with self._changed:
                for _ in batch:
                    self._lines.popleft()
                self._done = batch[-1].id
        self._sink.close()

    def _is_over(self) -> bool:
        return self._stopping_until is not None and time.monotonic() >= self._stopping_until

    def _wait(self, seconds: float) -> None:
        """Wait, or until there is no time left to wait in."""
        until = time.monotonic() + min(seconds, _LAST_RETRY_SECONDS)
        with self._changed:
            while (left := min(until, self._stopping_until or until) - time.monotonic()) > 0:
                self._changed.wait(left)
