"""Session logs of Claude Code: records chained by uuid, usage repeated on every block of an answer, sidechains, compaction.

A model call is all the records that share a ``message.id``; its usage counts once. ``<synthetic>`` answers are the
program's own. Subagents (sidechains) carry ``isSidechain`` and ``agentId``, and stand in the same file or in one each.
"""

from __future__ import annotations

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
from lowwater.detector.readers.sessions import Prompt, digest, finish_tool, one_block, start_tool
from lowwater.detector.readers.values import iterate_values, nanoseconds

__all__ = ["FORMAT"]

_MAIN = "main"
_DELEGATES = frozenset({"Task", "Agent"})
_SYNTHETIC = "<synthetic>"


@dataclass(slots=True)
class _Record:
    """One line, reduced."""

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
        ordered = _in_order(records)
        roles = _subagent_roles(ordered)
        for agent in sorted({record.agent for record in ordered}):
            mine = [record for record in ordered if record.agent == agent]
            yield from _agent(session, agent, roles.get(agent), mine)


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
        agent=(text_of(value.get("agentId")) or "sidechain") if value.get("isSidechain") else _MAIN,
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
        record.failure = read_failure(text_of(value.get("error")), flatten(message.get("content")))
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


def _in_order(records: dict[str, _Record]) -> list[_Record]:
    """By time; within one instant parents before children, so that the order of lines does not matter."""

    def depth(record: _Record) -> int:
        steps, above = 0, records.get(record.parent)
        while above is not None and above.time_ns == record.time_ns and steps < len(records):
            steps, above = steps + 1, records.get(above.parent)
        return steps

    return sorted(records.values(), key=lambda record: (record.time_ns, depth(record), record.id))


def _subagent_roles(records: list[_Record]) -> dict[str, str | None]:
    """Agent id to the kind of subagent that was asked for, where call and result stand in this file."""
    asked: dict[int, str | None] = {}
    roles: dict[str, str | None] = {}
    for record in records:
        asked.update({use.call: role for use, role in zip(record.calls, record.roles, strict=True)})
        if record.child is not None and record.results:
            roles[record.child] = asked.get(record.results[0].call)
    return roles


def _agent(session: str, agent: str, role: str | None, records: list[_Record]) -> Iterator[Reading]:
    """The readings of one context: the main conversation or a sidechain."""
    name = _MAIN if agent == _MAIN else role or "subagent"
    common: dict[str, Any] = {
        "trace_id": session,
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
                        provider="anthropic", content=prompt.snapshot(),
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
                    **common, span_id=f"{record.id}/{done.call:016x}", start_ns=min(since, record.time_ns),
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
