"""The live detector gives what a replay gives, in any order within the lateness, and whatever dies in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.reading import Reading
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.tokens import Hasher
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.findings import Finding, State
from lowwater.detector.ingest import Ingest
from lowwater.detector.pipeline import Pipeline
from lowwater.detector.replay import Replay
from lowwater.detector.runtimes.live import LiveDetector
from lowwater.detector.runtimes.store import Store
from lowwater.detector.simulation.emit import records
from lowwater.detector.simulation.scenarios import SCENARIOS

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.otlp.jsonl"))
SECOND = 1_000_000_000
CONFIG = DetectorConfig(lateness_seconds=60.0)


def readings_of(path: Path) -> list[Reading]:
    return list(Replay(CONFIG).readings([str(path)]))


def replayed(path: Path) -> list[dict[str, Any]]:
    return [output.to_json() for output in Replay(CONFIG).run([str(path)]) if isinstance(output, Finding)]


class Box:
    """A detector that can die: what was not committed is gone."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.options = path, options
        self.told: list[dict[str, Any]] = []
        self.start(0)

    def start(self, now_ns: int) -> None:
        self.store = Store(self.path, sync=False)
        self.live = LiveDetector(CONFIG, self.store, **self.options)
        self.live.recover(now_ns)

    def die(self, now_ns: int) -> None:
        self.store.close()
        self.start(now_ns)

    def run(self, now_ns: int) -> None:
        for _ in self.live.advance(now_ns):
            pass

    def look(self, now_ns: int) -> None:
        for _ in self.live.look_ahead(now_ns):
            pass

    def checkpoint(self, now_ns: int) -> None:
        self.live.checkpoint(now_ns)
        lines = self.store.outbox(after=self.store.cursor("test"))
        self.told += [line.data for line in lines]
        if lines:
            self.store.delivered({"test": lines[-1].id})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.partition(".")[0])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_any_order_and_any_death_give_the_findings_of_a_replay(
    path: Path, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    box = Box(tmp_path_factory.mktemp("live") / "state.db", max_contexts=draw.choice([1, 3, 20_000]))
    arrivals = sorted(
        (
            (reading.end_ns + draw.randrange(50 * SECOND), number, reading)
            for number, reading in enumerate(readings_of(path))
        )
    )
    batch: list[Reading] = []
    now_ns = 0
    for now_ns, _, reading in arrivals:
        batch.append(reading)
        if draw.random() < 0.3:
            box.live.submit(batch, now_ns)
            batch = []
        if draw.random() < 0.5:
            box.run(now_ns)
        if draw.random() < 0.3:
            box.checkpoint(now_ns)
        if draw.random() < 0.1:
            box.die(now_ns)
    box.live.submit(batch, now_ns)
    box.die(now_ns)
    box.live.finish(now_ns)
    box.checkpoint(now_ns)
    assert box.told == replayed(path)
    assert box.store.counts().get("trace", 0) >= 1
    assert list(box.store.journal()) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_an_early_look_shows_at_once_what_the_pipeline_confirms(path: Path, tmp_path: Path) -> None:
    box = Box(tmp_path / "state.db")
    readings = sorted(readings_of(path), key=Reading.order)
    now_ns = readings[-1].end_ns + SECOND
    box.live.submit(readings, now_ns)
    box.look(now_ns)
    box.checkpoint(now_ns)
    expected = replayed(path)
    still_firing = {line["id"]: line for line in expected}
    still_firing = {name: line for name, line in still_firing.items() if line["state"] == "firing"}
    assert {line["id"]: line["severity"] for line in box.told} == {
        name: line["severity"] for name, line in still_firing.items()
    }
    assert all(line["provisional"] for line in box.told)
    box.die(now_ns)
    box.run(now_ns + 200 * SECOND)
    box.live.finish(now_ns + 200 * SECOND)
    box.checkpoint(now_ns + 200 * SECOND)
    assert set(box.live.shown.firing) == set(still_firing)
    assert box.live.shown.provisional == set()
    told_firing = [(line["id"], line["severity"]) for line in box.told if line["state"] == "firing"]
    assert len(told_firing) == len(set(told_firing))  # nobody is paged twice


def test_what_was_shown_early_and_is_not_so_is_withdrawn(tmp_path: Path) -> None:
    box = Box(tmp_path / "state.db")
    path = next(path for path in EXAMPLES if "incident" in path.name)
    readings = sorted(readings_of(path), key=Reading.order)
    now_ns = readings[-1].end_ns + SECOND
    box.live.submit(readings, now_ns)
    box.look(now_ns)
    shown = set(box.live.shown.provisional)
    assert shown
    box.live.reorder = type(box.live.reorder)(60.0)  # as if other spans had come and nothing of it were true
    box.live._fresh = True
    box.look(now_ns)
    box.checkpoint(now_ns)
    assert {(line["id"], line["reason"]) for line in box.told if line["state"] == "resolved"} == {
        (name, "withdrawn") for name in shown
    }
    assert box.live.shown.firing == {}


def test_a_silent_agent_is_resolved_and_fires_again_when_it_goes_on(tmp_path: Path) -> None:
    box = Box(tmp_path / "state.db", resolve_idle_seconds=900.0)
    path = next(path for path in EXAMPLES if "incident" in path.name)
    readings = sorted(readings_of(path), key=Reading.order)
    now_ns = readings[-1].end_ns

    def send(reading: Reading) -> None:
        nonlocal now_ns
        box.live.submit([reading], now_ns)
        for _ in range(2):  # first for its place in the order, then for its ancestors
            now_ns += 61 * SECOND
            box.run(now_ns)

    rest = iter(readings)
    while not box.live.shown.firing:
        send(next(rest))
    firing = set(box.live.shown.firing)
    now_ns += 2_000 * SECOND
    box.live.expire(now_ns)
    assert box.live.shown.firing == {}
    for reading in list(rest)[:2]:
        send(reading)
    assert firing <= set(box.live.shown.firing)
    box.checkpoint(now_ns)
    states = [line["state"] for line in box.told if line["id"] in firing]
    assert states == ["firing", "resolved", "firing"]
    assert [line["reason"] for line in box.told][1] == "idle"


@pytest.mark.parametrize("content", [True, False])
@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - {"agent_hours"}))
def test_in_real_time_everything_is_told_once(name: str, content: bool, tmp_path: Path) -> None:
    """Spans arrive up to five seconds after their end, and somebody looks ahead every few seconds."""
    spans = records(SCENARIOS[name].make(1), "gen_ai", content=content)
    directory = Directory()  # a replay knows from the first call what agents' spans say when they end, minutes later
    for reading in as_readings(spans):
        directory.note(reading)
    expected = {
        (output.id, output.severity.label)
        for output in Pipeline(CONFIG, directory=directory).run(sorted(as_readings(spans), key=Reading.order))
        if isinstance(output, Finding) and output.state is State.FIRING
    }
    draw = random.Random(name)
    box = Box(tmp_path / "state.db")
    arrivals = sorted(
        (reading.end_ns + draw.randrange(5 * SECOND), number, reading)
        for number, reading in enumerate(as_readings(spans))
    )
    now_ns, last_ns = arrivals[0][0], arrivals[-1][0] + 300 * SECOND
    while now_ns < last_ns:
        batch = [reading for at_ns, _, reading in arrivals if at_ns <= now_ns]
        arrivals = arrivals[len(batch) :]
        box.live.submit(batch, now_ns)
        box.run(now_ns)
        box.look(now_ns)
        box.checkpoint(now_ns)
        if draw.random() < 0.05:
            box.die(now_ns)
        now_ns += 4 * SECOND
    told = [(line["id"], line["severity"]) for line in box.told if line["state"] == "firing"]
    assert len(told) == len(set(told))
    assert set(told) >= expected
    withdrawn = {line["id"]: line["severity"] for line in box.told if line["reason"] == "withdrawn"}
    assert "page" not in withdrawn.values()
    assert {name for name, _ in told} - withdrawn.keys() <= {name for name, _ in expected}


def as_readings(spans: list[SpanRecord]) -> list[Reading]:
    ingest = Ingest(ReadContext(hasher=Hasher(b"tests"), is_retriever=CONFIG.is_retriever))
    return list(ingest.readings(spans))
