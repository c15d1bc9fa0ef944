"""A detector that listens, in this process; and one in a process of its own, to be killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families as parsed_plain

from lowwater.detector.serving.service import Service
from lowwater.detector.settings import load

__all__ = ["Process", "Running", "eventually"]

ANYWHERE = {"serve.grpc": "127.0.0.1:0", "serve.http": "127.0.0.1:0", "serve.admin": "127.0.0.1:0"}


def eventually(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true value of a check, tried until there is no time left."""
    until = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() >= until:
            return value
        time.sleep(0.05)


class Client:
    """What tests ask a detector."""

    addresses: dict[str, tuple[str, int]]
    scheme = "http"

    def url(self, key: str, path: str = "") -> str:
        host, port = self.addresses[key]
        return f"{self.scheme}://{host}:{port}{path}"

    def target(self) -> str:
        host, port = self.addresses["grpc"]
        return f"{host}:{port}"

    def post(self, body: bytes, path: str = "/v1/traces", **headers: str) -> requests.Response:
        fields = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        return requests.post(self.url("http", path), data=body, headers=fields, timeout=30)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the series that have these labels."""
        total = 0.0
        for line in requests.get(self.url("admin", "/metrics"), timeout=10).text.splitlines():
            match = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if match and all(f'{label}="{value}"' in (match[1] or "") for label, value in labels.items()):
                total += float(match[2])
        return total

    def counters(self) -> dict[tuple[str, str], float]:
        """Every series of counters and histograms, as scraped."""
        text = requests.get(self.url("admin", "/metrics"), timeout=10).text
        return {
            (sample.name, str(sorted(sample.labels.items()))): sample.value
            for family in parsed_plain(text)
            if family.type in ("counter", "histogram")
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    def firing(self) -> dict[str, str]:
        """Severity of what fires, by id."""
        found = requests.get(self.url("admin", "/v1/findings"), timeout=10).json()["findings"]
        return {line["id"]: line["severity"] for line in found}


class Running(Client):
    """A service in a thread of this process."""

    def __init__(self, **flags: Any) -> None:
        self.service = Service(load(None, {}, {**ANYWHERE, "serve.state": "memory", **flags}))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.service.start(), self._loop).result(30)
        self.addresses = self.service.addresses

    def settle(self) -> None:
        """Make a checkpoint now: counters are scraped as the last one has them."""
        self.service.core.ask(self.service.core._checkpoint).result(20)

    def metric(self, name: str, **labels: str) -> float:
        self.settle()
        return super().metric(name, **labels)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.service.stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Process(Client):
    """``lowwater serve`` in a process of its own.

    Args:
        folder: where its state, its findings and its log are.
        config: lines of its TOML file.
    """

    def __init__(self, folder: Path, config: str = "", *flags: str) -> None:
        self.folder = folder
        self.findings_path = folder / "findings.jsonl"
        path = folder / "lowwater.toml"
        path.write_text(config)
        self._log = folder / "log"
        start = self._log.stat().st_size if self._log.exists() else 0
        ports = [f"--{key}=127.0.0.1:0" for key in ("grpc", "http", "admin")]
        command = [sys.executable, "-m", "lowwater", "serve", "--config", str(path), *ports]
        command += ["--state", str(folder / "state.db"), "--findings", str(self.findings_path), *flags]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stderr=log, stdout=log, env={**os.environ, "COVERAGE_PROCESS_START": ""}
            )
        ready = eventually(lambda: self._ready(start), 60)
        assert ready, self._log.read_text()
        self.addresses = {key: (host, int(port)) for key, host, port in re.findall(r"(\w+) on ([\d.]+):(\d+)", ready)}

    def _ready(self, start: int) -> str | None:
        text = self._log.read_text()[start:]
        assert self.process.poll() is None, text
        return next((line for line in text.splitlines() if "ready: " in line), None)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def told(self) -> list[dict[str, Any]]:
        if not self.findings_path.exists():
            return []
        return [json.loads(line) for line in self.findings_path.read_text().splitlines()]


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()
