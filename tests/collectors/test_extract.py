"""Spans and records to readings: places are kept, dialects cannot break anything, services are named."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from tests.collectors.samples import reading_of

from lowwater.collectors.content import BlockKind
from lowwater.collectors.dialects import Draft, ReadContext, load_dialects
from lowwater.collectors.extract import read_log, read_span
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.collectors.tokens import Hasher, estimate_tokens


def context() -> ReadContext:
    return ReadContext(hasher=Hasher(b"tests"))


class Broken:
    """A plug-in that fails in one of its methods."""

    name, versions = "broken", "1"

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def _maybe(self, method: str) -> None:
        if method == self.fails:
            raise ValueError(method)

    def matches(self, span: SpanRecord) -> bool:
        self._maybe("matches")
        return True

    def kind_of(self, span: SpanRecord) -> Operation | None:
        self._maybe("kind_of")
        return None

    def read(self, span: SpanRecord, draft: Draft) -> None:
        self._maybe("read")

    def read_log(self, record: LogRecord, draft: Draft) -> bool:
        self._maybe("read_log")
        return False


@pytest.mark.parametrize("fails", ["matches", "kind_of", "read"])
def test_a_broken_plug_in_costs_its_own_part_of_a_span(fails: str) -> None:
    counted = context()
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}
    reading = read_span(SpanRecord("t", "s", attributes=attributes), counted, (Broken(fails), *load_dialects()[0]))
    assert reading.kind is Operation.LLM
    assert reading.usage is not None
    assert reading.usage.input_tokens == 7
    assert counted.rejected == {"dialect_failed:broken": 1}


def test_a_broken_plug_in_does_not_stop_records() -> None:
    counted = context()
    record = LogRecord("t", "s", 5, "gen_ai.user.message", {"content": "x"})
    reading = read_log(record, counted, (Broken("read_log"), *load_dialects()[0]))
    assert reading is not None
    assert reading.joins
    assert counted.rejected == {"dialect_failed:broken": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shop", "shop"), ("unknown_service", None), ("unknown_service:python", None), (None, None), ("", None)],
)
def test_services(name: str | None, expected: str | None) -> None:
    resource = {"service.name": name}
    assert read_span(SpanRecord("t", "s", resource=resource), context()).service == expected
    record = read_log(LogRecord("t", "s", 5, "gen_ai.user.message", {"content": "x"}, resource=resource), context())
    assert record is not None
    assert record.service == expected


def test_times_and_place_are_copied() -> None:
    span = SpanRecord("t", "s", "n" * 500, "", 10, 20, scope_name="scope", scope_version="2")
    reading = read_span(span, context())
    assert (reading.start_ns, reading.end_ns, reading.parent_span_id) == (10, 20, None)
    assert (reading.scope, reading.scope_version, len(reading.name)) == ("scope", "2", 200)


def test_the_same_names_with_other_values_are_matched_anew() -> None:
    """Dialects are remembered by the span's names; some decide by values."""
    attributes = {"gen_ai.operation.name": "chat", "output.value": "{}"}
    answer = {
        "usage": {"iterations": [{"type": "compaction", "input_tokens": 9}, {"type": "message", "input_tokens": 2}]}
    }
    assert "anthropic" not in reading_of(attributes).dialects
    assert "anthropic" in reading_of(attributes | {"output.value": json.dumps(answer)}).dialects
    assert "anthropic" not in reading_of(attributes).dialects


class TestVercel:
    CALL: ClassVar[dict[str, Any]] = {"ai.operationId": "ai.generateText.doGenerate", "ai.usage.inputTokens": 4532}

    def test_the_input_is_whole_only_since_it_is_divided(self) -> None:
        """Version 5 passes on Anthropic's input without the cache: 4532 beside 5439 cached."""
        five = reading_of(self.CALL | {"ai.usage.cachedInputTokens": 5439}).usage
        six = reading_of(self.CALL | {"ai.usage.inputTokenDetails.cacheReadTokens": 4000}).usage
        assert five is not None
        assert six is not None
        assert (five.cache_read_tokens, five.cache_inclusive) == (5439, None)
        assert (six.cache_read_tokens, six.cache_inclusive) == (4000, True)

    def test_an_answer_is_text_reasoning_and_calls(self) -> None:
        calls = json.dumps([{"toolCallId": "1", "toolName": "f", "input": "{}"}])
        attributes = {"ai.response.text": "hi", "ai.response.reasoning": "hm", "ai.response.toolCalls": calls}
        output = reading_of(self.CALL | attributes).output
        assert output is not None
        assert list(output.kinds) == [BlockKind.REASONING, BlockKind.ASSISTANT, BlockKind.TOOL_ARGUMENTS]


