"""OTLP over HTTP: an ASGI application for ``/v1/traces`` and ``/v1/logs``.

Source: OpenTelemetry Protocol specification 1.9, OTLP/HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from lowwater.detector.receivers.decode import Encoding, Rejected, Signal
from lowwater.detector.receivers.intake import Intake
from lowwater.detector.receivers.refusal import Refusal, Why

__all__ = ["OtlpHttp", "partial_success"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PATHS = {"/v1/traces": Signal.TRACES, "/v1/logs": Signal.LOGS}
_ENCODINGS = {"": "", "identity": "", "gzip": "gzip", "deflate": "deflate"}
_GRPC_NUMBERS = {
    "INVALID_ARGUMENT": 3, "RESOURCE_EXHAUSTED": 8, "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}  # fmt: skip
"""Numbers of google.rpc.Code, which the body of a refusal carries."""


def partial_success(signal: Signal, rejected: Rejected) -> ExportTraceServiceResponse | ExportLogsServiceResponse:
    """The answer to an accepted request; its partial success is unset where all was taken."""
    message = f"{rejected.reason} were left out" if rejected.count else ""
    if signal is Signal.TRACES:
        traces = ExportTraceServiceResponse()
        if rejected.count:
            traces.partial_success.rejected_spans = rejected.count
            traces.partial_success.error_message = message
        return traces
    logs = ExportLogsServiceResponse()
    if rejected.count:
        logs.partial_success.rejected_log_records = rejected.count
        logs.partial_success.error_message = message
    return logs


class OtlpHttp:
    """The application.

    Args:
        intake: takes the bodies.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        encoding = Encoding.JSON if _media_type(headers) == Encoding.JSON.value else Encoding.PROTOBUF
        counter = self._intake.counter
        try:
            answer = await self._answer(scope, headers, encoding, receive)
        except Refusal as refusal:
            counter.request("http", str(refusal.why.http_status))
            counter.dropped(refusal.reason, 1)
            await _refuse(send, encoding, refusal)
        except ConnectionError:
            counter.request("http", "499")
            counter.dropped("disconnected", 1)
        else:
            counter.request("http", "200")
            await _send(send, 200, encoding.value, answer)

    async def _answer(
        self, scope: Mapping[str, Any], headers: Mapping[str, str], encoding: Encoding, receive: Receive
    ) -> bytes:
        signal = _PATHS.get(scope["path"])
        if signal is None:
            raise Refusal(Why.NOT_FOUND, "not_found", "nothing is here: post traces to /v1/traces and logs to /v1/logs")
        if scope["method"] != "POST":
            raise Refusal(Why.METHOD, "method", "export requests are posted")
        self._intake.check_token(headers.get("authorization"))
        if _media_type(headers) not in (Encoding.PROTOBUF.value, Encoding.JSON.value):
            raise Refusal(
                Why.UNSUPPORTED, "content_type", "Content-Type must be application/x-protobuf or application/json"
            )
        compression = _ENCODINGS.get(headers.get("content-encoding", "").strip().lower())
        if compression is None:
            raise Refusal(Why.UNSUPPORTED, "content_encoding", "Content-Encoding must be gzip, or none")
        length = headers.get("content-length", "")
        if length.isdecimal():
            self._intake.check_size(int(length))
        with self._intake.body(compression) as (body, feed):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError
                feed(message.get("body", b""))
                if not message.get("more_body", False):
                    break
            rejected = await self._intake.take(signal, "http", encoding, body.end())
        answer = partial_success(signal, rejected)
        if encoding is Encoding.PROTOBUF:
            return answer.SerializeToString()
        if not rejected.count:
            return b"{}"
        field = "rejectedSpans" if signal is Signal.TRACES else "rejectedLogRecords"
        partial = {field: str(rejected.count), "errorMessage": answer.partial_success.error_message}
        return json.dumps({"partialSuccess": partial}).encode()


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def _refuse(send: Send, encoding: Encoding, refusal: Refusal) -> None:
    number = _GRPC_NUMBERS[refusal.why.grpc_code]
    if encoding is Encoding.JSON:
        body = json.dumps({"code": number, "message": refusal.message}).encode()
    else:
        body = Status(code=number, message=refusal.message).SerializeToString()
    # The connection goes on: closing it while the sender is still writing would take the answer from it. What is left of
    # the body is read and thrown away, within the limits of the server.
    headers: list[tuple[bytes, bytes]] = []
    if refusal.retry_after_seconds is not None:
        headers.append((b"retry-after", str(refusal.retry_after_seconds).encode()))
    if refusal.why is Why.METHOD:
        headers.append((b"allow", b"POST"))
    if refusal.why is Why.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b"Bearer"))
    await _send(send, refusal.why.http_status, encoding.value, body, headers)


async def _send(
    send: Send, status: int, content_type: str, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    fields = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
