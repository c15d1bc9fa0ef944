"""Trajectories of SWE-agent: what was sent at each step, and which call each action was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.conftest import Corpus
from tests.detector.readers.session_logs import damaged, held, llm, of_kind, read, read_files

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation

SENT: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "task"}]


def answered(identity: str, action: str, observation: str) -> list[dict[str, Any]]:
    call = {"id": identity, "type": "function", "function": {"name": "bash", "arguments": f'{{"command": "{action}"}}'}}
    return [
        {"role": "assistant", "content": "look", "action": action, "tool_calls": [call]},
        {"role": "tool", "content": observation, "tool_call_ids": [identity]},
    ]


def step(action: str, observation: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": "look", "messages": messages}


FIRST = answered("c1", "ls", "a b")
LAST = answered("c2", "cat a", "text of a")
RUN = {
    "trajectory": [step("ls", "a b", SENT), step("cat a", "text of a", [*SENT, *FIRST])],
    "history": [*SENT, *FIRST, *LAST],
}


def test_an_action_is_the_function_call_that_asked_for_it(tmp_path: Path) -> None:
    """The call stands in what the next step sent; the last one in the history."""
    readings, _ = read(tmp_path, RUN)
    runs = of_kind(readings, Operation.TOOL)
    assert [run.name for run in runs] == ["bash", "bash"]
    second = llm(readings)[1]
    assert second.content is not None
    assert held(second)[2:] == [BlockKind.ASSISTANT, BlockKind.TOOL_ARGUMENTS, BlockKind.TOOL_RESULT]
    assert runs[0].tool is not None
    assert list(second.content.refs)[3:] == [runs[0].tool.call] * 2
    assert len({run.tool.call for run in runs if run.tool}) == 2
    assert [[BlockKind(kind) for kind in item.output.kinds] for item in llm(readings) if item.output] == [
        [BlockKind.ASSISTANT, BlockKind.TOOL_ARGUMENTS]
    ] * 2


def test_replays_that_begin_alike_are_runs_of_their_own(tmp_path: Path) -> None:
    one, _ = read(tmp_path, RUN)
    other, _ = read(tmp_path, {"trajectory": [RUN["trajectory"][0], step("pwd", "/", [*SENT, *FIRST])]})
    assert not {item.trace_id for item in one} & {item.trace_id for item in other}


def test_nothing_has_a_time_and_nothing_overlaps(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, RUN)
    assert {item.timeless for item in readings} == {True}
    assert all(0 < item.start_ns < item.end_ns for item in readings)
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(readings))


def test_junk_in_any_place_costs_no_other_step(tmp_path: Path) -> None:
    steps = RUN["trajectory"]
    for broken in damaged(steps[1]):
        readings, replay = read(tmp_path, {"trajectory": [steps[0], broken, steps[0]], "history": []})
        assert sum(len(held(item)) == 2 for item in llm(readings)) >= 2, broken
        assert not any("failed" in problem.reason for problem in replay.problems.kept), broken


def test_the_recorded_elision(corpus: Corpus) -> None:
    readings, _ = read_files(corpus.path("swe-agent/marshmallow-code__marshmallow-1867.traj"))
    calls = llm(readings)
    assert len(calls) == len(of_kind(readings, Operation.TOOL)) == 13
    assert {item.usage for item in calls} == {None}
    spoken = [
        (item.content.messages, sum(
            size for kind, size in zip(held(item), item.content.characters, strict=True) if kind is not BlockKind.TOOL_ARGUMENTS
        )) for item in calls if item.content is not None
    ]  # fmt: skip
    assert spoken[4:9] == [(12, 17_065), (14, 16_932), (16, 14_422), (18, 8_509), (20, 12_912)]
    assert "find_file" in {run.name for run in of_kind(readings, Operation.TOOL)}
