"""Findings as JSON lines in a file, or on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowwater.detector.errors import InputError
from lowwater.detector.sinks.base import UnavailableError

__all__ = ["JsonLines"]

_TAIL_BYTES = 1 << 20


class JsonLines:
    """Appends to a file, each line once: what a crash left unconfirmed is found at its end and not written again.

    Args:
        path: the file, or ``-`` for standard output.

    Raises:
        InputError: it cannot be written.
    """

    name = "jsonl"

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: set[bytes] = set()
        self._file: int | None = None
        if path == "-":
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._known = self._tail(self._file)
        except OSError as error:
            msg = f"{path}: findings cannot be written: {error.strerror}: name a file in a writable folder"
            raise InputError(msg) from error

    @staticmethod
    def _tail(file: int) -> set[bytes]:
        size = os.fstat(file).st_size
        tail = os.pread(file, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        if tail and not tail.endswith(b"\n"):
            os.write(file, b"\n")  # a line was cut off: it is incomplete, and stays alone
        return set(tail.splitlines())

    def deliver(self, lines: Sequence[dict[str, Any]]) -> None:
        """Append lines and wait for the disk."""
        texts = [json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() for line in lines]
        if self._file is None:
            sys.stdout.buffer.write(b"".join(text + b"\n" for text in texts))
            sys.stdout.buffer.flush()
            return
        fresh = b"".join(text + b"\n" for text in texts if text not in self._known)
        self._known.difference_update(texts)
        if not fresh:
            return
        start = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(fresh):
                written += os.write(self._file, fresh[written:])
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, start)
            raise UnavailableError(f"{Path(self._path)}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
