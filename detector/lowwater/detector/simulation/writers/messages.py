"""A prompt as messages, in the shapes in which instrumentations write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.detector.simulation.model import Part, Piece
from lowwater.detector.simulation.text import text_of

__all__ = ["Content", "chat_json", "indexed_openinference", "indexed_prompt", "parts_json"]

Content = Callable[[Sequence[Piece], Sequence[Piece]], dict[str, Any]]
"""From prompt and answer to attributes."""

_ROLES = {
    Part.SYSTEM: "system",
    Part.USER: "user",
    Part.SUMMARY: "user",
    Part.RETRIEVED: "user",
    Part.ASSISTANT: "assistant",
    Part.REASONING: "assistant",
    Part.TOOL_CALL: "assistant",
    Part.TOOL_RESULT: "tool",
}


@dataclass(slots=True)
class _Message:
    role: str
    call_id: str = ""
    texts: list[str] = field(default_factory=list)
    calls: list[Piece] = field(default_factory=list)


def _messages(pieces: Iterable[Piece]) -> list[_Message]:
    found: list[_Message] = []
    for piece in pieces:
        if piece.part is Part.TOOL_SCHEMA:
            continue
        # What a retriever tool brought answers its call; what was injected stands in the user's message.
        role = "tool" if piece.part is Part.RETRIEVED and piece.call_id else _ROLES[piece.part]
        joins = (
            found
            and found[-1].role == role
            and role != "user"
            and (role != "tool" or found[-1].call_id == piece.call_id)
        )
        if not joins:
            found.append(_Message(role, piece.call_id if role == "tool" else ""))
        if piece.part is Part.TOOL_CALL:
            found[-1].calls.append(piece)
        elif piece.part is Part.RETRIEVED and not piece.call_id:
            found[-1].texts.append(f'<document index="{piece.identity % 1000}">\n{text_of(piece)}\n</document>')
        else:
            found[-1].texts.append(text_of(piece))
    return found


def _schemas(pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": piece.tool or f"tool_{piece.identity}",
            "description": text_of(piece),
            "parameters": {},
        }
        for piece in pieces
        if piece.part is Part.TOOL_SCHEMA
    ]


def _arguments(piece: Piece) -> dict[str, str]:
    return {"query": text_of(piece)}


def parts_json(prompt: Sequence[Piece], answer: Sequence[Piece]) -> dict[str, Any]:
    """``gen_ai.input.messages`` and its siblings, as the semantic conventions of 2026 have them."""

    def written(message: _Message) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        if message.role == "tool":
            parts = [{"type": "tool_call_response", "id": message.call_id, "response": "\n".join(message.texts)}]
        else:
            parts = [{"type": "text", "content": text} for text in message.texts]
            parts += [
                {"type": "tool_call", "id": call.call_id, "name": call.tool, "arguments": _arguments(call)}
                for call in message.calls
            ]
        return {"role": message.role, "parts": parts}

    messages = _messages(prompt)
    system = [{"type": "text", "content": text} for each in messages if each.role == "system" for text in each.texts]
    attributes: dict[str, Any] = {
        "gen_ai.input.messages": json.dumps([written(each) for each in messages if each.role != "system"]),
    }
    if system:
        attributes["gen_ai.system_instructions"] = json.dumps(system)
    if answer:
        attributes["gen_ai.output.messages"] = json.dumps([written(each) for each in _messages(answer)])
    schemas = _schemas(prompt)
    if schemas:
        attributes["gen_ai.tool.definitions"] = json.dumps(schemas)
    return attributes


def _chat(message: _Message) -> dict[str, Any]:
    """A message as OpenAI's chat completions have it."""
    written: dict[str, Any] = {"role": message.role, "content": "\n\n".join(message.texts) or None}
    if message.call_id:
        written["tool_call_id"] = message.call_id
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(_arguments(call))},
            }
            for call in message.calls
        ]
    return written


def chat_json(messages_key: str, answer_key: str, tools_key: str) -> Content:
    """Messages as one JSON list in OpenAI's shape."""

    def write(prompt: Sequence[Piece], answer: Sequence[Piece]) -> dict[str, Any]:
        attributes: dict[str, Any] = {messages_key: json.dumps([_chat(each) for each in _messages(prompt)])}
        schemas = _schemas(prompt)
        if schemas and tools_key:
            attributes[tools_key] = json.dumps(schemas)
        if answer and answer_key:
            attributes[answer_key] = "\n".join(text_of(piece) for piece in answer if piece.part is not Part.TOOL_CALL)
        return attributes

    return write


def indexed_openinference(prompt: Sequence[Piece], answer: Sequence[Piece]) -> dict[str, Any]:
    """OpenInference: every message and tool call under numbered keys."""
    attributes: dict[str, Any] = {}
    for side, pieces in (("input", prompt), ("output", answer)):
        for index, message in enumerate(_messages(pieces)):
            prefix = f"llm.{side}_messages.{index}.message"
            attributes[f"{prefix}.role"] = message.role
            if message.texts:
                attributes[f"{prefix}.content"] = "\n\n".join(message.texts)
            if message.call_id:
                attributes[f"{prefix}.tool_call_id"] = message.call_id
            for number, call in enumerate(message.calls):
                function = f"{prefix}.tool_calls.{number}.tool_call"
                attributes[f"{function}.id"] = call.call_id
                attributes[f"{function}.function.name"] = call.tool
                attributes[f"{function}.function.arguments"] = json.dumps(_arguments(call))
    for index, schema in enumerate(_schemas(prompt)):
        attributes[f"llm.tools.{index}.tool.json_schema"] = json.dumps(schema)
    return attributes


def indexed_prompt(prompt: Sequence[Piece], answer: Sequence[Piece]) -> dict[str, Any]:
    """``gen_ai.prompt.N``, as OpenLLMetry and the older instrumentations write it."""
    attributes: dict[str, Any] = {}
    for side, pieces in (("prompt", prompt), ("completion", answer)):
        for index, message in enumerate(_messages(pieces)):
            prefix = f"gen_ai.{side}.{index}"
            attributes[f"{prefix}.role"] = message.role
            attributes[f"{prefix}.content"] = "\n\n".join(message.texts)
            if message.call_id:
                attributes[f"{prefix}.tool_call_id"] = message.call_id
            for number, call in enumerate(message.calls):
                attributes[f"{prefix}.tool_calls.{number}.id"] = call.call_id
                attributes[f"{prefix}.tool_calls.{number}.name"] = call.tool
                attributes[f"{prefix}.tool_calls.{number}.arguments"] = json.dumps(_arguments(call))
    for index, schema in enumerate(_schemas(prompt)):
        attributes[f"llm.request.functions.{index}.name"] = schema["name"]
        attributes[f"llm.request.functions.{index}.description"] = schema["description"]
    return attributes
