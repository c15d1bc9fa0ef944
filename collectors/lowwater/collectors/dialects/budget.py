"""Token budgets of agents as proposed for the GenAI conventions (semantic-conventions-genai#425, not merged).

Consumption is what the emitter accumulated; it is never summed from children, which sampling may have removed.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect

__all__ = ["DIALECT"]

DIALECT = TableDialect(
    name="budget",
    versions="proposal of 2026",
    keys=frozenset({"gen_ai.agent.token_budget.limit", "gen_ai.agent.token_budget.consumed"}),
    counts={
        "budget_limit_tokens": ("gen_ai.agent.token_budget.limit",),
        "budget_consumed_tokens": ("gen_ai.agent.token_budget.consumed",),
    },
)
