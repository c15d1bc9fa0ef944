"""The agent side works with every SDK that it claims: its tests run again beside older ones, with nothing else installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSIONS = re.findall(r"/sdk-([\d.]+)", (ROOT / "Makefile").read_text())


def test_the_oldest_is_the_one_that_is_promised() -> None:
    assert f"opentelemetry-sdk>={VERSIONS[0].removesuffix('.0')}" in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_with_an_older_sdk(version: str) -> None:
    python = Path(sys.prefix) / f"sdk-{version}" / "bin" / "python"
    options = [
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=--import-mode=importlib",
        "-o",
        "filterwarnings=default",
    ]
    done = subprocess.run(
        [python, "-m", "pytest", *options, "tests/collectors/agent/test_processor.py"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:]
    found = subprocess.run(
        [python, "-c", "import sys, importlib.metadata as m, lowwater.policies, lowwater.collectors.activation\n"
         "print(m.version('opentelemetry-sdk'), {'river', 'orjson', 'grpc', 'numpy'} & set(sys.modules))"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert found.stdout.split() == [version, "set()"]
