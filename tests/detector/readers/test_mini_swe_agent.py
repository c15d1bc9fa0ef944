"""Trajectories of mini-swe-agent: what was executed, when, and what stays in working memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import Corpus
from tests.detector.readers.session_logs import damaged, held, llm, of_kind, read, read_files

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation

FOLDER = "mini-swe-agent-gemini3"


def step(text: str, tokens: int, created: int | None, finish: str = "stop") -> dict[str, Any]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5},
             "completion_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
    response: dict[str, Any] = {
        "id": f"r{tokens}",
        "model": "m",
        "usage": usage,
        "choices": [{"finish_reason": finish}],
    }
    if created is not None:
        response["created"] = created
    return {"role": "assistant", "content": text, "extra": {"response": response}}


def trajectory(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "fix it"}]
    for number, item in enumerate(steps):
        messages += [item, {"role": "user", "content": f"<returncode>0</returncode> {number}"}]
    return {"trajectory_format": "mini-swe-agent-1", "instance_id": "i1", "messages": messages, **fields}


COMMAND = "look\n```bash\nls -l\n```"


def test_attempts_at_one_instance_are_runs_of_their_own(tmp_path: Path) -> None:
    one, _ = read(tmp_path, trajectory(step(COMMAND, 100, 1_700_000_000)))
    other, _ = read(tmp_path, trajectory(step(COMMAND, 101, 1_700_000_000)))
    assert not {item.trace_id for item in one} & {item.trace_id for item in other}
    assert all(str(item.conversation).startswith("i1-") for item in one)


def test_without_times_nothing_has_a_time(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, trajectory(step(COMMAND, 100, None), step(COMMAND, 120, None)))
    assert [item.kind.name for item in readings] == ["LLM", "TOOL", "LLM", "TOOL"]
    assert {item.timeless for item in readings} == {True}


def test_answers_of_one_second_keep_their_order(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, trajectory(*(step(COMMAND, 100 + number, 1_700_000_000) for number in range(4))))
    assert [item.usage.input_tokens for item in llm(readings) if item.usage] == [100, 101, 102, 103]
    assert [item.kind.name for item in readings] == ["LLM", "TOOL"] * 4
    assert {item.timeless for item in readings} == {False}


def test_an_answer_says_why_it_ended_and_what_it_used(tmp_path: Path) -> None:
    (only,) = llm(read(tmp_path, trajectory(step(COMMAND, 100, 1_700_000_000, "length")))[0])
    assert only.finish_reasons == ("length",)
    assert only.usage is not None
    assert (only.usage.cache_read_tokens, only.usage.reasoning_tokens, only.usage.cache_inclusive) == (5, 3, True)


def test_junk_in_any_place_costs_no_other_call(tmp_path: Path) -> None:
    last = step("sound", 777, 1_700_000_009)
    for broken in damaged(step(COMMAND, 100, 1_700_000_000)):
        readings, replay = read(tmp_path, trajectory(broken, last))
        assert any(item.usage and item.usage.input_tokens == 777 for item in llm(readings)), broken
        assert not any("failed" in problem.reason for problem in replay.problems.kept), broken


def test_the_recorded_no_op_ran_four_times_and_was_refused_once(corpus: Corpus) -> None:
    readings, _ = read_files(corpus.path(f"{FOLDER}/sympy__sympy-15976.traj.json"))
    assert len(llm(readings)) == 46
    asked = {int(item.span_id.rpartition("/")[2]) - 1: item.tool for item in of_kind(readings, Operation.TOOL)}
    assert 46 not in asked
    arguments = {place: use and use.arguments for place, use in asked.items()}
    assert {arguments[place] for place in (42, 44, 48)} == {arguments[40]}
    assert list(arguments.values()).count(arguments[40]) == 4
    assert all(use is not None and use.arguments and not use.sketch for use in asked.values())


def test_the_recorded_runaway_answer_stays_held(corpus: Corpus) -> None:
    readings, _ = read_files(corpus.path(f"{FOLDER}/scikit-learn__scikit-learn-25102.traj.json"))
    calls = llm(readings)
    assert len(calls) == 43
    (runaway,) = [place for place, item in enumerate(calls) if item.finish_reasons == ("length",)]
    usage = calls[runaway].usage
    assert usage is not None
    assert usage.output_tokens == 65_536
    for call in calls[runaway + 1 :]:
        assert call.content is not None
        assert (208_089, BlockKind.ASSISTANT) in zip(call.content.characters, held(call), strict=True)
    assert {item.agent_name for item in readings} == {"mini-swe-agent"}
    assert held(calls[0])[0] is BlockKind.SYSTEM
