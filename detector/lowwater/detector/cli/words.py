"""Findings in words and colours: the same in every report of the command line."""

from __future__ import annotations

from lowwater.detector.findings import Finding, Severity

__all__ = ["SEVERITY_STYLE", "finding_name"]

SEVERITY_STYLE = {Severity.PAGE: "bold red", Severity.TICKET: "bold yellow", Severity.INFO: "bold blue"}
"""Style of a severity's name."""

_NAMES = {
    "fanout_overcommitted": "fan-out overcommitted",
    "fanout_overrun": "fan-out overrun",
    "fanout_redistribution_unsafe": "unsafe redistribution",
    "compaction_debt_share": "rejections are compaction debt",
}
"""Where a kind reads better than with spaces for its underscores."""


def finding_name(finding: Finding) -> str:
    """The kind of a finding in words; of a rejection, what refused the call."""
    kind = finding.kind.value
    if kind == "rejection":
        return f"rejected: {str(finding.evidence.get('class', 'unknown')).replace('_', ' ')}"
    return _NAMES.get(kind, kind.replace("_", " "))
