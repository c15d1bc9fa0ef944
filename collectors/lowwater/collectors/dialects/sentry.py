"""Sentry: GenAI conventions with an operation *type* and its own names of messages and tools.

Names: sentry-conventions ``model/attributes/gen_ai/``. Its cache and reasoning counts are read by `gen_ai`, its window and
utilisation by `breakdown`.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation

__all__ = ["DIALECT"]

DIALECT = TableDialect(
    name="sentry",
    versions="sentry-conventions of 2026",
    keys=frozenset(
        {
            "gen_ai.operation.type",
            "gen_ai.request.messages",
            "gen_ai.request.available_tools",
            "gen_ai.usage.input_tokens.cached",
            "gen_ai.usage.output_tokens.reasoning",
        }
    ),
    kinds=(("gen_ai.operation.type", {"ai_client": Operation.LLM, "agent": Operation.AGENT, "tool": Operation.TOOL}),),
    tools=("gen_ai.request.available_tools",),
    messages=("gen_ai.request.messages",),
    answers=("gen_ai.response.text",),
    tool_arguments=("gen_ai.tool.input",),
    tool_result=("gen_ai.tool.output",),
)
