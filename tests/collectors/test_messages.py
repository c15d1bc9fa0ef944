"""One conversation in many spellings gives the same blocks; files have no text; nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.collectors.content import BlockKind, Content, ContentBuilder
from lowwater.collectors.messages import flatten, names_only, read_messages, read_system, read_tools
from lowwater.collectors.tokens import Hasher

HASHER = Hasher(b"tests")
FILE = "QUJD" * 2_000
"""Eight thousand characters of base64."""

SYSTEM, TOOL_SCHEMA, USER, ASSISTANT = BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA, BlockKind.USER, BlockKind.ASSISTANT
REASONING, ARGUMENTS, RESULT = BlockKind.REASONING, BlockKind.TOOL_ARGUMENTS, BlockKind.TOOL_RESULT
RETRIEVAL, SUMMARY = BlockKind.RETRIEVAL, BlockKind.SUMMARY


def read(value: Any, by: Callable[..., None] = read_messages, **options: Any) -> Content:
    builder = ContentBuilder(HASHER, lambda name: name == "knowledge_base")
    by(value, builder, **options)
    content = builder.build()
    return Content() if content is None else content


def kinds(value: Any, by: Callable[..., None] = read_messages, **options: Any) -> list[BlockKind]:
    return [BlockKind(kind) for kind in read(value, by, **options).kinds]


def blocks(value: Any) -> list[tuple[BlockKind, int]]:
    """(kind, key) of the blocks: the key is equal where the text is."""
    return [(kind, key) for kind, _, _, key, _ in read(value).blocks()]


ARGS = {"city": "Bonn"}
CONVERSATION: dict[str, list[Any]] = {
    "otel": [
        {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
        {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
        {"role": "assistant", "parts": [
            {"type": "reasoning", "content": "look it up"}, {"type": "text", "content": "one moment"},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": ARGS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "sunny"}]},
    ],
    "otel, older examples": [
        {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
        {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
        {"role": "assistant", "parts": [
            {"type": "reasoning", "content": "look it up"}, {"type": "text", "content": "one moment"},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": ARGS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "sunny"}]},
    ],
    "openai chat": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
        {"role": "assistant", "reasoning_content": "look it up", "content": "one moment", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bonn"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ],
    "openai responses": [
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
        {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": "look it up"}],
         "encrypted_content": FILE},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one moment", "annotations": []}]},
        {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "weather", "arguments": '{"city":"Bonn"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ],
    "anthropic": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "look it up", "signature": FILE}, {"type": "redacted_thinking", "data": FILE},
            {"type": "text", "text": "one moment"}, {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGS}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sunny"}]}]},
    ],
    "gemini": [
        {"role": "system", "parts": [{"text": "be brief"}]},
        {"role": "user", "parts": [{"text": "weather?"}]},
        {"role": "model", "parts": [
            {"text": "look it up", "thought": True}, {"text": "one moment"},
            {"functionCall": {"id": "c1", "name": "weather", "args": ARGS}, "thoughtSignature": FILE}]},
        {"role": "function", "parts": [{"functionResponse": {"id": "c1", "name": "weather", "response": "sunny"}}]},
    ],
    "bedrock converse": [
        {"role": "system", "content": [{"text": "be brief"}, {"cachePoint": {"type": "default"}}]},
        {"role": "user", "content": [{"text": "weather?"}]},
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "look it up", "signature": FILE}}}, {"text": "one moment"},
            {"toolUse": {"toolUseId": "c1", "name": "weather", "input": ARGS}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "sunny"}]}}]},
    ],
    "langchain, serialised": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "SystemMessage"],
         "kwargs": {"content": "be brief", "type": "system"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
         "kwargs": {"content": "weather?", "type": "human"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {
            "content": [{"type": "thinking", "thinking": "look it up"}, {"type": "text", "text": "one moment"},
                        {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGS}],
            "tool_calls": [{"id": "c1", "name": "weather", "args": ARGS, "type": "tool_call"}], "type": "ai"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"],
         "kwargs": {"content": "sunny", "tool_call_id": "c1", "name": "weather", "type": "tool", "id": "run-7"}},
    ],
    "langchain, plain": [
        {"type": "system", "content": "be brief"},
        {"type": "human", "data": {"content": "weather?"}},
        {"type": "ai", "reasoning_content": "look it up", "content": "one moment",
         "tool_calls": [{"id": "c1", "name": "weather", "args": ARGS}]},
        {"type": "tool", "content": "sunny", "tool_call_id": "c1"},
    ],
    "vercel": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "look it up"}, {"type": "text", "text": "one moment"},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": ARGS}]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "c1", "toolName": "weather", "output": {"type": "text", "value": "sunny"}}]},
    ],
    "older otel events": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": '[{"text": "weather?"}]'},
        {"role": "assistant", "content": json.dumps([
            {"reasoningContent": {"reasoningText": {"text": "look it up"}}}, {"text": "one moment"},
            {"toolUse": {"toolUseId": "c1", "name": "weather", "input": ARGS}}])},
        {"role": "tool", "id": "c1", "content": "sunny"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("spelling", CONVERSATION)
def test_one_conversation_in_every_spelling(spelling: str) -> None:
    messages = CONVERSATION[spelling]
    assert kinds(messages) == [SYSTEM, USER, REASONING, ASSISTANT, ARGUMENTS, RESULT]
    assert blocks(messages) == blocks(CONVERSATION["otel"])
    assert blocks(json.dumps(messages)) == blocks(messages)
    assert blocks([json.dumps(message) for message in messages]) == blocks(messages)
    call, result = list(read(messages).refs)[-2:]
    assert call == result == HASHER.hash("c1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hello", [USER]),
        (["hello", {"role": "assistant", "content": "hi"}], [USER, ASSISTANT]),
        ({"messages": [{"role": "user", "content": "hi"}]}, [USER]),
        ({"system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "hi"}],
          "tools": [{"name": "f", "input_schema": {}}]}, [SYSTEM, TOOL_SCHEMA, USER]),
        ({"instructions": "s", "input": "hi"}, [SYSTEM, USER]),
        ({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [{"parts": [{"text": "hi"}]}]}, [SYSTEM, USER]),
        ({"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]}, [ASSISTANT]),
        ({"choices": [{"message": {"content": "hi"}}]}, [ASSISTANT]),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}}]}, [ASSISTANT]),
        ({"generations": [[{"text": "hi", "message": {"id": ["x", "AIMessage"], "kwargs": {"content": "hi"}}}]]}, [ASSISTANT]),
        ([{"prompt": {"text": "hi"}}], [USER]),
        ({"question": "hi", "language": "en"}, [USER]),
        ([{"text": "hi"}, {"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}], [USER, ARGUMENTS]),
        ([{"toolCallId": "1", "toolName": "f", "args": "{}"}], [ARGUMENTS]),
    ],
)  # fmt: skip
def test_requests_and_answers_that_hold_messages(value: Any, expected: list[BlockKind]) -> None:
    assert kinds(value) == expected


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("developer", SYSTEM),
        ("MessageRole.SYSTEM", SYSTEM),
        ("<MessageRole.SYSTEM: 'system'>", SYSTEM),
        ("tool-call", ARGUMENTS),
        ("MessageRole.TOOL_CALL", ARGUMENTS),
        ("tool-response", RESULT),
        ("MessageRole.TOOL_RESPONSE", RESULT),
        ("function", RESULT),
        ("Human", USER),
        ("critic", USER),
    ],
)
def test_roles(role: str, expected: BlockKind) -> None:
    assert kinds([{"role": role, "content": "text"}]) == [expected]


@pytest.mark.parametrize("role", ["tool", "assistant"])
def test_calls_written_as_a_messages_text(role: str) -> None:
    """koog writes the calls of an answer as JSON text, in a message of role "tool" when it sends them back."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "greet", "arguments": "{}"}}]
    assert kinds([{"role": role, "content": json.dumps(calls)}]) == [ARGUMENTS]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "web_search_call", "id": "w", "action": {"query": "q"}}, [ARGUMENTS]),
        ({"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "output": "out"}, [ARGUMENTS, RESULT]),
        ({"type": "file_search_call", "id": "f", "queries": ["q"], "results": [{"text": "chunk"}]}, [ARGUMENTS, RETRIEVAL]),
        ({"type": "local_shell_call_output", "id": "x", "output": "out"}, [RESULT]),
        ({"type": "code_execution_tool_result", "tool_use_id": "x", "content": {"stdout": "1"}}, [RESULT]),
        ({"type": "server_tool_use", "id": "x", "name": "web_search", "input": {"query": "q"}}, [ARGUMENTS]),
    ],
)  # fmt: skip
def test_tools_that_the_provider_runs(item: dict[str, Any], expected: list[BlockKind]) -> None:
    assert kinds([item]) == expected


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{FILE}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FILE}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": FILE}},
        {"type": "blob", "modality": "image", "content": FILE},
        {"type": "uri", "uri": "https://example.com/a.png"},
        {"inlineData": {"mimeType": "image/png", "data": FILE}},
        {"image": {"format": "png", "source": {"bytes": FILE}}},
        {"document": {"format": "pdf", "name": "a", "source": {"bytes": FILE}}},
        {"type": "Microsoft.Extensions.AI.DataContent", "content": {"data": FILE}},
    ],
)
def test_files_have_no_text(part: dict[str, Any]) -> None:
    content = read([{"role": "user", "content": [{"type": "text", "text": "look"}, part]}])
    assert list(content.characters) == [4]


