"""Microsoft's frameworks: AutoGen, Semantic Kernel, Agent Framework and Microsoft.Extensions.AI.

They write the GenAI conventions. AutoGen has no LLM spans of its own; ``orchestrate_tools`` of Microsoft.Extensions.AI sums
the calls below it.
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
    versions="AutoGen 0.7, Semantic Kernel 1, Agent Framework 1, Microsoft.Extensions.AI 10",
    namespaces=frozenset({"sk"}),
    scopes=(
        "agent_framework", "autogen", "semantic_kernel", "Microsoft.SemanticKernel", "Microsoft.Agents",
        "Experimental.Microsoft", "Microsoft.Extensions.AI",
    ),
    odd_kinds=_kind,
    tools=("sk.available_functions",),
)  # fmt: skip
