"""Session logs of Claude Code: records chained by uuid, usage repeated on every block of an answer, sidechains, compaction.

A model call is all the records that share a ``message.id``; its usage counts once. ``<synthetic>`` answers are the
program's own. Subagents (sidechains) carry ``isSidechain`` and ``agentId``, and stand in the same file or in one each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.failures import read_failure
from lowwater.collectors.messages import flatten, read_messages
from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, ToolUse, Usage
from lowwater.collectors.values import count, text_of
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.sessions import Prompt, digest, finish_tool, in_order, one_block, start_tool
from lowwater.detector.readers.values import iterate_values, nanoseconds

__all__ = ["FORMAT"]

_MAIN = "main"
_SYNTHETIC = "<synthetic>"
_API_ERROR = re.compile(r"API Error: ([45]\d\d)\b")
"""How the program begins the answer that it writes in place of one that the provider refused."""


@dataclass(slots=True)
class _Record:
    """One line, reduced.

    ``agent`` is empty, until the session is complete, on sidechains of versions that wrote no ``agentId``.
    """

    time_ns: int
    id: str
    parent: str
    agent: str
    kind: str
    block: Content | None = None
    message: str = ""
    model: str | None = None
    usage: Usage | None = None
    failure: Failure | None = None
    finish: str | None = None
    calls: tuple[ToolUse, ...] = ()
    roles: tuple[str | None, ...] = ()
    results: tuple[ToolUse, ...] = ()
    child: str | None = None
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """What started a subagent: the kind that was asked for, and the span of the tool that ran it."""

    role: str | None = None
    span: str | None = None


_UNKNOWN_TASK = _Task()


@dataclass(slots=True)
class _Call:
    """An answer while its records come in."""

    reading: Reading
    output: Prompt = field(default_factory=Prompt)


def _sniff(value: dict[str, Any]) -> bool:
    return "sessionId" in value and (
        ("parentUuid" in value and "uuid" in value) or value.get("type") in ("queue-operation", "file-history-snapshot")
    )


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    sessions: dict[str, dict[str, _Record]] = {}
    for number, value in iterate_values(document, problems):
        if not isinstance(value, dict) or "type" not in value:
            problems.add(document.name, f"line {number}", "no record of a Claude Code session")
            continue
        record = _record(value, context)
        if record is not None:
            sessions.setdefault(text_of(value.get("sessionId")) or "", {})[record.id] = record
    for session, records in sorted(sessions.items()):
        for record in records.values():
            record.agent = record.agent or _first_of_chain(record, records)
        ordered = in_order(records)
        tasks = _tasks(ordered)
        agents: dict[str, list[_Record]] = {}
        for record in ordered:
            agents.setdefault(record.agent, []).append(record)
        for agent in sorted(agents):
            yield from _agent(session, agent, tasks.get(agent, _UNKNOWN_TASK), agents[agent])


def _record(value: Mapping[str, Any], context: ReadContext) -> _Record | None:
    kind, subtype = str(value["type"]), value.get("subtype")
    message = value.get("message")
    message = message if isinstance(message, dict) else {}
    if kind not in ("user", "assistant") and subtype != "compact_boundary":
        return None
    record = _Record(
        time_ns=nanoseconds(value.get("timestamp")),
        id=text_of(value.get("uuid")) or digest(value),
        parent=text_of(value.get("parentUuid") or value.get("logicalParentUuid")) or "",
        agent=text_of(value.get("agentId")) or "" if value.get("isSidechain") else _MAIN,
        kind=kind,
    )
    if subtype == "compact_boundary":
        metadata = value.get("compactMetadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        record.compaction = Compaction(
            before_tokens=count(metadata.get("preTokens")) or None,
            after_tokens=count(metadata.get("postTokens")) or None,
            trigger=text_of(metadata.get("trigger")),
            source="compact_boundary",
        )
    elif kind == "assistant":
        _answer(record, value, message, context)
    elif value.get("isCompactSummary"):
        record.kind = "summary"
        record.block = one_block(context, BlockKind.SUMMARY, flatten(message.get("content")))
    else:
        _asked(record, value, message, context)
    return record


def _answer(record: _Record, value: Mapping[str, Any], message: Mapping[str, Any], context: ReadContext) -> None:
    record.message = text_of(message.get("id")) or record.id
    record.model = text_of(message.get("model"))
    record.finish = text_of(message.get("stop_reason"))
    usage = message.get("usage")
    if isinstance(usage, dict):
        record.usage = Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cache_read_tokens=count(usage.get("cache_read_input_tokens")),
            cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
            cache_inclusive=False,
        )
    if value.get("isApiErrorMessage"):
        text = flatten(message.get("content"))
        status = _API_ERROR.match(text)
        record.failure = read_failure(text_of(value.get("error")), text, int(status.group(1)) if status else None)
    parts = message.get("content")
    uses = [
        part
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.get("type") == "tool_use"
    ]
    record.calls = tuple(
        start_tool(context, str(part.get("name") or "tool"), text_of(part.get("id")), part.get("input"))
        for part in uses
    )
    record.roles = tuple(
        text_of(part["input"].get("subagent_type")) if isinstance(part.get("input"), dict) else None for part in uses
    )
    builder = context.builder()
    read_messages({"role": "assistant", "content": parts}, builder)
    record.block = builder.build()


def _asked(record: _Record, value: Mapping[str, Any], message: Mapping[str, Any], context: ReadContext) -> None:
    content = message.get("content")
    results = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_result":
            use = start_tool(context, "tool", text_of(part.get("tool_use_id")), None)
            finish_tool(context, use, part.get("content"))
            results.append(use)
    record.results = tuple(results)
    outcome = value.get("toolUseResult")
    record.child = text_of(outcome.get("agentId")) if isinstance(outcome, dict) else None
    builder = context.builder()
    read_messages({"role": "user", "content": content}, builder)
    record.block = builder.build()


def _first_of_chain(record: _Record, records: Mapping[str, _Record]) -> str:
    """Id of the record with which a sidechain begins: it stands for the agent id that older versions did not write."""
    seen = {record.id}
    above = records.get(record.parent)
    while above is not None and not above.agent and above.id not in seen:
        record = above
        seen.add(record.id)
        above = records.get(record.parent)
    known = above.agent if above is not None else _MAIN
    return record.id if known in ("", _MAIN) else known


def _tasks(records: list[_Record]) -> dict[str, _Task]:
    """Agent id to the task that started it, where the task's call and result stand in this file."""
    asked: dict[int, str | None] = {}
    tasks: dict[str, _Task] = {}
    for record in records:
        asked.update({use.call: role for use, role in zip(record.calls, record.roles, strict=True)})
        if record.child is not None and record.results:
            call = record.results[0].call
            tasks[record.child] = _Task(asked.get(call), _tool_span(record, call))
    return tasks


