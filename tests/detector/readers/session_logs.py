"""What the tests of session readers share: reading a written log, and values that no log should hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.replay import Replay

__all__ = ["JUNK", "damaged", "held", "llm", "of_kind", "read", "read_files"]

JUNK: tuple[Any, ...] = (None, 7, -1, 1e300, True, "\ud800", "x", [], {}, [None, 7, [{}]], {"type": 7, "text": []})
"""Values of every type, none of which belongs where it is put."""


def read(tmp_path: Path, document: Any) -> tuple[list[Reading], Replay]:
    """Read one document: a sequence is written as JSON lines, a mapping as one JSON document."""
    path = tmp_path / "log"
    if isinstance(document, Sequence):
        path.write_text("".join(json.dumps(record) + "\n" for record in document))
    else:
        path.write_text(json.dumps(document))
    return read_files(path)


def read_files(*paths: Path) -> tuple[list[Reading], Replay]:
    """The readings of files in order, and the replay with its problems."""
    replay = Replay()
    return sorted(replay.readings([str(path) for path in paths]), key=Reading.order), replay


def of_kind(readings: list[Reading], kind: Operation) -> list[Reading]:
    """Those of one kind."""
    return [reading for reading in readings if reading.kind is kind]


def llm(readings: list[Reading]) -> list[Reading]:
    """The model calls."""
    return of_kind(readings, Operation.LLM)


def held(reading: Reading) -> list[BlockKind]:
    """Kinds of the blocks of the prompt."""
    return [] if reading.content is None else [BlockKind(kind) for kind in reading.content.kinds]


def damaged(value: Any) -> Iterator[Any]:
    """Copies of a JSON value in which one place at a time holds junk."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for other in (*JUNK, *damaged(inner)):
                yield {**value, key: other}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for other in (*JUNK, *damaged(inner)):
                yield [*value[:index], other, *value[index + 1 :]]
