"""Sessions of pi: version 1 by order, later ones by their tree; compactions, aborted calls, commands of the user."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Corpus
from tests.detector.readers.session_logs import damaged, held, llm, of_kind, read, read_files

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation, Reading


def entry(identity: str, parent: str | None, second: int, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": identity, "parentId": parent, **at(second), **fields}


def at(second: int) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{second:02d}.000Z"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def answer(text: str, tokens: int = 100, second: int = 0, **fields: Any) -> dict[str, Any]:
    usage = {"input": 3, "cacheRead": tokens - 3, "cacheWrite": 0, "output": 5, "totalTokens": tokens + 5}
    return {
        "role": "assistant", "content": [{"type": "text", "text": text}], "model": "m", "provider": "p", "usage": usage,
        "stopReason": "stop", "timestamp": 1_767_225_600_000 + second * 1_000, **fields,
    }  # fmt: skip


HEADER = {"type": "session", "version": 3, "id": "s1", **at(0), "cwd": "/x"}

TREE = [
    HEADER,
    entry("a", None, 1, message=user("first question")),
    entry("b", "a", 2, message=answer("first answer", 100, 2)),
    entry("c", "b", 3, message=user("a way that leads nowhere")),
    entry("d", "c", 4, message=answer("lost", 200, 4)),
    {"type": "branch_summary", "id": "e", "parentId": "b", **at(5), "fromId": "d", "summary": "it led nowhere"},
    entry("f", "e", 6, message=user("another way")),
    entry("g", "f", 7, message=answer("found", 160, 7)),
    {"type": "compaction", "id": "h", "parentId": "g", **at(8), "summary": "in short", "firstKeptEntryId": "f",
     "tokensBefore": 165},
    {"type": "label", "id": "i", "parentId": "h", **at(9), "targetId": "a", "label": "x"},
    entry("j", "i", 10, message=answer("after", 40, 10)),
]  # fmt: skip


def shape(readings: list[Reading]) -> list[Any]:
    return [
        (item.kind, item.span_id, item.start_ns, item.end_ns, item.content and item.content.keys) for item in readings
    ]


def test_a_call_holds_the_path_to_it_and_no_branch_that_was_left(tmp_path: Path) -> None:
    readings, replay = read(tmp_path, TREE)
    first, left, found, after = llm(readings)
    assert held(first) == [BlockKind.USER]
    assert held(left) == [BlockKind.USER, BlockKind.ASSISTANT, BlockKind.USER]
    assert held(found) == [BlockKind.USER, BlockKind.ASSISTANT, BlockKind.SUMMARY, BlockKind.USER]
    assert held(after) == [BlockKind.SUMMARY, BlockKind.USER, BlockKind.ASSISTANT]
    assert replay.problems.total == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_lines_does_not_matter_even_within_one_instant(tmp_path: Path, seed: int) -> None:
    tree: list[dict[str, Any]] = [{**record, **at(1)} for record in TREE]
    expected = shape(read(tmp_path, tree)[0])
    mixed = [*tree, *tree[:4]]
    random.Random(seed).shuffle(mixed)
    assert shape(read(tmp_path, mixed)[0]) == expected


def test_an_entry_whose_parent_is_lost_continues_what_came_before(tmp_path: Path) -> None:
    readings, replay = read(tmp_path, [record for record in TREE[:4] if record["id"] != "c"] + [TREE[4]])
    assert held(llm(readings)[1]) == [BlockKind.USER, BlockKind.ASSISTANT]
    assert replay.problems.total == 0


def test_an_entry_of_an_unknown_type_is_counted_and_keeps_its_place(tmp_path: Path) -> None:
    readings, replay = read(
        tmp_path, [*TREE[:3], {"type": "novelty", "id": "n", "parentId": "b", **at(3)},
                   entry("o", "n", 4, message=answer("on", 120, 4))],
    )  # fmt: skip
    assert held(llm(readings)[1]) == [BlockKind.USER, BlockKind.ASSISTANT]
    assert [problem.place for problem in replay.problems.kept] == ["line 4"]


def test_what_a_user_ran_is_held_unless_it_was_kept_out(tmp_path: Path) -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a b"}
    readings, _ = read(
        tmp_path,
        [HEADER, entry("a", None, 1, message=ran), entry("b", "a", 2, message={**ran, "excludeFromContext": True}),
         entry("c", "b", 3, message={"role": "custom", "content": "note"}), entry("d", "c", 4, message=answer("ok"))],
    )  # fmt: skip
    assert held(llm(readings)[0]) == [BlockKind.TOOL_ARGUMENTS, BlockKind.TOOL_RESULT, BlockKind.USER]
    assert of_kind(readings, Operation.TOOL) == []  # the model asked for none


def test_a_forked_session_repeats_calls_under_the_same_answer(tmp_path: Path) -> None:
    """A copy has another session id; the answers tell that it is no new spend."""
    readings, _ = read(tmp_path, TREE)
    copied, _ = read(tmp_path, [{**HEADER, "id": "s2"}, *TREE[1:3]])
    assert llm(copied)[0].trace_id != llm(readings)[0].trace_id
    assert llm(copied)[0].response_id == llm(readings)[0].response_id
    assert len({item.response_id for item in llm(readings)}) == 4


def test_junk_in_any_place_costs_no_other_call(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "t", "name": "read", "arguments": {"path": "a"}}
    result = {"role": "toolResult", "toolCallId": "t", "toolName": "read", "content": [{"type": "text", "text": "x"}]}
    sound = [
        entry("y", None, 1, message=answer("one", content=[call])),
        entry("z", "y", 2, message=result),
        {"type": "compaction", "id": "w", "parentId": "z", **at(3), "summary": "s", "firstKeptEntryId": "z",
         "tokensBefore": 9},
    ]  # fmt: skip
    last = {"type": "message", **at(50), "message": answer("sound", 300, 50)}
    for place, record in enumerate(sound):
        for broken in damaged(record):
            readings, replay = read(tmp_path, [HEADER, *sound[:place], broken, *sound[place + 1 :], last])
            assert any(item.usage and item.usage.cache_read_tokens == 297 for item in llm(readings)), broken
            assert not any("failed" in problem.reason for problem in replay.problems.kept), broken


def test_the_recorded_session(corpus: Corpus) -> None:
    readings, replay = read_files(corpus.path("pi-mono/before-compaction.jsonl"))
    calls, runs = llm(readings), of_kind(readings, Operation.TOOL)
    assert (len(calls), len(runs), replay.problems.total) == (484, 448, 0)
    assert all(item.usage is not None and item.usage.cache_inclusive is False for item in calls)
    silent = [item for item in calls if item.usage and not (
        (item.usage.input_tokens or 0) + (item.usage.cache_read_tokens or 0) + (item.usage.cache_write_tokens or 0)
    )]  # fmt: skip
    assert len(silent) == 13
    assert all(item.usage and item.usage.input_tokens == 0 for item in silent)  # kept as reported
    assert all(item.failure is not None for item in silent)
    (error,) = [item.failure for item in calls if item.failure is not None and not item.failure.aborted]
    assert (error.status, error.signals) == (400, ())
    assert all(run.start_ns < run.end_ns and run.tool is not None and run.tool.arguments for run in runs)
    assert all(call.start_ns < call.end_ns for call in calls)


def test_the_recorded_compactions_leave_a_summary_and_what_was_kept(corpus: Corpus) -> None:
    readings, _ = read_files(corpus.path("pi-mono/before-compaction.jsonl"))
    marks = [place for place, item in enumerate(readings) if item.kind is Operation.COMPACTION]
    before = [readings[place].compaction for place in marks]
    assert [item and (item.before_tokens, item.after_tokens) for item in before] == [(175_004, None), (185_014, None)]
    for place in marks:
        last, following = (
            next(item for item in reversed(readings[:place]) if item.content is not None),
            next(item for item in readings[place:] if item.content is not None),
        )
        assert held(following)[0] is BlockKind.SUMMARY
        assert held(following).count(BlockKind.SUMMARY) == 1
        assert len(held(following)) < len(held(last)) / 4
