"""The span processor: what is known when a span starts is written on it, and subagents are seen as they start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from lowwater.collectors.names import COUNTS, PREFIX, SECONDS, TEXTS

if TYPE_CHECKING:
    from lowwater.collectors.pools import Pool

__all__ = ["LowwaterSpanProcessor"]

MAX_OPEN = 10_000
"""Running agents remembered; the first go first where their ends are never told."""

_AGENT_MARKS = (
    ("gen_ai.operation.name", "invoke_agent"),
    ("openinference.span.kind", "AGENT"),
    ("traceloop.span.kind", "agent"),
)
"""How instrumentations say at its start that a span is an agent's."""

_MAX_TEXT = 128


class LowwaterSpanProcessor(SpanProcessor):
    """Writes what baggage declares on spans as they start; sees agents that start under an agent.

    No hook raises, blocks, logs or keeps a span.

    Args:
        pool: limits of a fan-out for which nothing is declared in code: one is kept for each agent that starts others.
            None where none are known.
        reserved_tokens: overhead of each subagent of such a pool.
        content_budget_tokens: what each may fill with content.

    Attributes:
        faults: hooks that failed.
    """

    def __init__(
        self, pool: Mapping[str, Any] | None = None, *, reserved_tokens: int = 0, content_budget_tokens: int = 0
    ) -> None:
        self._limits = pool
        self._sizes = {"reserved_tokens": reserved_tokens, "content_budget_tokens": content_budget_tokens}
        self._agents: dict[int, int] = {}
        """By span id of what runs, the agent's span that it runs under, or is."""
        self._pools: dict[int, Pool] = {}
        self.faults = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Write what is declared, and note an agent."""
        try:
            declared = baggage.get_all(parent_context)
            if declared:
                _write(span, declared)
            if self._limits is not None:
                self._note(span)
        except Exception:
            self.faults += 1

    def on_end(self, span: ReadableSpan) -> None:
        """An agent has ended."""
        if self._agents:
            try:
                self._ended(span)
            except Exception:
                self.faults += 1

    def shutdown(self) -> None:
        """Forget everything."""
        self._agents.clear()
        self._pools.clear()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True

    def _note(self, span: Span) -> None:
        own = span.get_span_context().span_id
        above = self._agents.get(span.parent.span_id) if span.parent is not None else None
        attributes = span.attributes or {}
        is_agent = any(attributes.get(key) == value for key, value in _AGENT_MARKS)
        if not is_agent and above is None:
            return
        if len(self._agents) >= MAX_OPEN:
            oldest = next(iter(self._agents))
            self._agents.pop(oldest, None)
            self._pools.pop(oldest, None)
        self._agents[own] = own if is_agent else (above or own)
        if is_agent and above is not None and self._limits is not None:
            pool = self._pools.get(above)
            if pool is None:
                pool = self._pools[above] = _pool(above, self._limits)
            plan = pool.join(own, **self._sizes)
            if plan is not None and not plan.feasible:
                span.add_event(
                    "lowwater.fanout_overcommitted",
                    {
                        "lowwater.pool.ceiling_tokens": pool.ceiling_tokens or 0,
                        "lowwater.pool.committed_tokens": plan.committed_tokens,
                        "lowwater.pool.excess_tokens": plan.excess_tokens,
                        "lowwater.pool.width": pool.view().width,
                    },
                )

    def _ended(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is None or self._agents.pop(context.span_id, None) is None:
            return
        self._pools.pop(context.span_id, None)
        if span.parent is not None:
            above = self._agents.get(span.parent.span_id)
            pool = self._pools.get(above) if above is not None else None
            if pool is not None:
                pool.leave(context.span_id)


def _pool(above: int, limits: Mapping[str, Any]) -> Pool:
    from lowwater.collectors.pools import Pool  # noqa: PLC0415 - rules are loaded where there is a fan-out to judge

    return Pool(f"{above:016x}", **limits)


def _write(span: Span, declared: Mapping[str, Any]) -> None:
    for key, value in declared.items():
        if not key.startswith(PREFIX):
            continue
        name = key[len(PREFIX) :]
        if name in COUNTS:
            span.set_attribute(key, int(value))
        elif name in SECONDS:
            span.set_attribute(key, float(value))
        elif name in TEXTS:
            span.set_attribute(key, str(value)[:_MAX_TEXT])
