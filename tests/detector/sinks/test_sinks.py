"""Sinks take every line, in order, try again, and say what they lost; none holds up another."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.resources import Resource

from lowwater.detector.errors import InputError
from lowwater.detector.findings import Severity
from lowwater.detector.metrics.otlp import MetricsExport
from lowwater.detector.metrics.registry import Exemplar, Registry
from lowwater.detector.runtimes.store import Line
from lowwater.detector.sinks.base import Feeder, RefusedError, UnavailableError
from lowwater.detector.sinks.jsonl import JsonLines
from lowwater.detector.sinks.otlp_logs import OtlpLogs
from lowwater.detector.sinks.webhook import Webhook

RESOURCE = Resource({"service.name": "lowwater"})


def line(number: int, severity: str = "page", **changes: Any) -> dict[str, Any]:
    return {
        "schema": "lowwater.finding/1", "id": f"silent_starvation-{number:016x}", "kind": "silent_starvation",
        "state": "firing", "severity": severity, "time": 1_700_000_000_000_000_000 + number, "trace_id": f"{number + 1:032x}",
        "span_id": f"{number + 1:016x}", "conversation": "c", "agent": "desk", "service": "app", "model": "m", "pool": None,
        "turn": 3, "reason": "sticky_claims_exceed_window", "evidence": {"residual_tokens": 10, "sticky_claimants": ["a"]},
        "provenance": {}, "advice": [{"action": "release scratchpad", "tokens": 20}], **changes,
    }  # fmt: skip


def wait_for(check: Callable[[], Any], seconds: float = 15.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := check()) and time.monotonic() < until:
        time.sleep(0.02)
    return value


class Fake:
    """A sink that fails as it is told."""

    name = "fake"

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.taken: list[Any] = []
        self.closed = False

    def deliver(self, lines: Sequence[dict[str, Any]]) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.taken += lines

    def close(self) -> None:
        self.closed = True


def test_a_feeder_tries_again_in_order_and_ends_when_all_is_delivered() -> None:
    failed: list[str] = []
    fake = Fake(UnavailableError("no", 0.01), UnavailableError("no", 0.01))
    feeder = Feeder(fake, failed.append)
    feeder.start()
    feeder.offer([Line(number, {"n": number}) for number in range(1, 251)])
    feeder.stop(10)
    feeder.join(10)
    assert fake.taken == [{"n": number} for number in range(1, 251)]
    assert (feeder.done, feeder.pending, fake.closed, failed) == (250, 0, True, ["fake", "fake"])


def test_what_is_refused_for_good_is_counted_and_the_rest_goes_on() -> None:
    failed: list[str] = []
    fake = Fake(RefusedError("bad"), KeyError("a fault"))
    feeder = Feeder(fake, failed.append)
    feeder.start()
    for number in (1, 2, 3):
        feeder.offer([Line(number, {"n": number})])
        assert wait_for(partial(delivered, feeder, number))
    assert fake.taken == [{"n": 3}]
    assert failed == ["fake", "fake"]
    feeder.stop(1)


def delivered(feeder: Feeder, number: int) -> bool:
    return feeder.done == number


def test_a_stop_waits_no_longer_than_it_may() -> None:
    feeder = Feeder(Fake(*[UnavailableError("no")] * 100), lambda name: None)
    feeder.start()
    feeder.offer([Line(1, {})])
    started = time.monotonic()
    feeder.stop(0.3)
    feeder.join(5)
    assert not feeder.is_alive()
    assert time.monotonic() - started < 2
    assert feeder.done == 0


def test_json_lines_survive_a_crash_without_doubles(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    JsonLines(str(path)).deliver([line(1), line(2)])
    again = JsonLines(str(path))  # what was delivered last was not remembered
    again.deliver([line(2), line(3)])
    again.deliver([line(3)])  # the same episode again, later, is news
    again.close()
    assert [json.loads(text)["id"][-1] for text in path.read_text().splitlines()] == ["1", "2", "3", "3"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_off_stays_alone(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text('{"id":"x"}\n{"id":"cut')
    JsonLines(str(path)).deliver([line(1)])
    assert len(path.read_text().splitlines()) == 3
    assert json.loads(path.read_text().splitlines()[-1])["turn"] == 3


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name a file in a writable folder"):
        JsonLines(str(tmp_path / "no" / "f.jsonl"))


class Hook:
    """A web server that keeps what is posted and answers as it is told."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.posts.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers = outer.answers.pop(0) if outer.answers else (200, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


def test_a_webhook_is_signed_and_gets_what_is_severe_enough(hook: Hook) -> None:
    webhook = Webhook(hook.url + "/pager", min_severity=Severity.TICKET, secret="s", token="t")
    webhook.deliver([line(1, "info"), line(2, "ticket"), line(3, "page")])
    webhook.deliver([line(4, "info")])
    webhook.close()
    ((path, headers, body),) = hook.posts
    assert (path, headers["authorization"]) == ("/pager", "Bearer t")
    assert headers["x-lowwater-signature"] == "sha256=" + hmac.new(b"s", body, hashlib.sha256).hexdigest()
    assert [found["severity"] for found in json.loads(body)["findings"]] == ["ticket", "page"]


