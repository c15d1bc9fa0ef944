"""Sessions of Claude Code: which task started which subagent, copies of histories, and facts of recorded sessions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Corpus
from tests.detector.readers.session_logs import damaged, held, llm, of_kind, read, read_files

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation, Reading

FOLDER = "vscode-copilot-chat"


def record(uuid: str, parent: str | None, second: int, message: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {
        "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "isSidechain": False, "type": message["role"],
        "timestamp": f"2026-01-01T00:00:{second:02d}.000Z", "message": message, **extra,
    }  # fmt: skip


def asked(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(identity: str, *parts: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6, "output_tokens": 9}
    return {"id": identity, "role": "assistant", "model": "claude", "content": list(parts), "usage": usage}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def task(identity: str, role: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "Task", "input": {"prompt": "look", "subagent_type": role}}


def result(identity: str) -> dict[str, Any]:
    return asked([{"type": "tool_result", "tool_use_id": identity, "content": f"done {identity}"}])


def side(uuid: str, parent: str | None, second: int, message: dict[str, Any], agent: str | None) -> dict[str, Any]:
    known = {} if agent is None else {"agentId": agent}
    return record(uuid, parent, second, message, isSidechain=True, **known)


def fan_out(one: str | None, other: str | None) -> list[dict[str, Any]]:
    """Two subagents at once; older versions wrote no agent ids."""
    return [
        record("u1", None, 1, asked("q")),
        record("u2", "u1", 2, said("m1", task("t1", "digger"), task("t2", "reader"))),
        side("a1", None, 3, asked("first task"), one),
        side("b1", None, 3, asked("second task"), other),
        side("a2", "a1", 4, said("ka", text("first answer")), one),
        side("b2", "b1", 5, said("kb", text("second answer")), other),
        side("a3", "a2", 6, asked("more"), one),
        side("b3", "b2", 6, asked("more"), other),
        side("a4", "a3", 7, said("ka2", text("first end")), one),
        side("b4", "b3", 8, said("kb2", text("second end")), other),
        record("u3", "u2", 9, result("t1"), toolUseResult={"agentId": "kid-a"}),
        record("u4", "u3", 10, result("t2"), toolUseResult={"agentId": "kid-b"}),
        record("u5", "u4", 11, said("m2", text("answer"))),
    ]


def test_a_subagent_is_below_the_task_that_started_it(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, fan_out("kid-a", "kid-b"))
    runs = {item.span_id: item for item in of_kind(readings, Operation.TOOL)}
    agents = of_kind(readings, Operation.AGENT)
    assert [(item.agent_id, item.agent_name) for item in agents] == [("kid-a", "digger"), ("kid-b", "reader")]
    for agent in agents:
        assert agent.parent_span_id in runs
        below = [item for item in readings if item.agent_id == agent.agent_id]
        assert {item.parent_span_id for item in below} == {agent.parent_span_id}
        assert {item.parent_agent_id for item in below} == {"main"}
        run = runs[agent.parent_span_id or ""]
        assert run.start_ns < agent.start_ns < agent.end_ns < run.end_ns
    assert len({item.parent_span_id for item in agents}) == 2
    assert {item.parent_span_id for item in readings if item.agent_id == "main"} == {None}


def test_subagents_without_ids_are_told_apart_by_where_their_chains_begin(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, fan_out(None, None))
    kids = [item for item in llm(readings) if item.agent_id != "main"]
    assert {item.span_id: item.agent_id for item in kids} == {"ka": "a1", "ka2": "a1", "kb": "b1", "kb2": "b1"}
    assert [held(item) for item in kids[2:]] == [[BlockKind.USER, BlockKind.ASSISTANT, BlockKind.USER]] * 2


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_lines_does_not_matter(tmp_path: Path, seed: int, *, known: bool) -> None:
    def shape(readings: list[Reading]) -> list[Any]:
        return [
            (item.kind, item.span_id, item.parent_span_id, item.agent_id, item.start_ns, item.content and item.content.keys)
            for item in readings
        ]  # fmt: skip

    records = fan_out("kid-a", "kid-b") if known else fan_out(None, None)
    expected = shape(read(tmp_path, records)[0])
    mixed = [*records, *records[2:7]]
    random.Random(seed).shuffle(mixed)
    assert shape(read(tmp_path, mixed)[0]) == expected


def test_a_resumed_session_repeats_calls_under_the_same_answer(tmp_path: Path) -> None:
    """A resumed session copies the history under its own id; the answers tell that it is no new spend."""
    readings, _ = read(tmp_path, fan_out("kid-a", "kid-b"))
    copied, _ = read(tmp_path, [{**item, "sessionId": "s2"} for item in fan_out("kid-a", "kid-b")[:2]])
    assert llm(copied)[0].trace_id != llm(readings)[0].trace_id
    assert llm(copied)[0].response_id == llm(readings)[0].response_id == "m1"


def test_an_error_of_the_provider_is_a_failed_call(tmp_path: Path) -> None:
    """The program writes it as an answer of its own."""
    message = {**said("x", text("API Error: 429 rate limit reached")), "model": "<synthetic>"}
    readings, _ = read(
        tmp_path, [record("u1", None, 1, asked("q")), record("u2", "u1", 2, message, isApiErrorMessage=True)]
    )
    (only,) = llm(readings)
    assert only.model is None
    assert only.failure is not None
    assert (only.failure.status, only.failure.signals) == (429, ("rate_limit",))


def test_junk_in_any_place_costs_no_other_call(tmp_path: Path) -> None:
    sound = fan_out("kid-a", "kid-b")
    last = record("z", None, 50, said("last", text("sound")))
    boundary = {
        **record("c", None, 12, asked("")), "type": "system", "subtype": "compact_boundary",
        "compactMetadata": {"trigger": "auto", "preTokens": 5},
    }  # fmt: skip
    for chosen in (sound[1], sound[2], sound[10], boundary):
        rest = [item for item in sound if item is not chosen]
        for broken in damaged(chosen):
            readings, replay = read(tmp_path, [*rest, broken, last])
            assert "last" in {item.span_id for item in llm(readings)}, broken
            assert not any("failed" in problem.reason for problem in replay.problems.kept), broken


def test_the_recorded_session_counts_each_answer_once(corpus: Corpus) -> None:
    readings, replay = read_files(corpus.path(f"{FOLDER}/30530d66-37fb-4f3b-aa5f-d92b6a8afae2.jsonl"))
    calls = llm(readings)
    assert (len(calls), len(of_kind(readings, Operation.TOOL)), replay.problems.total) == (15, 25, 0)
    assert calls[0].span_id == "req_lprykp10dl"
    assert [item.usage and item.usage.input_tokens for item in calls][:7] == [
        0, 24_869, 28_310, 28_795, 29_681, 30_125, 67_637,
    ]  # fmt: skip
    lifted = calls[6].content
    assert lifted is not None
    assert max(lifted.characters) == 86_756
    assert {item.agent_name for item in readings} == {"main"}


def test_the_recorded_compaction(corpus: Corpus) -> None:
    readings, _ = read_files(corpus.path(f"{FOLDER}/98b76fb9-f5d3-40c5-ab82-b970c20e3764.jsonl"))
    (mark,) = of_kind(readings, Operation.COMPACTION)
    assert mark.compaction is not None
    assert (mark.compaction.before_tokens, mark.compaction.trigger) == (26_634, "manual")
    assert len(llm(readings)) == 3  # and one answer of the program itself


def test_the_recorded_fan_out(corpus: Corpus) -> None:
    readings, _ = read_files(
        corpus.path(f"{FOLDER}/b3a7bd3c-5a10-4e7b-8ff0-7fc0cd6d1093.jsonl"),
        *sorted(corpus.path(f"{FOLDER}/b3a7bd3c-subagents").glob("*.jsonl")),
    )
    agents, runs = of_kind(readings, Operation.AGENT), of_kind(readings, Operation.TOOL)
    assert len({item.agent_id for item in agents}) == len(agents) == 4
    first = [next(item for item in llm(readings) if item.agent_id == agent.agent_id) for agent in agents]
    assert [(item.usage and (item.usage.input_tokens, item.usage.cache_write_tokens)) for item in first] == [
        (10, 4_410)
    ] * 4
    assert max(item.start_ns for item in agents) < min(item.end_ns for item in agents)  # all at once
    tasks = [item for item in runs if item.name == "Task"]
    assert len(tasks) == 4
    assert max(item.start_ns for item in tasks) < min(item.end_ns for item in tasks)
    assert {item.parent_span_id for item in agents} == {None}  # their tasks stand in another file
    assert len({item.trace_id for item in readings}) == 1
