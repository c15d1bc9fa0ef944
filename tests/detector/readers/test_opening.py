"""Opening inputs: compression by content, damage, folders, standard input, bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.detector.errors import InputError
from lowwater.detector.readers import opening
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.opening import OpenDocument, expand, open_document
from lowwater.detector.readers.streams import split_lines

TEXT = b'{"a": 1}\n{"b": 2}\n'


def write(folder: Path, data: bytes, name: str = "trace.bin") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]),
        zstd(TEXT),
        zstd(TEXT[:9]) + zstd(TEXT[9:]),
        b"\xef\xbb\xbf" + TEXT,
        gzip.compress(b"\xef\xbb\xbf" + TEXT),
        b"\xff\xfe" + TEXT.decode().encode("utf-16-le"),
    ],
    ids=["plain", "gzip", "gzip members", "zstd", "zstd frames", "byte-order mark", "mark in gzip", "utf-16"],
)
def test_content_is_the_same_however_it_is_wrapped(tmp_path: Path, data: bytes) -> None:
    problems = Problems()
    document = open_document(write(tmp_path, data), problems)
    assert b"".join(document.chunks()) == TEXT
    assert [line for _, line in document.lines()] == [b'{"a": 1}', b'{"b": 2}']
    assert problems.total == 0


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_truncated_compression_gives_what_is_readable(tmp_path: Path, compress: object) -> None:
    assert callable(compress)
    rows = b"".join(b'{"n": %d, "s": "%s"}\n' % (n, os.urandom(20).hex().encode()) for n in range(20_000))
    packed = compress(rows)
    problems = Problems()
    read = b"".join(open_document(write(tmp_path, packed[: len(packed) * 3 // 4]), problems).chunks())
    assert rows.startswith(read)
    assert len(read) > len(rows) // 2
    assert problems.total == 1
    assert "cut off" in problems.kept[0].reason


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_damaged_compression_is_a_problem(tmp_path: Path, compress: object) -> None:
    assert callable(compress)
    rows = b"".join(b'{"n": %d}\n' % (n * 7919 % 65_537) for n in range(200_000))
    packed = bytearray(compress(rows))
    middle = len(packed) // 2
    packed[middle : middle + 2000] = b"\xff" * 2000
    problems = Problems()
    read = b"".join(open_document(write(tmp_path, bytes(packed)), problems).chunks())
    assert read[:100_000] == rows[:100_000]
    assert problems.total == 1
    assert "damaged" in problems.kept[0].reason


def test_trailing_garbage_after_gzip_is_reported_and_padding_is_not(tmp_path: Path) -> None:
    for tail, expected in ((b"\0" * 100, 0), (b"garbage", 1)):
        problems = Problems()
        document = open_document(write(tmp_path, gzip.compress(TEXT) + tail), problems)
        assert document.bytes() == TEXT
        assert problems.total == expected


@pytest.mark.parametrize("compress", [lambda data: gzip.compress(data, 9), zstd], ids=["gzip", "zstd"])
def test_a_decompression_bomb_streams(tmp_path: Path, compress: object) -> None:
    """200 MB of line breaks from a few kilobytes never fill memory."""
    assert callable(compress)
    path = write(tmp_path, compress(b"\n" * 200_000_000))
    tracemalloc.start()
    try:
        size = sum(map(len, open_document(path).chunks()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 200_000_000
    assert peak < 80_000_000


def test_a_document_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MAX_DOCUMENT_BYTES", 1000)
    problems = Problems()
    assert len(open_document(write(tmp_path, b"x" * 5000), problems).bytes()) == 1000
    assert "larger than" in problems.kept[0].reason


def test_json_is_parsed_once_and_tolerantly(tmp_path: Path) -> None:
    document = open_document(write(tmp_path, b'{"n": NaN, "big": 123456789012345678901234567890, "s": "\xff"}'))
    value = document.json()
    assert value["n"] != value["n"]
    assert document.json() is value
    assert open_document(write(tmp_path, b"no json")).json() is None
    assert open_document(write(tmp_path, TEXT)).json() is None


def test_json_that_is_cut_off_gives_its_complete_part(tmp_path: Path) -> None:
    problems = Problems()
    document = open_document(write(tmp_path, b'{\n "spans": [\n  {"id": 1},\n  {"id": 2},\n  {"id"'), problems)
    assert document.json() == {"spans": [{"id": 1}, {"id": 2}, {}]}
    assert problems.total == 1


def test_looking_consumes_nothing_even_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(TEXT * 1000))

    monkeypatch.setattr(sys, "stdin", Stdin)
    document = open_document("-")
    assert document.head(8) == b'{"a": 1}'
    assert next(iter(document.preview().lines())) == (1, b'{"a": 1}')
    assert len(list(document.lines())) == 2000


def test_progress_counts_compressed_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(os.urandom(1_000_000)))
    seen: list[int] = []
    document = open_document(path, on_bytes=seen.append)
    for _ in document.chunks():
        pass
    assert seen == sorted(seen)
    assert seen[-1] == document.bytes_read == path.stat().st_size


def test_errors_name_the_file_and_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.json: no such file; check"):
        open_document(tmp_path / "missing.json")
    with pytest.raises(InputError, match="is a folder"):
        open_document(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        expand([str(tmp_path / "missing")])
    with pytest.raises(InputError, match="holds no files"):
        expand([str(tmp_path)])


def test_folders_expand_sorted_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.json", "a/z.json", "a/.hidden", ".git/config", "c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")
    found = expand(["-", str(tmp_path), str(tmp_path / "c.json")])
    assert found == ["-", *(str(tmp_path / name) for name in ("a/z.json", "b.json", "c.json", "c.json"))]


def test_an_overlong_line_is_skipped_and_reported() -> None:
    reports: list[tuple[int, str]] = []
    chunks = [b"one\ntw", b"o" * 50, b"o" * 50, b"\r\nthree\r\n", b"f" * 200]
    lines = list(split_lines(iter(chunks), 60, lambda number, reason: reports.append((number, reason))))
    assert lines == [(1, b"one"), (3, b"three")]
    assert [number for number, _ in reports] == [2, 4]


@settings(max_examples=200)
@given(st.binary(max_size=200).map(lambda data: data.replace(b"\0", b"\n")), st.lists(st.integers(0, 40), max_size=10))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    chunks, rest = [], data
    for cut in cuts:
        chunks.append(rest[:cut])
        rest = rest[cut:]
    chunks.append(rest)
    lines = [line for _, line in split_lines(iter(chunks), 1000, lambda number, reason: None)]
    expected = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if data.split(b"\n")[-1] == b"":
        expected.pop()
    assert lines == expected


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    for wrapped in (data, gzip.compress(data)[: len(data)], b"\x28\xb5\x2f\xfd" + data, b"\x1f\x8b" + data):
        document = OpenDocument("f", lambda wrapped=wrapped: io.BytesIO(wrapped), Problems())  # type: ignore[misc]
        document.head(10)
        document.json()
