"""Microsoft Agent Framework and Microsoft.Extensions.AI: GenAI conventions, and spans of workflows.

Names: ``agent_framework/observability.py``. ``orchestrate_tools`` of Microsoft.Extensions.AI sums the calls below it.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.WORKFLOW if span.name.startswith(("workflow.run", "executor.process")) else None


DIALECT = TableDialect(
    name="agent_framework",
    versions="Agent Framework 1, Microsoft.Extensions.AI 10",
    scopes=(
        "agent_framework",
        "Microsoft.Agents",
        "Microsoft.Extensions.AI",
        "Experimental.Microsoft.Agents",
        "Experimental.Microsoft.Extensions.AI",
    ),
    odd_kinds=_kind,
)
