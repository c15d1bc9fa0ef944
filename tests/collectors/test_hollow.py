"""Frames of messages whose content was not captured measure nothing."""

from __future__ import annotations

from typing import Any

import pytest

from lowwater.collectors.content import BlockKind, Content, ContentBuilder
from lowwater.collectors.hollow import is_hollow
from lowwater.collectors.messages import read_messages, read_tools
from lowwater.collectors.tokens import Hasher

TOOLS = [{"type": "function", "name": "search", "parameters": {"type": "object"}}]


def content(messages: Any) -> Content:
    builder = ContentBuilder(Hasher(b"test"))
    read_tools(TOOLS, builder)
    read_messages(messages, builder)
    built = builder.build()
    assert built is not None
    return built


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "parts": [{"type": "text"}]}],
        [
            {"role": "user", "parts": [{"type": "text"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "search"}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "name": "search"}]},
        ],
        [
            {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "search"}}]},
            {"role": "tool", "id": "c1"},
        ],
    ],
)
def test_roles_names_and_ids_alone_are_hollow(messages: Any) -> None:
    assert is_hollow(content(messages))


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}],
        [{"role": "tool", "tool_call_id": "c1", "content": "nothing found"}],
    ],
)
def test_what_somebody_said_or_a_tool_returned_is_not(messages: Any) -> None:
    assert not is_hollow(content(messages))


def test_a_result_in_a_record_of_its_own_is_its_retriever_s() -> None:
    """Older conventions write each message as a record: the call names the tool, the result only the call."""

    def read(message: dict[str, Any]) -> Content:
        builder = ContentBuilder(Hasher(b"test"), lambda name: name == "search")
        read_messages(message, builder)
        built = builder.build()
        assert built is not None
        return built

    call = read({"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": "{}"}}]})
    joined = call.extended(read({"role": "tool", "id": "c1", "content": "found"}))
    assert list(joined.kinds) == [BlockKind.TOOL_ARGUMENTS, BlockKind.RETRIEVAL]
    other = call.extended(read({"role": "tool", "id": "c2", "content": "found"}))
    assert list(other.kinds) == [BlockKind.TOOL_ARGUMENTS, BlockKind.TOOL_RESULT]
