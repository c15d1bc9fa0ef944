"""The live detector under load: spans per CPU-second of the server, next to rotel receiving into a black hole.

In one run and interleaved rounds, each server gets the same requests of four senders over keep-alive connections: HTTP and
gRPC, lean spans and spans with 8 kB of content, 8 and 512 spans a request. What is counted is what the server acknowledged
per second of its own CPU time, user and system. lowwater decodes, extracts, writes to its journal and decides, with a lateness
of one second so that all of it falls into the measured time; rotel parses and throws away.

    .venv/bin/python tests/benchmarks/live.py [--seconds 4] [--rounds 3]
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import itertools
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from replay import llm_span  # type: ignore[import-not-found]

SENDERS = 4
TICKS = os.sysconf("SC_CLK_TCK")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def request(first: int, count: int, content_bytes: int) -> bytes:
    """Spans that end now, of conversations of twenty turns."""
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    now = time.time_ns()
    for index in range(first, first + count):
        span = spans.add(trace_id=(index // 20 + 1).to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"))
        llm_span(span, index, content_bytes)
        span.start_time_unix_nano, span.end_time_unix_nano = now + index * 1_000, now + index * 1_000 + 500
    return message.SerializeToString()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """A program that listens on two ports."""

    def __init__(self, command: list[str], grpc_port: int, http_port: int) -> None:
        self.grpc_port, self.http_port = grpc_port, http_port
        environ = {**os.environ, "LOWWATER_DETECTOR_LATENESS_SECONDS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as one, socket.socket() as two:
                if not one.connect_ex(("127.0.0.1", grpc_port)) and not two.connect_ex(("127.0.0.1", http_port)):
                    return
            time.sleep(0.05)
        sys.exit(f"{command[0]} does not listen")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def lowwater(folder: str) -> Server:
    grpc_port, http_port, admin = free_port(), free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        "lowwater",
        "serve",
        f"--grpc=127.0.0.1:{grpc_port}",
        f"--http=127.0.0.1:{http_port}",
    ]
    command += [f"--admin=127.0.0.1:{admin}", f"--state={folder}/state-{http_port}.db"]
    server = Server(command, grpc_port, http_port)
    server.admin = admin  # type: ignore[attr-defined]
    return server


def rotel(folder: str) -> Server:
    spec = importlib.util.find_spec("rotel")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("rotel is not installed: make setup")
    grpc_port, http_port = free_port(), free_port()
    command = [f"{spec.submodule_search_locations[0]}/rotel-agent", "start", "--exporter", "blackhole"]
    command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}", "--otlp-http-endpoint", f"127.0.0.1:{http_port}"]
    return Server(command, grpc_port, http_port)


def send_http(port: int, bodies: Callable[[], bytes], until: float) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    taken = 0
    while time.monotonic() < until:
        connection.request("POST", "/v1/traces", bodies(), {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            taken += 1
        else:
            time.sleep(0.05)
    return taken


def send_grpc(port: int, bodies: Callable[[], bytes], until: float) -> int:
    taken = 0
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        export: Any = channel.unary_unary(EXPORT)
        while time.monotonic() < until:
            try:
                export(bodies(), timeout=60)
                taken += 1
            except grpc.RpcError:
                time.sleep(0.05)
    return taken


def load(server: Server, protocol: str, size: int, prepared: list[bytes], seconds: float) -> float:
    """Spans acknowledged per second of the server's CPU time."""
    turn = itertools.cycle(prepared)
    lock = threading.Lock()

    def bodies() -> bytes:
        with lock:
            return next(turn)

    send, port = (send_http, server.http_port) if protocol == "HTTP" else (send_grpc, server.grpc_port)
    counts: list[int] = []
    before, started = cpu_seconds(server.process.pid), time.monotonic()
    threads = [
        threading.Thread(target=lambda: counts.append(send(port, bodies, started + seconds))) for _ in range(SENDERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(2.0)  # what has been acknowledged is decided, too
    return sum(counts) * size / max(0.01, cpu_seconds(server.process.pid) - before)


def throughput(folder: str, seconds: float, rounds: int) -> None:
    print(f"{'protocol':9}{'spans':14}{'batch':>6}{'lowwater':>11}{'rotel':>11}  ratio   (spans per server CPU-second)")
    for protocol, content_bytes, size in itertools.product(("HTTP", "gRPC"), (0, 8_000), (8, 512)):
        figures: dict[str, list[float]] = {"lowwater": [], "rotel": []}
        # Enough for no span to come twice to lowwater, which would know it.
        spans = 10_240 if content_bytes else 32_768
        prepared = [request(batch * size, size, content_bytes) for batch in range(spans // size)]
        for _ in range(rounds):
            for name, start in (("lowwater", lowwater), ("rotel", rotel)):
                server = start(folder)
                figures[name].append(load(server, protocol, size, prepared, seconds))
                server.stop()
        ours, theirs = (statistics.median(figures[name]) for name in ("lowwater", "rotel"))
        what = "lean" if not content_bytes else "8 kB content"
        ratio = f"{ours / theirs:>7.3f}" if theirs else "  refuses requests of this size"
        print(f"{protocol:9}{what:14}{size:>6}{ours:>11,.0f}{theirs:>11,.0f}{ratio}", flush=True)


def memory(folder: str, contexts: int) -> None:
    """Resident memory per live context, one call each."""
    server = lowwater(folder)
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    headers = {"content-type": "application/x-protobuf"}

    def send(first: int, count: int) -> None:
        message = ExportTraceServiceRequest()
        spans = message.resource_spans.add().scope_spans.add().spans
        for index in range(first, first + count):
            span = spans.add(trace_id=(index + 1).to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"))
            llm_span(span, index * 20, 0)
            span.start_time_unix_nano = span.end_time_unix_nano = 1_700_000_000_000_000_000 + index * 100_000_000
        connection.request("POST", "/v1/traces", message.SerializeToString(), headers)
        connection.getresponse().read()

    send(0, 500)
    time.sleep(3)
    before = rss_mb(server.process.pid)
    for first in range(500, contexts, 500):
        send(first, 500)
        time.sleep(0.1)
    time.sleep(5)
    grown = rss_mb(server.process.pid) - before
    print(
        f"\nmemory: {before:.0f} MB idle; {grown:.0f} MB more for {contexts:,} live contexts: {grown * 1e3 / contexts:.1f} kB each"
    )
    server.stop()


def many_ids(folder: str, ids: int) -> None:
    """Peak memory while a sender makes up a conversation per call, at default settings."""
    server = lowwater(folder)
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    headers = {"content-type": "application/x-protobuf"}
    first = 0
    while first < ids:
        message = ExportTraceServiceRequest()
        spans = message.resource_spans.add().scope_spans.add().spans
        now = time.time_ns()
        for index in range(first, first + 1_000):
            span = spans.add(
                trace_id=(index + 1).to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"), name="chat"
            )
            span.start_time_unix_nano = span.end_time_unix_nano = now
            for key, text in (
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.conversation.id", f"c{index}"),
                ("gen_ai.request.model", "m"),
            ):
                span.attributes.add(key=key).value.string_value = text
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 1_000
        connection.request("POST", "/v1/traces", message.SerializeToString(), headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            first += 1_000
        else:
            time.sleep(0.5)  # it asks to come back
    admin = http.client.HTTPConnection("127.0.0.1", server.admin, timeout=60)  # type: ignore[attr-defined]
    while True:
        admin.request("GET", "/metrics")
        text = admin.getresponse().read().decode()
        if "lowwater_detector_waiting_readings 0.0" in text:
            break
        time.sleep(1)
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())
    evicted = re.search(r'evictions_total{why="capacity"} (\S+)', text)
    size = sum(path.stat().st_size for path in Path(folder).glob(f"state-{server.http_port}.db*")) / 1e6
    print(
        f"\n{ids:,} conversation ids: peak memory {int(peak[1]) / 1e3 if peak else 0:,.0f} MB, state file {size:,.0f} MB,"
        f" {float(evicted[1]) if evicted else 0:,.0f} states moved out of memory"
    )
    server.stop()


def reaction(folder: str, tries: int) -> None:
    """Time from the acknowledgement of the call that starves an agent to its finding at the admin address."""
    server = lowwater(folder)
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    admin = http.client.HTTPConnection("127.0.0.1", server.admin, timeout=60)  # type: ignore[attr-defined]
    took = []
    for number in range(1, tries + 1):
        for turn in range(3):
            message = ExportTraceServiceRequest()
            span = message.resource_spans.add().scope_spans.add().spans.add(name="chat")
            span.trace_id, span.span_id = number.to_bytes(16, "big"), (number * 10 + turn).to_bytes(8, "big")
            span.start_time_unix_nano, span.end_time_unix_nano = time.time_ns() - 1_000_000, time.time_ns()
            for key, text in (
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.conversation.id", f"c{number}"),
                ("gen_ai.request.model", "m"),
            ):
                span.attributes.add(key=key).value.string_value = text
            for key, value in (
                ("gen_ai.usage.input_tokens", 11_000 + turn), ("lowwater.context.ceiling_tokens", 16_000),
                ("lowwater.working_set.required_tokens", 6_000), ("lowwater.reserved.system_tokens", 3_000),
                ("lowwater.reserved.tools_tokens", 2_000), ("lowwater.context.retrieval_tokens", 3_000),
                ("lowwater.context.scratchpad_tokens", 2_500), ("lowwater.context.working_tokens", 500 + turn),
            ):  # fmt: skip
                span.attributes.add(key=key).value.int_value = value
            connection.request(
                "POST", "/v1/traces", message.SerializeToString(), {"content-type": "application/x-protobuf"}
            )
            connection.getresponse().read()
        acknowledged = time.monotonic()
        while True:
            admin.request("GET", "/v1/findings")
            body = admin.getresponse().read()
            if re.search(rb'"conversation": "c%d"' % number, body):
                break
            time.sleep(0.02)
        took.append(time.monotonic() - acknowledged)
    server.stop()
    print(f"\nacknowledgement to finding: median {statistics.median(took):.2f} s, longest {max(took):.2f} s of {tries}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ids", type=int, default=0, help="only: peak memory with so many conversation ids")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.ids:
            many_ids(folder, options.ids)
            return
        throughput(folder, options.seconds, options.rounds)
        memory(folder, 15_000)
        reaction(folder, 10)


if __name__ == "__main__":
    main()
