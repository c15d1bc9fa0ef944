"""Detection by content, and reading many files."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.detector.errors import InputError
from lowwater.detector.readers import detect as module
from lowwater.detector.readers.base import Document, Format, Item, Problems
from lowwater.detector.readers.detect import FORMAT_NAMES, FORMATS, FileReport, detect, format_named, read_paths
from lowwater.detector.readers.opening import OpenDocument

SPAN = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat"}
REQUEST = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}).encode()

FOREIGN = {
    "empty": b"",
    "blank": b" \n\n",
    "text": b"# Notes\n\nNothing here.\n",
    "table": b"a\tb\n1\t2\n",
    "number": b"5\n",
    "annotations": b'[\n {"instance_id": "x", "failures": []}\n]',
    "package": b'{"name": "p", "version": "1.0"}',
    "zip": b"PK\x03\x04" + bytes(range(256)),
    "log": b"[INFO] started\n" * 50,
    "empty list": b"[]",
    "deep": b"[" * 5000,
}


def document(data: bytes) -> OpenDocument:
    return OpenDocument("f", lambda: io.BytesIO(data), Problems())


def read(
    *paths: Path, problems: Problems | None = None, **options: Any
) -> tuple[list[Item], list[FileReport], Problems]:
    found = Problems() if problems is None else problems
    reports: list[FileReport] = []
    items = list(read_paths([str(path) for path in paths], ReadContext(), found, reports=reports, **options))
    return items, reports, found


def test_names_are_unique_and_every_format_can_be_detected() -> None:
    assert len(set(FORMAT_NAMES)) == len(FORMATS)
    for entry in FORMATS:
        assert entry.sniff_line or entry.sniff_json or entry.sniff_bytes
        assert format_named(entry.name) is entry
    with pytest.raises(InputError, match="otlp-json"):
        format_named("otlp")


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_a_problem_that_names_the_remedy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(FOREIGN[name])
    items, (report,), problems = read(path)
    assert (items, report.format, report.problems, problems.total) == ([], None, 1, 1)
    reason = problems.kept[0].reason
    assert "empty" in reason or "--format" in reason


def test_a_foreign_file_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(b'{"secret": "canary"}')
    _, _, problems = read(path)
    assert "canary" not in str(problems.kept)


@pytest.mark.parametrize(
    "data",
    [
        REQUEST,
        REQUEST + b"\n" + REQUEST,
        b"\xef\xbb\xbf\r\n" + REQUEST + b"\r\n\r\n",
        gzip.compress(REQUEST),
        json.dumps(json.loads(REQUEST), indent=1).encode(),
        REQUEST + b"\ntrailing garbage",
        b'{"garb\n' + (REQUEST + b"\n") * 3,
    ],
    ids=["one", "lines", "mark and CRLF", "gzip", "indented", "trailing garbage", "damaged first line"],
)
def test_decorations_do_not_hide_the_format(data: bytes) -> None:
    found = detect(document(data), Problems())
    assert found is not None
    assert found.name == "otlp-json"


def test_a_single_document_is_parsed_once_and_detection_consumes_nothing() -> None:
    one = document(json.dumps(json.loads(REQUEST), indent=1).encode())
    assert detect(one, Problems()) is not None
    assert one.json() is one.json()
    many = document(REQUEST + b"\n" + REQUEST)
    detect(many, Problems())
    assert len(list(many.lines())) == 2


class Endless(io.BytesIO):
    """A file of the same line for ever."""

    def __init__(self, line: bytes) -> None:
        super().__init__()
        self.line = line
        self.lines_given = 0

    def read(self, size: int | None = -1) -> bytes:
        self.lines_given += 1000
        return self.line * 1000


@pytest.mark.parametrize("line", [b'{"unknown": 1}\n', b"{broken\n", b"[log] line\n", b'{"a": \n', b"text\n"])
def test_detection_gives_up_on_a_large_foreign_file(line: bytes) -> None:
    stream = Endless(line)
    assert detect(OpenDocument("f", lambda: stream, Problems()), Problems()) is None
    assert stream.lines_given * len(line) < 8 << 20


def test_many_files_with_reports_and_progress(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(REQUEST + b"\nbroken\n" + REQUEST)
    (tmp_path / "b.json").write_bytes(b"{}")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(REQUEST))
    progress: list[tuple[str, int]] = []
    items, reports, problems = read(tmp_path, on_progress=lambda file, count: progress.append((file, count)))
    assert [(Path(r.file).name, r.format, r.spans, r.problems) for r in reports] == [
        ("a.jsonl", "otlp-json", 2, 1),
        ("b.json", None, 0, 1),
        ("c.jsonl.gz", "otlp-json", 1, 0),
    ]
    assert len(items) == 3
    assert [Path(file).name for file, _ in progress] == ["a.jsonl", "b.json", "c.jsonl.gz"]
    assert [report.bytes for report in reports] == [count for _, count in progress]
    assert [problem.place for problem in problems.kept] == ["line 2", "byte 0"]


def test_a_forced_format_is_not_detected(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(REQUEST)
    items, (report,), problems = read(tmp_path / "a", format="langfuse")
    assert (items, report.format, problems.total) == ([], "langfuse", 1)
    assert "nothing of the format langfuse" in problems.kept[0].reason
    with pytest.raises(InputError, match="no format is called"):
        read_paths([str(tmp_path / "a")], ReadContext(), Problems(), format="nonsense")


def test_missing_files_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_paths([str(tmp_path / "missing")], ReadContext(), Problems())


def test_a_format_that_fails_costs_the_rest_of_its_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(document: Document, context: ReadContext, problems: Problems) -> Iterator[Item]:
        raise KeyError("x")
        yield

    broken = Format("broken", "for this test", failing, sniff_line=lambda value: value["n"] == 1)
    monkeypatch.setattr(module, "FORMATS", (broken, *FORMATS))
    (tmp_path / "a").write_bytes(b'{"n": 1}')
    (tmp_path / "b").write_bytes(REQUEST)
    items, reports, problems = read(tmp_path)
    assert [report.format for report in reports] == ["broken", "otlp-json"]
    assert len(items) == 1
    assert "KeyError" in problems.kept[0].reason


def test_corpus_formats(corpus: Any) -> None:
    expected = {
        "MANIFEST.tsv": None,
        "README.md": None,
        "agentrx/magentic_one_ground_truth.json": None,
        "envoy-ai-gateway/chat-bad-request.json": "otlp-json",
        "envoy-ai-gateway/chat-parallel-tools.json": "otlp-json",
        "langfuse/koog-2025-08-26.trace.json": "langfuse",
        "langwatch/codex-B.session_task_turn.json": "flat",
        "langwatch/opencode-B.doStream.json": "flat",
        "strands-evals/adk_live_spans.json": "flat",
        "strands-evals/claude_adot_spans.json": "flat",
    }
    _, reports, _ = read(*(corpus.path(name) for name in expected))
    assert [report.format for report in reports] == list(expected.values())
    assert all((report.problems == 0) == (report.format is not None) for report in reports)
