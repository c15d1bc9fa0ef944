"""Record OpenAI's client with OpenTelemetry's own instrumentation and the newest conventions, which it is moving to."""

from __future__ import annotations

from pathlib import Path

from tests.record.record_openai_otel import record_as

__all__ = ["record"]


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    return record_as("openai-otel-latest", "SPAN_AND_EVENT", "NO_CONTENT")
