"""Chat logs: who called whom, in which order, and what is told of requests that nobody answered."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Corpus

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.findings import Finding, Kind
from lowwater.detector.replay import Replay

REQUEST = "please search the web for the winner of the race in the year 2020"
AGAIN = "search the web once more for the winner of that race, on another page"


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def read(tmp_path: Path, *documents: Any) -> tuple[list[Reading], Replay]:
    paths = []
    for number, document in enumerate(documents):
        path = tmp_path / f"log-{number}.json"
        path.write_text(json.dumps(document))
        paths.append(str(path))
    return read_files(*paths)


def read_files(*paths: str) -> tuple[list[Reading], Replay]:
    replay = Replay()
    return sorted(replay.readings(list(paths)), key=Reading.order), replay


def tools(readings: list[Reading]) -> list[Reading]:
    return [item for item in readings if item.kind is Operation.TOOL]


def place(delegation: Reading) -> int:
    """Index of the message that delegated."""
    return int(delegation.span_id.split("/")[-2])


TEAM = [
    said("human", "who won?"),
    said("Orchestrator (thought)", "we need to search"),
    said("Orchestrator (-> Surfer)", REQUEST),
    said("Surfer", "I found a page with many names"),
    said("Orchestrator (thought)", "not it"),
    said("Orchestrator (-> Surfer)", AGAIN),
    said("Surfer", "I found another page"),
    said("Orchestrator (thought)", "done"),
]


def test_a_delegation_stands_between_the_turns_of_its_orchestrator(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, TEAM)
    own = [item for item in readings if item.agent_name == "Orchestrator"]
    assert [item.kind.name for item in own] == ["LLM", "LLM", "TOOL", "LLM", "LLM", "TOOL", "LLM"]
    assert len({(item.trace_id, item.conversation, item.agent_id) for item in own}) == 1


def test_readings_take_time_and_never_overlap(tmp_path: Path) -> None:
    """Nothing has a time, so nothing may look concurrent; a start of 0 would be unknown."""
    readings, _ = read(tmp_path, TEAM[1:])
    assert all(0 < item.start_ns < item.end_ns for item in readings)
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(readings))
    assert {item.timeless for item in readings} == {True}


@pytest.mark.parametrize("rest", [[], [said("Orchestrator (-> Surfer)", AGAIN), said("Surfer", "found it")]])
def test_a_delegation_without_an_answer_is_told_without_a_result(tmp_path: Path, rest: list[dict[str, Any]]) -> None:
    """The orchestrator went on, or the log ends; it asked all the same."""
    readings, _ = read(tmp_path, [*TEAM[:3], said("Orchestrator (thought)", "a new plan"), *rest])
    first, *others = tools(readings)
    assert first.tool is not None
    assert (first.tool.result, first.tool.result_tokens) == (0, None)
    assert first.tool.arguments
    assert first.tool.sketch
    assert [bool(item.tool and item.tool.result) for item in others] == [True] * (len(rest) // 2)


def test_a_thought_between_request_and_answer_does_not_part_them(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, [*TEAM[:3], said("Orchestrator (thought)", "next speaker Surfer"), *TEAM[3:]])
    assert [bool(item.tool and item.tool.result) for item in tools(readings)] == [True, True]


def test_attempts_that_begin_alike_are_runs_of_their_own(tmp_path: Path) -> None:
    named = [{"question_ID": "q", "history": [*TEAM[:-1], said("Orchestrator (thought)", end)]} for end in ("a", "b")]
    readings, _ = read(tmp_path, *named)
    single, _ = read(tmp_path, named[0])
    assert len({(item.trace_id, item.span_id) for item in readings}) == 2 * len(single)


def test_the_same_log_is_the_same_run_however_it_is_laid_out(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, TEAM, [dict(reversed(item.items())) for item in TEAM])
    single, _ = read(tmp_path, TEAM)
    assert len({(item.trace_id, item.span_id) for item in readings}) == len(single)


def test_half_a_surrogate_pair_costs_nothing(tmp_path: Path) -> None:
    readings, replay = read(tmp_path, [said("user", "q\ud800"), said("assistant", "a")])
    assert len(readings) == 1
    assert replay.problems.total == 0


def test_tool_calls_of_a_plain_log_find_their_results(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    chat = [
        said("user", "q"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "blue"},
        said("assistant", "it is blue"),
    ]
    readings, _ = read(tmp_path, {"messages": chat})
    assert [item.kind.name for item in readings] == ["LLM", "TOOL", "LLM"]
    (run,) = tools(readings)
    assert run.tool is not None
    assert (run.name, bool(run.tool.arguments), bool(run.tool.result)) == ("look", True, True)
    assert readings[-1].content is not None
    assert run.tool.call in readings[-1].content.refs
    assert BlockKind.TOOL_RESULT in readings[-1].content.kinds


def test_what_is_no_message_is_counted_by_its_place(tmp_path: Path) -> None:
    filler = [said("user" if number % 2 == 0 else "assistant", str(number)) for number in range(8)]
    readings, replay = read(tmp_path, [*filler, 7, said("assistant", "end")])
    assert len(readings) == 5
    assert [problem.place for problem in replay.problems.kept] == ["message 8"]


@pytest.mark.parametrize(
    ("file", "delegations"),
    [
        ("agentrx/16d825ff-1623-4176-a5b5-42e0f5c2b0ac.json", 30),
        ("who-and-when/hand-crafted-55.json", 9),
        ("who-and-when/hand-crafted-9.json", 21),
    ],
)
def test_every_delegation_is_a_tool_run_with_a_sketch(corpus: Corpus, file: str, delegations: int) -> None:
    readings, replay = read_files(str(corpus.path(file)))
    runs = tools(readings)
    assert len(runs) == delegations
    assert all(item.tool is not None and item.tool.sketch and item.agent_name == "Orchestrator" for item in runs)
    assert all(0 < item.start_ns < item.end_ns for item in readings)
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(readings))
    assert {item.usage for item in readings} == {None}
    assert replay.problems.total == 0


@pytest.mark.parametrize(
    ("file", "first", "last"),
    [("agentrx/16d825ff-1623-4176-a5b5-42e0f5c2b0ac.json", 66, 120), ("who-and-when/hand-crafted-55.json", 0, 39)],
)
def test_instructions_in_circles_are_found_where_they_are(corpus: Corpus, file: str, first: int, last: int) -> None:
    path = str(corpus.path(file))
    readings, _ = read_files(path)
    # Message index of every turn of the orchestrator, turns counted from 1.
    turns = [
        int(item.span_id.split("/")[-1])
        for item in readings
        if item.kind is Operation.LLM and item.agent_name == "Orchestrator"
    ]
    found = [item for item in Replay().run([path]) if isinstance(item, Finding) and item.kind is Kind.REPETITION]
    assert any(item.turn is not None and first <= turns[item.turn - 1] <= last for item in found)


def test_annotations_of_failures_are_no_chat(corpus: Corpus) -> None:
    readings, replay = read_files(str(corpus.path("agentrx/magentic_one_ground_truth.json")))
    assert readings == []
    assert replay.problems.total == 1
