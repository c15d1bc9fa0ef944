"""Findings in words and colours: the same in every report of the command line."""

from __future__ import annotations

from lowwater.detector.findings import Severity
from lowwater.detector.wording import finding_name

__all__ = ["SEVERITY_STYLE", "finding_name"]

SEVERITY_STYLE = {Severity.PAGE: "bold red", Severity.TICKET: "bold yellow", Severity.INFO: "bold blue"}
"""Style of a severity's name."""
