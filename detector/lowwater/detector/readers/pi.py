"""Session logs of the pi coding agent: one message per line, usage on answers, compactions as entries of their own.

Entries carry no ids, so their order is that of their time stamps, and a repeated line is recognised by its content.
``firstKeptEntryIndex`` of a compaction counts the entries of the file; in time order they are the same ones, the header
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.failures import read_failure
from lowwater.collectors.messages import read_messages
from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, ToolUse, Usage
from lowwater.collectors.values import count, text_of
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.sessions import Prompt, digest, finish_tool, one_block, start_tool
from lowwater.detector.readers.values import iterate_values, nanoseconds

__all__ = ["FORMAT"]

_TYPES = frozenset({"session", "message", "compaction", "thinking_level_change", "model_change", "branch_summary"})


@dataclass(slots=True)
class _Entry:
    """One line, reduced."""

    time_ns: int
    inner_ns: int
    id: str
    kind: str
    block: Content | None = None
    calls: tuple[ToolUse, ...] = ()
    result_of: int = 0
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    failure: Failure | None = None
    finish: str | None = None
    before_tokens: int | None = None
    first_kept: int | None = None


def _sniff(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "session":
        return "modelId" in value or ("version" in value and "cwd" in value and "id" in value)
    if kind == "message" and isinstance(value.get("message"), dict) and "sessionId" not in value:
        return (
            value["message"].get("role") in ("user", "assistant", "toolResult", "bashExecution")
            and "timestamp" in value
        )
    return kind == "compaction" and "firstKeptEntryIndex" in value


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    entries: dict[str, _Entry] = {}
    session = ""
    for number, value in iterate_values(document, problems):
        if not isinstance(value, dict) or value.get("type") not in _TYPES:
            problems.add(document.name, f"line {number}", "no entry of a pi session")
            continue
        if value["type"] == "session":
            session = text_of(value.get("id")) or session
        entry = _entry(value, context)
        entries[entry.id] = entry
    ordered = sorted(entries.values(), key=lambda entry: (entry.time_ns, entry.inner_ns, entry.id))
    ordered.sort(key=lambda entry: entry.kind != "session")
    yield from _session(session or (ordered[0].id if ordered else ""), ordered)


def _entry(value: Mapping[str, Any], context: ReadContext) -> _Entry:
    kind = str(value["type"])
    entry = _Entry(nanoseconds(value.get("timestamp")), 0, digest(value), kind)
    if kind in ("compaction", "branch_summary"):
        entry.block = one_block(context, BlockKind.SUMMARY, str(value.get("summary") or ""))
        entry.before_tokens = count(value.get("tokensBefore"))
        entry.first_kept = count(value.get("firstKeptEntryIndex"))
    message = value.get("message")
    if kind != "message" or not isinstance(message, dict):
        return entry
    role = message.get("role")
    entry.kind = str(role)
    entry.inner_ns = nanoseconds(message.get("timestamp"))
    builder = context.builder()
    if role == "assistant":
        _answer(entry, message, context)
        read_messages({"role": "assistant", "content": message.get("content")}, builder)
    elif role == "toolResult":
        call_id = text_of(message.get("toolCallId"))
        entry.result_of = context.hasher.hash(call_id) if call_id else 0
        use = start_tool(context, str(message.get("toolName") or "tool"), call_id, None)
        finish_tool(context, use, message.get("content"))
        entry.calls = (use,)
        result = {"role": "tool", "tool_call_id": call_id, "name": use.name, "content": message.get("content")}
        read_messages(result, builder)
    elif role == "bashExecution":
        # A command that the user ran; its output is in the prompt like a tool's.
        builder.add(BlockKind.TOOL_ARGUMENTS, str(message.get("command") or ""))
        builder.add(BlockKind.TOOL_RESULT, str(message.get("output") or ""))
    else:
        read_messages({"role": "user", "content": message.get("content")}, builder)
    entry.block = builder.build()
    return entry


def _answer(entry: _Entry, message: Mapping[str, Any], context: ReadContext) -> None:
    usage = message.get("usage")
    if isinstance(usage, dict):
        entry.usage = Usage(
            input_tokens=count(usage.get("input")),
            output_tokens=count(usage.get("output")),
            cache_read_tokens=count(usage.get("cacheRead")),
            cache_write_tokens=count(usage.get("cacheWrite")),
            total_tokens=count(usage.get("totalTokens")),
            cache_inclusive=False,
        )
    entry.model, entry.provider = text_of(message.get("model")), text_of(message.get("provider"))
    entry.finish = text_of(message.get("stopReason"))
    if entry.finish == "aborted":
        entry.failure = Failure(type="aborted", aborted=True)
    elif entry.finish == "error":
        entry.failure = read_failure("error", text_of(message.get("errorMessage")))
    parts = message.get("content")
    entry.calls = tuple(
        start_tool(context, str(part.get("name") or "tool"), text_of(part.get("id")), part.get("arguments"))
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.get("type") == "toolCall"
    )


def _session(session: str, entries: list[_Entry]) -> Iterator[Reading]:
    prompt = Prompt()
    asked: dict[int, tuple[ToolUse, int]] = {}
    previous_ns = 0
    for index, entry in enumerate(entries):
        common: dict[str, Any] = {
            "trace_id": session,
            "span_id": entry.id,
            "end_ns": entry.time_ns,
            "conversation": session,
            "service": "pi",
            "scope": "pi",
            "agent_name": "pi",
            "dialects": ("pi",),
        }
        if entry.kind == "assistant":
            yield Reading(
                **common,
                start_ns=min(entry.inner_ns or previous_ns or entry.time_ns, entry.time_ns),
                kind=Operation.LLM,
                name="assistant",
                model=entry.model,
                provider=entry.provider,
                usage=entry.usage,
                content=prompt.snapshot(),
                output=entry.block,
                failure=entry.failure,
                finish_reasons=(entry.finish,) if entry.finish else (),
            )
            asked.update({use.call: (use, entry.time_ns) for use in entry.calls if use.call})
        elif entry.kind == "toolResult":
            use, since = asked.pop(entry.result_of, (None, previous_ns))
            done = entry.calls[0]
            if use is not None:
                done.arguments, done.sketch = use.arguments, use.sketch
            start = min(since or entry.time_ns, entry.time_ns)
            yield Reading(**common, start_ns=start, kind=Operation.TOOL, name=done.name, tool=done)
        elif entry.kind == "compaction":
            kept = entries[entry.first_kept : index] if entry.first_kept is not None else []
            prompt.restart(entry.block, *(item.block for item in kept if item.kind != "compaction"))
            yield Reading(
                **common,
                start_ns=min(previous_ns or entry.time_ns, entry.time_ns),
                kind=Operation.COMPACTION,
                name="compaction",
                compaction=Compaction(before_tokens=entry.before_tokens, source="pi"),
            )
        if entry.kind != "compaction":
            prompt.add(entry.block)
        previous_ns = entry.time_ns


FORMAT = Format("pi", "session log of the pi coding agent", _read, sniff_line=_sniff)
