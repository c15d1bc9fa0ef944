"""One part of a message to its block: text, a tool's call or result, reasoning, a document, a compaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lowwater.collectors.chunks import is_retrieved, split_retrieval
from lowwater.collectors.content import BlockKind, ContentBuilder
from lowwater.collectors.messages.text import MEDIA_KEYS, MEDIA_TYPES, dump, flatten, part_text, part_type
from lowwater.collectors.values import load_json, text_of, unwrap

__all__ = ["About", "is_call", "is_item", "is_part", "is_reasoning", "is_result", "read_call", "read_part", "read_text"]

_CALLS = frozenset({"tool_use", "toolcall", "tool-call", "server_tool_use", "mcp_tool_use", "functioncall"})
_RESULTS = frozenset(
    {"tool_call_response", "toolresult", "tool-result", "function_response", "functionresponse",
     "server_tool_call_response"}
)  # fmt: skip
_REASONING = frozenset(
    {"reasoning", "thinking", "thought", "reasoning_text", "summary_text", "textreasoningcontent"}
)  # fmt: skip
_DOCUMENTS = frozenset({"document", "search_result"})

_ARGUMENTS = ("arguments", "input", "args", "parameters", "action", "queries", "code")
_OUTCOMES = ("output", "outputs", "results")
"""What a provider's own tool returned stands in the item of its call: ``mcp_call``, ``file_search_call``."""
_CALL_IDS = ("call_id", "id", "toolCallId", "toolUseId", "tool_call_id", "tool_use_id")
_RESULT_IDS = ("tool_use_id", "toolUseId", "call_id", "tool_call_id", "toolCallId", "id")
_NAMES = ("name", "toolName", "tool_name")
_REASONED = ("thinking", "reasoning", "content", "text", "summary", "reasoningText", "reasoning_text")


class About(NamedTuple):
    """What the message around a part says: its tool-call id and its tool's name."""

    call_id: str | None = None
    tool: str | None = None


_NOTHING = About()


def is_call(kind: str) -> bool:
    """Whether parts of this type are calls: all of ``tool_call``, ``function_call``, ``web_search_call`` and so on."""
    return kind in _CALLS or kind.endswith("_call")


def is_result(kind: str) -> bool:
    """Whether parts of this type are results: ``tool_result``, ``function_call_output``, ``web_fetch_tool_result``."""
    return kind in _RESULTS or kind.endswith(("_call_output", "tool_result"))


def is_reasoning(kind: str) -> bool:
    """Whether parts of this type are reasoning."""
    return kind in _REASONING


def is_item(value: Mapping[str, Any]) -> bool:
    """Whether a mapping without a role is one step of a conversation and no message: a call, a result, reasoning."""
    kind = part_type(value)
    if kind:
        return is_call(kind) or is_result(kind) or kind in _REASONING or kind == "compaction"
    return not _UNTYPED.keys().isdisjoint(value) or isinstance(value.get("toolName", value.get("tool_name")), str)


def is_part(value: Any) -> bool:
    """Whether a value found inside a text that is JSON is a part of a message, and no data of somebody's."""
    if not isinstance(value, dict):
        return False
    kind = part_type(value)
    return is_item(value) or kind in MEDIA_TYPES or kind in _DOCUMENTS or part_text(value) is not None


def read_part(part: Any, kind: BlockKind, builder: ContentBuilder, about: About = _NOTHING) -> None:
    """Read a part of a message whose own text is of this kind."""
    part = unwrap(part)
    if not isinstance(part, dict):
        read_text(flatten(part), kind, builder, about)
        return
    name = part_type(part)
    if name == "text" and isinstance(part.get("text"), str) and "thought" not in part:
        read_text(part["text"], kind, builder, about)  # by far the most frequent
        return
    if name in MEDIA_TYPES:
        return
    if is_call(name):
        read_call(part, builder)
    elif is_result(name):
        _result(part, builder, about)
    elif name in _REASONING or part.get("thought") is True:
        _reasoning(part, builder, about)
    elif name == "compaction":
        builder.compaction()
        builder.add(BlockKind.SUMMARY, flatten(part.get("content") or part.get("text") or part.get("summary")))
    elif name in _DOCUMENTS:
        _document(part, builder, about)
    else:
        _untyped(part, kind, builder, about)


