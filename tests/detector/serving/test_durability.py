"""Nothing acknowledged is lost: the process is killed at random moments, and its findings stay those of a calm run."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.detector.serving.conftest import Process, Running, eventually

from lowwater.detector.config import DetectorConfig
from lowwater.detector.findings import Finding
from lowwater.detector.replay import Replay

EXAMPLES = Path(__file__).parents[3] / "examples"
LATENESS_SECONDS = 4
CONFIG = f"[detector]\nlateness_seconds = {LATENESS_SECONDS}\n[serve]\nlook_seconds = 0.5\ncheckpoint_seconds = 0.2\n"
KILLS = 20


def single_spans(name: str, suffix: int) -> list[dict[str, Any]]:
    """The requests of a recording, one per span, as another run of the same agents: all ids are changed."""
    found = []
    for line in (EXAMPLES / name).read_text().splitlines():
        request = json.loads(line)
        for group in request["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    changed = json.loads(json.dumps(span))
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if changed.get(key):
                            changed[key] = f"{int(changed[key][:8], 16) ^ suffix:08x}{changed[key][8:]}"
                    for attribute in changed.get("attributes", ()):
                        if attribute["key"] in ("gen_ai.conversation.id", "gen_ai.agent.id", "session.id"):
                            attribute["value"]["stringValue"] += f"-{suffix}"
                    one = {**scope, "spans": [changed]}
                    found.append({"resourceSpans": [{**group, "scopeSpans": [one]}]})
    return sorted(found, key=end_ns)


def end_ns(request: dict[str, Any]) -> int:
    return int(request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["endTimeUnixNano"])


def starts(lines: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """What fired, and how badly in the end: what does not depend on when somebody looked."""
    worst: dict[str, str] = {}
    withdrawn = {line["id"] for line in lines if line["reason"] == "withdrawn"}
    order = ("info", "ticket", "page")
    for line in lines:
        if line["state"] == "firing" and line["id"] not in withdrawn:
            worst[line["id"]] = max(worst.get(line["id"], "info"), line["severity"], key=order.index)
    return set(worst.items())


def calm(
    requests_: list[dict[str, Any]], folder: Path, lateness_seconds: float = LATENESS_SECONDS
) -> list[dict[str, Any]]:
    path = folder / "calm.otlp.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests_))
    return [
        output.to_json()
        for output in Replay(DetectorConfig(lateness_seconds=lateness_seconds)).run([str(path)])
        if isinstance(output, Finding)
    ]


class Sender:
    """Sends request after request until each has been acknowledged, whatever happens to the receiver."""

    def __init__(self, work: list[dict[str, Any]]) -> None:
        self.work = work
        self.acknowledged = 0
        self.url = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(120)

    def _run(self) -> None:
        for request in self.work:
            body = json.dumps(request).encode()
            while True:
                with contextlib.suppress(requests.RequestException):
                    headers = {"content-type": "application/json"}
                    if requests.post(self.url, data=body, headers=headers, timeout=10).status_code == 200:
                        break
                time.sleep(0.02)
            self.acknowledged += 1


def test_twenty_deaths_under_load_change_no_finding(tmp_path: Path) -> None:
    draw = random.Random(4)
    runs = [single_spans("incident.otlp.jsonl", number) for number in range(1, 7)]
    runs += [single_spans("fanout.otlp.jsonl", number) for number in range(7, 10)]
    work = sorted(itertools.chain.from_iterable(runs), key=end_ns)
    expected = calm(work, tmp_path)
    assert len(starts(expected)) >= 6
    sender = Sender(work)
    process = Process(tmp_path, CONFIG)
    sender.url = process.url("http", "/v1/traces")
    sender.start()
    seen: dict[tuple[str, str], float] = {}
    for _ in range(KILLS):
        time.sleep(draw.uniform(0.05, 0.4))
        seen |= process.counters()
        process.kill()
        process = Process(tmp_path, CONFIG)
        now = process.counters()
        back = {series: (value, now.get(series)) for series, value in seen.items() if now.get(series, 0) < value}
        assert back == {}  # a rate would take what went back for a reset, and count all of it again
        sender.url = process.url("http", "/v1/traces")
    sender.join()
    assert sender.acknowledged == len(work)
    # Everything is confirmed once it is older than twice the lateness.
    assert eventually(lambda: process.metric("lowwater_detector_waiting_readings") == 0, 30)
    time.sleep(LATENESS_SECONDS + 2)
    counted = process.metric("lowwater_turns_total")
    assert process.terminate() == 0
    told = process.told()
    assert starts(told) == starts(expected)
    assert counted == calls(work, tmp_path)
    fired = [
        (line["id"], line["severity"], line.get("provisional", False)) for line in told if line["state"] == "firing"
    ]
    assert len(fired) == len(set(fired))  # nobody is paged twice
    assert "fault" not in process.log


def calls(requests_: list[dict[str, Any]], folder: Path) -> int:
    from lowwater.detector.ledger import LedgerEntry

    outputs = Replay(DetectorConfig(lateness_seconds=LATENESS_SECONDS)).run([str(folder / "calm.otlp.jsonl")])
    return sum(isinstance(output, LedgerEntry) and not output.rollup for output in outputs)


def test_sigterm_keeps_what_waits_and_a_second_one_leaves_at_once(tmp_path: Path) -> None:
    work = single_spans("incident.otlp.jsonl", 1)
    config = CONFIG.replace(f"lateness_seconds = {LATENESS_SECONDS}", "lateness_seconds = 600")
    process = Process(tmp_path, config)
    for request in work:
        assert process.post(json.dumps(request).encode()).status_code == 200
    assert eventually(process.firing)
    shown = process.firing()
    assert process.terminate() == 0
    process = Process(tmp_path, config)
    assert process.metric("lowwater_detector_waiting_readings") >= 0
    assert eventually(lambda: process.metric("lowwater_detector_waiting_readings") == len(work))
    assert process.firing() == shown
    process.process.terminate()
    process.process.terminate()
    assert process.process.wait(10) in (0, 143)
    told = [(line["id"], line["severity"]) for line in process.told() if line["state"] == "firing"]
    assert len(told) == len(set(told))


@pytest.mark.parametrize("seed", range(3))
def test_any_order_within_the_lateness_gives_the_findings_of_replay(tmp_path: Path, seed: int) -> None:
    work = single_spans("incident.otlp.jsonl", seed + 1)
    expected = starts(calm(work, tmp_path, 60))
    random.Random(seed).shuffle(work)
    running = Running(
        **{
            "serve.state": str(tmp_path / "s.db"),
            "serve.findings": str(tmp_path / "f.jsonl"),
        }
    )
    for request in work:
        assert running.post(json.dumps(request).encode()).status_code == 200
    running.service.core.ask(lambda: running.service.live.finish(time.time_ns())).result(20)
    running.stop()
    told = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert starts(told) == expected


def test_a_state_file_that_rots_stops_nothing(tmp_path: Path) -> None:
    """Random bytes of the file are overwritten while nobody looks: what is lost is counted, the rest is served."""
    work = single_spans("incident.otlp.jsonl", 1)
    refused = 0
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        process = Process(folder, CONFIG)
        for request in work[: len(work) // 2]:
            assert process.post(json.dumps(request).encode()).status_code == 200
        assert process.terminate() == 0
        path, draw = folder / "state.db", random.Random(seed)
        data = bytearray(path.read_bytes())
        for _ in range(2):
            place = draw.randrange(4_096, len(data))  # the first page says what the file is
            data[place] ^= draw.randrange(1, 256)
        path.write_bytes(data)
        try:
            process = Process(folder, CONFIG)
        except AssertionError:  # it says so, and does not touch the file
            said = (folder / "log").read_text().splitlines()[-1]
            assert said.startswith("lowwater: ")
            assert "name another file" in said
            assert path.read_bytes() == data
            refused += 1
            continue
        statuses = {process.post(json.dumps(request).encode()).status_code for request in work[len(work) // 2 :]}
        assert statuses <= {200, 503}
        assert requests.get(process.url("admin", "/healthz"), timeout=10).status_code == 200
        assert requests.get(process.url("admin", "/metrics"), timeout=10).status_code == 200
        assert process.terminate() == 0
    assert refused < 5


def test_sinks_that_hang_hold_up_neither_each_other_nor_a_stop(tmp_path: Path) -> None:
    with socket.socket() as silent:  # accepts, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        config = (
            f"[serve]\nwebhook_url = 'http://127.0.0.1:{silent.getsockname()[1]}/'\nwebhook_min_severity = 'info'\n"
            "otlp_endpoint = 'http://127.0.0.1:9'\notlp_metrics = true\ndrain_seconds = 2\n"
        )
        process = Process(tmp_path, config)
        for request in single_spans("incident.otlp.jsonl", 1):
            assert process.post(json.dumps(request).encode()).status_code == 200
        assert eventually(process.told)
        assert process.metric("lowwater_detector_sink_pending_lines", sink="jsonl") == 0
        started = time.monotonic()
        assert process.terminate() == 0
        assert time.monotonic() - started < 7
        told = process.told()
        process = Process(tmp_path, "[serve]\nwebhook_url = 'http://127.0.0.1:9/'\n")
        assert eventually(lambda: process.metric("lowwater_detector_sink_pending_lines", sink="webhook") == len(told))
        assert process.told() == told
        assert process.terminate() == 0
