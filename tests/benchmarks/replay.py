"""Replay against protobuf parsing, in one run: how much of the time is lowwater's own.

Prints spans/s and MB/s of: parsing OTLP protobuf only (upb), and `lowwater replay` of the same spans as protobuf and as JSON
lines, lean and with 8 kB of message content, and on a mix of LLM, tool, agent and plain spans. Rounds are interleaved; the
figures are medians, the ratios are to parsing only. Shared machines are noisy: read the ratios.

    .venv/bin/python tests/benchmarks/replay.py [--spans 6144] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from lowwater.detector.replay import Replay

BATCH = 512
TURNS = 20
START_NS = 1_750_000_000_000_000_000


def attribute(span: Span, key: str, value: str | int) -> None:
    item = span.attributes.add(key=key)
    if isinstance(value, int):
        item.value.int_value = value
    else:
        item.value.string_value = value


def llm_span(span: Span, index: int, content_bytes: int) -> None:
    """An LLM span with 24 attributes, one of twenty turns of its conversation."""
    conversation, turn = divmod(index, TURNS)
    span.name = "chat gpt-4o"
    attribute(span, "gen_ai.operation.name", "chat")
    attribute(span, "gen_ai.provider.name", "openai")
    attribute(span, "gen_ai.request.model", "gpt-4o")
    attribute(span, "gen_ai.response.model", "gpt-4o-2024-08-06")
    attribute(span, "gen_ai.response.id", f"chatcmpl-{index:012d}")
    attribute(span, "gen_ai.conversation.id", f"conv-{conversation:08d}")
    attribute(span, "gen_ai.agent.name", f"agent-{conversation % 8}")
    attribute(span, "gen_ai.request.max_tokens", 4096)
    attribute(span, "gen_ai.usage.input_tokens", 4000 + 900 * turn)
    attribute(span, "gen_ai.usage.output_tokens", 150)
    attribute(span, "gen_ai.usage.cache_read.input_tokens", 3900 + 900 * max(0, turn - 1))
    for number in range(13):
        attribute(span, f"app.attribute.{number}", f"value-{index % 97}-{number}")
    if content_bytes:
        block = max(16, (content_bytes - 1200) // (2 * turn + 3))
        words = ("measure the water level again and report what changed since noon " * (block // 60 + 1))[:block]
        messages = [{"role": "system", "parts": [{"type": "text", "content": words}]}]
        for number in range(turn + 1):
            messages.append({"role": "user", "parts": [{"type": "text", "content": f"{number} {words}"}]})
            messages.append({"role": "assistant", "parts": [{"type": "text", "content": f"{number} ok {words}"}]})
        attribute(span, "gen_ai.input.messages", json.dumps(messages))


def other_span(span: Span, index: int) -> None:
    kind = index % 4
    span.name = ("GET /api/items", "execute_tool read", "SELECT items", "invoke_agent bot")[kind]
    if kind == 1:
        attribute(span, "gen_ai.operation.name", "execute_tool")
        attribute(span, "gen_ai.tool.name", "read")
        attribute(span, "gen_ai.tool.call.arguments", json.dumps({"path": f"/srv/{index % 50}"}))
    elif kind == 3:
        attribute(span, "gen_ai.operation.name", "invoke_agent")
        attribute(span, "gen_ai.agent.name", "bot")
    for number in range(10):
        attribute(span, f"http.attribute.{number}", f"value-{number}")


def batches(spans: int, make: Callable[[Span, int], None]) -> list[ExportTraceServiceRequest]:
    made = []
    for first in range(0, spans, BATCH):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        service = resource.resource.attributes.add(key="service.name")
        service.value.string_value = "bench"
        scope = resource.scope_spans.add()
        scope.scope.name = "bench"
        for index in range(first, min(first + BATCH, spans)):
            span = scope.spans.add()
            span.trace_id = (1 + index // TURNS).to_bytes(16, "big")
            span.span_id = (1 + index).to_bytes(8, "big")
            span.start_time_unix_nano = START_NS + index * 1_000_000_000
            span.end_time_unix_nano = span.start_time_unix_nano + 800_000_000
            make(span, index)
        made.append(request)
    return made


def hex_ids(request: dict[str, object], source: ExportTraceServiceRequest) -> dict[str, object]:
    """OTLP/JSON writes ids in hexadecimal, protobuf's JSON in base64."""
    for resource, plain in zip(source.resource_spans, request["resourceSpans"], strict=True):  # type: ignore[call-overload]
        for scope, plain_scope in zip(resource.scope_spans, plain["scopeSpans"], strict=True):
            for span, item in zip(scope.spans, plain_scope["spans"], strict=True):
                item["traceId"], item["spanId"] = span.trace_id.hex(), span.span_id.hex()
    return request


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def replay(path: Path) -> int:
    return sum(1 for _ in Replay().run([str(path)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=6_144)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    mixes: dict[str, Callable[[Span, int], None]] = {
        "lean LLM": lambda span, index: llm_span(span, index, 0),
        "8 kB content": lambda span, index: llm_span(span, index, 8_000),
        "mix 1:4": lambda span, index: llm_span(span, index // 5, 2_000) if index % 5 == 0 else other_span(span, index),
    }
    print(f"{options.spans} spans in batches of {BATCH}, medians of {options.rounds} interleaved rounds\n")
    print(f"{'mix':<14}{'what':<22}{'spans/s':>10}{'MB/s':>8}{'x parse':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in mixes.items():
            requests = batches(options.spans, make)
            encoded = [request.SerializeToString() for request in requests]
            proto, lines = Path(folder, "spans.binpb"), Path(folder, "spans.jsonl")
            proto.write_bytes(b"".join(struct.pack(">I", len(data)) + data for data in encoded))
            with lines.open("w") as handle:
                for request in requests:
                    handle.write(json.dumps(hex_ids(MessageToDict(request), request)) + "\n")
            del requests
            work: dict[str, tuple[Callable[[], object], int]] = {
                "protobuf parse only": (
                    lambda data=encoded: [ExportTraceServiceRequest.FromString(item) for item in data],  # type: ignore[misc]
                    sum(map(len, encoded)),
                ),
                "replay protobuf": (lambda: replay(proto), proto.stat().st_size),  # noqa: B023 - used at once
                "replay JSON lines": (lambda: replay(lines), lines.stat().st_size),  # noqa: B023
            }
            seconds: dict[str, list[float]] = {what: [] for what in work}
            for _ in range(options.rounds):
                for what, (run, _size) in work.items():
                    seconds[what].append(timed(run))
            base = statistics.median(seconds["protobuf parse only"])
            for what, (_run, size) in work.items():
                median = statistics.median(seconds[what])
                print(
                    f"{name:<14}{what:<22}{options.spans / median:>10,.0f}{size / median / 1e6:>8,.1f}{base / median:>9.3f}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
