"""Langfuse exports: a trace with its observations, or observations alone.

An observation that came over OpenTelemetry keeps its span attributes under ``metadata.attributes``; prompt and
answer have been moved to ``input`` and ``output``. The backend's own fields reach the dialects under the names that
Langfuse's SDK writes on spans, ``langfuse.observation.*``.

Whose token counts? Where the producer reported none, Langfuse fills ``usageDetails`` by running a tokenizer over the
displayed input and output, and the export does not mark it. Usage that came over OpenTelemetry always stays in the
attributes as well (extractUsageDetails in langfuse packages/shared/src/server/otel/OtelIngestionProcessor.ts copies it
and removes nothing), so an observation with span attributes but without usage among them shows an estimate, at times
absurd: 5 tokens for a call whose displayed input is the 18 characters ``{"content":"role"}``. And where both exist,
``usageDetails.input`` may have the cached part subtracted. Hence ``usageDetails`` counts only for observations without
span attributes, which Langfuse's own SDKs and API made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import load_json
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.otlp_json import identifier, synthetic_id
from lowwater.detector.readers.plain import plain_attributes
from lowwater.detector.readers.values import dump_json, iterate_values, nanoseconds

__all__ = ["FORMAT"]

_CALLS = frozenset(("GENERATION", "EMBEDDING"))
_JSON_FIELDS = {
    "langfuse.observation.input": "input",
    "langfuse.observation.output": "output",
    "langfuse.observation.model.parameters": "modelParameters",
}
_TEXT_FIELDS = {
    "langfuse.observation.model.name": "model",
    "langfuse.observation.level": "level",
    "langfuse.observation.status_message": "statusMessage",
}


def _is_observation(value: Any) -> bool:
    return isinstance(value, dict) and {"id", "traceId", "type", "startTime"} <= value.keys()


def _observations(value: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """The observations of an export, and the trace that they belong to."""
    if _is_observation(value):
        return [value], {}
    if isinstance(value, dict):
        found: list[Any] = next(
            (value[name] for name in ("observations", "data") if isinstance(value.get(name), list)), []
        )
        trace = value["trace"] if isinstance(value.get("trace"), dict) else value
        return found, trace
    return (value, {}) if isinstance(value, list) else ([], {})


def _sniff(value: Any) -> bool:
    observations, _ = _observations(value)
    return any(_is_observation(item) for item in observations[:3])


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[SpanRecord]:
    ordinal = 0
    for number, value in iterate_values(document, problems):
        observations, trace = _observations(value)
        for index, item in enumerate(observations, 1):
            ordinal += 1
            if _is_observation(item):
                yield _span(item, trace, ordinal)
            else:
                problems.add(document.name, f"line {number}, item {index}", "no Langfuse observation")


def _span(item: Mapping[str, Any], trace: Mapping[str, Any], ordinal: int) -> SpanRecord:
    metadata = load_json(item.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    scope = metadata.get("scope")
    scope = scope if isinstance(scope, dict) else {}
    message = item.get("statusMessage")
    return SpanRecord(
        trace_id=identifier(item["traceId"]) or synthetic_id(item, ordinal, 32),
        span_id=identifier(item["id"]) or synthetic_id(item, ordinal),
        name=_text(item.get("name")),
        parent_span_id=identifier(item.get("parentObservationId")) or None,
        start_time_unix_nano=nanoseconds(item["startTime"]),
        end_time_unix_nano=nanoseconds(item.get("endTime")),
        status_code="error" if item.get("level") == "ERROR" else "unset",
        status_message=_text(message),
        scope_name=_text(scope.get("name")),
        scope_version=_text(scope.get("version")),
        attributes=_attributes(item, trace, plain_attributes(metadata.get("attributes"))),
        resource=plain_attributes(metadata.get("resourceAttributes")),
    )


def _attributes(item: Mapping[str, Any], trace: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The span's attributes, completed with what the backend knows; the span's own win."""
    kind = _text(item["type"])
    added: dict[str, Any] = {"langfuse.observation.type": kind.lower()}
    if kind in _CALLS and not found and isinstance(item.get("usageDetails"), dict) and item["usageDetails"]:
        added["langfuse.observation.usage_details"] = _json(item["usageDetails"])
    added.update({name: _json(item[field]) for name, field in _JSON_FIELDS.items() if item.get(field)})
    added.update({name: item[field] for name, field in _TEXT_FIELDS.items() if item.get(field)})
    session = trace.get("sessionId") or item.get("sessionId")
    if isinstance(session, str) and session:
        added["session.id"] = session
    return added | found


def _json(value: Any) -> str:
    """As the attribute of a span would hold it: text, or JSON text."""
    return value if isinstance(value, str) else dump_json(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


FORMAT = Format(
    name="langfuse",
    description="Langfuse exports: a trace with observations, or observations alone",
    read=_read,
    sniff_line=_sniff,
    sniff_json=_sniff,
)
