"""Every dialect reads its own names, none adds to another's numbers, and no text survives."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.collectors.samples import CALLS, CANARY, LOGS, OTHERS, Sample

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.dialects import BUILTIN, ReadContext, load_dialects
from lowwater.collectors.extract import read_log, read_span
from lowwater.collectors.reading import Operation, Reading
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.collectors.tokens import Hasher


def context() -> ReadContext:
    return ReadContext(hasher=Hasher(b"tests"))


def value_of(reading: Reading, path: str) -> Any:
    if path == "blocks":
        return 0 if reading.content is None else len(reading.content)
    value: Any = reading
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("sample", [*CALLS, *OTHERS], ids=lambda sample: f"{sample.dialect}-{sample.kind.name.lower()}")
def test_a_dialect_reads_its_own_names(sample: Sample) -> None:
    reading = read_span(sample.span(), context())
    assert sample.dialect in reading.dialects
    assert reading.kind is sample.kind
    assert {path: value_of(reading, path) for path in sample.expected} == sample.expected


@pytest.mark.parametrize(("record", "expected"), LOGS, ids=lambda value: getattr(value, "event_name", ""))
def test_log_records_are_read(record: LogRecord, expected: dict[str, Any]) -> None:
    reading = read_log(record, context())
    assert reading is not None
    assert {path: value_of(reading, path) for path in expected} == expected


def test_unknown_log_records_say_nothing() -> None:
    assert read_log(LogRecord(event_name="http.request", body="x"), context()) is None


def test_every_builtin_dialect_has_a_sample() -> None:
    assert {sample.dialect for sample in (*CALLS, *OTHERS)} == {dialect.name for dialect in load_dialects()[0]}
    assert len(BUILTIN) == len(set(BUILTIN))


def test_the_breakdown_of_qwen_code_goes_to_consumers() -> None:
    sample = next(item for item in CALLS if "qwen-code.context.usage" in item.attributes)
    assert read_span(sample.span(), context()).breakdown == {
        Consumer.SYSTEM: 30, Consumer.TOOLS: 40, Consumer.WORKING: 30,
    }  # fmt: skip


@pytest.mark.parametrize("sample", [*CALLS, *OTHERS], ids=lambda sample: f"{sample.dialect}-{sample.kind.name.lower()}")
def test_no_text_survives(sample: Sample) -> None:
    """Attributes, messages, arguments, results, status: the canary stands in all of them."""
    span = sample.span()
    span.status_code, span.status_message = "error", f"failed because of {CANARY} {CANARY}"
    span.events = [*span.events, SpanEvent("exception", 1, {"exception.message": CANARY, "exception.type": "E"})]
    assert CANARY.encode() not in pickle.dumps(read_span(span, context()))


@pytest.mark.parametrize(("record", "expected"), LOGS, ids=lambda value: getattr(value, "event_name", ""))
def test_no_text_of_logs_survives(record: LogRecord, expected: dict[str, Any]) -> None:
    assert CANARY.encode() not in pickle.dumps(read_log(record, context()))


def test_dual_written_numbers_do_not_add_up() -> None:
    """A gateway writes two dialects on one span; they are one measurement."""
    attributes = {
        "openinference.span.kind": "LLM", "gen_ai.operation.name": "chat", "llm.token_count.prompt": 100,
        "gen_ai.usage.input_tokens": 100, "gen_ai.usage.prompt_tokens": 100, "ai.usage.inputTokens": 100,
        "llm.token_count.prompt_details.cache_read": 60, "gen_ai.usage.output_tokens": 7, "ai.usage.outputTokens": 7,
    }  # fmt: skip
    usage = read_span(SpanRecord("t", "s", attributes=attributes), context()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (100, 7, 60)


def test_a_plain_span_keeps_its_place() -> None:
    reading = read_span(SpanRecord("t", "s", "GET /", "p", attributes={"http.request.method": "GET"}), context())
    assert (reading.kind, reading.parent_span_id, reading.dialects) == (Operation.OTHER, "p", ())


def test_thread_id_is_a_conversation_for_codex_only() -> None:
    attributes = {"gen_ai.operation.name": "chat", "thread.id": 1234}
    assert read_span(SpanRecord("t", "s", attributes=attributes), context()).conversation is None


def test_a_text_with_the_retrieved_documents_is_told_apart() -> None:
    prompt = "Answer from these. <documents>" + "a fact of note. " * 20 + "</documents> What is it?"
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": f'[{{"role": "user", "content": "{prompt}"}}]',
    }
    content = read_span(SpanRecord("t", "s", attributes=attributes), context()).content
    assert content is not None
    assert content.consumer_weights()[2] > 50


def test_content_before_a_compaction_part_is_not_held() -> None:
    messages = [
        {"role": "user", "content": "long story " * 500},
        {
            "role": "assistant",
            "content": [{"type": "compaction", "content": "in short"}, {"type": "text", "text": "hello"}],
        },
        {"role": "user", "content": "go on"},
    ]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}
    content = read_span(SpanRecord("t", "s", attributes=attributes), context()).content
    assert content is not None
    assert content.compacted
    assert sum(content.characters) < 50


class _Plugin:
    name, versions = "ours", "1"

    def matches(self, span: SpanRecord) -> bool:
        return "ours.in" in span.attributes

    def kind_of(self, span: SpanRecord) -> Operation | None:
        return Operation.LLM

    def read(self, span: SpanRecord, draft: Any) -> None:
        draft.usage(input_tokens=span.attributes["ours.in"])

    def read_log(self, record: LogRecord, draft: Any) -> bool:
        return False


def test_a_plug_in_dialect_reads_after_the_built_in_ones() -> None:
    dialects = (*load_dialects()[0], _Plugin())
    reading = read_span(SpanRecord("t", "s", attributes={"ours.in": 77}), context(), dialects)
    assert (reading.kind, reading.dialects) == (Operation.LLM, ("ours",))
    assert reading.usage is not None
    assert reading.usage.input_tokens == 77


KEYS = sorted({key for sample in (*CALLS, *OTHERS) for key in sample.attributes})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "role", "content", "parts", "text", "id", "input", "stringValue", "values", "kwargs"]) | st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=12), st.sampled_from([sample.name for sample in OTHERS]))
def test_any_values_are_read_without_error_and_counts_are_counts(attributes: dict[str, Any], name: str) -> None:
    counted = context()
    reading = read_span(SpanRecord("t", "s", name, attributes=attributes), counted)
    assert not any(reason.startswith("dialect_failed") for reason in counted.rejected)
    for usage in (reading.usage,) if reading.usage is not None else ():
        for item in dataclasses.fields(usage):
            value = getattr(usage, item.name)
            assert value is None or isinstance(value, bool) or (isinstance(value, int) and value >= 0)
    for field in ("max_output_tokens", "window_tokens", "trigger_tokens", "documents"):
        value = getattr(reading, field)
        assert value is None or (isinstance(value, int) and value >= 0)
    pickle.dumps(reading)


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_any_messages_are_read_without_error(value: Any) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": value, "gen_ai.tool.definitions": value}
    read_span(SpanRecord("t", "s", attributes=attributes), context())
