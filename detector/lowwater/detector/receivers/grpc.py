"""OTLP over gRPC: the two Export methods, on bytes.

Source: OpenTelemetry Protocol specification 1.9, OTLP/gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from lowwater.detector.receivers.decode import Encoding, Signal
from lowwater.detector.receivers.http import partial_success
from lowwater.detector.receivers.intake import Intake
from lowwater.detector.receivers.refusal import Refusal

__all__ = ["options", "services"]

_TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"
_LOGS = "opentelemetry.proto.collector.logs.v1.LogsService"
_GZIP_MAGIC = b"\x1f\x8b"
_ZLIB_FIRST = 0x78


def options(max_request_bytes: int) -> list[tuple[str, Any]]:
    """Channel options of the server.

    Messages are handed over as they came and inflated here: the library would inflate them whole before it looks at
    their size. A port that another process has is an error, not a port to share.
    """
    return [
        ("grpc.per_message_decompression", 0),
        ("grpc.max_receive_message_length", max_request_bytes),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.max_concurrent_streams", 100),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]


def services(intake: Intake) -> Sequence[grpc.GenericRpcHandler]:
    """The handlers of both signals."""
    return [
        grpc.method_handlers_generic_handler(
            service, {"Export": grpc.unary_unary_rpc_method_handler(_Export(intake, signal).answer)}
        )
        for service, signal in ((_TRACES, Signal.TRACES), (_LOGS, Signal.LOGS))
    ]


class _Export:
    def __init__(self, intake: Intake, signal: Signal) -> None:
        self._intake, self._signal = intake, signal

    async def answer(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        counter = self._intake.counter
        try:
            self._intake.check_token(_authorization(context))
            with self._intake.body(_encoding(request)) as (body, feed):
                feed(request)
                rejected = await self._intake.take(self._signal, "grpc", Encoding.PROTOBUF, body.end())
        except Refusal as refusal:
            counter.request("grpc", refusal.why.grpc_code)
            counter.dropped(refusal.reason, 1)
            await _refuse(context, refusal)
        except asyncio.CancelledError:  # the sender left, or its time was over; what it sent may have been taken
            counter.request("grpc", "CANCELLED")
            raise
        counter.request("grpc", "OK")
        return partial_success(self._signal, rejected).SerializeToString()


def _encoding(request: bytes) -> str:
    """How a message is compressed, by its first bytes: no export request begins like one that is."""
    if request.startswith(_GZIP_MAGIC):
        return "gzip"
    if len(request) > 1 and request[0] == _ZLIB_FIRST and (request[0] << 8 | request[1]) % 31 == 0:
        return "deflate"
    return ""


def _authorization(context: grpc.aio.ServicerContext[bytes, bytes]) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value if isinstance(value, str) else value.decode("latin-1")
    return None


async def _refuse(context: grpc.aio.ServicerContext[bytes, bytes], refusal: Refusal) -> None:
    code = grpc.StatusCode[refusal.why.grpc_code]
    metadata: tuple[tuple[str, bytes], ...] = ()
    if refusal.retry_after_seconds is not None:
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=Duration(seconds=refusal.retry_after_seconds)))
        status = Status(code=code.value[0], message=refusal.message, details=[detail])
        metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, refusal.message, metadata)
