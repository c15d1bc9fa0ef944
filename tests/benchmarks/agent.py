"""What lowwater costs in the agent's process, beside the SDK alone, in one run.

Rounds of all configurations are interleaved, so that a slow moment of the machine hits all of them; a ratio is the
median of the rounds' ratios.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, cast

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from lowwater.collectors.activation import Installed, install
from lowwater.collectors.enrich import Enricher

ROUNDS, SPANS = 31, 2_000
ALONE, WITH = "SDK alone", "with lowwater"
LLM: dict[str, Any] = {
    "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9_000,
    "gen_ai.usage.output_tokens": 200, "gen_ai.conversation.id": "c", "gen_ai.agent.name": "desk",
    **{f"app.attribute.{number}": number for number in range(18)},
}  # fmt: skip
PLAIN: dict[str, Any] = {"http.request.method": "GET", "url.path": "/", "http.response.status_code": 200}
MESSAGES = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "what is to be done about the seventh pump " * 9}]}] * 20
)


class Encoding(SpanExporter):
    """Does what the official OTLP exporters do, short of sending."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


class Hanging(SpanExporter):
    """Never returns."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        time.sleep(3_600)
        return SpanExportResult.FAILURE


def provider(*, lowwater: bool, batch: bool) -> tuple[TracerProvider, Installed | None]:
    made = TracerProvider(shutdown_on_exit=False)
    if batch:
        made.add_span_processor(BatchSpanProcessor(Encoding(), max_queue_size=4 * SPANS, schedule_delay_millis=60_000))
    return made, install(made) if lowwater else None


def spans_ns(made: TracerProvider, attributes: dict[str, Any]) -> float:
    tracer = made.get_tracer("app")
    gc.collect()
    started = time.perf_counter_ns()
    for _ in range(SPANS):
        span = tracer.start_span("call")
        span.set_attributes(attributes)
        span.end()
    cast(Any, made).force_flush()  # what is done on the exporting thread is a cost, too: they share the interpreter
    return (time.perf_counter_ns() - started) / SPANS


def hooks_ns(installed: Installed, span: Any) -> tuple[float, float]:
    start, end = installed.processor.on_start, installed.processor.on_end
    times = [time.perf_counter_ns()]
    for _ in range(SPANS):
        start(span)
    times.append(time.perf_counter_ns())
    for _ in range(SPANS):
        end(span)
    times.append(time.perf_counter_ns())
    return (times[1] - times[0]) / SPANS, (times[2] - times[1]) / SPANS


def imports_ms(statement: str) -> float:
    code = f"import time; s=time.perf_counter()\n{statement}\nprint((time.perf_counter()-s)*1e3)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    ]
    return statistics.median(runs)


def main() -> None:
    """Print the tables."""
    configurations: dict[str, Callable[[], float]] = {}
    for batch in (False, True):
        for lowwater in (False, True):
            for name, attributes in (("plain", PLAIN), ("LLM, 24 attributes", LLM)):
                made, _ = provider(lowwater=lowwater, batch=batch)
                key = f"{'batch processor' if batch else 'no processor':16} {name:20} {WITH if lowwater else ALONE}"
                configurations[key] = lambda made=made, attributes=attributes: spans_ns(made, attributes)  # type: ignore[misc]
    rounds: dict[str, list[float]] = {key: [] for key in configurations}
    for number in range(ROUNDS):  # every other round in reverse: who comes second finds warmer caches
        for key in list(configurations)[:: -1 if number % 2 else 1]:
            rounds[key].append(configurations[key]())
    print("what a span costs: start, set_attributes, end, and its share of the export; medians of", ROUNDS, "rounds")
    for key, alone in rounds.items():
        if not key.endswith(ALONE):
            continue
        with_ = rounds[key.removesuffix(ALONE) + WITH]
        ratio = statistics.median(one / other for one, other in zip(with_, alone, strict=True))
        costs = (
            f"{statistics.median(alone) / 1e3:6.2f} us alone, {statistics.median(with_) / 1e3:6.2f} us with lowwater"
        )
        print(f"  {key.removesuffix(ALONE)} {costs}  {ratio - 1:+.1%}")

    made, installed = provider(lowwater=True, batch=False)
    assert installed is not None
    span = made.get_tracer("app").start_span("call", attributes=PLAIN)
    both = [hooks_ns(installed, span) for _ in range(ROUNDS)]
    print(
        "\nlowwater's hooks alone: on_start",
        f"{statistics.median(one for one, _ in both):.0f} ns,",
        "on_end",
        f"{statistics.median(end for _, end in both):.0f} ns",
    )

    tracer = made.get_tracer("app")
    print("\non the exporting thread, per span")
    for name, attributes in (
        ("plain", PLAIN),
        ("LLM, 24 attributes", LLM),
        ("LLM, 20 messages, 8 kB", {**LLM, "gen_ai.input.messages": MESSAGES}),
    ):
        ended: Any = tracer.start_span("call", attributes=attributes)
        ended.end()
        for strip in (False, True):
            enricher = Enricher(strip_content=strip)
            runs = []
            for _ in range(ROUNDS):
                started = time.perf_counter_ns()
                for _ in range(200):
                    enricher(ended)
                runs.append((time.perf_counter_ns() - started) / 200 / 1e3)
            print(f"  {name:24} {'content cut' if strip else '':12} {statistics.median(runs):7.1f} us")

    sdk = imports_ms("import opentelemetry.sdk.trace, opentelemetry.sdk.trace.export")
    more = imports_ms("import opentelemetry.sdk.trace, opentelemetry.sdk.trace.export, lowwater.collectors.activation")
    print(f"\nimport: opentelemetry-sdk {sdk:.0f} ms, lowwater on top {more - sdk:.0f} ms")

    dead = TracerProvider(shutdown_on_exit=False)
    dead.add_span_processor(BatchSpanProcessor(Hanging()))
    install(dead)
    tracer = dead.get_tracer("app")
    tracemalloc.start()
    sizes = []
    for _ in range(3):
        for _ in range(20_000):
            one = tracer.start_span("call", attributes=LLM)
            one.end()
        sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)
    print("exporter dead, memory after 20,000, 40,000 and 60,000 spans:", ", ".join(f"{size:.1f} MB" for size in sizes))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    import os

    os._exit(0)  # the exporter that hangs would not let go
