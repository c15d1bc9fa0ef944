"""Hostile senders: bombs, rubbish, and more conversations than memory holds."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import time
import zlib
from collections.abc import MutableMapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from tests.detector.serving.conftest import Process, eventually

from lowwater.collectors.dialects.base import ReadContext
from lowwater.detector.ingest import Ingest
from lowwater.detector.receivers.decode import Signal
from lowwater.detector.receivers.http import OtlpHttp
from lowwater.detector.receivers.intake import Intake

EXAMPLES = Path(__file__).parents[3] / "examples"
MUTATIONS = 100_000


def rss_bytes(process: Process, field: str = "VmRSS") -> int:
    for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    raise AssertionError(field)


def bomb(size: int = 1 << 30) -> bytes:
    """About a megabyte that inflates to a gibibyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    return b"".join(packer.compress(piece) for _ in range(size >> 20)) + packer.flush()


def test_a_bomb_is_refused_and_costs_no_memory(tmp_path: Path) -> None:
    process = Process(tmp_path)
    body = bomb()
    assert 900_000 < len(body) < 1_200_000
    headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    small = requests.post(process.url("http", "/v1/traces"), data=gzip.compress(b""), headers=headers, timeout=30)
    assert small.status_code == 200
    Path(f"/proc/{process.process.pid}/clear_refs").write_text("5")  # the peak starts anew
    before = rss_bytes(process)
    for _ in range(3):
        answer = requests.post(process.url("http", "/v1/traces"), data=body, headers=headers, timeout=30)
        assert answer.status_code == 413
    import grpc

    with grpc.insecure_channel(process.target()) as channel:
        export: Any = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.RpcError) as raised:
            export(body, timeout=30)
    assert "RESOURCE_EXHAUSTED" in str(raised.value)
    assert rss_bytes(process, "VmHWM") - before < 50 << 20
    assert process.terminate() == 0


def mutated(draw: random.Random, body: bytes) -> bytes:
    """A body with a few bytes changed, cut out, doubled, or swapped for nasty ones."""
    data = bytearray(body)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(data) + 1)
        size = draw.choice((1, 1, 2, 8, 200))
        match draw.randrange(5):
            case 0:
                data[place : place + size] = draw.randbytes(min(size, 8))
            case 1:
                del data[place : place + size]
            case 2:
                data[place:place] = data[place : place + size]
            case 3:
                data[place:place] = draw.choice((b"\xff" * 10, b"\x00", b'"', b"[", b"{", b"NaN", b"1e999", b"\\ud800"))
            case _:
                if data:
                    data[place % len(data)] ^= 1 << draw.randrange(8)
    return bytes(data)


def seeds() -> list[tuple[str, bytes]]:
    """Requests of a few spans with content, in both encodings."""
    found: list[tuple[str, bytes]] = []
    for path in sorted(EXAMPLES.glob("*.otlp.jsonl")):
        import json

        request = json.loads(path.read_text().splitlines()[0])
        scope = request["resourceSpans"][0]["scopeSpans"][0]
        for span in scope["spans"][:6]:
            one = {"resourceSpans": [{**request["resourceSpans"][0], "scopeSpans": [{**scope, "spans": [span]}]}]}
            text = json.dumps(one)
            if len(text) < 6_000:
                found.append(("application/json", text.encode()))
            message = ExportTraceServiceRequest()
            written = message.resource_spans.add().scope_spans.add().spans.add()
            written.trace_id, written.span_id = bytes.fromhex(span["traceId"]), bytes.fromhex(span["spanId"])
            written.end_time_unix_nano = int(span["endTimeUnixNano"])
            for attribute in span["attributes"]:
                pair = KeyValue(key=attribute["key"])
                for kind, value in attribute["value"].items():
                    if kind == "stringValue":
                        pair.value.string_value = value[:2_000]
                    elif kind == "intValue":
                        pair.value.int_value = int(value)
                written.attributes.append(pair)
            found.append(("application/x-protobuf", message.SerializeToString()))
    return found


class Silent:
    """A counter that counts nothing."""

    def request(self, protocol: str, code: str) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1

    def received(self, signal: Signal, protocol: str, items: int) -> None: ...

    def dropped(self, reason: str, items: int) -> None: ...

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}


def test_a_hundred_thousand_mutated_requests_crash_nothing() -> None:
    draw = random.Random(int(os.environ.get("LOWWATER_SEED", "20")))
    counter = Silent()

    def submit(readings: Any) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    intake = Intake(Ingest(ReadContext()), submit, counter)
    app = OtlpHttp(intake)
    bodies = seeds()
    assert len(bodies) >= 20
    statuses: dict[int, int] = {}

    async def one(content_type: str, body: bytes) -> None:
        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses[message["status"]] = statuses.get(message["status"], 0) + 1

        headers = [(b"content-type", content_type.encode())]
        await app({"type": "http", "method": "POST", "path": "/v1/traces", "headers": headers}, receive, send)

    async def all_of_them() -> None:
        for _ in range(MUTATIONS):
            content_type, body = draw.choice(bodies)
            await one(content_type, mutated(draw, body))

    asyncio.run(all_of_them())
    intake.join()
    assert set(statuses) <= {200, 400, 413}
    assert statuses[200] > MUTATIONS // 10
    assert statuses[400] > MUTATIONS // 10
    assert sum(statuses.values()) == MUTATIONS


def conversations(first: int, count: int) -> bytes:
    """One call in each of many conversations."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    now = time.time_ns()
    for number in range(first, first + count):
        span = spans.add(
            trace_id=(number + 1).to_bytes(16, "big"), span_id=(number + 1).to_bytes(8, "big"), name="chat"
        )
        span.start_time_unix_nano = span.end_time_unix_nano = now
        for key, value in (
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.conversation.id", f"c{number}"),
            ("gen_ai.request.model", "m"),
        ):
            span.attributes.add(key=key).value.string_value = value
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 1_000
    return request.SerializeToString()


def test_more_conversations_than_memory_holds(tmp_path: Path) -> None:
    config = "[detector]\nlateness_seconds = 0.2\n[serve]\nmax_contexts = 500\nmax_stored_states = 3000\nsync = false\n"
    process = Process(tmp_path, config)
    total = 20_000
    headers = {"content-type": "application/x-protobuf"}
    for first in range(0, total, 1_000):
        answer = requests.post(
            process.url("http", "/v1/traces"), data=conversations(first, 1_000), headers=headers, timeout=60
        )
        assert answer.status_code == 200
    assert eventually(lambda: process.metric("lowwater_turns_total") == total, 60)
    assert process.metric("lowwater_detector_state_contexts") <= 1_000
    assert process.metric("lowwater_detector_state_evictions_total", reason="capacity") > total - 1_000
    assert process.metric("lowwater_detector_series") <= 10_000
    assert process.terminate() == 0
