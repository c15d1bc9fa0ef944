"""Uvicorn as a part of our process: our sockets, our signals, and limits on what a connection may cost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HttpServer"]

_MAX_HEAD_BYTES = 64 << 10
_REQUEST_SECONDS = 60.0
"""How long a request may take to arrive."""

_MAX_CONNECTIONS = 1_000
_TOO_LARGE_HEAD = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def _bounded(max_request_bytes: int) -> type[HttpToolsProtocol]:
    """The protocol with limits that uvicorn leaves to a proxy in front: bytes of a head, of a body, and time."""

    class Bounded(HttpToolsProtocol):
        _head_bytes = 0
        _in_head = True
        _body_bytes = 0
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._deadline = self.loop.call_later(_REQUEST_SECONDS, transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._unset_deadline()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head_bytes += len(data)
            super().data_received(data)
            if self._in_head and self._head_bytes > _MAX_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE_HEAD)
                self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_head, self._head_bytes, self._body_bytes = True, 0, 0
            if self._deadline is None:
                self._deadline = self.loop.call_later(_REQUEST_SECONDS, self.transport.close)

        def on_headers_complete(self) -> None:
            self._in_head, self._head_bytes = False, 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            # A body that was refused is read on, so that the sender sees the answer; but not for ever.
            self._body_bytes += len(body)
            if self._body_bytes > 2 * max_request_bytes:
                self.transport.close()
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._in_head = True
            self._unset_deadline()
            super().on_message_complete()

        def _unset_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Bounded


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


class HttpServer:
    """One listening socket with an ASGI application.

    Args:
        listener: bound and listening.
        max_request_bytes: connections that send more are closed.
        tls: certificates, or None for plain text.
    """

    def __init__(
        self, app: Any, listener: socket.socket, *, max_request_bytes: int, tls: ssl.SSLContext | None = None
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_bounded(max_request_bytes),
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
        config.load()
        if tls is not None:
            config.ssl = tls
        self._server = _Server(config)
        self._listener = listener
        self.port: int = listener.getsockname()[1]

    async def serve(self) -> None:
        """Until `stop`."""
        await self._server.serve(sockets=[self._listener])

    @property
    def started(self) -> bool:
        """Whether it answers."""
        return bool(self._server.started)

    def stop(self) -> None:
        """Accept nothing new; requests under way are answered."""
        self._server.should_exit = True
