"""What is declared reaches the spans; fan-outs are seen as they start; nothing ever reaches the application."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, StaticSampler

from lowwater.collectors import declare
from lowwater.collectors.activation import install
from lowwater.collectors.exporter import EnrichingExporter
from lowwater.collectors.names import MEASURED
from lowwater.collectors.pools import Pool, PoolView
from lowwater.collectors.processor import MAX_OPEN, LowwaterSpanProcessor
from lowwater.collectors.sampling import RecordedSpans
from lowwater.policies.errors import BudgetStarvationError

CALL: Any = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"what is to be done"}]}]',
}
LIMITS = {"ceiling_tokens": 100_000, "parent_reserve_tokens": 10_000, "synthesis_reserve_tokens": 5_000}


@pytest.fixture(autouse=True)
def calm_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LOWWATER_") and name != "LOWWATER_CORPUS"]:
        monkeypatch.delenv(name)


def watched(*processors: SpanProcessor, **options: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    assert install(provider, **options) is not None
    for processor in processors:
        provider.add_span_processor(processor)
    return provider, memory


def test_declarations_reach_the_spans_below() -> None:
    provider, memory = watched()
    tracer = provider.get_tracer("app")

    @declare.working_set(required_tokens=6_000, floor_tokens=2_000)
    def task() -> None:
        with declare.turn(slo_seconds=1.8), declare.scheduler(tick_seconds=5), tracer.start_as_current_span("call"):
            pass

    task()
    task()
    with tracer.start_as_current_span("outside"):
        pass
    inside, _, outside = (dict(span.attributes or {}) for span in memory.get_finished_spans())
    assert inside == {
        "lowwater.working_set.required_tokens": 6_000,
        "lowwater.working_set.floor_tokens": 2_000,
        "lowwater.turn.slo_seconds": 1.8,
        "lowwater.scheduler.tick_seconds": 5.0,
    }
    assert outside == {}


def test_declarations_decorate_coroutines_each_with_its_own() -> None:
    provider, memory = watched()
    tracer = provider.get_tracer("app")

    @declare.working_set(required_tokens=1_000)
    async def task(name: str) -> None:
        await asyncio.sleep(0.001)
        with tracer.start_as_current_span(name):
            await asyncio.sleep(0.001)

    async def all_at_once() -> None:
        await asyncio.gather(*(task(f"t{number}") for number in range(5)), bare())

    async def bare() -> None:
        await asyncio.sleep(0.002)
        with tracer.start_as_current_span("bare"):
            pass

    asyncio.run(all_at_once())
    found = {span.name: dict(span.attributes or {}) for span in memory.get_finished_spans()}
    assert found.pop("bare") == {}
    assert set(map(str, found.values())) == {"{'lowwater.working_set.required_tokens': 1000}"}


def test_what_baggage_says_is_checked() -> None:
    provider, memory = watched()
    around = context.get_current()
    for name, value in {
        "lowwater.working_set.required_tokens": "no number",
        "lowwater.pool.id": "p" * 500,
        "lowwater.unheard.of": "text",
        "other": "x",
    }.items():
        around = baggage.set_baggage(name, value, around)
    with provider.get_tracer("app").start_as_current_span("call", context=around):
        pass
    (span,) = memory.get_finished_spans()
    assert set(span.attributes or {}) <= {"lowwater.pool.id"}
    assert len(str((span.attributes or {}).get("lowwater.pool.id", ""))) <= 128


def test_a_pool_is_known_before_its_subagents_spend() -> None:
    provider, memory = watched()
    tracer = provider.get_tracer("app")
    told: list[PoolView] = []
    sizes: Any = {"reserved_tokens": 9_000, "content_budget_tokens": 24_000}
    declared = declare.pool("research", ceiling_tokens=200_000, planned_width=8, on_overcommit=told.append)
    with tracer.start_as_current_span("orchestrator"), declared as pool:
        plan = pool.plan(8, **sizes)
        assert plan is not None
        with pytest.raises(BudgetStarvationError):
            plan.require()
        entered = [declare.subagent(**sizes) for _ in range(7)]
        for number, each in enumerate(entered):
            assert len(told) == (number == 7)
            each.__enter__()
        (view,) = told
        assert (view.width, view.committed_tokens, view.excess_tokens) == (7, 231_000, 31_000)
        with pytest.raises(BudgetStarvationError), declare.subagent(gate=True, **sizes):
            pass
        with tracer.start_as_current_span("child"):
            pass
        for each in reversed(entered):
            each.__exit__(None, None, None)
        assert pool.view().width == 0
    child, orchestrator = (dict(span.attributes or {}) for span in memory.get_finished_spans())
    assert child["lowwater.pool.id"] == "research"
    assert child["lowwater.subagent.content_budget_tokens"] == 24_000
    assert (orchestrator["lowwater.pool.ceiling_tokens"], orchestrator["lowwater.pool.planned_width"]) == (200_000, 8)
    assert "lowwater.pool.id" not in orchestrator


def test_without_a_line_of_code_fan_outs_are_seen_as_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "POOL_CEILING_TOKENS": 100_000, "POOL_PARENT_RESERVE_TOKENS": 10_000,
        "SUBAGENT_CONTENT_BUDGET_TOKENS": 24_000, "SUBAGENT_RESERVED_TOKENS": 9_000,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"LOWWATER_{name}", str(value))
    told: list[PoolView] = []
    provider, memory = watched(on_overcommit=told.append)
    tracer = provider.get_tracer("framework")
    agent = {"gen_ai.operation.name": "invoke_agent"}
    with tracer.start_as_current_span("boss", attributes=agent):
        for _ in range(4):  # one after the other: each makes room for the next
            with tracer.start_as_current_span("step"), tracer.start_as_current_span("one", attributes=agent):
                pass
        assert told == []
        together = [tracer.start_span(f"child {number}", attributes=agent) for number in range(3)]
        assert [view.committed_tokens for view in told] == [109_000]
        for span in together:
            span.end()
    events = {span.name: [event.name for event in span.events] for span in memory.get_finished_spans()}
    assert events["child 2"] == ["lowwater.fanout_overcommitted"]
    assert events["child 1"] == events["one"] == []
    assert "pytest" not in str(told)


def test_agents_that_never_end_do_not_fill_the_memory() -> None:
    processor = LowwaterSpanProcessor(dict(LIMITS), reserved_tokens=1)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("framework")
    agent = {"gen_ai.operation.name": "invoke_agent"}
    with tracer.start_as_current_span("boss", attributes=agent):
        kept = [tracer.start_span("child", attributes=agent) for _ in range(MAX_OPEN + 500)]
    assert len(processor._agents) <= MAX_OPEN
    assert processor.faults == 0
    del kept


def test_compactions_are_announced() -> None:
    provider, memory = watched()
    with provider.get_tracer("app").start_as_current_span("turn"):
        with declare.compacting(resident_before_tokens=9_000, window_tokens=10_000) as running:
            running.resident_after_tokens = 2_000
        with pytest.raises(OSError, match="full"), declare.compacting(resident_before_tokens=9_000):
            raise OSError("full")
    (span,) = memory.get_finished_spans()
    outcomes = [(event.attributes or {})["lowwater.compaction.outcome"] for event in span.events]
    assert outcomes == ["started", "success", "started", "failure"]
    assert (span.events[1].attributes or {})["lowwater.compaction.resident_after_tokens"] == 2_000


# --- installing ------------------------------------------------------------------------------------------------------


class Plain(SpanProcessor):
    """A processor of somebody else's."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


