"""Messages in any spelling to blocks: what was said is reduced to kinds, counts and hashes.

Spellings read: OpenTelemetry message parts, OpenAI chat and Responses items, Anthropic blocks, Gemini contents,
LangChain's serialised messages, and their mixtures. What is not recognised counts as text of its role; what is no text
(images, audio, files) is left out, since its token cost does not follow from its size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lowwater.collectors.chunks import split_retrieval
from lowwater.collectors.content import BlockKind, ContentBuilder
from lowwater.collectors.values import load_json, text_of, unwrap

__all__ = ["flatten", "read_messages", "read_system", "read_tools"]

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

_CALLS = frozenset(
    {"tool_call", "tool_use", "toolcall", "tool-call", "server_tool_call", "server_tool_use", "mcp_tool_use",
     "function_call", "functioncall", "custom_tool_call", "mcp_call"}
)  # fmt: skip
_RESULTS = frozenset(
    {"tool_call_response", "tool_result", "toolresult", "tool-result", "function_response", "functionresponse",
     "function_call_output", "custom_tool_call_output", "server_tool_call_response", "web_search_tool_result",
     "web_fetch_tool_result", "code_execution_tool_result", "mcp_tool_result"}
)  # fmt: skip
_REASONING = frozenset({"reasoning", "thinking", "thought", "reasoning_text", "summary_text"})
_NO_TEXT = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "blob", "file", "input_file", "uri", "video",
     "redacted_thinking", "inline_data", "file_data"}
)  # fmt: skip

_MAX_DEPTH = 12
"""Messages nest three or four levels; deeper values are flattened as they are."""

_CONTAINERS = ("messages", "contents", "input", "input_messages", "output", "choices")


def read_messages(value: Any, builder: ContentBuilder, *, default_role: str = "user") -> None:
    """Read a prompt or an answer into the builder.

    Args:
        value: a JSON string, a list of messages, one message, or a request that holds messages.
        builder: takes the blocks.
        default_role: role of text that names none.
    """
    _read(unwrap(load_json(value)), builder, default_role, 0)


def read_system(value: Any, builder: ContentBuilder) -> None:
    """Read system instructions: text, parts, or a message."""
    value = unwrap(load_json(value))
    if isinstance(value, dict) and "role" not in value and "parts" in value:
        value = value["parts"]
    _parts(value, BlockKind.SYSTEM, builder, _Message(), 0)


def read_tools(value: Any, builder: ContentBuilder) -> None:
    """Read tool definitions: one block per tool, whatever its form."""
    value = unwrap(load_json(value))
    if isinstance(value, dict):
        # {"name": schema} maps, Gemini's function_declarations, or a single definition.
        nested = value.get("function_declarations") or value.get("functionDeclarations") or value.get("tools")
        if isinstance(nested, list):
            value = nested
        elif "name" in value or "function" in value or "type" in value:
            value = [value]
        else:
            value = list(value.values())
    if not isinstance(value, list):
        value = [value]
    for tool in value:
        definition = unwrap(load_json(tool))
        declared = definition.get("function_declarations") if isinstance(definition, dict) else None
        for item in declared if isinstance(declared, list) else [definition]:
            builder.add(BlockKind.TOOL_SCHEMA, item if isinstance(item, str) else _dump(item))


def flatten(value: Any) -> str:
    """The text of a tool's result in any spelling: text parts joined, everything else as JSON."""
    value = unwrap(value)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        texts = [_part_text(part) for part in value]
        if all(text is not None for text in texts):
            return "\n".join(text for text in texts if text)
    if isinstance(value, dict):
        text = _part_text(value)
        if text is not None:
            return text
    return _dump(value)


class _Message:
    """What the message around a part says: its tool-call id and tool name."""

    __slots__ = ("call_id", "tool")

    def __init__(self, call_id: str | None = None, tool: str | None = None) -> None:
        self.call_id = call_id
        self.tool = tool


