"""Keeps spans and log records of a run and writes them as the OpenTelemetry collector's file exporter does: OTLP JSON lines.

They are the framework's own, encoded by OpenTelemetry's own OTLP encoder. Five things are replaced, so that a
second recording with the same versions gives the same file byte for byte, and tells nothing of the recording machine:

- trace and span ids, by a hash of their place;
- UUIDs that the framework makes up, likewise;
- times, those in attributes included: the *order* of all starts and ends is as recorded, and so is what ran at once; the
  distances are those of a hosted model, computed from the tokens of each call (`_gap_ns`);
- times to a first token, all of them a quarter of a second;
- paths in stack traces, which keep what follows ``site-packages``.

Log records carry the time at which their span ended, and come after all spans.
"""

from __future__ import annotations

import base64
import getpass
import gzip
import hashlib
import json
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.processor.baggage import BaggageSpanProcessor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

__all__ = ["Capture", "Switch", "write_truth"]

EPOCH_NS = 1_767_600_000_000_000_000
"""Start of every recording: 2026-01-05 08:00 UTC."""

SPANS_PER_LINE = 16
"""Spans of one export request; a batch processor sends about so many of a single agent."""

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SITE = re.compile(r'File \\?"[^"]*?/(?=(?:site-packages|tests/record|python3\.\d+)/)')
_ID_KEYS = frozenset({"traceId", "spanId", "parentSpanId"})
_LEAVES = frozenset({"chat", "execute_tool", "LLM", "TOOL", "RETRIEVER"})
_OUTPUT_KEYS = ("gen_ai.usage.output_tokens", "llm.token_count.completion")


class Capture:
    """Tracer providers for the services of one recording, and what they recorded.

    Args:
        name: name of the recording; ids are derived from it, so that recordings can be read together.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._exporter = _Keep()
        self._logs = _KeepLogs()

    def provider(self, service: str, **attributes: str) -> TracerProvider:
        """A provider whose spans carry lowwater's declarations from the baggage. Only stated attributes describe it."""
        provider = TracerProvider(resource=_resource(service, attributes), shutdown_on_exit=False)
        provider.add_span_processor(BaggageSpanProcessor(lambda key: key.startswith("lowwater.")))
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        return provider

    def logger_provider(self, service: str, **attributes: str) -> LoggerProvider:
        """A provider of loggers, for instrumentations that write messages as log records."""
        provider = LoggerProvider(resource=_resource(service, attributes), shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        return provider

    def write(self, folder: Path, *, compressed: bool = False) -> Path:
        """Write the recording as ``<name>.otlp.jsonl``, or ``<name>.otlp.jsonl.gz``; the path of the file.

        Raises:
            ValueError: something of this machine would be written.
        """
        spans = list(self._exporter.spans)
        rewriter = _Rewriter(self._name, spans)
        lines = []
        for batch in _batches(spans):
            request = MessageToDict(encode_spans(batch))
            for resource in request["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        rewriter.apply(span)
            lines.append(json.dumps(request, ensure_ascii=False, separators=(",", ":")))
        for record in self._logs.records:
            request = _encoded(record)
            for resource in request["resourceLogs"]:
                for scope in resource["scopeLogs"]:
                    for each in scope["logRecords"]:
                        rewriter.apply_log(each)
            lines.append(json.dumps(request, ensure_ascii=False, separators=(",", ":")))
        text = _SITE.sub(lambda match: match[0][: match[0].index('"') + 1] + "/app/", "\n".join(lines) + "\n")
        text = _replace_uuids(self._name, text)
        _refuse_leaks(text)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._name}.otlp.jsonl{'.gz' if compressed else ''}"
        data = text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if compressed else data)
        return path


class Switch(trace.TracerProvider):
    """A provider for instrumentations that keep the first one they are given: hands all spans to its target of the moment.

    Attributes:
        target: the provider of the story that is played.
    """

    def __init__(self) -> None:
        self.target: trace.TracerProvider = trace.NoOpTracerProvider()

    def get_tracer(self, *arguments: Any, **named: Any) -> trace.Tracer:
        return _SwitchedTracer(self, arguments, named)


class _SwitchedTracer(trace.Tracer):
    def __init__(self, switch: Switch, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._switch, self._arguments, self._named = switch, arguments, named

    def _tracer(self) -> trace.Tracer:
        return self._switch.target.get_tracer(*self._arguments, **self._named)

    def start_span(self, *arguments: Any, **named: Any) -> trace.Span:
        return self._tracer().start_span(*arguments, **named)

    def start_as_current_span(self, *arguments: Any, **named: Any) -> Any:
        return self._tracer().start_as_current_span(*arguments, **named)


def write_truth(path: Path, calls: Sequence[Mapping[str, Any]], **story: Any) -> None:
    """Write what the server counted, with the facts that the script knows of its story."""
    head = json.dumps({"schema": "lowwater.recorded/1", "story": story}, indent=1)
    lines = ",\n  ".join(json.dumps(call) for call in calls)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-2]},\n "calls": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


