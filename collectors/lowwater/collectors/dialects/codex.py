"""OpenAI Codex CLI: usage per *turn*, which sums several calls, and ``thread.id`` as the conversation.

Everywhere else ``thread.id`` is a thread of the operating system.
"""

from __future__ import annotations

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import SpanRecord

__all__ = ["DIALECT"]

_SCOPE = "codex_cli_rs"


def _kind(span: SpanRecord) -> Operation | None:
    return Operation.AGENT if "codex.turn.token_usage.input_tokens" in span.attributes else None


def _span(span: SpanRecord, draft: Draft) -> None:
    # Rust's tracing puts the number of the operating system's thread under the same key.
    thread = span.attributes.get("thread.id")
    if span.scope_name.startswith(_SCOPE) and isinstance(thread, str) and not thread.isdigit():
        draft.set("conversation", thread)


DIALECT = TableDialect(
    name="codex",
    versions="codex_cli_rs of 2026",
    namespaces=frozenset({"codex"}),
    scopes=(_SCOPE,),
    odd_kinds=_kind,
    texts={"model": ("model",), "conversation": ("conversation.id",)},
    usage={
        "input_tokens": ("codex.turn.token_usage.input_tokens",),
        "output_tokens": ("codex.turn.token_usage.output_tokens",),
        "total_tokens": ("codex.turn.token_usage.total_tokens",),
        "cache_read_tokens": ("codex.turn.token_usage.cached_input_tokens",),
        "uncached_tokens": ("codex.turn.token_usage.non_cached_input_tokens",),
        "reasoning_tokens": ("codex.turn.token_usage.reasoning_output_tokens",),
    },
    cache_inclusive=True,
    spans=_span,
)
