"""A scripted model server: it answers as a scenario says and counts what it was sent.

It speaks OpenAI chat completions and Anthropic messages, plain and streamed, so that a real agent framework can be run
and recorded without a provider. Because it counts every request itself, it knows the truth that a trace only suggests:
how many tokens of each prompt belonged to which consumer.

Each scenario has a base URL of its own (``server.url("research")``), which is how parallel agents are kept apart.
"""

from __future__ import annotations

import errno
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol

from tests.record.wire import PROTOCOLS, Answer, Piece, Refusal, Reply, Request, WireProtocol

__all__ = ["ModelServer", "Scenario", "Script"]

CACHE_BLOCK_TOKENS = 128
"""Prompt caches match whole blocks; OpenAI documents steps of 128 tokens."""

_PATIENCE_SECONDS = 120


class Scenario(Protocol):
    """Decides what the model says.

    Attributes:
        name: part of the URL, of response ids and of the truth.
        agent: the agent that is played, for the truth.
        retrievers: names of tools that fetch from a store; their results count as retrieval.
        documents: texts of the store. Where one stands inside a system or user message, that part is retrieval.
    """

    name: str
    agent: str
    retrievers: frozenset[str]
    documents: Sequence[str]

    def reply(self, request: Request) -> Reply:
        """The next answer or refusal. Called under a lock, once per request."""


@dataclass(slots=True)
class Script:
    """A scenario that gives prepared replies in order and fails when asked for more; a last refusal stays for good."""

    name: str
    agent: str
    replies: Sequence[Reply]
    retrievers: frozenset[str] = frozenset()
    documents: Sequence[str] = ()

    def reply(self, request: Request) -> Reply:
        """The reply at the request's place."""
        if request.index >= len(self.replies):
            if self.replies and isinstance(self.replies[-1], Refusal):
                return self.replies[-1]
            msg = f"the script has {len(self.replies)} replies and was asked for another"
            raise LookupError(msg)
        return self.replies[request.index]


@dataclass(slots=True)
class _State:
    scenario: Scenario
    calls: list[dict[str, Any]] = field(default_factory=list)
    last: tuple[Piece, ...] = ()


class ModelServer:
    """The server; a context manager that listens while it is entered.

    Args:
        scenarios: each is served below ``/<name>``.
        port: a fixed port, because frameworks record it. 0 takes a free one.

    Raises:
        RuntimeError: on leaving, if a request could not be answered: a recording made of it would be wrong.
    """

    def __init__(self, scenarios: Sequence[Scenario], *, port: int = 8089) -> None:
        self._states = {scenario.name: _State(scenario) for scenario in scenarios}
        self._problems: list[str] = []
        self._lock = threading.Lock()
        self._http = _listening(port, _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        if self._problems and kind is None:
            raise RuntimeError("\n".join(self._problems))

    def url(self, scenario: str) -> str:
        """Base URL of a scenario. OpenAI clients want ``/v1`` after it, Anthropic's add it themselves."""
        return f"http://127.0.0.1:{self._http.server_port}/{self._states[scenario].scenario.name}"

    def truth(self) -> list[dict[str, Any]]:
        """What was counted, by scenario and call; `truth_file` describes the fields."""
        return [call for state in self._states.values() for call in state.calls]

    def answer(self, scenario: str, protocol: WireProtocol, body: Mapping[str, Any]) -> tuple[Reply, dict[str, Any]]:
        """Ask the scenario and count; the reply and its line of truth.

        Raises:
            LookupError: nothing is scripted for the request.
        """
        with self._lock:
            try:
                state = self._state(scenario)
                found = protocol.pieces(body, state.scenario.retrievers)
                pieces = tuple(part for piece in found for part in _without_documents(piece, state.scenario.documents))
                request = Request(len(state.calls), str(body.get("model", "")), pieces, body)
                reply = state.scenario.reply(request)
            except LookupError as error:
                self._problems.append(f"{scenario}: {error}")
                raise
            line = _line(state, request, reply)
            if isinstance(reply, Answer):
                state.last = pieces
            state.calls.append(line)
        return reply, line

    def _state(self, scenario: str) -> _State:
        if scenario not in self._states:
            msg = f"no such scenario; there are {', '.join(self._states)}"
            raise LookupError(msg)
        return self._states[scenario]


def _line(state: _State, request: Request, reply: Reply) -> dict[str, Any]:
    """One line of truth."""
    scenario = state.scenario
    refused = isinstance(reply, Refusal)
    marks = {"stream": bool(request.body.get("stream")), "summary": isinstance(reply, Answer) and reply.summary}
    return {
        "scenario": scenario.name,
        "call": request.index + 1,
        "agent": (reply.agent if isinstance(reply, Answer) else None) or scenario.agent,
        "model": request.model,
        "response_id": None if refused else f"resp-{scenario.name}-{request.index + 1:03d}",
        "status": reply.status if isinstance(reply, Refusal) else 200,
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": 0 if isinstance(reply, Refusal) else reply.tokens,
        "cached_tokens": 0 if refused else _cached_tokens(state.last, request.pieces),
        "consumers": request.consumers(),
        "tool_calls": [] if isinstance(reply, Refusal) else [call.name for call in reply.calls],
        **{name: True for name, value in marks.items() if value},
    }


def _without_documents(piece: Piece, documents: Sequence[str]) -> Iterator[Piece]:
    """The piece, cut where a document of the store begins and ends."""
    document = next((text for text in documents if text in piece.text), None)
    if document is None or piece.consumer not in ("system", "working"):
        yield piece
        return
    before, _, after = piece.text.partition(document)
    yield Piece(piece.consumer, before)
    yield Piece("retrieval", document)
    yield from _without_documents(Piece(piece.consumer, after), documents)


def _cached_tokens(before: Sequence[Piece], now: Sequence[Piece]) -> int:
    """Tokens of the prefix that the previous answered prompt shares, in whole cache blocks."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    tokens = sum(piece.tokens for piece, _ in same)
    return tokens - tokens % CACHE_BLOCK_TOKENS


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """The server on its port, as soon as a recording that runs beside this one has left it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


# --- HTTP ------------------------------------------------------------------------------------------------------------


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "scripted-model", ""

        def date_time_string(self, timestamp: float | None = None) -> str:
            """One date for ever: frameworks record the headers of refusals."""
            return "Mon, 05 Jan 2026 08:00:00 GMT"

        def do_POST(self) -> None:
            scenario, slash, rest = self.path.partition("?")[0].lstrip("/").partition("/")
            protocol = PROTOCOLS.get(slash + rest)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if protocol is None:
                self._send(404, {"error": {"message": f"no such path: {self.path}"}})
                return
            try:
                reply, line = server.answer(scenario, protocol, body)
            except LookupError as error:
                # 400, because clients retry a 500.
                self._send(400, protocol.error(Refusal(400, "unscripted", str(error))))
                return
            if isinstance(reply, Refusal):
                after = reply.retry_after_seconds
                self._send(reply.status, protocol.error(reply), {} if after is None else {"Retry-After": f"{after:g}"})
                return
            time.sleep(reply.delay_seconds)
            if body.get("stream"):
                self._send_stream(protocol.stream(reply, line))
            else:
                self._send(200, protocol.whole(reply, line))

        def _send(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _send_stream(self, events: Iterator[str]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for event in events:
                self.wfile.write(event.encode())
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing: problems are raised when the server is left."""

    return Handler