class _Keep(SpanExporter):
    """Keeps ended spans in the order in which they ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            self.spans += spans
        return SpanExportResult.SUCCESS


class _KeepLogs:
    """Keeps log records in the order in which they were written."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def export(self, batch: Sequence[Any]) -> Any:
        self.records += batch
        return _success()

    def shutdown(self) -> None:
        """Nothing to do."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def _success() -> Any:
    from opentelemetry.sdk._logs import export

    results = getattr(export, "LogRecordExportResult", None) or export.LogExportResult
    return results.SUCCESS


def _encoded(record: Any) -> dict[str, Any]:
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

    return MessageToDict(encode_logs([record]))


def _resource(service: str, attributes: Mapping[str, str]) -> Resource:
    stated = {
        "service.name": service,
        "deployment.environment.name": "staging",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": version("opentelemetry-sdk"),
    }
    return Resource({**stated, **attributes})


class _Rewriter:
    """New ids and times for recorded spans."""

    def __init__(self, recording: str, spans: Sequence[ReadableSpan]) -> None:
        started = sorted(spans, key=lambda span: span.start_time or 0)
        self._ids: dict[str, str] = {}
        for span in started:
            for name, width in ((f"{span.context.trace_id:032x}", 32), (f"{span.context.span_id:016x}", 16)):
                self._ids.setdefault(name, _digest(f"{recording} id {len(self._ids)}", width))
        moments = [(span.start_time or 0, 1, index, span) for index, span in enumerate(started)]
        moments += [(span.end_time or 0, 0, index, span) for index, span in enumerate(started)]
        self._ends: dict[str, str] = {}
        self._logs = 0
        self._times: dict[int, int] = {}
        now = EPOCH_NS
        for moment, is_start, _, span in sorted(moments, key=lambda item: item[:3]):
            now += 1_000_000 if is_start else _gap_ns(span)
            self._times[moment] = now

    def apply(self, span: dict[str, Any]) -> None:
        """Rewrite one encoded span in place."""
        for key in _ID_KEYS & span.keys():
            recorded = base64.b64decode(span[key]).hex()
            span[key] = self._ids[recorded]
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = str(self._times[int(span[key])])
        self._ends[span["spanId"]] = span["endTimeUnixNano"]
        _tell_times(span)
        for event in span.get("events", ()):
            event["timeUnixNano"] = span["endTimeUnixNano"]
        # The official JSON form writes enums as numbers.
        span["kind"] = _KINDS[span.get("kind", "SPAN_KIND_UNSPECIFIED")]
        if "code" in span.get("status", {}):
            span["status"]["code"] = _STATUSES[span["status"]["code"]]

    def apply_log(self, record: dict[str, Any]) -> None:
        """Rewrite one encoded log record of a span in place; its span was rewritten before."""
        for key in _ID_KEYS & record.keys():
            record[key] = self._ids[base64.b64decode(record[key]).hex()]
        # Never twice the same time: two records that are alike in all else would pass for one that was sent twice.
        self._logs += 1
        time = str(int(self._ends[record["spanId"]]) + self._logs)
        record["timeUnixNano"] = record["observedTimeUnixNano"] = time
        if isinstance(record.get("severityNumber"), str):
            record["severityNumber"] = 9  # informational, as all of them are


_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUSES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


_CLOCKS = {"gen_ai.event.start_time": "startTimeUnixNano", "gen_ai.event.end_time": "endTimeUnixNano"}
_FIRST_CHUNKS_SECONDS = frozenset(
    {"gen_ai.client.operation.time_to_first_chunk", "gen_ai.response.time_to_first_chunk"}
)
_STOPWATCHES_MS = frozenset({"gen_ai.server.time_to_first_token", "gen_ai.server.request.duration"})


def _tell_times(span: dict[str, Any]) -> None:
    """Write the new times into the attributes that tell times."""
    # Some are there only where a call took long enough; none is there now, so that all recordings have the same.
    if "attributes" not in span:
        return
    span["attributes"] = [each for each in span["attributes"] if each["key"] not in _STOPWATCHES_MS]
    for each in span["attributes"]:
        if each["key"] in _CLOCKS:
            moment = datetime.fromtimestamp(int(span[_CLOCKS[each["key"]]]) / 1e9, UTC)
            each["value"] = {"stringValue": moment.isoformat()}
        elif each["key"] in _FIRST_CHUNKS_SECONDS:
            each["value"] = {"doubleValue": 0.25}


def _gap_ns(span: ReadableSpan) -> int:
    """Time before an end: 0.4 s and 12 ms per token of an answer, 80 ms of a tool or a refusal."""
    attributes = span.attributes or {}
    tokens = next((attributes[key] for key in _OUTPUT_KEYS if isinstance(attributes.get(key), int)), None)
    if tokens is not None:
        return 400_000_000 + 12_000_000 * int(tokens)  # type: ignore[arg-type]
    is_leaf = attributes.get("gen_ai.operation.name") in _LEAVES or attributes.get("openinference.span.kind") in _LEAVES
    return 80_000_000 if is_leaf else 1_000_000


def _batches(spans: Sequence[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    """Export requests: of one service each, in the order of the ends."""
    batch: list[ReadableSpan] = []
    for span in spans:
        if batch and (len(batch) >= SPANS_PER_LINE or span.resource != batch[0].resource):
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def _replace_uuids(recording: str, text: str) -> str:
    known: dict[str, str] = {}

    def replacement(match: re.Match[str]) -> str:
        digits = _digest(f"{recording} uuid {len(known)}", 32)
        new = f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
        return known.setdefault(match[0], new)

    return _UUID.sub(replacement, text)


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _refuse_leaks(text: str) -> None:
    user = getpass.getuser()
    private = {socket.gethostname(), str(Path.home()), os.getcwd(), f"/home/{user}", f"/Users/{user}"}
    found = sorted(name for name in private if len(name) > 1 and name in text)
    found += sorted(set(re.findall(r'"key":"((?:process|host|os)\.[^"]*)"', text)))
    if found:
        msg = f"the recording would tell of this machine: {', '.join(found)}"
        raise ValueError(msg)
