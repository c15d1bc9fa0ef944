"""Plain chat logs: lists of role and content, of one agent or of an orchestrator with delegates.

Magentic-One names its roles: ``Orchestrator (-> WebSurfer)`` is an instruction to another agent, whose next message is the
answer. That exchange is a tool call of the orchestrator with prose for arguments. Nothing in a chat log has a time or a token
count: calls are ordered by their place, and their totals stay unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lowwater.collectors.content import BlockKind
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.messages import flatten, read_messages
from lowwater.collectors.reading import Operation, Reading, ToolUse
from lowwater.collectors.values import text_of
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.sessions import Prompt, digest, finish_tool, one_block, start_tool
from lowwater.detector.readers.values import dump_json

__all__ = ["FORMAT"]

_ROLE = re.compile(r"^(?P<agent>[\w .-]+?)\s*\((?P<act>->\s*(?P<to>[\w .-]+)|[\w -]+)\)$")
_PEOPLE = frozenset({"human", "user"})
_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def _messages(value: Any) -> list[Any] | None:
    """The messages of a log, or None if the document is none."""
    found = value
    if isinstance(value, dict):
        found = next((value[name] for name in ("history", "messages") if isinstance(value.get(name), list)), None)
    if not isinstance(found, list) or len(found) < 2:
        return None
    sample = found[:8]
    if not all(isinstance(item, dict) and isinstance(item.get("role"), str) and "content" in item for item in sample):
        return None
    return found


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    value = document.json()
    messages = _messages(value)
    if messages is None:
        problems.add(document.name, "byte 0", "no list of messages with role and content")
        return
    # Of the whole log: another attempt at the same question begins alike, and is another run.
    question = text_of(value.get("question_ID")) if isinstance(value, dict) else None
    run = f"{question or 'chat'}-{digest(dump_json(messages).decode())}"
    sound: list[tuple[int, dict[str, Any]]] = []
    for index, message in enumerate(messages):
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            sound.append((index, message))
        else:
            problems.add(document.name, f"message {index}", "no message with a role")
    roles = {message["role"].lower() for _, message in sound}
    if roles <= _CHAT_ROLES:
        yield from _chat(run, sound, context)
    else:
        yield from _Ensemble(run, context).read(sound)


def _common(run: str, agent: str, service: str, clock: int) -> dict[str, Any]:
    """What all readings state. One ends at its clock and starts where the one before it may end: none overlap."""
    return {
        "start_ns": clock - 1, "end_ns": clock, "ordinal": clock, "timeless": True, "trace_id": run, "conversation": run,
        "service": service, "scope": "chat-log", "agent_name": agent, "agent_id": agent, "dialects": ("chat_log",),
    }  # fmt: skip


def _spoken(index: int) -> int:
    """Clock of a message: every second tick, from 2, so that a delegation's end fits behind and no start is 0."""
    return 2 * index + 2


def _chat(run: str, messages: list[tuple[int, dict[str, Any]]], context: ReadContext) -> Iterator[Reading]:
    """A log of one agent: every assistant message is a call on everything before it."""
    prompt = Prompt()
    asked: dict[int, ToolUse] = {}
    for index, message in messages:
        common = _common(run, "assistant", "chat-log", _spoken(index))
        builder = context.builder()
        read_messages(message, builder)
        block = builder.build()
        if message["role"] == "assistant":
            yield Reading(
                **common, span_id=f"{run}/{index}", kind=Operation.LLM, name="assistant", content=prompt.snapshot(),
                output=block,
            )  # fmt: skip
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    use = start_tool(
                        context, str(function.get("name")), text_of(call.get("id")), function.get("arguments")
                    )
                    asked[use.call] = use
        elif message["role"] in ("tool", "function"):
            call_id = text_of(message.get("tool_call_id"))
            known = asked.pop(context.hasher.hash(call_id), None) if call_id else None
            use = known or start_tool(context, text_of(message.get("name")) or "tool", call_id, None)
            finish_tool(context, use, message.get("content"))
            yield Reading(
                **common, span_id=f"{run}/{index}", kind=Operation.TOOL, name=use.name, tool=use,
            )  # fmt: skip
        prompt.add(block)