@pytest.mark.parametrize(
    ("status", "headers", "error", "after"),
    [
        (503, {"Retry-After": "7"}, UnavailableError, 7.0),
        (429, {}, UnavailableError, None),
        (400, {}, RefusedError, None),
        (302, {"Location": "http://127.0.0.1:1/"}, RefusedError, None),
    ],
)
def test_answers_of_a_webhook(
    hook: Hook, status: int, headers: dict[str, str], error: type[Exception], after: float | None
) -> None:
    hook.answers.append((status, headers))
    webhook = Webhook(hook.url)
    with pytest.raises(error) as raised:
        webhook.deliver([line(1)])
    webhook.close()
    assert getattr(raised.value, "retry_after_seconds", None) == after
    assert len(hook.posts) == 1


def test_a_webhook_that_is_not_there() -> None:
    webhook = Webhook("http://127.0.0.1:9/")
    with pytest.raises(UnavailableError, match="cannot be reached"):
        webhook.deliver([line(1)])


def checked_record(request: ExportLogsServiceRequest) -> None:
    (group,) = request.resource_logs
    assert group.resource.attributes[0].value.string_value == "lowwater"
    first, second = group.scope_logs[0].log_records
    assert (first.event_name, first.severity_number, first.severity_text) == ("lowwater.finding", 17, "page")
    assert (first.trace_id.hex(), first.span_id.hex()) == (f"{2:032x}", f"{2:016x}")
    said = {pair.key: pair.value for pair in first.attributes}
    assert said["gen_ai.agent.name"].string_value == "desk"
    assert said["lowwater.finding.evidence.residual_tokens"].int_value == 10
    assert said["lowwater.finding.kind"].string_value == "silent_starvation"
    assert (second.severity_number, second.severity_text, second.trace_id) == (9, "resolved", b"")


def two_lines() -> list[dict[str, Any]]:
    return [line(1), line(2, state="resolved", trace_id="session-log", span_id=None)]


def test_log_records_over_http(hook: Hook) -> None:
    sink = OtlpLogs(hook.url, "http/protobuf", RESOURCE)
    sink.deliver(two_lines())
    sink.close()
    ((path, _, body),) = hook.posts
    assert path == "/v1/logs"
    checked_record(ExportLogsServiceRequest.FromString(body))


def test_log_records_over_grpc() -> None:
    taken: list[bytes] = []

    def export(body: bytes, context: Any) -> bytes:
        taken.append(body)
        return ExportLogsServiceResponse().SerializeToString()

    server = grpc.server(futures.ThreadPoolExecutor(1))
    name = "opentelemetry.proto.collector.logs.v1.LogsService"
    handler: Any = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sink = OtlpLogs(f"http://127.0.0.1:{port}", "grpc", RESOURCE)
    sink.deliver(two_lines())
    sink.close()
    server.stop(0).wait()
    checked_record(ExportLogsServiceRequest.FromString(taken[0]))


def test_metrics_are_exported_with_exemplars(hook: Hook) -> None:
    registry = Registry()
    exemplar = Exemplar("ab" * 16, "cd" * 8, 0.3, 1_700_000_000.0)
    registry.inc("lowwater_turns_starved_total", ("app", "desk", "m"), 2, exemplar)
    registry.observe("lowwater_context_free_ratio", ("app", "desk", "m"), 0.3, exemplar)
    failures: list[str] = []
    export = MetricsExport(registry, hook.url, "http/protobuf", 0.1, RESOURCE, failures.append, start_ns=123)
    export.start()
    assert wait_for(lambda: len(hook.posts) >= 2)
    export.stop()
    export.join(10)
    path, _, body = hook.posts[-1]
    assert path == "/v1/metrics"
    (group,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    metrics = {metric.name: metric for metric in group.scope_metrics[0].metrics}
    starved = metrics["lowwater_turns_starved"].sum
    assert (starved.is_monotonic, starved.aggregation_temporality) == (True, 2)
    (point,) = starved.data_points
    assert point.as_double == 2
    assert point.exemplars[0].trace_id.hex() == "ab" * 16
    assert 123 == point.start_time_unix_nano < point.time_unix_nano
    (histogram,) = metrics["lowwater_context_free_ratio"].histogram.data_points
    assert (histogram.count, sum(histogram.bucket_counts)) == (1, 1)
    assert not histogram.HasField("min")
    assert not histogram.HasField("max")
    assert failures == []


def test_a_receiver_of_metrics_that_is_not_there_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowwater.detector.metrics.otlp._TIMEOUT_MILLIS", 200)
    failures: list[str] = []
    export = MetricsExport(
        Registry(), "http://127.0.0.1:9", "http/protobuf", 60, RESOURCE, failures.append, start_ns=123
    )
    export.start()
    export.stop()
    export.join(30)
    assert failures == ["otlp_metrics"]
