"""Both receivers keep to the OTLP specification: bodies, status codes, partial success, limits, compression."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.detector.serving.conftest import Running, eventually

from lowwater.detector.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "examples" / "healthy.otlp.jsonl"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


@pytest.fixture(scope="module")
def detector() -> Iterator[Running]:
    running = Running(**{"serve.max_request_bytes": 2 << 20})
    yield running
    running.stop()


def spans(count: int = 2, **changes: Any) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(count):
        span = scope.spans.add(trace_id=bytes(15) + b"\1", span_id=(number + 1).to_bytes(8, "big"), name="x")
        for name, value in changes.items():
            setattr(span, name, value)
    return request


def as_json(request: Any) -> bytes:
    """OTLP/JSON: protobuf's JSON, but ids in hexadecimal digits."""
    document = json.loads(json_format.MessageToJson(request))
    for group, original in zip(document["resourceSpans"], request.resource_spans, strict=True):
        for scope, first in zip(group["scopeSpans"], original.scope_spans, strict=True):
            for span, source in zip(scope["spans"], first.spans, strict=True):
                span["traceId"], span["spanId"] = source.trace_id.hex(), source.span_id.hex()
    return json.dumps(document).encode()


def call(detector: Running, body: bytes, method: str = TRACES, **options: Any) -> bytes:
    with grpc.insecure_channel(detector.target()) as channel:
        export: Any = channel.unary_unary(method)
        return bytes(export(body, timeout=20, **options))


def post(detector: Running, body: bytes, **headers: str) -> requests.Response:
    return detector.post(body, **{"content_type": "application/x-protobuf", **headers})


@pytest.mark.parametrize(
    "encode", [bytes, gzip.compress, lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])]
)
def test_protobuf_over_http(detector: Running, encode: Any) -> None:
    before = detector.metric("lowwater_detector_spans_received_total", protocol="http")
    headers = {} if encode is bytes else {"content_encoding": "gzip"}
    answer = post(detector, encode(spans(3).SerializeToString()), **headers)
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "application/x-protobuf", b"")
    assert detector.metric("lowwater_detector_spans_received_total", protocol="http") == before + 3


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate", "GZIP"])
def test_json_over_http(detector: Running, encoding: str) -> None:
    body = as_json(spans(3))
    encoders: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress}
    encoded = encoders.get(encoding.lower(), bytes)(body)
    answer = detector.post(encoded, content_type="application/json; charset=utf-8", content_encoding=encoding)
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, "application/json", {})


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_grpc(detector: Running, compression: grpc.Compression) -> None:
    before = detector.metric("lowwater_detector_spans_received_total", protocol="grpc")
    answer = call(detector, spans(3).SerializeToString(), compression=compression)
    assert not ExportTraceServiceResponse.FromString(answer).HasField("partial_success")
    assert detector.metric("lowwater_detector_spans_received_total", protocol="grpc") == before + 3


def test_logs_over_both(detector: Running) -> None:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    body = request.SerializeToString()
    assert post(detector, body, path="/v1/logs").content == b""
    assert call(detector, body, LOGS) == b""
    for protocol in ("grpc", "http"):
        assert detector.metric("lowwater_detector_logs_received_total", protocol=protocol) == 1


def test_an_empty_request_is_accepted(detector: Running) -> None:
    assert post(detector, b"").status_code == 200
    assert detector.post(b"{}").json() == {}
    assert call(detector, b"") == b""


@pytest.mark.parametrize(
    "changes", [{"span_id": b"short"}, {"span_id": bytes(8)}, {"trace_id": b""}, {"trace_id": bytes(16)}]
)
def test_spans_without_ids_are_rejected_alone(detector: Running, changes: dict[str, bytes]) -> None:
    request = spans(2)
    broken = request.resource_spans[0].scope_spans[0].spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8)
    for name, value in changes.items():
        setattr(broken, name, value)
    for answer in (
        ExportTraceServiceResponse.FromString(post(detector, request.SerializeToString()).content),
        ExportTraceServiceResponse.FromString(call(detector, request.SerializeToString())),
    ):
        assert answer.partial_success.rejected_spans == 1
        assert "trace id" in answer.partial_success.error_message
    partial = detector.post(as_json(request)).json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"