class _Ensemble:
    """A log of an orchestrator and its delegates; each has a context of its own."""

    def __init__(self, run: str, context: ReadContext) -> None:
        self._run = run
        self._context = context
        self._prompts: dict[str, Prompt] = {}
        self._open: tuple[str, str, ToolUse, str, int] | None = None  # orchestrator, delegate, call, call id, index

    def read(self, messages: list[tuple[int, dict[str, Any]]]) -> Iterator[Reading]:
        """Yield the calls and delegations in the order of the log."""
        leaders = {match["agent"] for _, item in messages if (match := _ROLE.match(item["role"])) and match["to"]}
        for index, message in messages:
            text = flatten(message.get("content"))
            match = _ROLE.match(message["role"])
            speaker = match["agent"] if match else message["role"]
            if speaker.lower() in _PEOPLE:
                for leader in sorted(leaders):
                    self._prompt(leader).add(one_block(self._context, BlockKind.USER, text))
                continue
            yield self._call(speaker, index, text)
            if match and match["to"]:
                yield from self._unanswered()
                self._delegate(speaker, match["to"].strip(), index, text)
            elif self._open is not None and self._open[1] == speaker:
                yield self._answer(index, text)
            else:
                kind = BlockKind.ASSISTANT if speaker in leaders or not leaders else BlockKind.USER
                for name in leaders or {speaker}:
                    self._prompt(name).add(one_block(self._context, kind, text))
        yield from self._unanswered()

    def _prompt(self, agent: str) -> Prompt:
        return self._prompts.setdefault(agent, Prompt())

    def _call(self, agent: str, index: int, text: str) -> Reading:
        return Reading(
            **_common(self._run, agent, "magentic-one", _spoken(index)), span_id=f"{self._run}/{index}",
            kind=Operation.LLM, name="message", content=self._prompt(agent).snapshot(),
            output=one_block(self._context, BlockKind.ASSISTANT, text),
        )  # fmt: skip

    def _delegate(self, leader: str, delegate: str, index: int, text: str) -> None:
        call_id = f"{self._run}/{index}/to"
        use = start_tool(self._context, delegate, call_id, text)
        self._open = (leader, delegate, use, call_id, index)
        self._exchange(leader, BlockKind.TOOL_ARGUMENTS, text, call_id)
        self._prompt(delegate).add(one_block(self._context, BlockKind.USER, text))

    def _answer(self, index: int, text: str) -> Reading:
        assert self._open is not None  # noqa: S101 - the caller looked
        leader, delegate, use, call_id, _ = self._open
        self._open = None
        finish_tool(self._context, use, text)
        self._exchange(leader, BlockKind.TOOL_RESULT, text, call_id)
        self._prompt(delegate).add(one_block(self._context, BlockKind.ASSISTANT, text))
        return self._run_of(leader, use, call_id, index)

    def _unanswered(self) -> Iterator[Reading]:
        """The open delegation, where the orchestrator went on without an answer: asked all the same."""
        if self._open is not None:
            leader, _, use, call_id, index = self._open
            self._open = None
            yield self._run_of(leader, use, call_id, index)

    def _run_of(self, leader: str, use: ToolUse, call_id: str, index: int) -> Reading:
        """A delegation as a tool of its orchestrator, right behind the message that ended it."""
        return Reading(
            **_common(self._run, leader, "magentic-one", _spoken(index) + 1), span_id=call_id, kind=Operation.TOOL,
            name=use.name, tool=use,
        )  # fmt: skip

    def _exchange(self, leader: str, kind: BlockKind, text: str, call_id: str) -> None:
        builder = self._context.builder()
        builder.message()
        builder.add(kind, text, call_id=call_id)
        self._prompt(leader).add(builder.build())


FORMAT = Format(
    "chat-log", "role and content messages (AgentRx, Who&When, OpenAI style)", _read,
    sniff_json=lambda value: _messages(value) is not None,
)  # fmt: skip
