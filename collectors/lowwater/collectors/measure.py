"""Measures a call of a model in the agent's process: tokens by consumer, and what remains of content that is cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects import ReadContext, load_dialects
from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.extract import read_span
from lowwater.collectors.hollow import is_hollow
from lowwater.collectors.names import MEASURED, SPLIT
from lowwater.collectors.reading import Failure, Operation, Reading, ToolUse
from lowwater.collectors.retrievers import retriever_names
from lowwater.collectors.sdk import record_of
from lowwater.collectors.tokens import Hasher, apportion
from lowwater.collectors.usage import resolve_input
from lowwater.collectors.values import word_of

__all__ = ["Measure"]


class Measure:
    """Reads spans with all dialects.

    Args:
        hash_key: of keyed hashes; random if None.
        retrievers: glob patterns of names of tools that fetch from a store.
    """

    def __init__(self, hash_key: bytes | None, retrievers: tuple[str, ...]) -> None:
        self._context = ReadContext(hasher=Hasher(hash_key), is_retriever=retriever_names(retrievers))
        dialects, _ = load_dialects()
        tables = [dialect for dialect in dialects if isinstance(dialect, TableDialect)]
        self._namespaces = frozenset().union(*(dialect.namespaces for dialect in tables))
        self._keys = frozenset().union(*(dialect.keys for dialect in tables))
        self._scopes = tuple(scope for dialect in tables for scope in dialect.scopes)
        self._any = len(tables) < len(dialects)

    def is_mark(self, key: str) -> bool:
        """Whether an attribute of this name may be a dialect's; a plug-in that is no table may want any."""
        return self._any or key.partition(".")[0] in self._namespaces or key in self._keys

    def is_marked(self, scope: str) -> bool:
        """Whether spans of this instrumentation scope are a dialect's, whatever their attributes."""
        return scope.startswith(self._scopes)

    def __call__(self, span: ReadableSpan, *, whole: bool) -> dict[str, Any]:
        """What is to be added to a span.

        Args:
            whole: also what replaces content that is going to be cut.
        """
        reading = read_span(record_of(span), self._context)
        added = _split(reading, span.attributes or {}) if reading.kind is Operation.LLM else {}
        if whole:
            added |= _tool(reading.tool) | _failure(reading.failure)
        return added


def _split(reading: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    content = reading.content
    if content is None or not len(content) or reading.content_is_delta or is_hollow(content):
        return {}
    weights = content.consumer_weights()
    added: dict[str, Any] = {MEASURED: list(weights)}
    total, _ = resolve_input(reading.usage, content_tokens=_spoken(content))
    if total is None or not sum(weights) or any(name in attributes for name in SPLIT):
        return added
    calls = BlockKind.TOOL_ARGUMENTS in content.kinds or BlockKind.TOOL_RESULT in content.kinds
    if weights[0] > 0 and (weights[1] > 0 or not calls):  # else a part of the head is hidden, and no share is right
        added.update(zip(SPLIT, apportion(total, weights), strict=True))
    return added


def _tool(tool: ToolUse | None) -> dict[str, Any]:
    """What repetition is judged by, when the arguments themselves are cut."""
    if tool is None:
        return {}
    found = {"arguments_key": tool.arguments, "result_key": tool.result}
    added: dict[str, Any] = {f"lowwater.tool.{name}": f"{value:016x}" for name, value in found.items() if value}
    if tool.retriever:
        added["lowwater.tool.retriever"] = True
    if tool.result_tokens is not None:
        added["lowwater.tool.result_tokens"] = tool.result_tokens
    return added


def _failure(failure: Failure | None) -> dict[str, Any]:
    """What a refusal is classified by, when its message is cut."""
    if failure is None:
        return {}
    found = {
        "status": failure.status,
        "code": word_of(failure.code),
        "signals": list(failure.signals) or None,
        "retry_after_seconds": failure.retry_after_seconds,
        "upstream": failure.upstream or None,
    }
    return {f"lowwater.failure.{name}": value for name, value in found.items() if value is not None}


def _spoken(content: Content) -> int:
    return sum(weight for kind, weight, *_ in content.blocks() if kind is not BlockKind.TOOL_SCHEMA)
