"""Anthropic's own spans, and what its API did to a context on the server where a trace holds the raw answer or its usage.

The spans (of its SDKs and, server-side, of the API) write the GenAI conventions. Server-side compaction shows in
``usage.iterations`` only: the top-level input is that of the compacted prompt. Cleared tool results show in
``context_management.applied_edits``. Both come in the wire's spelling and in that of the Vercel AI SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Compaction, Operation
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import count, first, load_json

__all__ = ["DIALECT"]

_CARRIERS = (
    "anthropic.usage", "anthropic.context_management", "gen_ai.usage.iterations", "gen_ai.usage.raw",
    "gen_ai.response.usage", "ai.response.providerMetadata", "output.value", "mlflow.spanOutputs",
    "langfuse.observation.output", "gen_ai.completion",
)  # fmt: skip
"""Attributes in which instrumentations put an answer or its usage as JSON."""

_WORDS = ('"compaction"', "applied_edits", "appliedEdits")
"""One of them is in any JSON that is worth parsing."""

_INPUT = (
    ("input_tokens", "inputTokens"),
    ("cache_read_input_tokens", "cacheReadInputTokens"),
    ("cache_creation_input_tokens", "cacheCreationInputTokens"),
)
"""The parts of an input: Anthropic's ``input_tokens`` leaves out what came from or went to the cache."""


def _server_compaction(attributes: Mapping[str, Any]) -> Compaction | None:
    """The compaction or clearing that the provider did for this call, None if it did none or nothing tells."""
    for name in _CARRIERS:
        value = attributes.get(name)
        if value is None or (isinstance(value, str) and not any(word in value for word in _WORDS)):
            continue
        parsed = load_json(value)
        found = _iterations(parsed) if isinstance(parsed, list) else _answer(parsed, depth=0)
        if found is not None:
            return found
    return None


def _answer(value: Any, depth: int) -> Compaction | None:
    """A whole answer, its usage, its context management, or provider metadata that nests one of them."""
    if not isinstance(value, Mapping) or depth > 2:
        return None
    usage = value.get("usage")
    usage = usage if isinstance(usage, Mapping) else value
    found = _iterations(first(usage, "iterations")) or _iterations(value.get("iterations"))
    if found is not None:
        return found
    management = first(value, "context_management", "contextManagement")
    edits = first(management if isinstance(management, Mapping) else value, "applied_edits", "appliedEdits")
    return _edits(edits, _input(usage)) or _answer(value.get("anthropic"), depth + 1)


def _iterations(value: Any) -> Compaction | None:
    """A compaction, and the size of the first prompt after it."""
    if not isinstance(value, list):
        return None
    steps = [step for step in value if isinstance(step, Mapping)]
    for position, step in enumerate(steps):
        if step.get("type") == "compaction":
            later = [_input(other) for other in steps[position + 1 :] if other.get("type") == "message"]
            return Compaction(
                before_tokens=_input(step), after_tokens=later[0] if later else None, source="usage.iterations"
            )
    return None


def _edits(value: Any, after: int | None) -> Compaction | None:
    """Cleared results: the reported input is what is left of them."""
    edits = [edit for edit in value if isinstance(edit, Mapping)] if isinstance(value, list) else []
    cleared = sum(count(first(edit, "cleared_input_tokens", "clearedInputTokens")) or 0 for edit in edits)
    if not cleared:
        return None
    return Compaction(
        before_tokens=None if after is None else after + cleared, after_tokens=after, source="applied_edits"
    )


def _input(usage: Mapping[str, Any]) -> int | None:
    parts = [count(first(usage, *names)) for names in _INPUT]
    return sum(part for part in parts if part) or None


def _span(span: SpanRecord, draft: Draft) -> None:
    if draft.reading.kind is Operation.LLM:
        draft.set("compaction", _server_compaction(span.attributes))


@dataclass(frozen=True, slots=True)
class _Anthropic(TableDialect):
    """Whatever instrumentation wrote the span: the raw answer tells."""

    def matches(self, span: SpanRecord) -> bool:
        return TableDialect.matches(self, span) or _server_compaction(span.attributes) is not None


DIALECT = _Anthropic(
    name="anthropic",
    versions="Messages API with context management of 2025 and 2026; spans in beta since October 2026",
    scopes=("com.anthropic.sdk", "com.anthropic.claude-platform"),
    spans=_span,
)