@pytest.mark.parametrize(
    "result",
    [
        [{"type": "text", "text": "done"}, {"type": "image", "source": {"type": "base64", "data": FILE}}],
        [{"text": "done"}, {"image": {"format": "png", "source": {"bytes": FILE}}}],
        {"content": [{"type": "text", "text": "done"}, {"type": "image", "data": FILE}], "isError": False},
        {"type": "content", "value": [{"type": "text", "text": "done"}, {"type": "media", "data": FILE}]},
    ],
)
def test_files_in_results_are_left_out(result: Any) -> None:
    assert flatten(result) == "done"


def test_base64_under_any_key_is_a_file_but_in_arguments() -> None:
    """What the model wrote itself it has written letter by letter."""
    assert len(flatten({"screenshot": FILE, "title": "page"})) < 50
    assert read([{"role": "assistant", "tool_calls": [{"name": "save", "args": {"data": FILE}}]}]).characters[0] > 8_000


def test_data_is_shown_whole_though_a_field_is_called_text() -> None:
    hits = [{"title": "a", "url": "https://example.com", "content": "some text"}]
    assert flatten(hits) == json.dumps(hits, separators=(",", ":"))


def test_opaque_reasoning_is_no_answer() -> None:
    part = {"type": "Microsoft.Extensions.AI.TextReasoningContent", "content": {"text": "", "protectedData": FILE}}
    assert kinds([{"role": "assistant", "parts": [{"type": "text", "content": "hi"}, part]}]) == [ASSISTANT]


