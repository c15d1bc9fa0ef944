"""Messages, and requests and answers that hold messages, to blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from lowwater.collectors.content import BlockKind, ContentBuilder
from lowwater.collectors.messages.parts import (
    About,
    is_call,
    is_item,
    is_part,
    is_reasoning,
    is_result,
    read_call,
    read_part,
    read_text,
)
from lowwater.collectors.messages.text import dump, flatten, part_type
from lowwater.collectors.values import load_json, text_of, unwrap

__all__ = ["names_only", "read_messages", "read_system", "read_tools"]

_ROLES: Mapping[str, BlockKind] = {
    "system": BlockKind.SYSTEM,
    "developer": BlockKind.SYSTEM,
    "user": BlockKind.USER,
    "human": BlockKind.USER,
    "assistant": BlockKind.ASSISTANT,
    "ai": BlockKind.ASSISTANT,
    "model": BlockKind.ASSISTANT,
    "aimessagechunk": BlockKind.ASSISTANT,
    "tool": BlockKind.TOOL_RESULT,
    "function": BlockKind.TOOL_RESULT,
    "tool-response": BlockKind.TOOL_RESULT,
    "tool_response": BlockKind.TOOL_RESULT,
    "toolresult": BlockKind.TOOL_RESULT,
    "tool-call": BlockKind.TOOL_ARGUMENTS,
    "tool_call": BlockKind.TOOL_ARGUMENTS,
    "toolcall": BlockKind.TOOL_ARGUMENTS,
}
_ROLE_REPR = re.compile(r"Role\.(\w+)")
"""An enumeration's repr: ``MessageRole.TOOL_CALL``, ``<MessageRole.USER: 'user'>`` (smolagents)."""
_LANGCHAIN_CLASSES = (
    ("human", "user"), ("system", "system"), ("tool", "tool"), ("function", "tool"), ("ai", "assistant"),
)  # fmt: skip

_MAX_DEPTH = 12
"""Messages nest three or four levels; deeper values are flattened as they are."""

_HELD = (
    "messages",
    "contents",
    "input",
    "input_messages",
    "prompt",
    "prompts",
    "output",
    "choices",
    "candidates",
    "generations",
)
"""Under which names requests and answers hold their messages; the first one found counts."""
_INSTRUCTIONS = ("system_instruction", "system", "instructions", "systemInstruction")
_DEFINITIONS = ("tools", "functions")
_CALL_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "call_id")


def read_messages(
    value: Any, builder: ContentBuilder, *, default_role: str = "user", known: Collection[BlockKind] = ()
) -> None:
    """Read a prompt or an answer into the builder.

    Args:
        value: a JSON string, a list of messages, one message, or a request or answer that holds messages.
        builder: takes the blocks.
        default_role: role of text that names none.
        known: kinds of blocks (instructions, tool definitions) that are known from elsewhere, not to be read again
            from beside the messages of a request.
    """
    _Reader(builder, frozenset(known)).read(unwrap(load_json(value)), default_role, 0)


def read_system(value: Any, builder: ContentBuilder) -> None:
    """Read system instructions: text, parts, or messages."""
    _system(unwrap(load_json(value)), builder, 0)


def _system(value: Any, builder: ContentBuilder, depth: int) -> None:
    if isinstance(value, list):
        for item in value:
            _system(unwrap(item), builder, depth + 1) if depth < _MAX_DEPTH else read_part(
                item, BlockKind.SYSTEM, builder
            )
        return
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key in ("parts", "content"):
            if isinstance(value.get(key), list | dict):
                _system(value[key], builder, depth + 1)
                return
    if value is not None:
        read_part(value, BlockKind.SYSTEM, builder)


def read_tools(value: Any, builder: ContentBuilder) -> None:
    """Read tool definitions: one block per tool, whatever its form."""
    for definition in _definitions(unwrap(load_json(value)), 0):
        # The envelope of OpenAI's requests is no part of the prompt.
        inner = definition.get("function") if isinstance(definition, dict) else None
        schema = inner if isinstance(inner, dict) else definition
        builder.add(BlockKind.TOOL_SCHEMA, schema if isinstance(schema, str) else dump(schema))


