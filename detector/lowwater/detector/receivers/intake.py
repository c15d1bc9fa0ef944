"""One way in for all receivers: admission, decoding in a thread of its own, commit, and only then the answer.

::

    request body --admit--> decode (one thread) --> core (one thread, commits a group) --> answer
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from lowwater.collectors.reading import Reading
from lowwater.detector.ingest import Ingest
from lowwater.detector.receivers.decode import Encoding, Rejected, Signal, decode
from lowwater.detector.receivers.inflate import Body
from lowwater.detector.receivers.refusal import Refusal, Why
from lowwater.detector.runtimes.core import Busy

__all__ = ["Counter", "Intake"]

_RETRY_SECONDS = 1
_RETRY_STORAGE_SECONDS = 5


class Counter(Protocol):
    """Counts what comes in; called from several threads."""

    def request(self, protocol: str, code: str) -> None:
        """A request was answered."""

    def received(self, signal: Signal, protocol: str, items: int) -> None:
        """Items were acknowledged."""

    def dropped(self, reason: str, items: int) -> None:
        """Items, or requests of unknown size as one, were not taken."""


class Intake:
    """Takes request bodies.

    Args:
        ingest: makes readings of items; used in the decoding thread only.
        submit: hands readings to the core.
        counter: counts.
        is_full: whether ``submit`` would refuse; asked before a body is read.
        observe: called in the decoding thread with every reading.
        token: bearer token that senders must present; None for none.
        max_request_bytes: what a body may be, compressed and inflated.
        max_inflight_bytes: bodies in memory at once; beyond it senders are asked to come back.
    """

    def __init__(
        self,
        ingest: Ingest,
        submit: Callable[[Sequence[Reading]], Future[None]],
        counter: Counter,
        *,
        is_full: Callable[[], bool] = lambda: False,
        observe: Callable[[Reading], None] | None = None,
        token: str | None = None,
        max_request_bytes: int = 20 << 20,
        max_inflight_bytes: int = 64 << 20,
    ) -> None:
        self._ingest, self._submit, self.counter = ingest, submit, counter
        self._is_full = is_full
        self._observe = observe or (lambda reading: None)
        self._token = token
        self._max_request_bytes = max_request_bytes
        self._room_bytes = max_inflight_bytes
        self._decoder = ThreadPoolExecutor(1, "lowwater-decode")
        self.closed = False

    def check_token(self, authorization: str | None) -> None:
        """Check an ``Authorization`` value.

        Raises:
            Refusal: a token is wanted, and this is not it.
        """
        if self._token is None:
            return
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            raise Refusal(Why.UNAUTHENTICATED, "unauthenticated", "a bearer token is needed: Authorization: Bearer ...")

    def check_size(self, size_bytes: int) -> None:
        """Refuse a body by what it says of its length, before any of it is read.

        Raises:
            Refusal: it is too large.
        """
        Body(self._max_request_bytes).check(size_bytes)

    @contextlib.contextmanager
    def body(self, encoding: str) -> Iterator[tuple[Body, Callable[[bytes], None]]]:
        """A body to fill, and the function that takes its pieces; its room is given back at the end.

        The function raises `Refusal` where there is no room, or the body is not what it says.
        """
        if self.closed:
            raise self._stopping()
        if self._is_full():
            raise self._behind()
        body = Body(self._max_request_bytes, encoding)
        taken = 0

        def feed(data: bytes) -> None:
            nonlocal taken
            body.feed(data)
            grown = body.size_bytes - taken
            if grown > self._room_bytes:
                raise self._unavailable("busy", "too many requests at once", _RETRY_SECONDS)
            self._room_bytes -= grown
            taken += grown

        try:
            yield body, feed
        finally:
            self._room_bytes += taken

    async def take(self, signal: Signal, protocol: str, encoding: Encoding, body: bytes) -> Rejected:
        """Decode and commit a body. When it returns, what it held is durable, except what is counted as rejected.

        Raises:
            Refusal: nothing of it was taken.
        """
        rejected = Rejected()
        loop = asyncio.get_running_loop()
        try:
            decoding = loop.run_in_executor(self._decoder, self._read, signal, encoding, body, rejected)
        except RuntimeError:  # the thread has been told to end
            raise self._stopping() from None
        readings, items = await decoding
        if readings:
            try:
                await asyncio.wrap_future(self._submit(readings))
            except Busy:
                raise self._behind() from None
            except Exception:
                raise self._unavailable(
                    "state", "the detector cannot write its state", _RETRY_STORAGE_SECONDS
                ) from None
        self.counter.received(signal, protocol, items)
        if rejected.count:
            self.counter.dropped("invalid", rejected.count)
        return rejected

    def _read(self, signal: Signal, encoding: Encoding, body: bytes, rejected: Rejected) -> tuple[list[Reading], int]:
        ingest = self._ingest
        before = ingest.spans + ingest.logs
        readings = list(ingest.readings(decode(signal, encoding, body, rejected)))
        for reading in readings:
            self._observe(reading)
        return readings, ingest.spans + ingest.logs - before

    def close(self) -> None:
        """Take no more; what is being decoded is finished."""
        self.closed = True

    def join(self) -> None:
        """Wait for the decoding thread."""
        self._decoder.shutdown()

    def _behind(self) -> Refusal:
        return self._unavailable("busy", "the detector is behind", _RETRY_SECONDS)

    def _stopping(self) -> Refusal:
        return self._unavailable("stopping", "the detector is stopping", _RETRY_SECONDS)

    @staticmethod
    def _unavailable(reason: str, message: str, seconds: int) -> Refusal:
        return Refusal(Why.UNAVAILABLE, reason, f"{message}: try again later", retry_after_seconds=seconds)
