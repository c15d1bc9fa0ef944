"""The admin endpoint: metrics for Prometheus, health, findings that fire, and what arrives, for ``doctor --live``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from lowwater.detector.receivers.refusal import Refusal

__all__ = ["Admin", "Answer"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Answer = tuple[int, dict[str, str], bytes]
"""Status, header fields, body."""

_PAGES = ("/metrics", "/healthz", "/readyz", "/v1/findings", "/v1/doctor")


class Admin:
    """An ASGI application.

    Args:
        metrics: from header fields to the answer of a scrape.
        documents: by path, what makes a JSON document.
        is_ready: why it takes no spans, empty if it does.
        is_alive: why it should be started again, empty if it is well.
        check_token: refuses a wrong ``Authorization``; health needs none.
    """

    def __init__(
        self,
        metrics: Callable[[Mapping[str, str]], Awaitable[Answer]],
        documents: Mapping[str, Callable[[], Awaitable[Any]]],
        is_ready: Callable[[], str],
        is_alive: Callable[[], str],
        check_token: Callable[[str | None], None],
    ) -> None:
        self._metrics, self._documents, self._check_token = metrics, documents, check_token
        self._is_ready, self._is_alive = is_ready, is_alive

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status, fields, body = await self._answer(scope["method"], scope["path"], headers)
        fields = {"content-type": "application/json", "content-length": str(len(body)), **fields}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if method not in ("GET", "HEAD"):
            return (
                405,
                {"allow": "GET, HEAD"},
                _json({"error": "only read from here; send spans to the OTLP addresses"}),
            )
        if path == "/healthz":
            why = self._is_alive()
            return (503 if why else 200), {}, _json({"status": why or "ok"})
        if path == "/readyz":
            why = self._is_ready()
            return (503 if why else 200), {}, _json({"status": why or "ok"})
        try:
            self._check_token(headers.get("authorization"))
        except Refusal as refusal:
            return 401, {"www-authenticate": "Bearer"}, _json({"error": refusal.message})
        if path == "/metrics":
            return await self._metrics(headers)
        document = self._documents.get(path)
        if document is None:
            return 404, {}, _json({"error": f"nothing is here; there is {', '.join(_PAGES)}"})
        return 200, {}, _json(await document())


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
