"""Simulated agents are written as frameworks write them, and read back as what they did."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.tokens import Hasher
from lowwater.detector.cli import main
from lowwater.detector.config import DetectorConfig
from lowwater.detector.findings import Finding
from lowwater.detector.ingest import Ingest
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output, Pipeline
from lowwater.detector.simulation.emit import records
from lowwater.detector.simulation.model import Agent, LlmCall, Part, Piece, Run, Style
from lowwater.detector.simulation.scenarios import SCENARIOS
from lowwater.detector.simulation.text import text_of
from lowwater.detector.simulation.writers import WRITERS

LONG = ("starvation_chronic", "starvation_learned", "agent_hours")
"""Scenarios of thousands of calls, which the accuracy benchmark plays often enough."""

NODE = Path(__file__).parents[2] / "node"
SPLIT_WITH_CONTENT = 0.12
"""Largest error of a consumer's share. The texts are short words and fragments of code, which estimates find hardest."""
SPLIT_WITHOUT_TOOLS = 0.16
"""The same where a dialect has no place for tool schemas, so that the others are taken to be larger."""


def outputs(run: Run, dialect: str, *, content: bool = True) -> list[Output]:
    config = DetectorConfig()
    ingest = Ingest(ReadContext(hasher=Hasher(b"tests"), is_retriever=config.is_retriever))
    readings = sorted(ingest.readings(records(run, dialect, content=content)), key=lambda reading: reading.order())
    return list(Pipeline(config).run(readings))


def calls_of(agent: Agent) -> list[LlmCall]:
    found = [step for step in agent.steps if isinstance(step, LlmCall)]
    return found + [call for step in agent.steps if isinstance(step, Agent) for call in calls_of(step)]


def test_a_real_tokenizer_counts_as_many_tokens(tmp_path: Path) -> None:
    pieces = [
        Piece(Part.USER, tokens, identity, style)
        for style in Style
        for tokens in (200, 700, 4_000)
        for identity in range(3)
    ]
    path = tmp_path / "texts.json"
    path.write_text(json.dumps([text_of(piece) for piece in pieces]))
    counted = json.loads(subprocess.check_output(["node", NODE / "count.js", path], timeout=60))
    for piece, tokens in zip(pieces, counted, strict=True):
        assert tokens == pytest.approx(piece.tokens, rel=0.03, abs=12), piece


def test_equal_pieces_have_equal_text_and_others_do_not() -> None:
    piece = Piece(Part.TOOL_RESULT, 300, 5, Style.LOG, "c1")
    assert text_of(piece) == text_of(Piece(Part.TOOL_RESULT, 300, 5, Style.LOG, "c2"))
    assert text_of(piece) != text_of(Piece(Part.TOOL_RESULT, 300, 6, Style.LOG, "c1"))
    assert text_of(piece) != text_of(Piece(Part.USER, 300, 5, Style.LOG, "c1"))


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("scenario", ["starvation", "fanout_overrun", "compaction_debt", "rate_limit"])
def test_every_dialect_is_read_back(scenario: str, dialect: str) -> None:
    run = SCENARIOS[scenario].make(3)
    entries = {
        each.span_id: each for each in outputs(run, dialect) if isinstance(each, LedgerEntry) and not each.rollup
    }
    calls = {f"{call.span_id:016x}": call for agent in run.agents for call in calls_of(agent)}
    allowed = SPLIT_WITHOUT_TOOLS if dialect in ("langfuse", "langsmith") else SPLIT_WITH_CONTENT
    assert set(entries) == set(calls)  # each once, and none besides
    truths = {f"{truth.span_id:016x}": truth for truth in run.truth.calls}
    for span_id, call in calls.items():
        entry = entries[span_id]
        assert entry.failed == (call.refusal is not None)
        if call.refusal is not None:
            continue
        assert entry.input_tokens == call.input_tokens
        truth = truths[span_id]
        for found, true in (
            (entry.scratchpad_tokens, truth.scratchpad_tokens),
            (entry.retrieval_tokens, truth.retrieval_tokens),
            (entry.working_tokens, truth.working_tokens),
        ):
            assert found is not None
            assert abs(found - true) <= allowed * call.input_tokens


@pytest.mark.parametrize("dialect", ["gen_ai", "openinference"])
@pytest.mark.parametrize(
    "name",
    # Hours of a fleet are thousands of calls: the accuracy benchmark plays those.
    [each.name for each in SCENARIOS.values() if each.family == "healthy" and each.name != "agent_hours"],
)
def test_what_only_looks_like_a_fault_pages_nobody(name: str, dialect: str) -> None:
    for seed in range(1):
        for content in (True, False):
            pages = [
                found for found in outputs(SCENARIOS[name].make(seed), dialect, content=content)
                if isinstance(found, Finding) and found.severity.label == "page"
            ]  # fmt: skip
            assert pages == []


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS.values() if each.family != "healthy"])
def test_faults_are_found_with_content(name: str) -> None:
    for seed in range(1 if name in LONG else 3):
        run = SCENARIOS[name].make(seed)
        found = {
            (each.kind.value, each.evidence.get("class", ""))
            for each in outputs(run, "gen_ai")
            if isinstance(each, Finding)
        }
        assert run.truth.expected
        assert {(item.kind, item.label) for item in run.truth.expected} <= found


@pytest.mark.parametrize("name", SCENARIOS)
def test_truth_adds_up(name: str) -> None:
    run = SCENARIOS[name].make(7)
    calls = {call.span_id: call for agent in run.agents for call in calls_of(agent)}
    assert len(calls) == sum(len(calls_of(agent)) for agent in run.agents)
    for truth in run.truth.calls:
        parts = truth.system_tokens + truth.tools_tokens + truth.retrieval_tokens + truth.scratchpad_tokens
        assert parts + truth.working_tokens == calls[truth.span_id].input_tokens
    assert run.truth.agent_hours > 0


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in LONG])
def test_the_same_seed_makes_the_same_run(name: str) -> None:
    first, second = (records(SCENARIOS[name].make(5), "gen_ai") for _ in range(2))
    assert first == second
    assert records(SCENARIOS[name].make(6), "gen_ai") != first


@pytest.mark.parametrize("file_format", ["otlp-json", "otlp-proto"])
def test_files_give_the_findings_of_the_spans(
    file_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "starvation", "--out", str(out), "--format", file_format, "--seed", "3"]) == 0
    capsys.readouterr()
    suffix = {"otlp-json": "otlp.jsonl", "otlp-proto": "otlp.pb"}[file_format]
    assert main(["replay", str(out / f"starvation.{suffix}"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    run = SCENARIOS["starvation"].make(3)
    expected = {each.id for each in outputs(run, "gen_ai") if isinstance(each, Finding)}
    assert {found["id"] for found in document["findings"]} == expected
    (truth,) = [json.loads(line) for line in (out / "starvation.truth.jsonl").read_text().splitlines()]
    assert truth["expected"][0]["kind"] == "silent_starvation"
    assert len(truth["calls"]) == document["counts"]["calls"]


def test_names_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "starvatio"]) == 2
    assert "did you mean starvation?" in capsys.readouterr().err
    assert main(["simulate", "starvation", "--dialect", "openinferenc"]) == 2
    assert "did you mean openinference?" in capsys.readouterr().err


def test_the_list_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(name in shown for name in (*SCENARIOS, *WRITERS))


def test_a_demo_goes_wrong_within_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--for", "30", "--admin", "127.0.0.1:0"]) == 0
    shown = capsys.readouterr().out
    assert "PAGE   silent starvation" in shown
    assert "/metrics" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
