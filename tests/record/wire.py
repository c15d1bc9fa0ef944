"""The wire formats of the scripted server: what a request holds, and how an answer is written, whole or streamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = [
    "CONSUMERS",
    "PROTOCOLS",
    "Answer",
    "Call",
    "Piece",
    "Refusal",
    "Reply",
    "Request",
    "WireProtocol",
    "count_tokens",
]

CONSUMERS = ("system", "tools", "retrieval", "scratchpad", "working")
"""Who holds tokens of a prompt, as lowwater names them. Spelled out, so that the truth leans on no code under test."""

_TOKEN = re.compile(r"[^\W\d_]{1,6}|\d{1,3}|[^\w\s]|_")


def count_tokens(text: str) -> int:
    """Tokens of a text: up to six letters, up to three digits, or one mark each.

    Deliberately not the estimate that lowwater uses, yet of the same order as public byte-pair tokenizers.

    >>> count_tokens("p95=412ms, retrying checkout")
    10
    """
    return len(_TOKEN.findall(text))


@dataclass(frozen=True, slots=True)
class Piece:
    """One counted part of a prompt. Ids, roles and JSON framing are not counted."""

    consumer: str
    text: str

    @property
    def tokens(self) -> int:
        """Tokens of the text."""
        return count_tokens(self.text)


@dataclass(frozen=True, slots=True)
class Request:
    """What a framework sent.

    Attributes:
        index: calls that the scenario answered or refused before, from 0.
        pieces: the prompt in the order system, tools, messages.
        body: the decoded request, for scenarios that look closer.
    """

    index: int
    model: str
    pieces: tuple[Piece, ...]
    body: Mapping[str, Any]

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt, cached part included."""
        return sum(piece.tokens for piece in self.pieces)

    def consumers(self) -> dict[str, int]:
        """Tokens by consumer; they sum to `prompt_tokens`."""
        totals = dict.fromkeys(CONSUMERS, 0)
        for piece in self.pieces:
            totals[piece.consumer] += piece.tokens
        return totals


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def arguments_json(self) -> str:
        """The arguments as they go over the wire."""
        return json.dumps(self.arguments, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, tool calls or both.

    Attributes:
        delay_seconds: how long the model takes; it fixes the order in which parallel agents are answered.
        summary: the answer sums a history up; what is asked next stands on it.
        agent: who asked, where it is not the agent of the scenario.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay_seconds: float = 0.0
    summary: bool = False
    agent: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the answer."""
        return count_tokens(self.text) + sum(
            count_tokens(call.name) + count_tokens(call.arguments_json()) for call in self.calls
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error instead of an answer, for example ``Refusal(429, "rate_limit_exceeded", "...", retry_after_seconds=2)``.

    Attributes:
        kind: the ``type`` of the error, where it differs from its code.
    """

    status: int
    code: str
    message: str
    kind: str | None = None
    retry_after_seconds: float | None = None


Reply = Answer | Refusal


# --- protocols -------------------------------------------------------------------------------------------------------


class WireProtocol(Protocol):
    """Reads requests and writes answers of one provider."""

    def pieces(self, body: Mapping[str, Any], retrievers: frozenset[str]) -> Iterator[Piece]: ...
    def whole(self, answer: Answer, line: Mapping[str, Any]) -> dict[str, Any]: ...
    def stream(self, answer: Answer, line: Mapping[str, Any]) -> Iterator[str]: ...
    def error(self, refusal: Refusal) -> dict[str, Any]: ...


def _schema(name: Any, description: Any, parameters: Any) -> Piece:
    return Piece("tools", f"{name} {description or ''} {json.dumps(parameters or {}, sort_keys=True)}")


def _text(content: Any) -> str:
    """The text of a content field: a string, or parts that carry one."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or part.get("thinking") or "") for part in parts if isinstance(part, dict))


def _result_consumer(name: str | None, retrievers: frozenset[str]) -> str:
    return "retrieval" if name in retrievers else "scratchpad"


class _OpenAI:
    """``POST /v1/chat/completions``. Its input includes the cached part."""

    def pieces(self, body: Mapping[str, Any], retrievers: frozenset[str]) -> Iterator[Piece]:
        tools = [tool.get("function", {}) for tool in body.get("tools") or ()]
        schemas = [_schema(tool.get("name"), tool.get("description"), tool.get("parameters")) for tool in tools]
        names: dict[str, str] = {}
        for message in body.get("messages") or ():
            role, text = message.get("role"), _text(message.get("content"))
            if role == "tool":
                yield Piece(_result_consumer(names.get(message.get("tool_call_id")), retrievers), text)
                continue
            if text:
                yield Piece("system" if role in ("system", "developer") else "working", text)
            # Schemas follow the leading system text, as providers render them; they are part of the stable prefix.
            yield from schemas
            schemas = []
            for call in message.get("tool_calls") or ():
                names[call.get("id")] = call["function"]["name"]
                yield Piece("scratchpad", f"{call['function']['name']} {call['function']['arguments']}")

    def whole(self, answer: Answer, line: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = self._calls(answer, line)
        choice = {"index": 0, "message": message, "finish_reason": self._finish(answer)}
        return {**self._head(line, "chat.completion"), "choices": [choice], "usage": self._usage(line)}

    def stream(self, answer: Answer, line: Mapping[str, Any]) -> Iterator[str]:
        head = self._head(line, "chat.completion.chunk")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in re.findall(r"\S+\s*", answer.text)]
        deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(self._calls(answer, line))]
        choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": self._finish(answer)})
        for choice in choices:
            yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': self._usage(line)})}\n\n"
        yield "data: [DONE]\n\n"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.kind or refusal.code
        return {"error": {"message": refusal.message, "type": kind, "code": refusal.code, "param": None}}

    @staticmethod
    def _head(line: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return {"id": line["response_id"], "object": kind, "created": 1, "model": line["model"]}

    @staticmethod
    def _finish(answer: Answer) -> str:
        return "tool_calls" if answer.calls else "stop"

    @staticmethod
    def _calls(answer: Answer, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "id": _call_id(line, index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json()},
            }
            for index, call in enumerate(answer.calls, 1)
        ]

    @staticmethod
    def _usage(line: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "prompt_tokens": line["prompt_tokens"],
            "completion_tokens": line["completion_tokens"],
            "total_tokens": line["prompt_tokens"] + line["completion_tokens"],
            "prompt_tokens_details": {"cached_tokens": line["cached_tokens"]},
        }


class _Anthropic:
    """``POST /v1/messages``. Its input excludes the cached part."""

    def pieces(self, body: Mapping[str, Any], retrievers: frozenset[str]) -> Iterator[Piece]:
        # The provider's order is tools, system, messages.
        for tool in body.get("tools") or ():
            yield _schema(tool.get("name"), tool.get("description"), tool.get("input_schema"))
        if system := _text(body.get("system")):
            yield Piece("system", system)
        names: dict[str, str] = {}
        for message in body.get("messages") or ():
            content = message.get("content")
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
                yield self._piece(block, names, retrievers)

    @staticmethod
    def _piece(block: Mapping[str, Any], names: dict[str, str], retrievers: frozenset[str]) -> Piece:
        if block.get("type") == "tool_use":
            names[block["id"]] = block["name"]
            return Piece("scratchpad", f"{block['name']} {json.dumps(block['input'], separators=(',', ':'))}")
        if block.get("type") == "tool_result":
            return Piece(_result_consumer(names.get(block["tool_use_id"]), retrievers), _text(block.get("content")))
        return Piece("working", _text([block]))

    def whole(self, answer: Answer, line: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._head(line),
            **self._stop(answer),
            "content": self._blocks(answer, line),
            "usage": self._usage(line),
        }

    def stream(self, answer: Answer, line: Mapping[str, Any]) -> Iterator[str]:
        start = {**self._head(line), "content": [], "stop_reason": None, "stop_sequence": None}
        yield self._event("message_start", message={**start, "usage": {**self._usage(line), "output_tokens": 1}})
        for index, block in enumerate(self._blocks(answer, line)):
            if block["type"] == "text":
                empty, key, parts = {**block, "text": ""}, "text", re.findall(r"\S+\s*", block["text"])
            else:
                empty, key, parts = {**block, "input": {}}, "partial_json", [json.dumps(block["input"])]
            yield self._event("content_block_start", index=index, content_block=empty)
            kind = "text_delta" if key == "text" else "input_json_delta"
            for part in parts:
                yield self._event("content_block_delta", index=index, delta={"type": kind, key: part})
            yield self._event("content_block_stop", index=index)
        usage = {"output_tokens": line["completion_tokens"]}
        yield self._event("message_delta", delta=self._stop(answer), usage=usage)
        yield self._event("message_stop")

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = "rate_limit_error" if refusal.code == "rate_limit_exceeded" else refusal.kind or refusal.code
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}

    @staticmethod
    def _head(line: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": line["response_id"], "type": "message", "role": "assistant", "model": line["model"]}

    @staticmethod
    def _stop(answer: Answer) -> dict[str, Any]:
        return {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}

    @staticmethod
    def _blocks(answer: Answer, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        text: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        return text + [
            {"type": "tool_use", "id": _call_id(line, index), "name": call.name, "input": dict(call.arguments)}
            for index, call in enumerate(answer.calls, 1)
        ]

    @staticmethod
    def _usage(line: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "input_tokens": line["prompt_tokens"] - line["cached_tokens"],
            "output_tokens": line["completion_tokens"],
            "cache_read_input_tokens": line["cached_tokens"],
            "cache_creation_input_tokens": 0,
        }

    @staticmethod
    def _event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def _call_id(line: Mapping[str, Any], index: int) -> str:
    return f"call-{line['scenario']}-{line['call']:03d}-{index}"


PROTOCOLS: Mapping[str, WireProtocol] = {"/v1/chat/completions": _OpenAI(), "/v1/messages": _Anthropic()}
