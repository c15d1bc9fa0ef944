"""Byte streams: decompression by content, byte-order marks, lines. Everything here holds a few MiB at most."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable, Iterator
from itertools import chain

import zstandard

__all__ = ["decode", "split_lines"]

_INFLATED_CHUNK = 1 << 20
# A zstd block of four bytes may inflate to 128 KiB, and the decompressor knows no output limit:
# small bites bound one step to 8 MiB.
_ZSTD_BITE = 1 << 8
_ZSTD_GATHER = 256 << 10

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_UTF8_MARK = b"\xef\xbb\xbf"

Report = Callable[[str], None]


def decode(raw: Iterator[bytes], report: Report) -> Iterator[bytes]:
    """Decompress by magic number, drop a byte-order mark, turn UTF-16 into UTF-8.

    A compressed stream that breaks off or is damaged gives what is readable; the damage is reported.
    """
    first, raw = _peek(raw, 4)
    content = raw
    if first.startswith(_GZIP_MAGIC):
        content = _gunzip(raw, report)
    elif first.startswith(_ZSTD_MAGIC):
        content = _unzstd(raw, report)
    first, content = _peek(content, 3)
    if first.startswith(_UTF8_MARK):
        return _without_first(content, len(_UTF8_MARK))
    encoding = _UTF16_MARKS.get(first[:2])
    return content if encoding is None else _transcode(content, encoding)


def _peek(chunks: Iterator[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and an iterator that still gives them."""
    kept: list[bytes] = []
    while sum(map(len, kept)) < size:
        chunk = next(chunks, None)
        if chunk is None:
            break
        kept.append(chunk)
    return b"".join(kept)[:size], chain(kept, chunks)


def _gunzip(raw: Iterator[bytes], report: Report) -> Iterator[bytes]:
    """Inflate one or more gzip members, at most one MiB at a time."""
    inflater = zlib.decompressobj(wbits=31)
    for chunk in raw:
        data = chunk
        while data:
            if inflater.eof:
                if not data.startswith(_GZIP_MAGIC[: len(data)]):
                    if data.strip(b"\0"):
                        report("bytes after the end of the gzip stream are ignored")
                    return
                inflater = zlib.decompressobj(wbits=31)
            try:
                inflated = inflater.decompress(data, _INFLATED_CHUNK)
            except zlib.error as error:
                report(f"damaged gzip stream: {error}; what came before was read")
                return
            if inflated:
                yield inflated
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    if not inflater.eof:
        report("the gzip stream is cut off; what came before was read")


def _unzstd(raw: Iterator[bytes], report: Report) -> Iterator[bytes]:
    """Decompress one or more zstd frames in small bites."""
    factory = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frame = factory.decompressobj()
    gathered: list[bytes] = []
    size = 0
    for bite in _bites(raw, _ZSTD_BITE):
        data = bite
        while data:
            if frame.eof:
                frame = factory.decompressobj()
            try:
                inflated = frame.decompress(data)
            except zstandard.ZstdError as error:
                yield b"".join(gathered)
                report(f"damaged zstd stream: {error}; what came before was read")
                return
            data = frame.unused_data if frame.eof else b""
            gathered.append(inflated)
            size += len(inflated)
            if size >= _ZSTD_GATHER:
                yield b"".join(gathered)
                gathered, size = [], 0
    if size:
        yield b"".join(gathered)
    if not frame.eof:
        report("the zstd stream is cut off; what came before was read")


def _bites(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def _transcode(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    chunks = _without_first(chunks, 2)
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")


def _without_first(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[count:]
        count = max(0, count - len(chunk))


def split_lines(
    chunks: Iterator[bytes], longest: int, report: Callable[[int, str], None]
) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line without its end).

    Args:
        chunks: the bytes.
        longest: lines of more bytes are skipped and reported.
        report: called with the number of a skipped line and the reason.
    """
    number = 1
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        size += len(first)
        if size <= longest:
            pending.append(first)
        else:
            pending.clear()
        if not others:
            continue
        if size <= longest:
            yield number, b"".join(pending).removesuffix(b"\r")
        else:
            report(number, f"line longer than {longest >> 20} MiB skipped")
        for line in others[:-1]:
            number += 1
            yield number, line.removesuffix(b"\r")
        number += 1
        pending, size = [others[-1]], len(others[-1])
    if size > longest:
        report(number, f"line longer than {longest >> 20} MiB skipped")
    elif size:
        yield number, b"".join(pending).removesuffix(b"\r")
