"""Opens inputs: files, folders or standard input, decompressed, streaming in bounded memory."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from lowwater.detector.errors import InputError
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.streams import decode, split_lines
from lowwater.detector.readers.values import MAX_VALUE_BYTES, iterate_values, parse_json

__all__ = ["MAX_DOCUMENT_BYTES", "OpenDocument", "Preview", "expand", "open_document"]

MAX_DOCUMENT_BYTES = 512 << 20
"""Formats that are one document are read up to this size after decompression, so that a bomb cannot fill memory."""

_CHUNK = 256 << 10


def expand(paths: Sequence[str]) -> list[str]:
    """The files that paths name: a folder stands for the files below it, sorted, hidden ones skipped.

    ``-`` is standard input.

    Raises:
        InputError: a path does not exist, or a folder holds no file.
    """
    found: list[str] = []
    for path in paths:
        if path == "-":
            found.append(path)
        elif not Path(path).exists():
            raise InputError(f"{path}: no such file or folder; check the path")
        elif Path(path).is_dir():
            files = sorted(_files_below(path))
            if not files:
                raise InputError(f"{path}: the folder holds no files; name a trace file or a folder of them")
            found.extend(files)
        else:
            found.append(path)
    return found


def _files_below(folder: str) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield str(Path(root) / name)


def open_document(
    path: str | os.PathLike[str],
    problems: Problems | None = None,
    *,
    on_bytes: Callable[[int], None] | None = None,
) -> OpenDocument:
    """Open a file, or standard input for ``-``.

    Args:
        path: what to open.
        problems: where damage is reported: a compressed stream that is cut off, an overlong line.
        on_bytes: called with the bytes read so far, counted before decompression.

    Raises:
        InputError: it is missing, a folder, or may not be read.
    """
    name = os.fspath(path)
    document = OpenDocument(name, lambda: _open_stream(name), Problems() if problems is None else problems, on_bytes)
    document.head(1)
    return document


def _open_stream(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except FileNotFoundError:
        reason = "no such file; check the path"
    except IsADirectoryError:
        reason = "is a folder; name the files in it"
    except PermissionError:
        reason = "may not be read; change its permissions or run as its owner"
    except OSError as error:
        reason = f"cannot be opened: {error.strerror}"
    raise InputError(f"{name}: {reason}")


class OpenDocument:
    """One opened input, decompressed; a `lowwater.detector.readers.base.Document`.

    A file may be read several times. Standard input can be read once, but what was only looked at
    (`head`, `preview`) is given again.

    Args:
        name: shown in problems.
        opener: opens the raw bytes; called again when the input is read a second time.
        problems: where damage is reported.
        on_bytes: called with the raw bytes read so far.

    Attributes:
        bytes_read: raw bytes read so far.
        bytes_kept: decompressed bytes in memory because somebody looked at them.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], BinaryIO],
        problems: Problems,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.name = name
        self.bytes_read = 0
        self.bytes_kept = 0
        self._opener = opener
        self._problems = problems
        self._on_bytes = on_bytes
        self._stream: BinaryIO | None = None
        self._kept: list[bytes] = []
        self._rest: Iterator[bytes] | None = None
        self._json: list[Any] = []

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces; streams."""
        rest = self._started()
        kept, self._kept, self._rest = self._kept, [], None
        self.bytes_kept = 0
        return chain(kept, rest)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number from 1, line without its end); streams. Overlong lines are reported and skipped."""
        return split_lines(self.chunks(), MAX_VALUE_BYTES, self._report_line)

    def bytes(self) -> bytes:
        """All bytes, up to `MAX_DOCUMENT_BYTES`; what lies beyond is reported and left out."""
        parts: list[builtins.bytes] = []
        room = MAX_DOCUMENT_BYTES
        for chunk in self.chunks():
            parts.append(chunk[:room])
            room -= len(chunk)
            if room < 0:
                limit = f"{MAX_DOCUMENT_BYTES >> 20} MiB"
                self._problems.add(
                    self.name, f"byte {MAX_DOCUMENT_BYTES}", f"larger than {limit}: the rest is left out"
                )
                break
        return b"".join(parts)

    def json(self) -> Any:
        """The whole document as JSON, parsed once; None if it is no single JSON value.

        Of a document that is cut off, the complete part.
        """
        if not self._json:
            data = self.bytes()
            try:
                self.prime(parse_json(data))
            except ValueError:
                unreported = Problems()
                values = [value for _, value in iterate_values(Preview(self.name, [data]), unreported)]
                for problem in unreported.kept if len(values) == 1 else ():
                    self._problems.add(problem.file, problem.place, problem.reason)
                self.prime(values[0] if len(values) == 1 else None)
        return self._json[0]

    def prime(self, value: Any) -> None:
        """Remember the parsed document, so that it is parsed once."""
        self._json = [value]

    def head(self, size: int) -> builtins.bytes:
        """The first ``size`` bytes, fewer only where there are not as many; consumes nothing."""
        parts: list[builtins.bytes] = []
        for chunk in self._looked_at():
            parts.append(chunk)
            size -= len(chunk)
            if size <= 0:
                break
        data = b"".join(parts)
        return data[:size] if size < 0 else data

    def preview(self) -> Preview:
        """The same lines for looking at; consumes nothing, and keeps in memory as much as is looked at."""
        return Preview(self.name, self._looked_at())

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._stream is not None and self.name != "-":
            self._stream.close()
        self._stream = None

    def __enter__(self) -> OpenDocument:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _started(self) -> Iterator[builtins.bytes]:
        if self._rest is None:
            self._rest = decode(self._raw(), self._report)
        return self._rest

    def _looked_at(self) -> Iterator[builtins.bytes]:
        rest = self._started()
        yield from self._kept
        for chunk in rest:
            self._kept.append(chunk)
            self.bytes_kept += len(chunk)
            yield chunk

    def _raw(self) -> Iterator[builtins.bytes]:
        self.bytes_read = 0
        stream = self._stream = self._opener()
        try:
            while chunk := stream.read(_CHUNK):
                self.bytes_read += len(chunk)
                if self._on_bytes is not None:
                    self._on_bytes(self.bytes_read)
                yield chunk
        except OSError as error:
            self._report(f"reading failed: {error.strerror}")
        finally:
            if self.name != "-":
                stream.close()

    def _report(self, reason: str) -> None:
        self._problems.add(self.name, f"byte {self.bytes_read}", reason)

    def _report_line(self, number: int, reason: str) -> None:
        self._problems.add(self.name, f"line {number}", reason)


class Preview:
    """Lines for looking at: bad ones are nobody's problem yet.

    Args:
        name: of the document.
        chunks: its bytes.
    """

    def __init__(self, name: str, chunks: Iterator[bytes] | list[bytes]) -> None:
        self.name = name
        self._chunks = iter(chunks)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number, line)."""
        return split_lines(self._chunks, MAX_VALUE_BYTES, lambda number, reason: None)