def _read(value: Any, builder: ContentBuilder, role: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        builder.add(_kind(role), flatten(value))
        return
    if isinstance(value, list):
        for item in value:
            _read(unwrap(load_json(item)) if isinstance(item, str) else unwrap(item), builder, role, depth + 1)
        return
    if not isinstance(value, dict):
        builder.message()
        _text(flatten(value), _kind(role), builder, _Message())
        return
    for name in ("system_instruction", "system", "instructions", "systemInstruction"):
        if name in value and "role" not in value and any(key in value for key in _CONTAINERS):
            read_system(value[name], builder)
    for name in _CONTAINERS:
        nested = value.get(name)
        if isinstance(nested, list) and "role" not in value:
            _read(nested, builder, role, depth + 1)
            return
    if "message" in value and "role" not in value:  # a choice of a completion
        _read(unwrap(value["message"]), builder, "assistant", depth + 1)
        return
    _message(value, builder, role, depth)


def _message(message: Mapping[str, Any], builder: ContentBuilder, role: str, depth: int) -> None:
    builder.message()
    kind_name, body = _langchain(message)
    name = str(body.get("role") or kind_name or role)
    kind = _kind(name)
    about = _Message(text_of(body.get("tool_call_id") or body.get("id_of_call")), text_of(body.get("name")))
    item_type = str(body.get("type") or "").lower()
    if (
        "role" not in body
        and kind_name is None
        and (item_type in _CALLS or item_type in _RESULTS or item_type in _REASONING or item_type == "compaction")
    ):
        _part(body, kind, builder, about, depth)
        return
    reasoning = body.get("reasoning_content") or body.get("reasoning")
    if isinstance(reasoning, str):
        builder.add(BlockKind.REASONING, reasoning)
    parts = body.get("parts") if body.get("parts") is not None else body.get("content")
    if parts is None and isinstance(body.get("text"), str):
        parts = body["text"]
    if kind is BlockKind.TOOL_RESULT and _is_calls(parts):
        # Some frameworks put the calls into a message of role "tool".
        parts, calls = None, unwrap(load_json(parts))
    else:
        calls = body.get("tool_calls") or body.get("function_call") or body.get("toolCalls")
    _parts(parts, kind, builder, about, depth)
    for call in calls if isinstance(calls, list) else [calls] if calls else []:
        _call(call, builder)


def _langchain(message: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """(role, body) of LangChain's serialised messages; (None, message) of others."""
    kwargs = message.get("kwargs")
    path = message.get("id")
    if isinstance(kwargs, dict) and isinstance(path, list) and path:
        return _class_role(str(path[-1])), kwargs
    kind = message.get("type")
    if isinstance(kind, str) and kind.lower() in _ROLES and "role" not in message:
        data = message.get("data")
        return kind.lower(), data if isinstance(data, dict) else message
    return None, message


def _class_role(name: str) -> str:
    name = name.lower()
    for prefix, role in (
        ("human", "user"),
        ("system", "system"),
        ("tool", "tool"),
        ("function", "tool"),
        ("ai", "assistant"),
    ):
        if name.startswith(prefix):
            return role
    return "user"


def _parts(parts: Any, kind: BlockKind, builder: ContentBuilder, about: _Message, depth: int) -> None:
    parts = unwrap(parts)
    if (isinstance(parts, list) and kind is not BlockKind.TOOL_RESULT) or (
        isinstance(parts, list) and any(isinstance(part, dict) and _type(part) in _RESULTS for part in parts)
    ):
        for part in parts:
            _part(unwrap(part), kind, builder, about, depth)
    elif isinstance(parts, dict) and kind is not BlockKind.TOOL_RESULT:
        _part(parts, kind, builder, about, depth)
    elif parts is not None:
        _text(flatten(parts), kind, builder, about)


def _part(part: Any, kind: BlockKind, builder: ContentBuilder, about: _Message, depth: int) -> None:
    if not isinstance(part, dict):
        _text(flatten(part), kind, builder, about)
        return
    name = _type(part)
    if name in _CALLS:
        _call(part, builder)
    elif name in _RESULTS:
        _result(part, builder, about)
    elif name in _REASONING or part.get("thought") is True:
        builder.add(BlockKind.REASONING, _reasoning_text(part))
    elif name == "compaction":
        builder.compaction()
        builder.add(BlockKind.SUMMARY, flatten(part.get("content") or part.get("text") or part.get("summary")))
    elif name == "document":
        builder.add(BlockKind.RETRIEVAL, flatten(part.get("source") or part.get("content") or part.get("text")))
    elif name not in _NO_TEXT:
        for key, read in _UNTYPED.items():
            nested = part.get(key)
            if isinstance(nested, dict):
                read({**nested, "type": key}, builder, about)
                return
        if any(key in part for key in ("inlineData", "inline_data", "fileData", "file_data", "image_url")):
            return
        text = _part_text(part)
        _text(text if text is not None else _dump(part), kind, builder, about)


def _call(call: Any, builder: ContentBuilder, about: _Message | None = None) -> None:
    call = unwrap(call)
    if not isinstance(call, dict):
        builder.add(BlockKind.TOOL_ARGUMENTS, flatten(call))
        return
    function = call.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, dict) else call
    name = text_of(inner.get("name") or call.get("toolName") or call.get("tool_name"))
    arguments = next(
        (inner[key] for key in ("arguments", "input", "args", "parameters") if inner.get(key) is not None), None
    )
    call_id = text_of(call.get("call_id") or call.get("id") or call.get("toolCallId") or call.get("tool_call_id"))
    builder.add(
        BlockKind.TOOL_ARGUMENTS, f"{name or ''} {arguments if isinstance(arguments, str) else _dump(arguments)}".strip(),
        call_id=call_id, tool=name,
    )  # fmt: skip


def _result(part: Mapping[str, Any], builder: ContentBuilder, about: _Message | None) -> None:
    value = next(
        (part[key] for key in ("response", "result", "output", "content", "text") if part.get(key) is not None), None
    )
    call_id = text_of(
        part.get("tool_use_id")
        or part.get("call_id")
        or part.get("tool_call_id")
        or part.get("toolCallId")
        or part.get("id")
    )
    tool = text_of(part.get("name") or part.get("toolName"))
    builder.add(
        BlockKind.TOOL_RESULT,
        flatten(value),
        call_id=call_id or (about.call_id if about is not None else None),
        tool=tool or (about.tool if about is not None else None),
    )


_UNTYPED: Mapping[str, Callable[[Mapping[str, Any], ContentBuilder, _Message], None]] = {
    "functionCall": _call,
    "function_call": _call,
    "functionResponse": _result,
    "function_response": _result,
    "toolUse": _call,
    "toolResult": lambda part, builder, about: _result({**part, "id": part.get("toolUseId")}, builder, about),
    "toolRequest": _call,
    "toolResponse": _result,
}
"""Parts that are named by their key: Gemini, Bedrock Converse, Genkit."""


def _text(text: str, kind: BlockKind, builder: ContentBuilder, about: _Message) -> None:
    if kind in (BlockKind.TOOL_RESULT, BlockKind.TOOL_ARGUMENTS):
        builder.add(kind, text, call_id=about.call_id, tool=about.tool)
    elif kind in (BlockKind.USER, BlockKind.SYSTEM):
        for is_chunk, segment in split_retrieval(text):
            builder.add(BlockKind.RETRIEVAL if is_chunk else kind, segment)
    else:
        builder.add(kind, text)


def _kind(role: str) -> BlockKind:
    name = role.lower().rpartition(".")[2]
    return _ROLES.get(name, BlockKind.USER)


def _type(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return kind.lower() if isinstance(kind, str) else ""


def _part_text(part: Any) -> str | None:
    """The text of a text part; None if it is something else."""
    part = unwrap(part)
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    if _type(part) in _NO_TEXT:
        return ""
    for key in ("text", "content", "output_text", "value"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return None


def _reasoning_text(part: Mapping[str, Any]) -> str:
    for key in ("thinking", "reasoning", "content", "text", "summary"):
        if part.get(key):
            return flatten(part[key])
    return ""


def _is_calls(parts: Any) -> bool:
    if not isinstance(parts, str | list):
        return False
    value = unwrap(load_json(parts))
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("function"), Mapping) for item in value)
    )


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, RecursionError):
        return ""
