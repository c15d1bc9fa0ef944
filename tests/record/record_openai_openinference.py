"""Record OpenAI's client with OpenInference's instrumentation."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from openinference.instrumentation import TraceConfig
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import TracerProvider
from tests.record import openai_loop
from tests.record.recording import Stage, record_stories

__all__ = ["record"]


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    return record_stories(
        "openai-openinference",
        _play,
        framework=f"openai {version('openai')}",
        instrumentation=f"openinference-instrumentation-openai {version('openinference-instrumentation-openai')}",
        content_switch="on by default; `OPENINFERENCE_HIDE_INPUTS=true` and `OPENINFERENCE_HIDE_OUTPUTS=true`",
    )


def _play(stage: Stage) -> None:
    def instrumented(service: str) -> tuple[TracerProvider, Callable[[], object]]:
        provider = stage.capture.provider(service)
        instrumentor = OpenAIInstrumentor()
        config = TraceConfig(hide_inputs=not stage.content, hide_outputs=not stage.content)
        instrumentor.instrument(tracer_provider=provider, config=config)
        return provider, instrumentor.uninstrument

    openai_loop.play(stage, instrumented)