class TestRetrieval:
    """Documents are told from what surrounds them, wherever they stand."""

    def test_a_retrievers_result(self) -> None:
        messages = [
            {
                "role": "assistant",
                "tool_calls": [{"id": "k", "function": {"name": "knowledge_base", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "k", "content": "chunk"},
        ]
        assert kinds(messages) == [ARGUMENTS, RETRIEVAL]

    def test_documents_and_search_results(self) -> None:
        document = {"type": "document", "title": "t", "source": {"type": "text", "data": "chunk"}}
        hit = {
            "type": "search_result",
            "source": "https://example.com",
            "title": "t",
            "content": [{"type": "text", "text": "c"}],
        }
        assert kinds([{"role": "user", "content": [document, hit, {"type": "text", "text": "question"}]}]) == [
            RETRIEVAL, RETRIEVAL, USER,
        ]  # fmt: skip
        assert kinds(
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [hit]}]}]
        ) == [RETRIEVAL]

    def test_a_result_that_consists_of_documents(self) -> None:
        text = "<documents>" + "a fact of note. " * 20 + "</documents>"
        assert kinds([{"role": "tool", "tool_call_id": "a", "content": text}]) == [RETRIEVAL]
        assert kinds([{"role": "tool", "tool_call_id": "a", "content": text + "code " * 200}]) == [RESULT]

    def test_documents_in_the_prompt(self) -> None:
        text = "Use <context>" + "a fact of note. " * 20 + "</context> to answer."
        assert kinds([{"role": "system", "content": text}]) == [SYSTEM, RETRIEVAL, SYSTEM]
        assert kinds([{"role": "assistant", "content": text}]) == [ASSISTANT]


class TestCompaction:
    """Content before a compaction is not held; system text and tools are."""

    @pytest.mark.parametrize(
        "marker",
        [
            {"role": "assistant", "parts": [{"type": "compaction", "content": "in short"}]},
            {"role": "assistant", "content": [{"type": "compaction", "content": "in short"}]},
            {"type": "compaction", "summary": "in short"},
        ],
    )
    def test_what_was_before_is_gone(self, marker: dict[str, Any]) -> None:
        messages = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "long story"},
            marker,
            {"role": "user", "content": "go on"},
        ]
        content = read(messages)
        assert [BlockKind(kind) for kind in content.kinds] == [SYSTEM, SUMMARY, USER]
        assert content.compacted

    def test_an_encrypted_summary_has_no_text(self) -> None:
        content = read([{"role": "user", "content": "x"}, {"type": "compaction", "encrypted_content": FILE}])
        assert (len(content), content.compacted) == (0, True)