class TestStrands:
    """A tool's arguments and result stand in events, in either convention."""

    SPAN: ClassVar[dict[str, Any]] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c1",
    }

    @pytest.mark.parametrize(
        "events",
        [
            (
                SpanEvent("gen_ai.tool.message", 1, {"role": "tool", "content": '{"path": "a"}', "id": "c1"}),
                SpanEvent("gen_ai.choice", 2, {"message": '[{"text": "three words here"}]', "id": "c1"}),
            ),
            (
                SpanEvent("gen_ai.client.inference.operation.details", 1, {"gen_ai.input.messages": json.dumps(
                    [{"role": "tool", "parts": [{"type": "tool_call", "id": "c1", "arguments": {"path": "a"}}]}])}),
                SpanEvent("gen_ai.client.inference.operation.details", 2, {"gen_ai.output.messages": json.dumps(
                    [{"role": "tool", "parts": [{"type": "tool_call_response", "response": [{"text": "three words here"}]}]}])}),
            ),
        ],
        ids=["older", "current"],
    )  # fmt: skip
    def test_tools(self, events: tuple[SpanEvent, ...]) -> None:
        reading = reading_of(self.SPAN, scope="strands.telemetry.tracer", events=events)
        assert reading.content is None
        assert reading.tool is not None
        hasher = Hasher(b"tests")
        assert reading.tool.call == hasher.hash("c1")
        assert reading.tool.arguments == hasher.hash('{"path":"a"}')
        assert reading.tool.result == hasher.hash("three words here")
        assert reading.tool.result_tokens == estimate_tokens("three words here")

    def test_swarms_are_no_agents(self) -> None:
        reading = reading_of({"gen_ai.operation.name": "invoke_swarm"}, scope="strands.telemetry.tracer")
        assert reading.kind is Operation.WORKFLOW


class TestOpenInference:
    CALL: ClassVar[dict[str, Any]] = {"openinference.span.kind": "LLM"}

    def test_the_request_stands_in_for_messages(self) -> None:
        """Where an instrumentation flattens no messages, its input is the request."""
        request = {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "f", "parameters": {}}],
        }
        attributes = self.CALL | {"input.value": json.dumps(request), "output.value": "hello"}
        reading = reading_of(attributes)
        assert reading.content is not None
        assert reading.output is not None
        assert list(reading.content.kinds) == [BlockKind.TOOL_SCHEMA, BlockKind.USER]
        assert list(reading.output.kinds) == [BlockKind.ASSISTANT]
        flat = {"llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "s"}
        content = reading_of(attributes | flat).content
        assert content is not None
        assert list(content.kinds) == [BlockKind.SYSTEM]

    @pytest.mark.parametrize(
        "prompts", [{"llm.prompts": ["a", "b"]}, {"llm.prompts.0.prompt.text": "a", "llm.prompts.1.prompt.text": "b"}]
    )
    def test_prompts_of_completions(self, prompts: dict[str, Any]) -> None:
        content = reading_of(self.CALL | prompts).content
        assert content is not None
        assert list(content.characters) == [1, 1]

    def test_messages_keep_the_order_of_their_numbers(self) -> None:
        attributes = self.CALL | {f"llm.input_messages.{n}.message.content": "x" * n for n in (10, 9, 2, 1)}
        content = reading_of(attributes).content
        assert content is not None
        assert list(content.characters) == [1, 2, 9, 10]

    @pytest.mark.parametrize("index", ["²", "9" * 5_000, "-1", "", "0." + "a." * 20_000])
    def test_odd_positions(self, index: str) -> None:
        counted = context()
        for name in ("llm.input_messages", "llm.tools", "gen_ai.prompt", "gen_ai.prompt.0.tool_calls"):
            attributes = self.CALL | {f"{name}.{index}.content": "x", f"{name}.{index}.message.content": "x"}
            read_span(SpanRecord("t", "s", attributes=attributes), counted)
        assert not counted.rejected


def test_an_agent_span_of_openllmetry_is_named_by_its_entity() -> None:
    assert reading_of({"traceloop.span.kind": "agent", "traceloop.entity.name": "bot"}).agent_name == "bot"
    assert reading_of({"traceloop.span.kind": "task", "traceloop.entity.name": "step"}).agent_name is None


def test_langfuses_level_is_a_failure_where_the_status_is_not() -> None:
    attributes = {"langfuse.observation.type": "generation", "langfuse.observation.level": "ERROR",
                  "langfuse.observation.status_message": "Error code: 429 - rate limit"}  # fmt: skip
    failure = reading_of(attributes).failure
    assert failure is not None
    assert (failure.status, failure.signals) == (429, ("rate_limit",))
    assert reading_of(attributes | {"langfuse.observation.level": "WARNING"}).failure is None


def test_details_of_pydantic_ai_are_named_as_the_provider_names_them() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100,
                  "gen_ai.usage.details.cache_read_input_tokens": 60, "gen_ai.usage.details.reasoning_tokens": 5}  # fmt: skip
    usage = reading_of(attributes, scope="pydantic-ai").usage
    assert usage is not None
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (60, 5)


@pytest.mark.parametrize(
    "value", ["not json", 5, [1], {"function_tools": 5}, {"function_tools": ["x"], "output_tools": None}]
)
def test_odd_parameters_of_pydantic_ai(value: Any) -> None:
    counted = context()
    attributes = {"gen_ai.operation.name": "chat", "model_request_parameters": value}
    read_span(SpanRecord("t", "s", scope_name="pydantic-ai", attributes=attributes), counted)
    assert not counted.rejected


def test_tool_names_alone_leave_the_schemas_unknown() -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.system_instructions": "s"}
    names = json.dumps([{"type": "function", "name": "f"}])
    schema = json.dumps([{"type": "function", "name": "f", "parameters": {}}])
    for tools, expected in ((names, [BlockKind.SYSTEM]), (schema, [BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA])):
        content = reading_of(call | {"gen_ai.tool.definitions": tools}).content
        assert content is not None
        assert list(content.kinds) == expected


def test_a_tools_result_that_consists_of_documents_is_retrieval() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
    documents = reading_of(attributes | {"gen_ai.tool.call.result": "<documents>" + "fact " * 50 + "</documents>"}).tool
    words = reading_of(attributes | {"gen_ai.tool.call.result": "fact " * 50}).tool
    assert documents is not None
    assert words is not None
    assert (documents.retriever, words.retriever) == (True, False)
