"""Durable state in one SQLite file: a journal of readings, the operators' states, and lines still to be delivered.

Nothing is acknowledged before its readings are in the journal. A checkpoint is one transaction: the states that
changed, the lines that came of it, and the removal of the readings that are in those states now. After a crash the
states are those of the last checkpoint, and the journal holds exactly what they have not seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowwater.collectors.reading import Reading
from lowwater.detector.codec import Codec
from lowwater.detector.errors import InputError, StateError

__all__ = ["MAX_OUTBOX", "VERSION", "Checkpoint", "Line", "Store"]

VERSION = 1
"""Of the tables and of what is in them. A file of a later version is refused; earlier ones are read."""

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS state (
    space TEXT NOT NULL, key TEXT NOT NULL, seen INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (space, key)
);
CREATE INDEX IF NOT EXISTS state_seen ON state (seen);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, data TEXT NOT NULL);
"""

_JOURNAL_PAGES = 1_000
MAX_OUTBOX = 100_000
"""Lines kept for sinks that take none: days of findings."""

_BATCH = 500
"""Keys per statement when states are deleted or counted."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line on its way to the sinks."""

    id: int
    data: dict[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """What changes in one transaction.

    Attributes:
        states: by space and key; None forgets the key.
        globals: by name, what belongs to no key.
        lines: JSON lines for the sinks.
        consumed: journal ids of readings that are part of the states now.
        seen_seconds: arrival time, in Unix seconds, that the states get.
    """

    seen_seconds: int
    states: dict[tuple[str, str], Any] = field(default_factory=dict)
    globals: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)


