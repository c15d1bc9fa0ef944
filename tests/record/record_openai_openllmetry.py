"""Record OpenAI's client with OpenLLMetry's instrumentation (``opentelemetry-instrumentation-openai`` of Traceloop)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import TracerProvider
from tests.record import openai_loop
from tests.record.capture import Switch
from tests.record.recording import Stage, environment, record_stories

__all__ = ["record"]

_SWITCH = "TRACELOOP_TRACE_CONTENT"


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    return record_stories(
        "openai-openllmetry",
        _play,
        framework=f"openai {version('openai')}",
        instrumentation=f"opentelemetry-instrumentation-openai {version('opentelemetry-instrumentation-openai')}",
        content_switch=f"on by default; `{_SWITCH}=false`",
    )


_SPANS = Switch()


def _play(stage: Stage) -> None:
    # Once only: the instrumentation's way back leaves the client wrapped.
    OpenAIInstrumentor().instrument(tracer_provider=_SPANS)

    def instrumented(service: str) -> tuple[TracerProvider, Callable[[], object]]:
        _SPANS.target = stage.capture.provider(service)
        return _SPANS.target, lambda: None

    with environment(**{_SWITCH: str(stage.content).lower()}):
        openai_loop.play(stage, instrumented)
