"""One ``pip install`` and one environment variable: in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

APPLICATION = """
from opentelemetry import trace
tracer = trace.get_tracer("app")
attributes = {
    "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"what is to be done"}]}]',
}
with tracer.start_as_current_span("chat m", attributes=attributes):
    pass
"""


def run(folder: Path, command: list[str], **environment: str) -> list[dict[str, Any]]:
    path = folder / "app.py"
    path.write_text(APPLICATION)
    done = subprocess.run(
        [*command, str(path)],
        capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", **environment},
    )  # fmt: skip
    decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        span, end = decoder.raw_decode(text)
        found.append(span)
        text = text[end:].strip()
    assert "Traceback" not in done.stderr
    return found


INSTRUMENT = [str(Path(sys.executable).with_name("opentelemetry-instrument"))]


def measured(spans: list[dict[str, Any]]) -> Any:
    (span,) = spans
    return span["attributes"].get("lowwater.content.weights")


def test_under_opentelemetry_instrument_it_is_active_once_installed(tmp_path: Path) -> None:
    assert measured(run(tmp_path, [*INSTRUMENT, sys.executable], OTEL_TRACES_EXPORTER="console"))


def test_as_an_exporter_beside_another(tmp_path: Path) -> None:
    for names in ("console,lowwater", "lowwater,console"):
        assert measured(run(tmp_path, [*INSTRUMENT, sys.executable], OTEL_TRACES_EXPORTER=names))


@pytest.mark.parametrize("names", ["console,lowwater", "lowwater,console"])
def test_where_the_application_configures_the_sdk_by_environment(tmp_path: Path, names: str) -> None:
    start = "from opentelemetry.sdk._configuration import _OTelSDKConfigurator as C; C().configure(); exec(open(__import__('sys').argv[1]).read())"
    assert measured(run(tmp_path, [sys.executable, "-c", start], OTEL_TRACES_EXPORTER=names))


def test_it_can_be_turned_off_and_cut_content(tmp_path: Path) -> None:
    off = run(tmp_path, [*INSTRUMENT, sys.executable], OTEL_TRACES_EXPORTER="console", LOWWATER_DISABLED="true")
    assert measured(off) is None
    cut = run(tmp_path, [*INSTRUMENT, sys.executable], OTEL_TRACES_EXPORTER="console", LOWWATER_STRIP_CONTENT="true")
    assert measured(cut)
    assert "gen_ai.input.messages" not in cut[0]["attributes"]
    assert run(tmp_path, [*INSTRUMENT, sys.executable], OTEL_TRACES_EXPORTER="console", OTEL_SDK_DISABLED="true") == []
