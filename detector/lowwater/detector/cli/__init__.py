"""The command line: ``lowwater replay``, ``lowwater doctor``."""

from lowwater.detector.cli.main import main

__all__ = ["main"]
