"""The four reference incidents as experiments: fitted to what was seen before, predicting what the rules change."""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.detector.simulation.incidents import compaction, debt, fanout, starvation
from lowwater.detector.simulation.incidents.common import Incident

__all__ = ["INCIDENTS"]

INCIDENTS: Mapping[str, Incident] = {
    "starvation": Incident(
        "starvation", starvation.PARAMETERS, starvation.run, starvation.fit, ("scratchpad_cap_tokens",)
    ),
    "fanout": Incident(
        "fanout", fanout.PARAMETERS, fanout.run, fanout.fit, ("content_tokens", "brief_tokens", "deviation_tokens")
    ),
    "compaction": Incident("compaction", compaction.PARAMETERS, compaction.run, compaction.fit, ("growth_tokens",)),
    "debt": Incident("debt", debt.PARAMETERS, debt.run, debt.fit, ("fill_seconds", "quota_per_hour")),
}
