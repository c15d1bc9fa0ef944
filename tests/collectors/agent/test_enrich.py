"""Enriched spans say what was measured, say nothing that is not known, and change no finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.enrich import Enricher, is_content
from lowwater.collectors.exporter import EnrichingExporter
from lowwater.collectors.names import MEASURED
from lowwater.collectors.sdk import record_of
from lowwater.collectors.tokens import Hasher
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.findings import Finding, Severity
from lowwater.detector.ingest import Ingest
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output, Pipeline
from lowwater.detector.simulation.emit import spans
from lowwater.detector.simulation.scenarios import SCENARIOS

CANARY = "CaNaRy-7f3a"
SPLIT = ("reserved.system", "reserved.tools", "context.retrieval", "context.scratchpad", "context.working")


def detected(found: list[ReadableSpan]) -> list[Output]:
    config = DetectorConfig()
    ingest = Ingest(ReadContext(hasher=Hasher(b"tests"), is_retriever=config.is_retriever))
    readings = list(ingest.readings([record_of(span) for span in found]))
    directory = Directory()
    for reading in readings:
        directory.note(reading)
    return list(Pipeline(config, directory=directory).run(sorted(readings, key=lambda reading: reading.order())))


def findings(outputs: list[Output]) -> list[tuple[Any, ...]]:
    return [(o.id, o.state, o.severity, o.reason) for o in outputs if isinstance(o, Finding)]


@pytest.mark.parametrize("dialect", ["gen_ai", "openinference", "openllmetry", "pydantic_ai", "vercel", "langfuse"])
@pytest.mark.parametrize("name", ["starvation", "healthy", "compaction_debt"])
def test_nothing_is_found_twice_or_otherwise(name: str, dialect: str) -> None:
    plain = spans(SCENARIOS[name].make(3), dialect)
    enriched = [Enricher()(span) for span in plain]
    before, after = detected(plain), detected(enriched)
    assert findings(after) == findings(before)
    entries = [[o.to_json() for o in outputs if isinstance(o, LedgerEntry)] for outputs in (before, after)]
    assert entries[0] == entries[1]
    measured = [span for span in enriched if MEASURED in (span.attributes or {})]
    assert len(measured) == sum(o["input_tokens"] is not None and not o["rollup"] for o in entries[0])


@pytest.mark.parametrize("dialect", ["gen_ai", "openinference", "openllmetry", "pydantic_ai", "vercel"])
def test_without_content_the_split_stays_that_of_the_content(dialect: str) -> None:
    """What the detector cannot see any more was counted where it could be seen."""
    plain = spans(SCENARIOS["starvation"].make(3), dialect)
    stripped = [Enricher(strip_content=True)(span) for span in plain]
    before, after = detected(plain), detected(stripped)
    whole = [o for o in before if isinstance(o, LedgerEntry)]
    cut = [o for o in after if isinstance(o, LedgerEntry)]
    assert [entry.input_tokens for entry in cut] == [entry.input_tokens for entry in whole]
    for one, other in zip(whole, cut, strict=True):
        for field in ("retrieval_tokens", "scratchpad_tokens", "working_tokens"):
            assert abs(getattr(one, field) - getattr(other, field)) <= 0.01 * (one.input_tokens or 0), field
        assert other.provenance["working_tokens"].label == "measured"
    # Which results are still held cannot be told without the messages: repetition stays unknown.
    assert pages(before)
    assert pages(after) == pages(before)


def pages(outputs: list[Output]) -> set[tuple[Any, ...]]:
    return {(o.kind, o.conversation) for o in outputs if isinstance(o, Finding) and o.severity is Severity.PAGE}


def exported(attributes: dict[str, Any], **options: Any) -> ReadableSpan:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EnrichingExporter(memory, Enricher(**options))))
    with provider.get_tracer("app").start_as_current_span("chat m", attributes=attributes) as span:
        span.add_event("gen_ai.user.message", {"content": CANARY, "short": 7})
        with pytest.raises(ValueError, match=CANARY), provider.get_tracer("x").start_as_current_span("inner"):
            raise ValueError(CANARY)
        span.set_attribute("late", 1)
    (found,) = [span for span in memory.get_finished_spans() if span.name == "chat m"]
    return found


MESSAGES = [
    {"role": "user", "parts": [{"type": "text", "content": f"{CANARY} what is to be done? " * 20}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": CANARY}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": f"{CANARY} " * 300}]},
]
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 2_000,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.input.messages": json.dumps(MESSAGES),
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"You are {CANARY}. " * 30}]),
    "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "look", "description": CANARY * 9}]),
}


def test_the_split_is_that_of_the_whole_prompt() -> None:
    attributes = exported(CALL).attributes or {}
    split: list[Any] = [attributes[f"lowwater.{name}_tokens"] for name in SPLIT]
    assert sum(split) == 2_000
    assert all(split[index] for index in (0, 1, 3, 4))
    assert attributes["gen_ai.input.messages"] == CALL["gen_ai.input.messages"]
    assert attributes["late"] == 1


def test_unknown_is_absent() -> None:
    without_usage = {key: value for key, value in CALL.items() if "usage" not in key}
    attributes = exported(without_usage).attributes or {}
    assert not any(f"lowwater.{name}_tokens" in attributes for name in SPLIT)
    assert MEASURED in attributes
    hidden_head = {key: value for key, value in CALL.items() if "definitions" not in key}
    attributes = exported(hidden_head).attributes or {}  # tools were used, and their schemas are not seen
    assert not any(f"lowwater.{name}_tokens" in attributes for name in SPLIT)
    plain = exported({"http.request.method": "GET"}).attributes or {}
    assert not [key for key in plain if key.startswith("lowwater.")]


def test_no_text_is_added_and_with_content_cut_none_is_sent() -> None:
    whole, cut = exported(CALL), exported(CALL, strip_content=True)
    added = {key: value for key, value in (whole.attributes or {}).items() if key not in CALL}
    assert CANARY not in repr(added)
    text = cut.to_json()
    assert CANARY not in text
    assert "gen_ai.request.model" in text
    assert (cut.attributes or {})[MEASURED] == (whole.attributes or {})[MEASURED]
    assert cut.events[0].attributes == {"short": 7}


@pytest.mark.parametrize(
    "dialect", ["gen_ai", "openinference", "openllmetry", "pydantic_ai", "vercel", "langfuse", "langsmith"]
)
def test_a_canary_in_every_text_of_every_dialect_is_cut(dialect: str) -> None:
    run = SCENARIOS["starvation"].make(1)
    content = set()
    for span in spans(run, dialect):
        for key, value in (span.attributes or {}).items():
            if isinstance(value, str) and len(value) > 64:
                content.add(key)
    assert content
    for span in spans(run, dialect):
        sent = Enricher(strip_content=True)(span).attributes or {}
        assert not [key for key in sent if key in content and is_content(key)]
        assert all(len(value) <= 256 for value in sent.values() if isinstance(value, str))


def test_what_cannot_be_read_goes_on_as_it_is_or_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("lowwater.collectors.measure.read_span", fail)
    span = exported(CALL)
    assert (span.attributes or {})["gen_ai.input.messages"] == CALL["gen_ai.input.messages"]
    bare = exported(CALL, strip_content=True)
    assert (bare.name, dict(bare.attributes or {}), bare.status.description) == ("chat m", {}, None)


def test_an_enriched_span_is_the_span() -> None:
    (plain,) = spans(SCENARIOS["starvation"].make(1), "gen_ai")[:1]
    enriched = Enricher(strip_content=True)(plain)
    for name in ("name", "context", "parent", "resource", "links", "kind", "start_time", "end_time",
                 "instrumentation_scope", "dropped_attributes", "dropped_events", "dropped_links"):  # fmt: skip
        assert getattr(enriched, name) == getattr(plain, name), name
