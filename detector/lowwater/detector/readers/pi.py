"""Session logs of the pi coding agent: one message per line, usage on answers, compactions as entries of their own.

Entries of version 1 carry no ids, so their order is that of their time stamps, and a repeated line is recognised by its
content. ``firstKeptEntryIndex`` of a compaction counts the entries of the file; in time order they are the same ones, the
header first. From version 2 on entries form a tree by ``id`` and ``parentId``: a call holds the path from the root to it,
and ``firstKeptEntryId`` names the entry from which a compaction keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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

_SILENT = frozenset({"session", "thinking_level_change", "model_change", "custom", "label", "session_info"})
_TYPES = _SILENT | {"message", "compaction", "branch_summary", "custom_message"}
_ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary"})


@dataclass(slots=True)
class _Entry:
    """One line, reduced."""

    time_ns: int
    inner_ns: int
    id: str
    kind: str
    parent: str = ""
    tree: bool = False
    answer: str | None = None
    block: Content | None = None
    calls: tuple[ToolUse, ...] = ()
    result_of: int = 0
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    failure: Failure | None = None
    finish: str | None = None
    before_tokens: int | None = None
    first_kept: int | str | None = None


def _sniff(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "session":
        return "modelId" in value or ("version" in value and "cwd" in value and "id" in value)
    message = value.get("message")
    if kind == "message" and isinstance(message, dict) and "sessionId" not in value:
        return str(message.get("role")) in _ROLES and "timestamp" in value
    return kind == "compaction" and ("firstKeptEntryIndex" in value or "firstKeptEntryId" in value)


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    entries: dict[str, _Entry] = {}
    session = ""
    for number, value in iterate_values(document, problems):
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            problems.add(document.name, f"line {number}", "no entry of a pi session")
            continue
        if value["type"] not in _TYPES:
            # Kept without content all the same: in a tree, other entries continue it.
            problems.add(document.name, f"line {number}", "no entry that is known of pi sessions")
        if value["type"] == "session":
            session = text_of(value.get("id")) or session
        entry = _entry(value, context)
        entries[entry.id] = entry
    ordered = sorted(in_order(entries), key=lambda entry: (entry.kind != "session", entry.time_ns, entry.inner_ns))
    yield from _session(session or (ordered[0].id if ordered else ""), ordered)


def _entry(value: Mapping[str, Any], context: ReadContext) -> _Entry:
    kind = str(value["type"])
    entry = _Entry(nanoseconds(value.get("timestamp")), 0, digest(value), kind)
    if "parentId" in value:
        entry.id, entry.parent, entry.tree = (
            text_of(value.get("id")) or entry.id,
            text_of(value["parentId"]) or "",
            True,
        )
    if kind in ("compaction", "branch_summary"):
        entry.block = one_block(context, BlockKind.SUMMARY, flatten(value.get("summary")))
        entry.before_tokens = count(value.get("tokensBefore"))
        index = count(value.get("firstKeptEntryIndex"))
        entry.first_kept = index if index is not None else text_of(value.get("firstKeptEntryId"))
    elif kind == "custom_message":
        builder = context.builder()
        read_messages({"role": "user", "content": value.get("content")}, builder)
        entry.block = builder.build()
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
        # A command that the user ran; its output is in the prompt like a tool's, unless it was kept out.
        if not message.get("excludeFromContext"):
            builder.add(BlockKind.TOOL_ARGUMENTS, flatten(message.get("command")))
            builder.add(BlockKind.TOOL_RESULT, flatten(message.get("output")))
    elif role in ("branchSummary", "compactionSummary"):
        builder.add(BlockKind.SUMMARY, flatten(message.get("summary")))
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
    entry.answer = text_of(message.get("responseId")) or f"pi-{digest(message)}"
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


class _Branch:
    """The entries that the next call builds on, and what they hold."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._known = {entry.id: entry for entry in entries if entry.tree}
        self.is_tree = bool(self._known)
        self._path: list[_Entry] = []
        self.prompt = Prompt()

    def follow(self, entry: _Entry) -> None:
        """Go to where the entry continues: nothing to do, unless the user went back to an earlier one.

        An entry whose parent is lost continues what came before it.
        """
        if entry.parent == (self._path[-1].id if self._path else "") or not self._goes_back(entry):
            return
        path: dict[str, _Entry] = {}
        above = self._known.get(entry.parent)
        while above is not None and above.id not in path:
            path[above.id] = above
            above = self._known.get(above.parent)
        self._path, self.prompt = [], Prompt()
        for earlier in reversed(path.values()):
            self.append(earlier)

    def _goes_back(self, entry: _Entry) -> bool:
        return entry.tree and (not entry.parent or entry.parent in self._known)

    def append(self, entry: _Entry) -> None:
        """Add one entry; a compaction leaves its summary and what it kept."""
        if entry.kind == "compaction":
            self.prompt.restart(entry.block, *(item.block for item in self._kept(entry) if item.kind != "compaction"))
        else:
            self.prompt.add(entry.block)
        self._path.append(entry)

    def _kept(self, entry: _Entry) -> list[_Entry]:
        if isinstance(entry.first_kept, int):
            return self._path[entry.first_kept :]
        places = (place for place, item in enumerate(self._path) if item.id == entry.first_kept)
        return self._path[next(places, len(self._path)) :]


def _session(session: str, entries: list[_Entry]) -> Iterator[Reading]:
    branch = _Branch(entries)
    asked: dict[int, tuple[ToolUse, int]] = {}
    previous_ns = 0
    for entry in entries:
        # The header of a tree is no part of it; in version 1 it is the entry with index 0.
        if entry.kind == "session" and branch.is_tree:
            continue
        branch.follow(entry)
        reading = Reading(
            session,
            entry.id,
            start_ns=min(previous_ns or entry.time_ns, entry.time_ns),
            end_ns=entry.time_ns,
            conversation=session,
            service="pi",
            scope="pi",
            agent_name="pi",
            dialects=("pi",),
        )
        if entry.kind == "assistant":
            _call(reading, entry, branch.prompt)
            asked.update({use.call: (use, entry.time_ns) for use in entry.calls if use.call})
            yield reading
        elif entry.kind == "toolResult":
            use, since = asked.pop(entry.result_of, (None, reading.start_ns))
            done = entry.calls[0]
            if use is not None:
                done.arguments, done.sketch = use.arguments, use.sketch
            reading.kind, reading.name, reading.tool = Operation.TOOL, done.name, done
            reading.start_ns = min(since or entry.time_ns, entry.time_ns)
            yield reading
        elif entry.kind == "compaction":
            reading.kind, reading.name = Operation.COMPACTION, "compaction"
            reading.compaction = Compaction(before_tokens=entry.before_tokens, source="pi")
            yield reading
        branch.append(entry)
        previous_ns = entry.time_ns


def _call(reading: Reading, entry: _Entry, prompt: Prompt) -> None:
    """Make the reading a model call on this prompt."""
    reading.kind, reading.name = Operation.LLM, "assistant"
    reading.start_ns = min(entry.inner_ns or reading.start_ns, entry.time_ns)
    reading.response_id, reading.model, reading.provider = entry.answer, entry.model, entry.provider
    reading.usage, reading.failure = entry.usage, entry.failure
    reading.content, reading.output = prompt.snapshot(), entry.block
    reading.finish_reasons = (entry.finish,) if entry.finish else ()


FORMAT = Format("pi", "session log of the pi coding agent", _read, sniff_line=_sniff)
