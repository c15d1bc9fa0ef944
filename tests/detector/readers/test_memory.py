"""Reading large files needs no more memory than reading small ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
LIMIT_MEGABYTES = 300


@pytest.mark.parametrize(
    "options", [[], ["--gzip"], ["--format", "proto"], ["--format", "indented"], ["--replay"]], ids=str
)
def test_peak_memory_of_a_large_stream(options: list[str]) -> None:
    """The benchmark at 100 MB (it does 2 GB by hand); the peak is that of the libraries and a few requests."""
    command = [sys.executable, str(BENCHMARK), "--megabytes", "100", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    line = json.loads(result.stdout)
    assert line["problems"] == 0
    assert line["spans"] > 10_000
    assert line["peak_rss_megabytes"] < LIMIT_MEGABYTES
