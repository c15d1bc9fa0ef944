"""What the SDK's console exporters print, from the SDK itself."""

from __future__ import annotations

import io
import json
import os

import pytest
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.detector.readers.base import Item, Problems
from lowwater.detector.readers.console import FORMAT
from lowwater.detector.readers.detect import detect
from lowwater.detector.readers.opening import OpenDocument


def printed(indent: int | None = 4) -> bytes:
    """Two spans, parent and child, as the console exporter prints them."""
    out = io.StringIO()
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=indent) + os.linesep)
    provider = TracerProvider(resource=Resource({"service.name": "svc"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lib")
    with tracer.start_as_current_span("agent"), tracer.start_as_current_span("chat", attributes={"n": 4530}) as span:
        span.add_event("told", {"k": ["v}"]})
        span.set_status(Status(StatusCode.ERROR, "boom"))
    return out.getvalue().encode()


def document(data: bytes, problems: Problems | None = None) -> OpenDocument:
    return OpenDocument("f", lambda: io.BytesIO(data), Problems() if problems is None else problems)


def read(data: bytes, problems: Problems | None = None) -> list[Item]:
    found = Problems() if problems is None else problems
    return list(FORMAT.read(document(data, found), ReadContext(), found))


@pytest.mark.parametrize("indent", [4, None], ids=["indented", "one line each"])
def test_spans_are_read_and_detected(indent: int | None) -> None:
    data = printed(indent)
    assert detect(document(data), Problems()) is FORMAT
    chat, agent = read(data)
    assert isinstance(chat, SpanRecord)
    assert isinstance(agent, SpanRecord)
    assert (chat.name, chat.parent_span_id, agent.parent_span_id) == ("chat", agent.span_id, None)
    assert (len(chat.trace_id), len(chat.span_id), chat.trace_id) == (32, 16, agent.trace_id)
    assert chat.attributes == {"n": 4530}
    assert (chat.status_code, chat.status_message) == ("error", "boom")
    assert 0 < agent.start_time_unix_nano <= chat.start_time_unix_nano <= chat.end_time_unix_nano
    assert [(event.name, event.attributes) for event in chat.events] == [("told", {"k": ["v}"]})]
    assert chat.resource["service.name"] == "svc"


def test_one_span_alone_is_detected() -> None:
    one = json.dumps(json.loads(printed(None).splitlines()[0]), indent=4).encode()
    assert detect(document(one), Problems()) is FORMAT
    assert len(read(one)) == 1


def test_log_records_are_read() -> None:
    out = io.StringIO()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(ConsoleLogRecordExporter(out=out)))
    record = ApiLogRecord(timestamp=1_796_098_293_000_000_000, body={"content": "hi"}, event_name="gen_ai.choice")
    provider.get_logger("lib").emit(record)
    (found,) = read(out.getvalue().encode())
    assert isinstance(found, LogRecord)
    assert (found.event_name, found.body, found.trace_id) == ("gen_ai.choice", {"content": "hi"}, "")
    assert found.time_unix_nano == 1_796_098_293_000_000_000


def test_the_last_span_may_be_cut_off() -> None:
    data = printed()
    problems = Problems()
    found = read(data[: int(len(data) * 0.9)], problems)
    assert [item.name for item in found if isinstance(item, SpanRecord)] == ["chat", "agent"]
    assert problems.total == 1


def test_other_output_between_spans_is_counted() -> None:
    problems = Problems()
    assert len(read(printed() + b'{\n"hello": 1\n}\n' + printed(), problems)) == 4
    assert problems.total == 1