def names_only(value: Any) -> bool:
    """Whether tool definitions tell the tools' names and no schema.

    The conventions advise telemetry against recording more. The schemas are in the prompt, and their size is unknown.
    """
    return all(map(_is_name, _definitions(unwrap(load_json(value)), 0)))


def _definitions(value: Any, depth: int) -> list[Any]:
    if isinstance(value, list) and depth < 4:
        return [item for tool in value for item in _definitions(unwrap(load_json(tool)), depth + 1)]
    if isinstance(value, dict) and depth < 4:
        # Gemini's function_declarations, {"tools": [..]}, {"name": schema} maps, or a single definition.
        nested = value.get("function_declarations") or value.get("functionDeclarations") or value.get("tools")
        if isinstance(nested, list):
            return _definitions(nested, depth + 1)
        if depth == 0 and not ("name" in value or "function" in value or "type" in value):
            return list(value.values())
    return [value]


_BARE_NAMES = re.compile(r"[\w.:/-]+(?:\s*,\s*[\w.:/-]+)*")


def _is_name(definition: Any) -> bool:
    if definition is None:
        return True
    if isinstance(definition, str):
        return _BARE_NAMES.fullmatch(definition[:4096]) is not None
    if isinstance(definition, dict):
        function = definition.get("function")
        keys = definition.keys() | (function.keys() if isinstance(function, dict) else set())
        return keys <= {"type", "name", "function", "id", "strict"} and not isinstance(definition.get("type"), dict)
    return False