def _tool_span(record: _Record, call: int) -> str:
    return f"{record.id}/{call:016x}"


def _agent(session: str, agent: str, task: _Task, records: list[_Record]) -> Iterator[Reading]:
    """The readings of one context: the main conversation or a sidechain."""
    name = _MAIN if agent == _MAIN else task.role or "subagent"
    common: dict[str, Any] = {
        "trace_id": session,
        "parent_span_id": task.span,
        "conversation": session,
        "service": "claude-code",
        "scope": "claude-code",
        "agent_id": agent,
        "agent_name": name,
        "parent_agent_id": None if agent == _MAIN else _MAIN,
        "dialects": ("claude_code_session",),
    }
    prompt = Prompt()
    calls: dict[str, _Call] = {}
    asked: dict[int, tuple[ToolUse, int]] = {}
    before_ns = records[0].time_ns
    for record in records:
        if record.compaction is not None:
            prompt.restart()
            yield Reading(
                **common, span_id=record.id, start_ns=before_ns, end_ns=record.time_ns, kind=Operation.COMPACTION,
                name="compact_boundary", compaction=record.compaction,
            )  # fmt: skip
        elif record.kind == "assistant":
            if record.model != _SYNTHETIC or record.failure is not None:
                call = calls.get(record.message)
                if call is None:
                    reading = Reading(
                        **common, span_id=record.message, start_ns=min(before_ns, record.time_ns), end_ns=record.time_ns,
                        kind=Operation.LLM, name="assistant", model=record.model if record.model != _SYNTHETIC else None,
                        response_id=record.message, provider="anthropic", content=prompt.snapshot(),
                    )  # fmt: skip
                    call = calls[record.message] = _Call(reading)
                _merge(call, record)
                asked.update({use.call: (use, record.time_ns) for use in record.calls if use.call})
            prompt.add(record.block)
        else:
            for done in record.results:
                use, since = asked.pop(done.call, (None, before_ns))
                if use is not None:
                    done.name, done.arguments, done.sketch = use.name, use.arguments, use.sketch
                    done.retriever = use.retriever
                yield Reading(
                    **common, span_id=_tool_span(record, done.call), start_ns=min(since, record.time_ns),
                    end_ns=record.time_ns, kind=Operation.TOOL, name=done.name, tool=done,
                )  # fmt: skip
            prompt.add(record.block)
        before_ns = record.time_ns
    for call in calls.values():
        call.reading.output = call.output.snapshot()
        yield call.reading
    if agent != _MAIN:
        yield Reading(
            **common, span_id=f"agent-{agent}", start_ns=records[0].time_ns, end_ns=records[-1].time_ns,
            kind=Operation.AGENT, name=name,
        )  # fmt: skip


def _merge(call: _Call, record: _Record) -> None:
    """Add one more record of the same answer: its blocks, and its usage where it says more than what is known."""
    reading = call.reading
    call.output.add(record.block)
    reading.end_ns = max(reading.end_ns, record.time_ns)
    reading.failure = reading.failure or record.failure
    if record.finish:
        reading.finish_reasons = (record.finish,)
    known = reading.usage
    if record.usage is not None and (known is None or (record.usage.output_tokens or 0) >= (known.output_tokens or 0)):
        reading.usage = record.usage


FORMAT = Format("claude-code", "session log of Claude Code, with sidechains", _read, sniff_line=_sniff)
