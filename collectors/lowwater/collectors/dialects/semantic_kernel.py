"""Semantic Kernel: GenAI conventions with legacy events, input and output counts only.

Names: ``semantic_kernel/utils/telemetry/model_diagnostics/gen_ai_attributes.py``.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    """The loop that calls the model until it asks for no more functions sums what is below it."""
    return Operation.WORKFLOW if span.name.startswith("AutoFunctionInvocationLoop") else None


DIALECT = TableDialect(
    name="semantic_kernel",
    versions="semantic-kernel 1",
    namespaces=frozenset({"sk"}),
    scopes=("semantic_kernel", "Microsoft.SemanticKernel"),
    odd_kinds=_kind,
    tools=("sk.available_functions",),
)
