"""Whatever stands in spans, events and records, by any emitter's scope: no error, and counts are counts."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.collectors.samples import CALLS, LOGS, OTHERS

from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.dialects.compaction import MARKERS
from lowwater.collectors.extract import read_log, read_span
from lowwater.collectors.reading import Compaction, Reading, Usage
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.collectors.tokens import Hasher
from lowwater.collectors.values import MAX_TOKENS

SAMPLES = (*CALLS, *OTHERS)
KEYS = sorted(
    {key for sample in SAMPLES for key in sample.attributes}
    | {key for record, _ in LOGS for key in record.attributes}
    | {key for marker in MARKERS for key in (*marker.keys, *marker.before, *marker.after, *marker.window)}
    | {"anthropic.usage", "gen_ai.usage.iterations", "metadata", "thread.id", "kiro.context_usage_percentage"}
)
SCOPES = sorted({sample.scope for sample in SAMPLES})
NAMES = sorted({sample.name for sample in SAMPLES} | {name for marker in MARKERS for name in marker.names})
WORDS = [
    "type", "role", "content", "usage", "iterations", "compaction", "message", "input_tokens", "applied_edits",
    "cleared_input_tokens", "lc_source", "breakdown", "messages_tokens", "window_size_tokens", "messages", "tools",
]  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=4)
    | st.sampled_from(["-1", "1e3", "١٢", "9" * 40, "NaN", "compaction", "chat", "{", '[{"a":', '{"lc_source": 1}'])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=10)

COUNTS = (
    "max_output_tokens", "window_tokens", "trigger_tokens", "reserved_staging_tokens", "documents",
    "budget_limit_tokens", "budget_consumed_tokens",
)  # fmt: skip


def is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


def no_dialect_failed(context: ReadContext) -> bool:
    """Failures are caught and counted, for plug-ins' sake."""
    return not any(reason.startswith("dialect_failed") for reason in context.rejected)


def check(reading: Reading) -> None:
    assert all(is_count(getattr(reading, name)) for name in COUNTS)
    if reading.usage is not None:
        usage: Usage = reading.usage
        for item in dataclasses.fields(usage):
            if item.name != "cache_inclusive":
                value = getattr(usage, item.name)
                assert is_count(value)
                assert value is None or value <= MAX_TOKENS
        assert usage.cache_inclusive in (None, True, False)
    if reading.compaction is not None:
        found: Compaction = reading.compaction
        assert all(map(is_count, (found.before_tokens, found.after_tokens, found.window_tokens)))
        assert found.outcome in ("success", "no_op", "failure", "started")
        assert found.duration_seconds is None or 0 <= found.duration_seconds < 1e9
    if reading.breakdown is not None:
        assert all(map(is_count, reading.breakdown.values()))
    for name in ("agent_name", "conversation", "model", "response_id", "agent_id"):
        assert getattr(reading, name) is None or isinstance(getattr(reading, name), str)
    pickle.dumps(reading)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ATTRIBUTES, st.sampled_from(NAMES), st.sampled_from(SCOPES), ATTRIBUTES, st.sampled_from(["unset", "error"]))
def test_any_span_is_read(
    attributes: dict[str, Any], name: str, scope: str, event: dict[str, Any], status: str
) -> None:
    span = SpanRecord(
        "t", "s", name, scope_name=scope, attributes=attributes, status_code=status,
        events=(SpanEvent(name, 1, event), SpanEvent("gen_ai.choice", 2, event), SpanEvent("exception", 3, event)),
    )  # fmt: skip
    context = ReadContext(hasher=Hasher(b"tests"))
    check(read_span(span, context))
    assert no_dialect_failed(context)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from(sorted({record.event_name for record, _ in LOGS} | {"gen_ai.choice", "gen_ai.content.prompt"})),
    VALUES | ATTRIBUTES | st.sampled_from(NAMES),
    ATTRIBUTES,
)
def test_any_record_is_read(name: str, body: Any, attributes: dict[str, Any]) -> None:
    context = ReadContext(hasher=Hasher(b"tests"))
    reading = read_log(LogRecord("t", "s", 5, name, body, attributes=attributes), context)
    assert no_dialect_failed(context)
    if reading is not None:
        check(reading)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_one_odd_value_does_not_spoil_the_rest(sample: Any, data: st.DataObject) -> None:
    """A broken attribute costs its own field: the span keeps its dialect and its place."""
    key = data.draw(st.sampled_from(sorted(sample.attributes)))
    span = sample.span()
    span.attributes = {**sample.attributes, key: data.draw(VALUES)}
    context = ReadContext(hasher=Hasher(b"tests"))
    reading = read_span(span, context)
    check(reading)
    assert no_dialect_failed(context)
    assert (reading.trace_id, reading.span_id) == ("a" * 32, "b" * 16)