class Store:
    """The state of one detector. Used from one thread.

    Args:
        path: the file, or None for memory: nothing survives then.
        sync: wait until the disk has a commit, so that it survives a power loss, too. Without, it survives the death
            of the process.

    Raises:
        InputError: the file cannot be opened, is no database, is in use by another detector, or of a later version.
        StateError: what is in it cannot be read.
    """

    def __init__(self, path: Path | None, *, sync: bool = True) -> None:
        self.path = path
        self._db = _open(path, sync=sync)
        try:
            self._check_version()
            self._codec = Codec(json.loads(self._meta("schema") or b"{}"))
            self._schema_size = len(self._codec.schema)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        row = self._db.execute("SELECT max(id) FROM journal").fetchone()
        # Ids never come back: a consumed row's id must not name a later one.
        self._next_id = max(row[0] or 0, int(self._meta("journal_id") or b"0")) + 1

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self._db.close()

    # --- readings ----------------------------------------------------------------------------------------------------

    def hash_key(self) -> bytes:
        """The key of this detector's hashes: random, made once, so that equal text stays equal over a restart."""
        key = self._meta("hash_key")
        if key is None:
            key = secrets.token_bytes(32)
            with self._transaction():
                self._put_meta("hash_key", key)
        return key

    def append(self, readings: Sequence[Reading]) -> list[int]:
        """Commit readings to the journal; returns their ids. When it returns they may be acknowledged.

        Raises:
            OSError: they could not be written, for example because the disk is full. Nothing of them is kept.
        """
        ids = list(range(self._next_id, self._next_id + len(readings)))
        rows = [(number, self._codec.encode(reading)) for number, reading in zip(ids, readings, strict=True)]
        with self._transaction():
            self._db.executemany("INSERT INTO journal (id, data) VALUES (?, ?)", rows)
        self._next_id += len(ids)
        return ids

    def journal(self) -> Iterator[tuple[int, Reading | None]]:
        """Readings that no checkpoint contains yet, in the order in which they came; None for one that is damaged."""
        try:
            rows = self._db.execute("SELECT id, data FROM journal ORDER BY id").fetchall()
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, str(error)) from error
        for number, data in rows:
            try:
                yield number, self._codec.decode(data)
            except StateError:
                yield number, None

    # --- states ------------------------------------------------------------------------------------------------------

    def load(self, space: str, key: str) -> Any:
        """The state of a key at the last checkpoint, None if there is none.

        Raises:
            StateError: it is damaged.
        """
        row = self._db.execute("SELECT data FROM state WHERE space = ? AND key = ?", (space, key)).fetchone()
        return None if row is None else self._codec.decode(row[0])

    def copied(self, state: Any) -> Any:
        """A copy of a state that shares nothing with it."""
        return self._codec.decode(self._codec.encode(state))

    def globals(self, name: str) -> Any:
        """What belongs to no key, None if it was never saved."""
        data = self._meta(f"global:{name}")
        try:
            return None if data is None else self._codec.decode(data)
        except StateError as error:
            raise _damaged(self.path, str(error)) from error

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint.

        Raises:
            OSError: it could not be written; nothing of it is kept, and it may be tried again.
        """
        upserts = [
            (space, key, checkpoint.seen_seconds, self._codec.encode(state))
            for (space, key), state in checkpoint.states.items()
            if state is not None
        ]
        gone = [place for place, state in checkpoint.states.items() if state is None]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO state (space, key, seen, data) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (space, key) DO UPDATE SET seen = excluded.seen, data = excluded.data",
                upserts,
            )
            self._db.executemany("DELETE FROM state WHERE space = ? AND key = ?", gone)
            for name, value in checkpoint.globals.items():
                self._put_meta(f"global:{name}", self._codec.encode(value))
            self._db.executemany(
                "INSERT INTO outbox (data) VALUES (?)",
                [(json.dumps(line, separators=(",", ":"), ensure_ascii=False),) for line in checkpoint.lines],
            )
            self._db.executemany("DELETE FROM journal WHERE id = ?", [(number,) for number in checkpoint.consumed])
            if checkpoint.consumed:
                self._put_meta("journal_id", str(self._next_id - 1).encode())

    def expire(self, before_seconds: int, *, keep: int | None = None) -> list[tuple[str, str]]:
        """Forget states that nothing has touched since a time of arrival; returns space and key of each.

        Args:
            before_seconds: Unix seconds.
            keep: states kept at most; beyond it, those go that were touched longest ago.
        """
        gone = self._db.execute("SELECT space, key FROM state WHERE seen < ?", (before_seconds,)).fetchall()
        if keep is not None:
            surplus = sum(self.counts().values()) - len(gone) - keep
            if surplus > 0:
                query = "SELECT space, key FROM state WHERE seen >= ? ORDER BY seen LIMIT ?"
                gone += self._db.execute(query, (before_seconds, surplus)).fetchall()
        if gone:
            with self._transaction():
                self._db.executemany("DELETE FROM state WHERE space = ? AND key = ?", gone)
        return gone

    def counts(self) -> dict[str, int]:
        """States stored, by space."""
        return dict(self._db.execute("SELECT space, count(*) FROM state GROUP BY space").fetchall())

    # --- lines -------------------------------------------------------------------------------------------------------

    def outbox(self, *, after: int = 0, limit: int = _BATCH) -> list[Line]:
        """The next lines to deliver, oldest first.

        Args:
            after: lines with ids up to this one are not wanted.
        """
        query = "SELECT id, data FROM outbox WHERE id > ? ORDER BY id LIMIT ?"
        return [Line(number, json.loads(data)) for number, data in self._db.execute(query, (after, limit)).fetchall()]

    def outbox_size(self, *, after: int = 0) -> int:
        """Lines that some sink still lacks; with ``after``, the one that has the lines up to this id."""
        # Ids are without gaps. Both ends are found at once, where a count would read every line.
        query = "SELECT (SELECT max(id) FROM outbox), (SELECT min(id) FROM outbox)"
        last, first = self._db.execute(query).fetchone()
        return 0 if last is None else max(0, int(last) - max(after, int(first) - 1))

    def cursor(self, sink: str) -> int:
        """Id of the last line that a sink has; 0 for one that has none."""
        return int(self._meta(f"sink:{sink}") or b"0")

    def delivered(self, cursors: Mapping[str, int], *, keep: int = MAX_OUTBOX) -> int:
        """Remember what each sink has, and forget the lines that all of them have.

        Args:
            cursors: id of the last line that each sink has. A sink that is no longer used is not in it.
            keep: lines kept at most for a sink that takes none; the oldest are lost beyond it.

        Returns:
            How many lines were lost.
        """
        with self._transaction():
            for sink, last in cursors.items():
                self._put_meta(f"sink:{sink}", str(last).encode())
            if cursors:
                self._db.execute("DELETE FROM outbox WHERE id <= ?", (min(cursors.values()),))
            surplus = self.outbox_size() - keep
            if surplus > 0:
                oldest = "SELECT id FROM outbox ORDER BY id LIMIT ?"
                self._db.execute(f"DELETE FROM outbox WHERE id IN ({oldest})", (surplus,))  # noqa: S608 - no input
        return max(0, surplus)

    # --- meta --------------------------------------------------------------------------------------------------------

    def _meta(self, name: str) -> bytes | None:
        try:
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if row is None else bytes(row[0])
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise _damaged(self.path, str(error)) from error

    def _put_meta(self, name: str, value: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, with the schema of what is written; SQLite's ways to refuse are one error."""
        try:
            with self._db:
                yield
                schema = self._codec.schema
                if len(schema) != self._schema_size:
                    self._put_meta("schema", json.dumps(schema).encode())
        except sqlite3.DatabaseError as error:
            raise OSError(None, f"state cannot be written: {error}", str(self.path)) from error
        self._schema_size = len(schema)

    def _check_version(self) -> None:
        found = self._meta("version")
        if found is None:
            with self._db:
                self._put_meta("version", str(VERSION).encode())
        elif int(found) > VERSION:
            raise _refused(
                self.path,
                f"is state of version {int(found)}, this lowwater knows up to {VERSION}: "
                "upgrade lowwater, or name another file",
            )


def _open(path: Path | None, *, sync: bool) -> sqlite3.Connection:
    try:
        if path is not None and not path.exists():
            # State holds names and keyed hashes: nobody else's business.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False, timeout=1.0)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_JOURNAL_PAGES}")
        db.executescript(_TABLES)
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}: name a file in a writable folder") from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise _refused(path, "is in use by another detector: stop it, or name another file") from error
        raise _refused(path, f"cannot be opened: {error}: name a file in a writable folder") from error
    except sqlite3.DatabaseError as error:
        raise _refused(path, f"is not a state file: {error}: name another file") from error
    return db


def _damaged(path: Path | None, why: str) -> StateError:
    return StateError(f"{path}: is damaged: {why}: move it away and start again, or name another file")


def _refused(path: Path | None, why: str) -> InputError:
    return InputError(f"{path}: {why}")
