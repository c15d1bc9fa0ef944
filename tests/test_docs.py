"""Documentation that cannot drift: commands run, names exist, tables are complete."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lowwater.collectors.dialects import load_dialects
from lowwater.collectors.dialects.base import Dialect
from lowwater.collectors.names import COUNTS, SECONDS, TEXTS
from lowwater.detector.cli import main
from lowwater.detector.config import DetectorConfig, Override, ServeConfig
from lowwater.detector.findings import Kind
from lowwater.detector.metrics.catalogue import CATALOGUE
from lowwater.detector.readers.detect import FORMAT_NAMES
from lowwater.detector.settings import load_config

ROOT = Path(__file__).parents[1]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def fenced(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    found = [
        line.partition("   #")[0].strip()
        for path in DOCS
        for block in fenced(path, "sh")
        for line in block.splitlines()
    ]
    return sorted({line for line in found if line and not line.startswith("#")})


@pytest.mark.parametrize("command", commands())
def test_every_command_shown_can_be_run(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        assert set(words[1:]) <= MAKE_TARGETS
        return
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert all(match in extras for word in words for match in re.findall(r"lowwater\[(\w+)\]", word))
        return
    assert words[0] == "lowwater"
    shutil.copy(ROOT / "examples/healthy.otlp.jsonl", tmp_path / "traces.jsonl")
    if words[1] == "serve":
        serves(words[1:], tmp_path)
        return
    if words[1:] == ["doctor", "--live"]:
        with serving(["serve", "--admin", "127.0.0.1:9464"], tmp_path):
            assert main(words[1:]) == 0
        return
    if words[1] == "replay" and words[2].startswith("simulated/"):
        assert main(["simulate", "starvation", "--out", str(tmp_path / "simulated")]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "lowwater.detector.cli", *words[1:]],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def serving(words: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A detector on free ports, once it is ready."""
    ports = {f"LOWWATER_SERVE_{key}": "127.0.0.1:0" for key in ("GRPC", "HTTP", "ADMIN")}
    command = [sys.executable, "-m", "lowwater", *words]
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **ports}, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert any(b"ready: " in line for line in process.stderr)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def serves(words: list[str], folder: Path) -> None:
    with serving(words, folder) as process:
        pass
    assert process.returncode == 0


def test_the_catalogue_of_metrics_is_documented() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    for metric in CATALOGUE:
        row = f"| `{metric.name}` | {metric.type.value} | {', '.join(metric.labels) or '–'} | {metric.help} |"
        assert row in text


def test_the_collector_configuration_shown_is_valid() -> None:
    for path in (ROOT / "README.md", ROOT / "docs/serve.md"):
        (text,) = fenced(path, "yaml")
        document = yaml.safe_load(text)
        assert document["service"]["pipelines"]["traces"]["exporters"] == list(document["exporters"])


def test_every_link_between_pages_leads_somewhere() -> None:
    for path in DOCS:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"


def test_every_dialect_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)`", (ROOT / "docs/dialects.md").read_text(), re.MULTILINE)
    assert rows == [dialect.name for dialect in load_dialects()[0]]


def test_the_dialect_that_the_docs_teach_is_one() -> None:
    scope: dict[str, object] = {}
    exec(fenced(ROOT / "docs/dialects.md", "python")[0], scope)  # noqa: S102
    assert isinstance(scope["DIALECT"], Dialect)


def test_every_format_has_its_row() -> None:
    text = (ROOT / "docs/formats.md").read_text()
    assert set(re.findall(r"`([\w-]+)`", text)) >= set(FORMAT_NAMES)


def test_every_kind_of_finding_has_its_row() -> None:
    text = (ROOT / "docs/findings.md").read_text()
    assert all(f"`{kind.value}`" in text for kind in Kind)


def test_every_setting_is_documented_and_the_example_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for field in dataclasses.fields(Override):
        assert field.name in text
    for field in dataclasses.fields(DetectorConfig):
        if field.name != "overrides":
            assert f"`{field.name}`" in text or f"\n{field.name} =" in text, field.name
    for field in dataclasses.fields(ServeConfig):
        assert f"| `{field.name}` |" in text
    (example,) = fenced(ROOT / "docs/configuration.md", "toml")
    path = tmp_path / "lowwater.toml"
    path.write_text(example)
    assert load_config(path).declared("requirement_tokens", "support-eu", "researcher", None) == 8_000


def test_every_attribute_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    named: set[str] = set()
    for prefix, group in re.findall(r"`lowwater\.([\w.]*)(?:\{([\w,]+)\})?[\w]*`", text):
        named |= {prefix + part for part in group.split(",")} if group else {prefix}
    shown = {
        name
        for name in COUNTS | SECONDS | TEXTS
        if any(name == item or name.startswith(item) for item in named if item)
    }
    internal = {
        "context.working_tokens",
        "context.retrieval_tokens",
        "context.scratchpad_tokens",
        "context.residual_tokens",
    }
    assert (COUNTS | SECONDS | TEXTS) - shown <= internal
