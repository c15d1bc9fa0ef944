"""Peak memory of reading and of replaying large OTLP files, which are made while they are read.

Run it by hand: ``python tests/benchmarks/memory.py [--megabytes 2048] [--format json|indented|proto] [--gzip] [--replay]``.
Prints one line of JSON with the size, the spans, the seconds and the peak resident memory. A test runs it small.

Reading repeats one request. Replaying gives every span an id and every fifth a conversation of its own, which is the most
state that a file of its size can ask for.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import SpanRecord
from lowwater.detector.ingest import Ingest
from lowwater.detector.pipeline import Pipeline
from lowwater.detector.readers.base import Item, Problems
from lowwater.detector.readers.detect import detect
from lowwater.detector.readers.opening import OpenDocument
from lowwater.detector.sorting import sort_readings
from lowwater.detector.summary import Summary

_SPANS_PER_REQUEST = 100


def request(number: int) -> ExportTraceServiceRequest:
    """One export request of LLM spans with a prompt of some kilobytes each."""
    made = ExportTraceServiceRequest()
    scoped = made.resource_spans.add().scope_spans.add()
    scoped.scope.name = "benchmark"
    for index in range(_SPANS_PER_REQUEST):
        ordinal = number * _SPANS_PER_REQUEST + index + 1
        span = scoped.spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=ordinal.to_bytes(8, "big"),
            name="chat",
            end_time_unix_nano=ordinal,
        )
        for key in range(20):
            span.attributes.add(key=f"gen_ai.attribute.{key}").value.int_value = ordinal
        span.attributes.add(key="gen_ai.input.messages").value.string_value = f"{ordinal} words of a prompt " * 150
    return made


def as_json(made: ExportTraceServiceRequest) -> dict[str, object]:
    """The request as OTLP/JSON; not the library's JSON, which writes ids in base64 and is slow."""
    spans = [
        {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "name": span.name,
            "endTimeUnixNano": str(span.end_time_unix_nano),
            "attributes": [
                {"key": pair.key, "value": {"stringValue": pair.value.string_value} if pair.value.string_value else
                 {"intValue": str(pair.value.int_value)}}
                for pair in span.attributes
            ],
        }
        for span in made.resource_spans[0].scope_spans[0].spans
    ]  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "benchmark"}, "spans": spans}]}]}


def encoded(form: str) -> bytes:
    """One request in a file format; the file repeats it, as reading does not compare ids."""
    made = request(1)
    if form == "proto":
        data = made.SerializeToString()
        return struct.pack(">I", len(data)) + data
    return json.dumps(as_json(made), indent=2 if form == "indented" else None).encode() + b"\n"


def write(out: BinaryIO, piece: bytes, megabytes: int, compress: bool) -> None:
    """Write pieces until the size is reached."""
    target: BinaryIO = gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) if compress else out  # type: ignore[assignment]
    target.writelines(piece for _ in range(max(1, (megabytes << 20) // len(piece))))
    target.close()
    out.close()


def peak_megabytes() -> int:
    """The process's own peak; ``ru_maxrss`` would include that of the process which started it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))


def distinct(items: Iterator[Item]) -> Iterator[Item]:
    """The spans as calls of many conversations, five seconds apart."""
    for ordinal, item in enumerate(items, 1):
        if isinstance(item, SpanRecord):
            item.trace_id, item.span_id = f"{ordinal // 5:032x}", f"{ordinal:016x}"
            item.start_time_unix_nano = 1_750_000_000_000_000_000 + ordinal * 5_000_000_000
            item.end_time_unix_nano = item.start_time_unix_nano + 1_000_000_000
            item.attributes = {
                **item.attributes, "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
                "gen_ai.conversation.id": f"c{ordinal // 5}", "gen_ai.usage.input_tokens": 1_000 + ordinal % 5,
            }  # fmt: skip
        yield item


def replayed(items: Iterator[Item]) -> int:
    """Run everything that a replay runs; the number of calls."""
    summary = Summary()
    for output in Pipeline().run(sort_readings(Ingest(ReadContext()).readings(distinct(items)))):
        summary.add(output)
    return summary.calls


def main() -> None:
    """Stream through a pipe from a thread, so that nothing is stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--format", choices=("json", "indented", "proto"), default="json")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--replay", action="store_true", help="through ledger and operators, not only the reader")
    options = parser.parse_args()
    piece = encoded(options.format)
    incoming, outgoing = os.pipe()
    writer = threading.Thread(
        target=write, args=(os.fdopen(outgoing, "wb"), piece, options.megabytes, options.gzip), daemon=True
    )
    writer.start()
    started = time.perf_counter()
    problems = Problems()
    stream = io.BufferedReader(os.fdopen(incoming, "rb", buffering=0))
    with OpenDocument("pipe", lambda: stream, problems) as document:
        found = detect(document, problems)
        items = found.read(document, ReadContext(), problems) if found else iter(())
        spans = replayed(items) if options.replay else sum(1 for _ in items)
    writer.join()
    line = {
        "format": found.name if found else None,
        "megabytes": options.megabytes,
        "spans": spans,
        "problems": problems.total,
        "seconds": round(time.perf_counter() - started, 2),
        "peak_rss_megabytes": peak_megabytes(),
    }
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