def read_text(text: str, kind: BlockKind, builder: ContentBuilder, about: About = _NOTHING) -> None:
    """Add text, and set the retrieved chunks in it apart."""
    if kind is BlockKind.TOOL_RESULT and is_retrieved(text):
        builder.add(BlockKind.RETRIEVAL, text, call_id=about.call_id, tool=about.tool)
    elif kind in (BlockKind.TOOL_RESULT, BlockKind.TOOL_ARGUMENTS):
        builder.add(kind, text, call_id=about.call_id, tool=about.tool)
    elif kind in (BlockKind.USER, BlockKind.SYSTEM):
        for is_chunk, segment in split_retrieval(text):
            builder.add(BlockKind.RETRIEVAL if is_chunk else kind, segment)
    else:
        builder.add(kind, text)


def read_call(call: Any, builder: ContentBuilder, about: About = _NOTHING) -> None:
    """Read a call of a tool in any spelling; what a provider's own tool answered in the same item is its result."""
    call = unwrap(load_json(call))
    if not isinstance(call, dict):
        builder.add(BlockKind.TOOL_ARGUMENTS, flatten(call))
        return
    function = call.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, dict) else call
    name = _first_text(inner, _NAMES) or _first_text(call, _NAMES)
    arguments = _first(inner, _ARGUMENTS)
    call_id = _first_text(call, _CALL_IDS) or about.call_id
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else dump(arguments, whole=True)
    builder.add(BlockKind.TOOL_ARGUMENTS, f"{name or ''} {arguments}".strip(), call_id=call_id, tool=name)
    outcome = _first(call, _OUTCOMES) if is_call(part_type(call)) else None
    if outcome is not None:
        kind = BlockKind.RETRIEVAL if part_type(call) == "file_search_call" else BlockKind.TOOL_RESULT
        builder.add(kind, flatten(outcome), call_id=call_id, tool=name)


def _result(part: Mapping[str, Any], builder: ContentBuilder, about: About) -> None:
    value = _first(part, ("response", "result", "output", "content", "text"))
    documents = isinstance(value, list) and any(
        isinstance(item, dict) and part_type(item) in _DOCUMENTS for item in value
    )
    text = "\n".join(_document_text(item) for item in value) if documents else flatten(value)
    read_text(
        text,
        BlockKind.RETRIEVAL if documents else BlockKind.TOOL_RESULT,
        builder,
        About(_first_text(part, _RESULT_IDS) or about.call_id, _first_text(part, _NAMES) or about.tool),
    )


def _reasoning(part: Mapping[str, Any], builder: ContentBuilder, about: About) -> None:
    text = _first(part, _REASONED)
    if isinstance(text, dict):
        # An opaque signature may stand beside the text, or instead of it.
        text = text.get("text")
    builder.add(BlockKind.REASONING, flatten(text))


def _document(part: Mapping[str, Any], builder: ContentBuilder, about: About) -> None:
    builder.add(BlockKind.RETRIEVAL, _document_text(part))


def _document_text(part: Any) -> str:
    """Title and text of a document or search result; a file (base64, an address, an id) has no text to count."""
    if not isinstance(part, dict) or part_type(part) not in _DOCUMENTS:
        return flatten(part)
    source = part.get("source")
    if isinstance(source, dict):
        held = source.get("data") if source.get("type") == "text" else source.get("content") or source.get("text")
    else:
        held = part.get("content") or part.get("text") or part.get("data") or part.get("document")
    text = flatten(held)
    title = text_of(part.get("title"))
    return f"{title}\n{text}" if title and text else text


def _untyped(part: Mapping[str, Any], kind: BlockKind, builder: ContentBuilder, about: About) -> None:
    """A part named by its key, or not recognised: Gemini, Bedrock Converse, Genkit, and everything else."""
    for key, read in _UNTYPED.items():
        nested = part.get(key)
        if isinstance(nested, dict):
            read({**nested, "type": _UNTYPED_TYPES.get(key, "")}, builder, about)
            return
    if is_item(part):
        if _first(part, ("result", "output")) is None:
            read_call(part, builder, about)
        else:
            _result(part, builder, about)
    elif MEDIA_KEYS.isdisjoint(part):
        text = part_text(part)
        read_text(dump(part) if text is None else text, kind, builder, about)


_UNTYPED: Mapping[str, Callable[[Mapping[str, Any], ContentBuilder, About], None]] = {
    "functionCall": read_call,
    "function_call": read_call,
    "functionResponse": _result,
    "function_response": _result,
    "toolUse": read_call,
    "toolResult": _result,
    "toolRequest": read_call,
    "toolResponse": _result,
    "reasoningContent": _reasoning,
    "document": _document,
}
_UNTYPED_TYPES = {"document": "document"}


def _first(part: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = part.get(key)
        if value is not None:
            return value
    return None


def _first_text(part: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key in part:
            text = text_of(part[key])
            if text is not None:
                return text
    return None
