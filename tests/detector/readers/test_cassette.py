"""Cassettes: what a recorded call held, what was compacted on the server, and why calls failed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Corpus

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.replay import Replay

SUMMARY = {"type": "compaction", "content": "the user asked for a plan and got one"}
QUESTION = {"role": "user", "content": "q " * 5_000}


def interaction(request: dict[str, Any], response: dict[str, Any], status: int = 200) -> dict[str, Any]:
    return {"request": {"parsed_body": request}, "response": {"status": {"code": status}, "parsed_body": response}}


def compacting(messages: list[dict[str, Any]]) -> dict[str, Any]:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
    return {
        "model": "claude", "max_tokens": 4_096, "system": "be brief", "messages": messages,
        "context_management": {"edits": [edit]},
    }  # fmt: skip


def answered(tokens: int, *blocks: dict[str, Any], iterations: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cache_read_input_tokens": 0, "output_tokens": 8, "iterations": list(iterations)}
    return {"id": f"msg-{tokens}", "model": "claude", "content": list(blocks), "usage": usage}


def read(tmp_path: Path, *cassettes: list[dict[str, Any]]) -> tuple[list[Reading], Replay]:
    paths = []
    for number, interactions in enumerate(cassettes):
        path = tmp_path / f"cassette-{number}.yaml"
        path.write_text(yaml.safe_dump({"interactions": interactions, "version": 1}))
        paths.append(str(path))
    return read_files(*paths)


def read_files(*paths: str) -> tuple[list[Reading], Replay]:
    replay = Replay()
    return sorted(replay.readings(list(paths)), key=Reading.order), replay


def held(reading: Reading) -> list[BlockKind]:
    assert reading.content is not None
    return [BlockKind(kind) for kind in reading.content.kinds]


def test_what_the_server_compacted_is_held_as_its_summary_and_announced_once(tmp_path: Path) -> None:
    """The second request repeats the block; that is no second compaction."""
    text = {"type": "text", "text": "a"}
    iterations = ({"type": "compaction", "input_tokens": 55_000}, {"type": "message", "input_tokens": 220})
    follow_up: list[dict[str, Any]] = [
        QUESTION,
        {"role": "assistant", "content": [SUMMARY, text]},
        {"role": "user", "content": "and?"},
    ]
    readings, _ = read(
        tmp_path,
        [
            interaction(compacting([QUESTION]), answered(220, SUMMARY, text, iterations=iterations)),
            interaction(compacting(follow_up), answered(239, text, iterations=({"type": "message"},))),
        ],
    )
    first, second = readings
    assert first.compaction is not None
    assert (first.compaction.before_tokens, first.compaction.source) == (55_000, "usage.iterations")
    assert second.compaction is None
    assert held(first) == [BlockKind.SYSTEM, BlockKind.SUMMARY]
    assert held(second) == [BlockKind.SYSTEM, BlockKind.SUMMARY, BlockKind.ASSISTANT, BlockKind.USER]
    assert [(item.trigger_tokens, item.max_output_tokens) for item in readings] == [(50_000, 4_096)] * 2
    assert len({(item.trace_id, item.conversation) for item in readings}) == 1
    assert 0 < first.start_ns < first.end_ns <= second.start_ns < second.end_ns


def test_without_a_compaction_the_messages_are_what_is_held(tmp_path: Path) -> None:
    (only,), _ = read(tmp_path, [interaction(compacting([QUESTION]), answered(9_000, {"type": "text", "text": "a"}))])
    assert held(only) == [BlockKind.SYSTEM, BlockKind.USER]
    assert only.compaction is None


def test_cassettes_that_begin_alike_keep_all_their_calls(tmp_path: Path) -> None:
    request = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    readings, _ = read(tmp_path, *([interaction(request, answered(tokens))] for tokens in (50, 70)))
    assert len({(item.trace_id, item.span_id) for item in readings}) == 2


def test_the_same_cassette_twice_is_one_run(tmp_path: Path) -> None:
    recorded = [interaction({"model": "m", "messages": [QUESTION]}, answered(50))]
    readings, _ = read(tmp_path, recorded, recorded)
    assert len({(item.trace_id, item.span_id) for item in readings}) == 1


def test_a_failed_call_has_no_usage_and_no_answer(tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    (only,), _ = read(tmp_path, [interaction({"model": "m", "messages": [QUESTION]}, error, 429)])
    assert only.failure is not None
    assert (only.failure.status, only.failure.upstream) == (429, False)
    assert "rate_limit" in only.failure.signals
    assert (only.usage, only.output) == (None, None)


def test_a_request_in_the_responses_shape_is_a_call(tmp_path: Path) -> None:
    request = {"model": "m", "instructions": "be brief", "input": "q", "max_output_tokens": 99}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "answer"}]}
    usage = {"input_tokens": 40, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 8}}
    (only,), _ = read(tmp_path, [interaction(request, {"id": "r", "output": [message], "usage": usage})])
    assert only.usage is not None
    assert (only.usage.input_tokens, only.usage.cache_read_tokens, only.usage.cache_inclusive) == (40, 8, True)
    assert held(only) == [BlockKind.SYSTEM, BlockKind.USER]
    assert only.output is not None
    assert (only.max_output_tokens, sum(only.output.characters)) == (99, 6)


def test_a_request_that_is_no_json_costs_only_itself(tmp_path: Path) -> None:
    sound = interaction({"model": "m", "messages": [QUESTION]}, answered(50))
    readings, replay = read(tmp_path, [{"request": {"body": "x=1"}, "response": {}}, sound])
    assert len(readings) == 1
    assert [problem.place for problem in replay.problems.kept] == ["interaction 0"]


@pytest.mark.parametrize(
    "text", ["interactions:\n- [", "interactions:\n- request: {a: !!python/object:os.system {}}\n", "interactions: 7\n"]
)
def test_broken_or_unsafe_yaml_is_a_problem(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cassette.yaml"
    path.write_text(text)
    readings, replay = read_files(str(path))
    assert readings == []
    assert replay.problems.total == 1


@pytest.mark.parametrize("nested", ["[{0}, {0}, {0}, {0}]", "{{a: {0}, b: {0}, c: {0}, d: {0}}}"])
def test_aliases_that_multiply_are_a_problem(tmp_path: Path, nested: str) -> None:
    """Forty lines that say four times four times four ... values."""
    lines = ["interactions:", "- request: {body: x}", "b0: &a0 [x]"]
    lines += [f"b{n}: &a{n} {nested.format(f'*a{n - 1}')}" for n in range(1, 40)]
    path = tmp_path / "cassette.yaml"
    path.write_text("\n".join(lines))
    readings, replay = read_files(str(path))
    assert readings == []
    assert "aliases" in str(replay.problems.kept[0])


def test_the_recorded_compaction_end_to_end(corpus: Corpus) -> None:
    readings, _ = read_files(str(corpus.path("pydantic-ai/test_anthropic_compaction_end_to_end.yaml")))
    assert [item.usage.input_tokens for item in readings if item.usage] == [220, 239]
    assert [item.compaction.before_tokens for item in readings if item.compaction] == [55_196]
    assert readings[0].compaction is not None
    assert held(readings[0]) == [BlockKind.SYSTEM, BlockKind.SUMMARY]
    assert all(item.content is not None and sum(item.content.characters) < 5_000 for item in readings)
    assert [(item.trigger_tokens, item.max_output_tokens) for item in readings] == [(50_000, 4_096)] * 2
    assert len({(item.trace_id, item.conversation) for item in readings}) == 1
    assert {item.agent_name for item in readings} == {None}


def test_the_recorded_refusals_of_a_gateway(corpus: Corpus) -> None:
    readings, _ = read_files(str(corpus.path("pydantic-ai/test_openrouter_errors_raised.yaml")))
    failures = [item.failure for item in readings]
    assert failures
    assert all(failure is not None and (failure.status, failure.upstream) == (429, True) for failure in failures)
    assert all(failure is not None and "rate_limit" in failure.signals for failure in failures)
    assert {item.usage for item in readings} == {None}


def test_the_recorded_knowledge_base(corpus: Corpus) -> None:
    readings, _ = read_files(str(corpus.path("openinference/test_knowledge_base_results.yaml")))
    found, call = readings
    assert (found.kind, found.documents) == (Operation.RETRIEVAL, 5)
    assert found.tool is not None
    assert (found.tool.result_tokens or 0) > 1_000
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.output_tokens, call.max_output_tokens) == (2_068, 385, 2_048)
    assert held(call).count(BlockKind.RETRIEVAL) == 5


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": ["12"]}, 12.0),
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-ms": ["250"]}, 0.25),
        ({"retry-after": ["Wed, 21 Oct 2026 07:28:00 GMT"]}, None),
        ({"retry-after": ["inf"]}, None),
        ({"retry-after": [None]}, None),
        ([], None),
    ],
)
def test_a_refusal_says_how_long_to_wait(tmp_path: Path, headers: Any, seconds: float | None) -> None:
    recorded = interaction({"model": "m", "messages": [QUESTION]}, {"error": {"type": "rate_limit_error"}}, 429)
    recorded["response"]["headers"] = headers
    (only,), _ = read(tmp_path, [recorded])
    assert only.failure is not None
    assert only.failure.retry_after_seconds == seconds


@pytest.mark.parametrize("cut", [0, 12])
def test_a_body_recorded_compressed_is_read(tmp_path: Path, cut: int) -> None:
    """As it came over the wire; a damaged one is an answer that says nothing."""
    body = gzip.compress(json.dumps(answered(50, {"type": "text", "text": "a"})).encode())
    recorded = interaction({"model": "m", "messages": [QUESTION]}, {})
    recorded["response"] = {"status": {"code": 200}, "body": {"string": body[: len(body) - cut]}}
    (only,), _ = read(tmp_path, [recorded])
    assert (only.usage and only.usage.input_tokens) == (None if cut else 50)
