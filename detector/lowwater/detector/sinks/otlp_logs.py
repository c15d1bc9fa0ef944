"""Findings as OTLP log records, through the official exporters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from lowwater.detector.sinks.base import UnavailableError

__all__ = ["OtlpLogs", "log_record"]

_SEVERITIES = {"info": SeverityNumber.INFO, "ticket": SeverityNumber.WARN, "page": SeverityNumber.ERROR}
_ATTRIBUTES = {
    "conversation": "gen_ai.conversation.id",
    "agent": "gen_ai.agent.name",
    "service": "service.name",
    "model": "gen_ai.request.model",
    "pool": "lowwater.pool.id",
}
"""Standard names where there are some; the other fields of a finding are ``lowwater.finding.*``."""

_OWN = ("id", "kind", "state", "severity", "reason", "turn", "provisional")


def log_record(line: Mapping[str, Any]) -> LogRecord:
    """A finding's line as an event ``lowwater.finding``."""
    attributes: dict[str, Any] = {f"lowwater.finding.{name}": line[name] for name in _OWN if line.get(name) is not None}
    attributes |= {name: line[key] for key, name in _ATTRIBUTES.items() if line.get(key) is not None}
    for name, value in line["evidence"].items():
        if isinstance(value, str | bool | int | float):
            attributes[f"lowwater.finding.evidence.{name}"] = value
    steps = [step["action"] + (f" ({step['tokens']} tokens)" if step["tokens"] else "") for step in line["advice"]]
    if steps:
        attributes["lowwater.finding.advice"] = steps
    firing = line["state"] == "firing"
    what = line["kind"].replace("_", " ")
    who = line.get("agent") or line.get("service") or "unknown agent"
    return LogRecord(
        timestamp=line["time"] or time.time_ns(),
        observed_timestamp=time.time_ns(),
        context=_context(line),
        severity_number=_SEVERITIES[line["severity"]] if firing else SeverityNumber.INFO,
        severity_text=line["severity"] if firing else line["state"],
        body=f"{what} {line['state']}: {who}: {line['reason'].replace('_', ' ')}",
        attributes=attributes,
        event_name="lowwater.finding",
    )


def _context(line: Mapping[str, Any]) -> Any:
    try:
        trace_id, span_id = int(line["trace_id"], 16), int(line["span_id"] or "0", 16)
    except (TypeError, ValueError):  # session logs have ids of their own
        return None
    if not (0 < trace_id < 1 << 128 and 0 <= span_id < 1 << 64):
        return None
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(context))


class OtlpLogs:
    """Exports findings as log records.

    Args:
        endpoint: URL of the receiver; for HTTP the base, to which ``/v1/logs`` is added.
        protocol: ``grpc`` or ``http/protobuf``; headers come from OTEL_EXPORTER_OTLP_HEADERS.
        resource: what the records say of their source.
    """

    name = "otlp_logs"

    def __init__(self, endpoint: str, protocol: str, resource: Resource) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("lowwater")
        self._exporter: LogRecordExporter
        if protocol == "grpc":
            insecure = not endpoint.startswith("https:")
            self._exporter = GrpcExporter(endpoint=endpoint, insecure=insecure)
        else:
            self._exporter = HttpExporter(endpoint=f"{endpoint.rstrip('/')}/v1/logs")

    def deliver(self, lines: Sequence[dict[str, Any]]) -> None:
        """Export lines; the exporter has tried several times when it gives up."""
        records = [ReadableLogRecord(log_record(line), self._resource, self._scope) for line in lines]
        if self._exporter.export(records) is not LogRecordExportResult.SUCCESS:
            raise UnavailableError("the OTLP receiver does not take log records")

    def close(self) -> None:
        """Close connections."""
        self._exporter.shutdown()
