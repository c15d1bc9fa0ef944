"""Names of lowwater's own attributes. What is in semantic conventions has its name from there, and is not listed here."""

from __future__ import annotations

__all__ = ["COUNTS", "MEASURED", "PREFIX", "SECONDS", "SPLIT", "TEXTS"]

PREFIX = "lowwater."

COUNTS = frozenset(
    {
        "working_set.required_tokens", "working_set.floor_tokens",
        "context.ceiling_tokens", "context.working_tokens", "context.retrieval_tokens", "context.scratchpad_tokens",
        "context.residual_tokens",
        "reserved.system_tokens", "reserved.tools_tokens", "reserved.output_tokens", "reserved.retry_tokens",
        "reserved.staging_tokens", "scratchpad.reservation_tokens",
        "pool.ceiling_tokens", "pool.parent_reserve_tokens", "pool.synthesis_reserve_tokens", "pool.planned_width",
        "subagent.content_budget_tokens", "subagent.reserved_tokens",
    }
)  # fmt: skip
"""Declared counts, by the part of the name after the prefix."""

SECONDS = frozenset({"turn.slo_seconds", "scheduler.tick_seconds"})
TEXTS = frozenset({"pool.id", "pool.measure"})

MEASURED = "lowwater.content.weights"
"""Set by lowwater's exporter: the visible prompt by consumer. The split beside it was measured then, not declared."""

SPLIT = (
    "lowwater.reserved.system_tokens", "lowwater.reserved.tools_tokens", "lowwater.context.retrieval_tokens",
    "lowwater.context.scratchpad_tokens", "lowwater.context.working_tokens",
)  # fmt: skip
"""Attributes of the split, in the order of `CONSUMERS`."""
