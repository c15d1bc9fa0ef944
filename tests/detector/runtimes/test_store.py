"""The store refuses what it cannot keep or read, by name, and keeps all or nothing."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from tests.detector.builders import call

from lowwater.collectors.reading import Reading
from lowwater.detector.errors import InputError, StateError
from lowwater.detector.events import Anchor
from lowwater.detector.runtimes.store import VERSION, Checkpoint, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def _id(reading: Reading | None) -> str | None:
    return None if reading is None else reading.span_id


def reopened(store: Store) -> Store:
    store.close()
    return Store(store.path)


def test_readings_and_states_survive(path: Path) -> None:
    store = Store(path)
    key = store.hash_key()
    first, second = store.append([call("a", 1, input_tokens=10), call("b", 2, input_tokens=20)])
    store = reopened(store)
    assert [(number, _id(reading)) for number, reading in store.journal()] == [(first, "a"), (second, "b")]
    store.commit(Checkpoint(5, {("context", "k"): Anchor("x")}, {"shown": Anchor("g")}, [{"id": "f"}], [first]))
    store = reopened(store)
    assert [_id(reading) for _, reading in store.journal()] == ["b"]
    assert (store.load("context", "k"), store.load("context", "other")) == (Anchor("x"), None)
    assert store.globals("shown") == Anchor("g")
    assert [line.data for line in store.outbox()] == [{"id": "f"}]
    store.delivered({"file": store.outbox()[-1].id})
    assert store.outbox() == []
    assert store.hash_key() == key


def test_ids_of_consumed_readings_never_come_back(path: Path) -> None:
    store = Store(path)
    (first,) = store.append([call("a", 1)])
    store.commit(Checkpoint(5, consumed=[first]))
    assert reopened(store).append([call("b", 1)]) == [first + 1]


def test_what_nothing_touches_expires(path: Path) -> None:
    store = Store(path)
    store.commit(Checkpoint(5, {("context", "old"): Anchor("x")}))
    store.commit(Checkpoint(50, {("context", "new"): Anchor("y")}))
    assert store.expire(20) == [("context", "old")]
    assert store.counts() == {"context": 1}


def test_only_the_owner_reads_it(path: Path) -> None:
    Store(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_detector_is_refused(path: Path) -> None:
    store = Store(path)
    store.append([call("a", 1)])
    with pytest.raises(InputError, match=r"state\.db: is in use by another detector"):
        Store(path)


def test_a_file_of_a_later_version_is_refused(path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (str(VERSION + 1).encode(),))
    db.close()
    with pytest.raises(InputError, match=f"version {VERSION + 1}, this lowwater knows up to {VERSION}"):
        Store(path)


def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("my precious notes\n" * 100)
    with pytest.raises(InputError, match="is not a state file"):
        Store(path)
    assert path.read_text().startswith("my precious notes")


@pytest.mark.parametrize("name", ["missing/state.db", "."])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="name a file in a writable folder"):
        Store(tmp_path / name)


def test_a_damaged_state_is_an_error_and_no_number(path: Path) -> None:
    store = Store(path)
    store.commit(Checkpoint(5, {("context", "k"): Anchor("x")}))
    store.close()
    with sqlite3.connect(path) as db:
        (data,) = db.execute("SELECT data FROM state").fetchone()
        db.execute("UPDATE state SET data = ?", (data[:10] + bytes([data[10] ^ 1]) + data[11:],))
    db.close()
    with pytest.raises(StateError, match="damaged"):
        Store(path).load("context", "k")


def test_a_full_disk_takes_nothing_and_recovers(path: Path) -> None:
    store = Store(path)
    store._db.execute("PRAGMA max_page_count = 40")
    taken = 0

    def fill() -> None:
        nonlocal taken
        while True:
            store.append([call(f"s{taken}", taken, conversation="c" * 60)])
            taken += 1

    with pytest.raises(OSError, match="state cannot be written"):
        fill()
    assert [_id(reading) for _, reading in store.journal()] == [f"s{number}" for number in range(taken)]
    store._db.execute("PRAGMA max_page_count = 100000")
    store.append([call("later", 1)])
    assert [_id(reading) for _, reading in reopened(store).journal()][-1] == "later"


def test_memory_keeps_nothing() -> None:
    store = Store(None)
    store.append([call("a", 1)])
    assert [_id(reading) for _, reading in store.journal()] == ["a"]


def test_a_damaged_reading_is_said_and_costs_no_other(path: Path) -> None:
    store = Store(path)
    numbers = store.append([call("a", 1), call("b", 2), call("c", 3)])
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE journal SET data = x'00' WHERE id = ?", (numbers[1],))
    db.close()
    assert [_id(reading) for _, reading in Store(path).journal()] == ["a", None, "c"]