class TestHead:
    """Instructions and tool definitions."""

    @pytest.mark.parametrize(
        "value",
        [
            "be brief",
            [{"type": "text", "content": "be brief"}],
            '[{"type": "text", "text": "be brief"}]',
            {"parts": [{"text": "be brief"}], "role": "user"},
            [{"role": "system", "content": [{"type": "text", "text": "be brief"}]}],
        ],
    )
    def test_instructions(self, value: Any) -> None:
        content = read(value, read_system)
        assert [(BlockKind(kind), characters) for kind, _, characters, _, _ in content.blocks()] == [(SYSTEM, 8)]

    @pytest.mark.parametrize(
        "value",
        [
            [{"name": "a", "description": "A"}, {"name": "b", "description": "B"}],
            '[{"name": "a"}, {"name": "b", "description": "B"}]',
            ['{"name": "a", "parameters": {}}', '{"name": "b"}'],
            {"values": [{"stringValue": '{"name": "a"}'}, {"stringValue": '{"name": "b"}'}]},
            {"arrayValue": {"values": [{"stringValue": '{"name": "a"}'}, {"stringValue": '{"name": "b"}'}]}},
            [{"function_declarations": [{"name": "a"}, {"name": "b"}]}],
            {"a": {"description": "A"}, "b": {"description": "B"}},
        ],
    )
    def test_one_block_per_tool(self, value: Any) -> None:
        assert kinds(value, read_tools) == [TOOL_SCHEMA, TOOL_SCHEMA]

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("search,fetch", True),
            ([{"type": "function", "name": "search"}], True),
            ([{"type": "function", "function": {"name": "search"}}], True),
            ([], True),
            ([{"type": "function", "name": "search", "parameters": {}}], False),
            ([{"type": "function", "name": "a"}, {"type": "function", "name": "b", "description": "B"}], False),
            ("search(query: str) -> list[str]", False),
        ],
    )
    def test_names_are_no_schemas(self, value: Any, expected: bool) -> None:
        assert names_only(value) is expected

    def test_what_is_known_from_elsewhere_is_not_read_again(self) -> None:
        request = {"system": "s", "tools": [{"name": "f"}], "messages": [{"role": "user", "content": "hi"}]}
        assert kinds(request, known=[TOOL_SCHEMA]) == [SYSTEM, USER]
        assert kinds(request, known=[SYSTEM, TOOL_SCHEMA]) == [USER]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
         "tool_calls": [{"id": "1", "name": "f", "args": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
         "additional_kwargs": {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}},
        {"role": "assistant", "content": "", "additional_kwargs": {"function_call": {"name": "f", "arguments": "{}"}}},
    ],
)  # fmt: skip
def test_a_call_told_twice_counts_once(message: dict[str, Any]) -> None:
    assert kinds([message]) == [ARGUMENTS]


def test_reasoning_told_twice_counts_once() -> None:
    message = {"role": "assistant", "reasoning_content": "hm", "content": [{"type": "thinking", "thinking": "hm"}]}
    assert kinds([message]) == [REASONING]


@pytest.mark.parametrize("value", [None, "", [], {}, [{}], [None], {"role": "assistant", "content": None}])
def test_nothing_said_is_nothing(value: Any) -> None:
    builder = ContentBuilder(HASHER)
    read_messages(value, builder)
    content = builder.build()
    assert content is None or sum(content.characters) <= len("{}")


def test_json_cut_off_in_the_middle_is_text() -> None:
    text = json.dumps(CONVERSATION["openai chat"])[:-40]
    content = read(text)
    assert sum(content.characters) == len(text)


@pytest.mark.parametrize("depth", [50, 5_000])
def test_deep_nesting_ends(depth: int) -> None:
    nested: Any = "x"
    for _ in range(depth):
        nested = [nested]
    for by in (read_messages, read_system, read_tools):
        read(nested, by)
        read("[" * depth + "]" * depth, by)
    for wrap in (
        lambda inner: {"messages": [inner]},
        lambda inner: {"type": "json", "value": inner},
        lambda inner: {"content": {"parts": [inner]}},
        lambda inner: {"arrayValue": {"values": [inner]}},
        lambda inner: {"role": "user", "content": [{"toolResult": {"content": [inner]}}]},
    ):
        wrapped: Any = "x"
        for _ in range(depth):
            wrapped = wrap(wrapped)
        read(wrapped)
        flatten(wrapped)


WORDS = ["type", "role", "content", "parts", "text", "input", "output", "messages", "message", "function", "name", "id",
         "tool_calls", "kwargs", "functionCall", "toolResult", "source", "summary", "value", "compaction", "document",
         "tool_result", "tool_call", "reasoning", "image", "json", "user", "tool", "assistant"]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.sampled_from([read_messages, read_system, read_tools]))
def test_anything_is_read(value: Any, by: Callable[..., None]) -> None:
    content = read(value, by)
    assert len(content.kinds) == len(content.weights) == len(content.keys) == len(content.refs)
    assert isinstance(flatten(value), str)
    names_only(value)


ITEMS = st.sampled_from([message for messages in CONVERSATION.values() for message in messages])


@given(st.lists(ITEMS, max_size=8), st.lists(ITEMS, max_size=8))
def test_a_longer_conversation_continues_the_shorter(before: list[Any], after: list[Any]) -> None:
    """A context is recognised by its prefix: what follows a message does not change its blocks."""
    assert blocks(before + after)[: len(blocks(before))] == blocks(before)
    assert blocks(before + after) == blocks(before) + blocks(after)