def test_unknown_fields_are_ignored(detector: Running) -> None:
    unknown = bytes([15 << 3 | 2, 3]) + b"new"
    assert post(detector, spans(1).SerializeToString() + unknown).content == b""
    document = json.loads(as_json(spans(1)))
    document["newField"] = {"deep": [1]}
    assert detector.post(json.dumps(document).encode()).json() == {}


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"\xff\xff", {}, 400, 3),
        (b"\x0a\x05abc", {}, 400, 3),
        (b"{", {"content_type": "application/json"}, 400, 3),
        (b"[]", {"content_type": "application/json"}, 400, 3),
        (b"[" * 100_000, {"content_type": "application/json"}, 400, 3),
        (b"no gzip", {"content_encoding": "gzip"}, 400, 3),
        (gzip.compress(b"x" * 100)[:-9], {"content_encoding": "gzip"}, 400, 3),
        (b"", {"content_type": "text/plain"}, 415, 12),
        (b"", {"content_encoding": "br"}, 415, 12),
        (b"", {"path": "/v1/metrics"}, 404, 12),
        (b"\x12" * (3 << 20), {}, 413, 8),
        (gzip.compress(b"\x12" * (3 << 20)), {"content_encoding": "gzip"}, 413, 8),
        (b"\x0a\x84\x97\x09\x12\x80\x97\x09" + b"\x12\x00" * 76_736, {}, 413, 8),  # 76,736 empty spans in 150 kB
    ],
)
def test_bad_requests_get_a_status_that_says_why(
    detector: Running, body: bytes, headers: dict[str, str], status: int, code: int
) -> None:
    answer = post(detector, body, **headers)
    assert answer.status_code == status
    if headers.get("content_type") == "application/json":
        found = answer.json()
        assert answer.headers["content-type"] == "application/json"
    else:
        parsed = Status.FromString(answer.content)
        found = {"code": parsed.code, "message": parsed.message}
    assert found["code"] == code
    assert len(found["message"]) > 10
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (b"\x1f\x8bxx", grpc.StatusCode.INVALID_ARGUMENT),
        (b"\x12" * (3 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (gzip.compress(b"\x12" * (3 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_bad_grpc_requests(detector: Running, body: bytes, code: grpc.StatusCode) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        call(detector, body)
    assert code_of(raised.value) is code
    details = trailing(raised.value)
    assert "grpc-status-details-bin" not in details  # without RetryInfo an exporter does not try again


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()


def trailing(error: grpc.RpcError) -> dict[str, bytes]:
    assert isinstance(error, grpc.Call)
    return {name: value for name, value in error.trailing_metadata() if isinstance(value, bytes)}


def test_other_methods(detector: Running) -> None:
    answer = requests.get(detector.url("http", "/v1/traces"), timeout=10)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_connection_goes_on_after_a_refusal(detector: Running) -> None:
    with requests.Session() as session:
        for _ in range(3):
            headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
            url = detector.url("http", "/v1/traces")
            assert (
                session.post(url, data=gzip.compress(b"\x12" * (3 << 20)), headers=headers, timeout=10).status_code
                == 413
            )
            assert session.post(url, data=b"", headers=headers, timeout=10).status_code == 200


def test_the_answer_is_read_even_where_the_body_was_not() -> None:
    """A sender writes its whole body before it looks for an answer: closing the connection earlier would hide it."""
    running = Running(**{"serve.max_waiting_readings": 1})
    try:
        assert post(running, spans(1, end_time_unix_nano=time.time_ns()).SerializeToString()).status_code == 200
        with requests.Session() as session:
            headers = {"content-type": "application/x-protobuf"}
            for _ in range(5):
                answer = session.post(
                    running.url("http", "/v1/traces"), data=bytes(8 << 20), headers=headers, timeout=10
                )
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    finally:
        running.stop()


def test_endless_heads_are_cut_off(detector: Running) -> None:
    with socket.create_connection(detector.addresses["http"], timeout=10) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\n")
        answer = b""
        with contextlib.suppress(OSError):  # reset or broken pipe, as it happens
            for _ in range(1_000):
                connection.sendall(b"x: " + b"y" * 1_000 + b"\r\n")
            answer = connection.recv(1_000)
        assert answer == b"" or b" 431 " in answer
    assert post(detector, b"").status_code == 200


def test_what_cannot_be_committed_is_not_acknowledged(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(running.service.live, "submit", fail)
        answer = post(running, spans(1).SerializeToString())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        with pytest.raises(grpc.RpcError) as raised:
            call(running, spans(1).SerializeToString())
        assert code_of(raised.value) is grpc.StatusCode.UNAVAILABLE
        details = trailing(raised.value)
        status = Status.FromString(details["grpc-status-details-bin"])
        retry = RetryInfo()
        assert status.details[0].Unpack(retry)
        assert retry.retry_delay.seconds == 5
    assert running.metric("lowwater_detector_spans_dropped_total", reason="state") == 2
    assert running.metric("lowwater_detector_spans_received_total") == 0
    assert post(running, spans(1).SerializeToString()).status_code == 200


def test_a_detector_that_is_behind_asks_to_come_back() -> None:
    running = Running(**{"serve.max_waiting_readings": 5})
    try:
        waiting = spans(5, end_time_unix_nano=time.time_ns())
        assert post(running, waiting.SerializeToString()).status_code == 200
        answer = post(running, spans(5).SerializeToString())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert running.metric("lowwater_detector_spans_dropped_total", reason="busy") == 1
    finally:
        running.stop()


def test_a_token_is_wanted_by_all_but_health() -> None:
    running = Running(**{"serve.token": "s3cret"})
    try:
        body = spans(1).SerializeToString()
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s3cret"}):
            assert post(running, body, **header).status_code == 401
        assert post(running, body, authorization="Bearer s3cret").status_code == 200
        with pytest.raises(grpc.RpcError) as raised:
            call(running, body)
        assert code_of(raised.value) is grpc.StatusCode.UNAUTHENTICATED
        assert call(running, body, metadata=(("authorization", "Bearer s3cret"),)) == b""
        assert requests.get(running.url("admin", "/metrics"), timeout=10).status_code == 401
        assert requests.get(running.url("admin", "/healthz"), timeout=10).status_code == 200
        good = requests.get(running.url("admin", "/metrics"), headers={"authorization": "Bearer s3cret"}, timeout=10)
        assert good.status_code == 200
    finally:
        running.stop()


def test_findings_of_a_recording_are_shown_within_seconds(running: Running) -> None:
    for line in (EXAMPLE.parent / "incident.otlp.jsonl").read_bytes().splitlines():
        assert running.post(line).status_code == 200
    assert eventually(running.firing)
    assert "page" in running.firing().values()
    labels = {"kind": "silent_starvation", "severity": "page"}
    assert eventually(lambda: running.metric("lowwater_findings_firing", **labels) == 1)
    assert running.metric("lowwater_agents_starved") == 1


def test_exposed_addresses_need_protection() -> None:
    for host in (
        "0.0.0.0",  # noqa: S104
        "192.168.1.5",
        "[::]",
        "example.com",
        "",
    ):
        with pytest.raises(ConfigError, match=r"serve\.http.*--insecure"):
            Running(**{"serve.http": f"{host}:0"})
    running = Running(**{"serve.http": "0.0.0.0:0", "serve.insecure": True})
    running.stop()


def test_a_port_that_is_taken_is_named(running: Running) -> None:
    for key in ("http", "admin", "grpc"):
        host, port = running.addresses[key]
        with pytest.raises(ConfigError, match=rf"serve\.{key}: cannot listen on .*{port}"):
            Running(**{f"serve.{key}": f"{host}:{port}"})
