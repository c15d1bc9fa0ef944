"""Runs as spans of the OpenTelemetry SDK, in any dialect, with or without content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from lowwater.collectors.records import SpanRecord
from lowwater.collectors.sdk import record_of
from lowwater.detector.simulation.model import Agent, Compaction, LlmCall, Run, ToolRun
from lowwater.detector.simulation.writers import WRITERS
from lowwater.detector.simulation.writers.base import Writer

__all__ = ["records", "spans"]

_EVENT = "lowwater.compaction"


def spans(run: Run, dialect: str, *, content: bool = True) -> list[ReadableSpan]:
    """The ended spans of a run, in the order in which they end.

    Args:
        dialect: one of `WRITERS`.
        content: with messages, tool arguments and results.

    Raises:
        KeyError: there is no such dialect.
    """
    emitter = _Emitter(run, WRITERS[dialect], content)
    found = [span for agent in run.agents for span in emitter.agent(agent, None)]
    # At one moment a child ends before its parent.
    return sorted(found, key=lambda span: (span.end_time or 0, -(span.start_time or 0)))


def records(run: Run, dialect: str, *, content: bool = True) -> list[SpanRecord]:
    """As `spans`, as the records that dialects read."""
    return [record_of(span) for span in spans(run, dialect, content=content)]


class _Emitter:
    def __init__(self, run: Run, writer: Writer, content: bool) -> None:
        self._writer, self._content = writer, content
        self._scope = InstrumentationScope(writer.scope, "1.0")
        self._resource = Resource({"service.name": run.service})
        self._tick_seconds = run.scheduler_tick_seconds

    def agent(self, agent: Agent, parent: SpanContext | None) -> Iterator[ReadableSpan]:
        """The spans of an agent's run and of all below it."""
        context = _context(agent.trace_id, agent.span_id)
        name, fields = self._writer.run_of(agent)
        fields |= agent.declared
        if self._tick_seconds is not None:
            fields["lowwater.scheduler.tick_seconds"] = self._tick_seconds
        events: list[Event] = []
        pending: list[Event] = []
        for step in agent.steps:
            if isinstance(step, Agent):
                yield from self.agent(step, context)
            elif isinstance(step, Compaction):
                if step.announced:
                    _, said = self._writer.compaction(agent, step)
                    pending.append(Event(_EVENT, said, step.end_ns))
            elif isinstance(step, LlmCall):
                yield self._call(agent, step, context, pending)
                pending = []
            else:
                yield self._tool(agent, step, context)
        events += pending
        failed = Status(StatusCode.ERROR) if agent.failed else Status()
        yield self._span(name, context, parent, fields, agent.start_ns, agent.end_ns, failed, events)

    def _call(self, agent: Agent, call: LlmCall, parent: SpanContext, events: list[Event]) -> ReadableSpan:
        name, fields = self._writer.llm(agent, call, content=self._content)
        fields |= agent.declared
        status = Status()
        if call.refusal is not None:
            status = Status(StatusCode.ERROR, call.refusal.message)
            said: dict[str, Any] = {
                "exception.type": call.refusal.error_type,
                "exception.message": call.refusal.message,
            }
            events = [*events, Event("exception", said, call.end_ns)]
        context = _context(agent.trace_id, call.span_id)
        return self._span(name, context, parent, fields, call.start_ns, call.end_ns, status, events, SpanKind.CLIENT)

    def _tool(self, agent: Agent, run: ToolRun, parent: SpanContext) -> ReadableSpan:
        name, fields = self._writer.tool_run(agent, run, content=self._content)
        status = Status(StatusCode.ERROR) if run.failed else Status()
        context = _context(agent.trace_id, run.span_id)
        return self._span(name, context, parent, fields, run.start_ns, run.end_ns, status, ())

    def _span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        fields: Mapping[str, Any],
        start_ns: int,
        end_ns: int,
        status: Status,
        events: list[Event] | tuple[()],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=fields,
            events=events,
            kind=kind,
            status=status,
            start_time=start_ns,
            end_time=end_ns,
            instrumentation_scope=self._scope,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
