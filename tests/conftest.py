"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["Corpus"]

# How fast examples are made says how busy the machine is, and nothing of lowwater.
settings.register_profile("lowwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lowwater")


class Corpus:
    """The folder of real traces named by ``LOWWATER_CORPUS``; a file that is missing there is a failure."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Path of one corpus file."""
        path = self.root / name
        assert path.exists(), f"LOWWATER_CORPUS is set, but {path} is missing"
        return path


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """The real traces, or a skip where the environment names none."""
    root = os.environ.get("LOWWATER_CORPUS")
    if not root:
        pytest.skip("LOWWATER_CORPUS names no folder of real traces")
    return Corpus(Path(root))
