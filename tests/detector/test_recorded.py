"""Recordings of real frameworks against what the script that fed them knows to be true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowwater.collectors.reading import Reading
from lowwater.detector.directory import Directory
from lowwater.detector.findings import Finding, Kind, Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Output, Pipeline
from lowwater.detector.replay import Replay

ROOT = Path(__file__).parents[2]
CONSUMERS = ("system", "tools", "retrieval", "scratchpad", "working")


def truth(name: str) -> list[dict[str, Any]]:
    """The script's calls that were answered, by response id."""
    calls = json.loads((ROOT / f"tests/fixtures/recorded/{name}.truth.json").read_text())["calls"]
    return [call for call in calls if call["status"] == 200]


def outputs(name: str, *, content: bool = True) -> list[Output]:
    replay = Replay()
    readings = list(replay.readings([str(ROOT / f"examples/{name}.otlp.jsonl")]))
    directory = Directory()

    def plain() -> Iterator[Reading]:
        for reading in sorted(readings, key=Reading.order):
            directory.note(reading)
            if not content:
                reading.content = reading.output = None
            yield reading

    return list(Pipeline(directory=directory).run(list(plain())))


def split(entry: LedgerEntry) -> tuple[int, ...]:
    parts = (
        entry.reserved.system,
        entry.reserved.tools,
        entry.retrieval_tokens,
        entry.scratchpad_tokens,
        entry.working_tokens,
    )
    assert None not in parts
    return tuple(part or 0 for part in parts)


@pytest.mark.parametrize("name", ["incident", "healthy", "fanout"])
def test_every_call_is_counted_once_with_its_consumers(name: str) -> None:
    """Within five per cent of the prompt per consumer, where the messages are on the spans."""
    entries = [item for item in outputs(name) if isinstance(item, LedgerEntry)]
    known = truth(name)
    assert len(entries) == len(known)
    left = list(known)
    for entry in entries:
        assert entry.input_tokens is not None
        best = min(
            (call for call in left if call["prompt_tokens"] == entry.input_tokens and call["agent"] == entry.agent),
            key=lambda call: sum(
                abs(call["consumers"][who] - part) for who, part in zip(CONSUMERS, split(entry), strict=True)
            ),
        )
        left.remove(best)
        for who, part in zip(CONSUMERS, split(entry), strict=True):
            assert abs(part - best["consumers"][who]) <= 0.05 * entry.input_tokens, (entry.turn, who)
    assert left == []


@pytest.mark.parametrize("name", ["healthy", "fanout"])
def test_without_content_the_recoverable_part_is_within_fifteen_per_cent(name: str) -> None:
    """System and tools cannot be told apart without content, and neither can the first question; what tools added can."""
    entries = [item for item in outputs(name, content=False) if isinstance(item, LedgerEntry)]
    by_size = {(call["agent"], call["prompt_tokens"]): call["consumers"] for call in truth(name)}
    for entry in entries:
        assert entry.input_tokens is not None
        if entry.input_tokens < 400:
            continue  # of a tiny prompt the question is a fifth, and nothing tells it from the head
        known = by_size[(entry.agent, entry.input_tokens)]
        system, tools, retrieval, scratchpad, _ = split(entry)
        assert entry.provenance["working_tokens"].label == "inferred"
        claims = known["retrieval"] + known["scratchpad"]
        assert abs(retrieval + scratchpad - claims) <= 0.15 * entry.input_tokens, (entry.agent, entry.turn)
        assert abs(system + tools - known["system"] - known["tools"]) <= 0.15 * entry.input_tokens


def findings(name: str) -> list[Finding]:
    return [item for item in outputs(name) if isinstance(item, Finding)]


def test_the_incident_pages_for_starvation_after_its_onset() -> None:
    """By the script's own counts the residual is below the need from call 15."""
    starved = [item for item in findings("incident") if item.kind is Kind.SILENT_STARVATION]
    assert starved[0].turn in (15, 16, 17)
    assert starved[-1].severity is Severity.PAGE
    assert starved[-1].provenance["requirement_tokens"].label == "declared"


def test_the_healthy_agent_has_no_finding() -> None:
    assert findings("healthy") == []


def test_the_fan_out_is_one_pool_and_over_its_ceiling() -> None:
    everything = outputs("fanout")
    pools = {(item.pool, item.run): item for item in everything if isinstance(item, PoolReport)}
    (pool,) = pools.values()
    assert (pool.width, pool.members) == (4, 4)
    kinds = {item.kind for item in everything if isinstance(item, Finding)}
    assert kinds == {Kind.FANOUT_OVERCOMMITTED, Kind.FANOUT_OVERRUN}


def test_the_refusals_are_told_apart() -> None:
    classes = [item.evidence["class"] for item in findings("refused") if item.kind is Kind.REJECTION]
    assert set(classes) == {"rate_limit", "spend_cap"}
    entries = [item for item in outputs("refused") if isinstance(item, LedgerEntry)]
    assert sum(entry.input_tokens is None for entry in entries) == 5
    assert [entry.input_tokens for entry in entries if entry.input_tokens is not None] == [
        call["prompt_tokens"] for call in truth("refused")
    ]
