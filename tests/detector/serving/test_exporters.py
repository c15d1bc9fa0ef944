"""Stock senders can send to it: the official Python exporters here; Node.js, rotel and Prometheus beside."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as over_grpc
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http import trace_exporter as over_http
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.detector.serving.conftest import Running, eventually

NODE = Path(__file__).parents[2] / "node"


def starving_agent(exporter: SpanExporter, turns: int = 8, *, service: str = "stock-app", agent: str = "desk") -> None:
    """An agent whose tool results stay while its window is small, told in plain semantic conventions."""
    provider: Any = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    attributes: dict[str, Any] = {
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": f"c-{agent}",
        "gen_ai.request.model": "in-house",
        "lowwater.context.ceiling_tokens": 16_000,
        "lowwater.working_set.required_tokens": 6_000,
        "lowwater.reserved.system_tokens": 3_000,
        "lowwater.reserved.tools_tokens": 2_000,
    }
    with tracer.start_as_current_span("invoke_agent desk", attributes={"gen_ai.operation.name": "invoke_agent"}):
        for turn in range(turns):
            with tracer.start_as_current_span("chat in-house", attributes=attributes) as span:
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.usage.input_tokens": 11_000 + turn,
                        "gen_ai.usage.output_tokens": 10,
                        "lowwater.context.retrieval_tokens": 3_000,
                        "lowwater.context.scratchpad_tokens": 2_500,
                        "lowwater.context.working_tokens": 500 + turn,
                    }
                )
    provider.shutdown()


EXPORTERS: dict[str, Callable[[Running], SpanExporter]] = {
    "grpc": lambda running: over_grpc.OTLPSpanExporter(running.target(), insecure=True),
    "grpc-gzip": lambda running: over_grpc.OTLPSpanExporter(
        running.target(), insecure=True, compression=grpc.Compression.Gzip
    ),
    "http": lambda running: over_http.OTLPSpanExporter(running.url("http", "/v1/traces")),
    "http-gzip": lambda running: over_http.OTLPSpanExporter(
        running.url("http", "/v1/traces"), compression=Compression.Gzip
    ),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_the_official_exporters_and_a_finding_within_seconds(running: Running, name: str) -> None:
    starving_agent(EXPORTERS[name](running))
    assert running.metric("lowwater_detector_spans_received_total") == 9
    assert eventually(running.firing, 10)
    (kind,) = {found.rsplit("-", 1)[0] for found in running.firing()}
    assert kind == "silent_starvation"
    assert eventually(lambda: running.metric("lowwater_agents_starved", service="stock-app", agent="desk") == 1)


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", ["grpc", "http", "proto"])
def test_the_node_exporters(running: Running, protocol: str, compression: str) -> None:
    url = f"http://{running.target()}" if protocol == "grpc" else running.url("http", "/v1/traces")
    subprocess.run(["node", NODE / "send.js", protocol, url, compression], check=True, timeout=60)
    assert running.metric("lowwater_detector_spans_received_total") == 4
    assert eventually(lambda: running.metric("lowwater_agents_active", agent="node-desk") == 1)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_rotel_forwards_to_it(running: Running, protocol: str) -> None:
    (folder,) = importlib.util.find_spec("rotel").submodule_search_locations  # type: ignore[union-attr, misc]
    agent = f"{folder}/rotel-agent"
    endpoint = f"http://{running.target()}" if protocol == "grpc" else running.url("http")
    grpc_port, http_port = free_port(), free_port()
    command = [
        agent, "start", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}", "--otlp-http-endpoint", f"127.0.0.1:{http_port}",
        "--exporter", "otlp", "--otlp-exporter-protocol", protocol, "--otlp-exporter-endpoint", endpoint,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert eventually(lambda: answers(grpc_port))
            starving_agent(over_grpc.OTLPSpanExporter(f"127.0.0.1:{grpc_port}", insecure=True))
            assert eventually(lambda: running.metric("lowwater_detector_spans_received_total") == 9)
        finally:
            process.terminate()


def test_prometheus_scrapes_it_and_gets_exemplars_back(tmp_path: Path) -> None:
    running = Running(**{"serve.token": "s3cret"})
    port = free_port()
    host, admin = running.addresses["admin"]
    (tmp_path / "token").write_text("s3cret")
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: lowwater\n"
        f"    authorization: {{credentials_file: {tmp_path}/token}}\n"
        f"    static_configs: [{{targets: ['{host}:{admin}']}}]\n"
    )
    command = [
        "prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage", "--log.level=error",
    ]  # fmt: skip

    def api(path: str, **parameters: Any) -> Any:
        return requests.get(f"http://127.0.0.1:{port}/api/v1/{path}", params=parameters, timeout=10).json()["data"]

    try:
        with subprocess.Popen(command) as process:
            try:
                assert eventually(lambda: answers(port))
                send_timed(running, "s3cret")
                assert eventually(lambda: running_turns(api) > 0, 30)
                (target,) = api("targets")["activeTargets"]
                assert (target["health"], target["lastError"]) == ("up", "")
                now = time.time()
                query = {"query": "lowwater_turns_starved_total", "start": now - 600, "end": now}
                (found,) = eventually(lambda: api("query_exemplars", **query))
                assert re.fullmatch("[0-9a-f]{32}", found["exemplars"][0]["labels"]["trace_id"])
                assert found["seriesLabels"]["agent"] == "desk"
                metadata = api("metadata")
                assert metadata["lowwater_turns_starved"][0]["type"] == "counter"
            finally:
                process.terminate()
    finally:
        running.stop()


def test_promtool_has_nothing_against_the_metrics() -> None:
    running = Running()
    try:
        for number, name in enumerate(HOSTILE_NAMES):
            memory = InMemorySpanExporter()
            starving_agent(memory, service=name, agent=f"{name}{number}")
            exporter = over_http.OTLPSpanExporter(running.url("http", "/v1/traces"))
            assert exporter.export(memory.get_finished_spans()) is SpanExportResult.SUCCESS
        running.service.core.ask(lambda: running.service.live.finish(time.time_ns())).result(10)
        running.settle()
        text = requests.get(running.url("admin", "/metrics"), timeout=10).text
    finally:
        running.stop()
    assert text.count("lowwater_turns_starved_total{") == len(HOSTILE_NAMES)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


HOSTILE_NAMES = (
    'quo"te',
    "back\\slash",
    "new\nline",
    "tab\t",
    '{le="1"} 7',
    "\u0000nul",
    "smile \U0001f600",
    "",
    "x" * 5_000,
)


def running_turns(api: Any) -> float:
    found = api("query", query="sum(lowwater_turns_starved_total)")["result"]
    return float(found[0]["value"][1]) if found else 0.0


def send_timed(running: Running, token: str) -> None:
    """A starving agent whose calls are already older than the lateness, so that they are confirmed at once."""
    memory = InMemorySpanExporter()
    starving_agent(memory)
    exporter = over_http.OTLPSpanExporter(
        running.url("http", "/v1/traces"), headers={"Authorization": f"Bearer {token}"}
    )
    assert exporter.export(memory.get_finished_spans()) is SpanExportResult.SUCCESS
    running.service.core.ask(lambda: running.service.live.finish(time.time_ns())).result(10)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
