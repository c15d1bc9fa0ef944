"""Peak memory of reading large OTLP files, which are made while they are read.

Run it by hand: ``python tests/benchmarks/memory.py [--megabytes 2048] [--format json|proto|console] [--gzip]``.
Prints one line of JSON with the size, the spans, the seconds and the peak resident memory. A test runs it small.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import resource
import struct
import sys
import threading
import time
from typing import BinaryIO

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.detect import detect
from lowwater.detector.readers.opening import OpenDocument

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


def main() -> None:
    """Stream through a pipe from a thread, so that nothing is stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--format", choices=("json", "indented", "proto"), default="json")
    parser.add_argument("--gzip", action="store_true")
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
        spans = sum(1 for _ in found.read(document, ReadContext(), problems)) if found else 0
    writer.join()
    line = {
        "format": found.name if found else None,
        "megabytes": options.megabytes,
        "spans": spans,
        "problems": problems.total,
        "seconds": round(time.perf_counter() - started, 2),
        "peak_rss_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
