"""Record OpenAI's client with OpenTelemetry's own instrumentation, by its default: content in log records."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.trace import TracerProvider
from tests.record import openai_loop
from tests.record.recording import Stage, environment, record_stories

__all__ = ["record", "record_as"]

_SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    return record_as("openai-otel", "true", "false")


def record_as(name: str, on: str, off: str) -> list[Path]:
    """Record under a name, with the values of the switch that turn content on and off."""

    def play(stage: Stage) -> None:
        with environment(**{_SWITCH: on if stage.content else off}):
            openai_loop.play(stage, lambda service: _instrumented(stage, service))

    return record_stories(
        name,
        play,
        framework=f"openai {version('openai')}",
        instrumentation=f"opentelemetry-instrumentation-openai-v2 {version('opentelemetry-instrumentation-openai-v2')}, "
        f"opentelemetry-util-genai {version('opentelemetry-util-genai')}",
        content_switch=f"off by default; `{_SWITCH}={on}`",
    )


def _instrumented(stage: Stage, service: str) -> tuple[TracerProvider, Callable[[], object]]:
    provider = stage.capture.provider(service)
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider, logger_provider=stage.capture.logger_provider(service))
    return provider, instrumentor.uninstrument