def test_exporters_before_and_after_are_enriched_once() -> None:
    memory, later, batched, other = InMemorySpanExporter(), InMemorySpanExporter(), InMemorySpanExporter(), Plain()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(memory))
    first = install(provider)
    assert install(provider) is first
    provider.add_span_processor(SimpleSpanProcessor(later))
    provider.add_span_processor(BatchSpanProcessor(EnrichingExporter(batched)))
    provider.add_span_processor(other)
    with provider.get_tracer("app").start_as_current_span("chat m", attributes=CALL):
        pass
    provider.force_flush()
    for exporter in (memory, later, batched):
        (span,) = exporter.get_finished_spans()
        assert list((span.attributes or {})[MEASURED])[:4] == [0, 0, 0, 0]  # type: ignore[arg-type]
    assert MEASURED not in (other.ended[0].attributes or {})
    provider.shutdown()


def test_there_may_be_nothing_to_install_into(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(trace.NoOpTracerProvider()) is None
    monkeypatch.setenv("LOWWATER_DISABLED", "true")
    assert install(TracerProvider()) is None


def test_a_setting_that_is_no_number_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOWWATER_POOL_CEILING_TOKENS", "200k")
    assert install(TracerProvider()) is not None
    assert "LOWWATER_POOL_CEILING_TOKENS='200k' is ignored" in caplog.text


# --- sampling --------------------------------------------------------------------------------------------------------


def test_what_is_recorded_and_not_sampled_reaches_the_detector_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_POOL_CEILING_TOKENS", "1000")
    monkeypatch.setenv("LOWWATER_SUBAGENT_RESERVED_TOKENS", "900")
    backend, detector, told = InMemorySpanExporter(), InMemorySpanExporter(), list[PoolView]()
    provider = TracerProvider(sampler=StaticSampler(Decision.RECORD_ONLY))  # AlwaysRecordSampler's answer
    provider.add_span_processor(BatchSpanProcessor(backend))
    provider.add_span_processor(RecordedSpans(BatchSpanProcessor(detector)))
    install(provider, on_overcommit=told.append)
    tracer = provider.get_tracer("app")
    agent = {"gen_ai.operation.name": "invoke_agent"}
    with tracer.start_as_current_span("boss", attributes=agent) as boss:
        with tracer.start_as_current_span("chat m", attributes=CALL):
            pass
        for child in [tracer.start_span("child", attributes=agent) for _ in range(2)]:
            child.end()
    provider.force_flush()
    assert backend.get_finished_spans() == ()
    call, *_, last = detector.get_finished_spans()
    assert MEASURED in (call.attributes or {})
    assert (last.name, last.get_span_context().span_id) == ("boss", boss.get_span_context().span_id)  # type: ignore[union-attr]
    assert [view.width for view in told] == [2]
    provider.shutdown()


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "processor.baggage.get_all", "processor._write", "processor.LowwaterSpanProcessor._note",
        "processor.LowwaterSpanProcessor._ended", "measure.read_span", "measure.record_of", "measure._split",
        "enrich.Enricher._added",
    ],
)  # fmt: skip
def test_a_fault_in_any_hook_stays_within(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_POOL_CEILING_TOKENS", "100000")

    def fail(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("injected")

    provider, memory = watched()
    tracer = provider.get_tracer("app")
    agent = {"gen_ai.operation.name": "invoke_agent"}
    with (
        declare.working_set(required_tokens=1),
        monkeypatch.context() as injected,  # after what is declared: a fault of baggage itself is the application's
    ):
        injected.setattr(f"lowwater.collectors.{place}", fail)
        with (
            tracer.start_as_current_span("boss", attributes=agent),
            tracer.start_as_current_span("chat m", attributes=CALL),
        ):
            pass
    assert [span.name for span in memory.get_finished_spans()] == ["chat m", "boss"]


class Dead(SpanExporter):
    """An exporter that hangs."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.release.wait(30)
        return SpanExportResult.FAILURE


def test_an_application_waits_for_nothing() -> None:
    """With the exporter dead and messages of a megabyte, what a span costs the application stays below a millisecond."""
    dead = Dead()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(dead, max_queue_size=64, max_export_batch_size=8))
    installed = install(provider)
    assert installed is not None
    tracer = provider.get_tracer("app")
    large = {
        **CALL,
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"' + "word " * 200_000 + '"}]}]',
    }
    costs = []
    for _ in range(300):
        span = tracer.start_span("chat m", attributes=large)
        started = time.thread_time()
        installed.processor.on_start(span, None)  # type: ignore[arg-type]
        installed.processor.on_end(span)  # type: ignore[arg-type]
        costs.append(time.thread_time() - started)
        span.end()
    dead.release.set()
    provider.shutdown()
    assert sorted(costs)[-3] < 0.001


class Lockless(SpanExporter):
    """The SDK's exporter to memory takes a lock, which a fork may copy while it is held."""

    def __init__(self, exported: list[ReadableSpan]) -> None:
        self._exported = exported

    def export(self, spans: Any) -> SpanExportResult:
        self._exported.extend(spans)
        return SpanExportResult.SUCCESS


def test_a_fork_and_threads_leave_no_deadlock() -> None:
    exported: list[ReadableSpan] = []
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lockless(exported)))
    install(provider)
    tracer = provider.get_tracer("app")
    pool = Pool("p", ceiling_tokens=1_000)
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            key = object()
            pool.join(key, reserved_tokens=10)
            with declare.working_set(required_tokens=5), tracer.start_as_current_span("chat m", attributes=CALL):
                pass
            pool.leave(key)

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()

    def child() -> None:
        pool.join(object(), reserved_tokens=10)
        with declare.working_set(required_tokens=5), tracer.start_as_current_span("chat m", attributes=CALL):
            pass
        os._exit(7)

    try:
        for _ in range(5):
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(20)
            assert process.exitcode == 7
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
    assert pool.view().width == 0
    assert len(exported) > 20
