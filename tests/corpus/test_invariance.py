"""The order of lines, repeated records, the split into files and compression change nothing."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.conftest import Corpus

from lowwater.detector.findings import Finding
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.replay import Replay

LINES = (
    "pi-mono/before-compaction.jsonl",
    "vscode-copilot-chat/30530d66-37fb-4f3b-aa5f-d92b6a8afae2.jsonl",
    "vscode-copilot-chat/98b76fb9-f5d3-40c5-ab82-b970c20e3764.jsonl",
    "vscode-copilot-chat/b3a7bd3c-5a10-4e7b-8ff0-7fc0cd6d1093.jsonl",
)
SPANS = (
    "strands-evals/adk_live_spans.json",
    "strands-evals/claude_adot_spans.json",
    "strands-evals/openai_agents_genai_live_spans.json",
    "strands-evals/pydantic_ai_live_spans.json",
    "strands-evals/smolagents_live_spans.json",
    "langfuse/csharp-agent-with-gemini-2026-03-09.trace.json",
    "langfuse/vercel-aisdk-2025-11-17.trace.json",
    "langfuse/koog-2025-08-26.trace.json",
    "langfuse/claude-agent-2025-12-22.trace.json",
)


def outcome(*paths: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """Ledger, findings and final pools, as the outside sees them."""
    outputs = list(Replay().run([str(path) for path in paths]))
    pools = {(item.pool, item.run): item for item in outputs if isinstance(item, PoolReport)}
    return (
        [item.to_json() for item in outputs if isinstance(item, LedgerEntry)],
        [item.to_json() for item in outputs if isinstance(item, Finding)],
        [pools[key] for key in sorted(pools)],
    )


def shuffled(items: Sequence[Any], seed: int) -> list[Any]:
    """In another order, and a third of them twice."""
    rng = random.Random(seed)
    twice = [*items, *rng.sample(list(items), len(items) // 3)]
    rng.shuffle(twice)
    return twice


@pytest.mark.parametrize("name", LINES)
def test_the_order_of_lines_does_not_matter(corpus: Corpus, tmp_path: Path, name: str) -> None:
    source = corpus.path(name)
    lines = source.read_bytes().splitlines(keepends=True)
    lines = [line if line.endswith(b"\n") else line + b"\n" for line in lines]
    expected = outcome(source)
    for seed in (1, 2):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(b"".join(shuffled(lines, seed)))
        assert outcome(path) == expected


@pytest.mark.parametrize("name", SPANS)
def test_the_order_of_spans_does_not_matter(corpus: Corpus, tmp_path: Path, name: str) -> None:
    source = corpus.path(name)
    document = json.loads(source.read_bytes())
    key = None if isinstance(document, list) else "spans" if "spans" in document else "observations"
    spans = document if key is None else document[key]
    expected = outcome(source)
    for seed in (1, 2, 3):
        other = shuffled(spans, seed)
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps(other if key is None else {**document, key: other}))
        assert outcome(path) == expected


def test_files_in_any_order_and_twice(corpus: Corpus) -> None:
    files = sorted(corpus.path("vscode-copilot-chat").rglob("*.jsonl"))
    expected = outcome(*files)
    assert outcome(*reversed(files)) == expected
    assert outcome(*files, *files) == expected


def test_compression_does_not_matter(corpus: Corpus, tmp_path: Path) -> None:
    source = corpus.path("pi-mono/before-compaction.jsonl")
    data = source.read_bytes()
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(data))
    other = tmp_path / "a.zst"
    other.write_bytes(zstandard.compress(data))
    assert outcome(packed) == outcome(other) == outcome(source)


def test_replaying_twice_gives_the_same_bytes(corpus: Corpus) -> None:
    first, second = (json.dumps(outcome(corpus.root)[:2]) for _ in range(2))
    assert first == second
