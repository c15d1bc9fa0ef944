"""OpenAI Codex CLI: usage per *turn*, which sums several calls, and ``thread.id`` as the conversation.

Everywhere else ``thread.id`` is a thread of the operating system.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord

__all__ = ["DIALECT"]


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.AGENT if "codex.turn.token_usage.input_tokens" in span.attributes else None


DIALECT = TableDialect(
    name="codex",
    versions="codex_cli_rs of 2026",
    namespaces=frozenset({"codex"}),
    scopes=("codex_cli_rs",),
    odd_kinds=_kind,
    texts={"model": ("model",), "conversation": ("thread.id", "conversation.id")},
    usage={
        "input_tokens": ("codex.turn.token_usage.input_tokens",),
        "output_tokens": ("codex.turn.token_usage.output_tokens",),
        "total_tokens": ("codex.turn.token_usage.total_tokens",),
        "cache_read_tokens": ("codex.turn.token_usage.cached_input_tokens",),
        "uncached_tokens": ("codex.turn.token_usage.non_cached_input_tokens",),
        "reasoning_tokens": ("codex.turn.token_usage.reasoning_output_tokens",),
    },
    cache_inclusive=True,
)
