"""The admin endpoint, and ``lowwater doctor --live`` that reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed
from tests.detector.serving.conftest import Running, eventually

from lowwater.detector.cli import main

INCIDENT = Path(__file__).parents[3] / "examples" / "incident.otlp.jsonl"


def fed(running: Running) -> None:
    for line in INCIDENT.read_bytes().splitlines():
        assert running.post(line).status_code == 200


def test_doctor_says_what_arrives(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--live", running.url("admin")]) == 0
    assert "received nothing yet" in capsys.readouterr().out
    fed(running)
    running.post(b"rubbish")
    assert main(["doctor", "--live", running.url("admin")]) == 0
    shown = capsys.readouterr().out
    assert "44 spans over http" in shown
    assert "1 not taken: malformed" in shown
    assert "otel_genai" in shown or "pydantic" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert main(["doctor", "--json", "--live", running.url("admin")]) == 0
    assert json.loads(capsys.readouterr().out)["received"]["spans over http"] == 44


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["doctor"], "needs files to read, or --live"),
        (["doctor", "--live", "http://127.0.0.1:9", str(INCIDENT)], "give one of them"),
        (["doctor", "--live", "http://127.0.0.1:9"], "no detector answers"),
    ],
)
def test_doctor_says_how_to_ask(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert named in capsys.readouterr().err


def test_what_answers_but_is_no_detector(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--live", running.url("http")]) == 2
    assert "give the admin address" in capsys.readouterr().err


def test_pages(running: Running) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/v1/findings", "/v1/doctor"):
        assert requests.get(running.url("admin", path), timeout=10).status_code == 200
        head = requests.head(running.url("admin", path), timeout=10)
        assert (head.status_code, head.content) == (200, b"")
    missing = requests.get(running.url("admin", "/"), timeout=10)
    assert missing.status_code == 404
    assert "/metrics" in missing.json()["error"]
    assert requests.post(running.url("admin", "/metrics"), timeout=10).status_code == 405


def test_both_formats_of_metrics_are_valid(running: Running) -> None:
    fed(running)
    running.service.core.ask(lambda: running.service.live.finish(2_000_000_000 * 10**9)).result(10)
    running.settle()
    url = running.url("admin", "/metrics")
    answer = requests.get(url, headers={"Accept": "application/openmetrics-text;version=1.0.0"}, timeout=10)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in parsed(answer.text)}
    starved = families["lowwater_turns_starved"].samples
    exemplars = [sample.exemplar for sample in starved if sample.exemplar]
    assert exemplars
    assert set(exemplars[0].labels) == {"trace_id", "span_id"}
    assert eventually(lambda: running.metric("lowwater_turns_starved_total") > 0)
    plain = requests.get(url, timeout=10)
    assert plain.headers["content-type"].startswith("text/plain")
    assert plain.headers["content-encoding"] == "gzip"
    assert "# {" not in plain.text


def test_findings_are_in_memory_and_shown(running: Running) -> None:
    fed(running)
    assert eventually(running.firing)
    document = requests.get(running.url("admin", "/v1/findings"), timeout=10).json()
    assert {line["schema"] for line in document["findings"]} == {"lowwater.finding/1"}