class _Reader:
    """Reads nested values into one builder."""

    __slots__ = ("builder", "known")

    def __init__(self, builder: ContentBuilder, known: frozenset[BlockKind]) -> None:
        self.builder = builder
        self.known = known

    def read(self, value: Any, role: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            self.builder.add(_kind(role), flatten(value))
        elif isinstance(value, list):
            for item in value:
                self.read(unwrap(load_json(item)), role, depth + 1)
        elif not isinstance(value, dict):
            self.builder.message()
            read_text(flatten(value), _kind(role), self.builder)
        elif "role" in value or "type" in value or is_item(value) or not self._held(value, role, depth):
            self._message(value, role)

    def _held(self, value: Mapping[str, Any], role: str, depth: int) -> bool:
        """Read what a request, an answer or one of its choices holds; False if it holds no messages."""
        name = next((key for key in _HELD if isinstance(value.get(key), list | dict | str)), None)
        if name is not None:
            for key in _INSTRUCTIONS:
                if value.get(key) is not None and BlockKind.SYSTEM not in self.known:
                    read_system(value[key], self.builder)
                    break
            for key in _DEFINITIONS:
                if isinstance(value.get(key), list) and BlockKind.TOOL_SCHEMA not in self.known:
                    read_tools(value[key], self.builder)
            self.read(unwrap(load_json(value[name])), role, depth + 1)
            return True
        message, content = unwrap(value.get("message")), unwrap(value.get("content"))
        if message is not None:
            self.read(message, "assistant" if isinstance(message, dict) else role, depth + 1)
            return True
        if isinstance(content, dict) and ("parts" in content or "role" in content):
            self.read(content, role, depth + 1)
            return True
        return False

    def _message(self, message: Mapping[str, Any], role: str) -> None:
        builder = self.builder
        builder.message()
        class_role, body = _langchain(message)
        kind = _kind(str(body.get("role") or class_role or role))
        if class_role is None and "role" not in body and is_item(body):
            read_part(body, kind, builder)
            return
        parts: Any = _structured(_first(body, "parts", "content", "text"))
        calls = _calls(body)
        if kind in (BlockKind.TOOL_RESULT, BlockKind.ASSISTANT) and _are_calls(parts):
            # Some frameworks (koog) write the calls as the message's text.
            parts, calls = None, parts
        if calls and _any_part(parts, is_call):
            calls = []  # the same calls once more, in the framework's own form
        reasoning = body.get("reasoning_content") or body.get("reasoning")
        if isinstance(reasoning, str) and not _any_part(parts, is_reasoning):
            builder.add(BlockKind.REASONING, reasoning)
        if parts is None and not calls and not reasoning and class_role is None and "role" not in body:
            read_part(body, kind, builder)
            return
        self._parts(parts, kind, _about(body, kind))
        for call in calls:
            read_call(call, builder)

    def _parts(self, parts: Any, kind: BlockKind, about: About) -> None:
        if kind is BlockKind.TOOL_RESULT and not _any_part(parts, is_result):
            if parts is not None:
                read_text(flatten(parts), kind, self.builder, about)
        elif isinstance(parts, dict) and isinstance(parts.get("parts"), list):
            self._parts(parts["parts"], kind, about)
        elif isinstance(parts, list):
            for part in parts:
                read_part(part, kind, self.builder, about)
        elif parts is not None:
            read_part(parts, kind, self.builder, about)


def _langchain(message: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """(role, body) of LangChain's serialised messages; (None, message) of others."""
    kwargs, path = message.get("kwargs"), message.get("id")
    if isinstance(kwargs, dict) and isinstance(path, list) and path:
        name = str(path[-1]).lower()
        return next((role for prefix, role in _LANGCHAIN_CLASSES if name.startswith(prefix)), "user"), kwargs
    kind = message.get("type")
    if isinstance(kind, str) and kind.lower() in _ROLES and "role" not in message and not is_call(kind.lower()):
        data = message.get("data")
        return kind.lower(), data if isinstance(data, dict) else message
    return None, message


def _about(body: Mapping[str, Any], kind: BlockKind) -> About:
    call_id = next((text for key in _CALL_IDS if (text := text_of(body.get(key))) is not None), None)
    if call_id is None and kind is BlockKind.TOOL_RESULT:
        call_id = text_of(body.get("id"))  # gen_ai.tool.message of the older conventions
    return About(call_id, text_of(_first(body, "name", "tool_name", "toolName")))


def _calls(body: Mapping[str, Any]) -> list[Any]:
    extra = body.get("additional_kwargs")
    for holder in (body, extra if isinstance(extra, dict) else {}):
        calls = load_json(holder.get("tool_calls") or holder.get("toolCalls") or holder.get("function_call"))
        if calls:
            return calls if isinstance(calls, list) else [calls]
    return []


def _structured(parts: Any) -> Any:
    """Parts that were written as a JSON string (Strands, LangChain, koog); other text stays text."""
    parts = unwrap(parts)
    if isinstance(parts, str) and parts.startswith("[{"):
        parsed = load_json(parts)
        if isinstance(parsed, list) and (all(map(is_part, parsed)) or _are_calls(parsed)):
            return parsed
    return parts


def _are_calls(parts: Any) -> bool:
    return (
        isinstance(parts, list)
        and bool(parts)
        and all(isinstance(item, dict) and isinstance(item.get("function"), Mapping) for item in parts)
    )


def _any_part(parts: Any, test: Any) -> bool:
    return isinstance(parts, list) and any(isinstance(part, dict) and test(_named(part)) for part in parts)


def _named(part: Mapping[str, Any]) -> str:
    """A part's type; of a part named by its key, the key in the same spelling."""
    kind = part_type(part)
    if kind:
        return kind
    return next((name for key, name in _KEYS.items() if key in part), "")


_KEYS = {
    "functionCall": "function_call", "function_call": "function_call", "toolUse": "tool_use", "toolRequest": "tool_call",
    "functionResponse": "function_response", "function_response": "function_response", "toolResult": "tool_result",
    "toolResponse": "tool_result", "reasoningContent": "reasoning",
}  # fmt: skip


def _first(body: Mapping[str, Any], *keys: str) -> Any:
    for key in keys:
        value = body.get(key)
        if value is not None:
            return value
    return None


def _kind(role: str) -> BlockKind:
    kind = _ROLES.get(role)
    if kind is None:
        found = _ROLE_REPR.search(role)
        kind = _ROLES.get((found.group(1) if found else role).lower(), BlockKind.USER)
    return kind
