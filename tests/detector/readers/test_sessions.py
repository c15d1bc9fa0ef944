"""Session logs and trajectories, written by hand: what a call held, what counted, what was compacted."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml

from lowwater.collectors.consumers import CONSUMERS, Consumer
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.replay import Replay


def read(tmp_path: Path, text: str | bytes, name: str = "log") -> tuple[list[Reading], Replay]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    replay = Replay()
    readings = list(replay.readings([str(path)]))
    return sorted(readings, key=Reading.order), replay


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def weight(reading: Reading, consumer: Consumer) -> int:
    assert reading.content is not None
    return reading.content.consumer_weights()[CONSUMERS.index(consumer)]


def llm(readings: list[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading.kind is Operation.LLM]


def kinds(readings: list[Reading]) -> list[str]:
    return [reading.kind.name for reading in readings]


# --- pi --------------------------------------------------------------------------------------------------------------


def at(second: int) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{second:02d}.000Z"}


def answer(second: int, text: str, tokens: int, **extra: Any) -> dict[str, Any]:
    usage = {"input": 3, "cacheRead": tokens - 3, "cacheWrite": 0, "output": 5, "totalTokens": tokens + 5}
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    parts += extra.pop("calls", [])
    return {
        "type": "message",
        **at(second),
        "message": {
            "role": "assistant",
            "content": parts,
            "model": "m",
            "provider": "p",
            "usage": usage,
            "stopReason": "stop",
            **extra,
        },
    }


PI = [
    {"type": "session", "id": "s1", **at(59), "cwd": "/x", "modelId": "m"},
    {"type": "message", **at(1), "message": {"role": "user", "content": [{"type": "text", "text": "first question"}]}},
    answer(
        2, "let me look", 1_000, calls=[{"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}]
    ),
    {
        "type": "message",
        **at(3),
        "message": {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "read",
            "content": [{"type": "text", "text": "long file " * 200}],
        },
    },
    answer(4, "done", 1_500),
    {"type": "compaction", **at(5), "summary": "in short", "firstKeptEntryIndex": 4, "tokensBefore": 1_505},
    {"type": "message", **at(6), "message": {"role": "user", "content": [{"type": "text", "text": "go on"}]}},
    answer(7, "going on", 200),
    {
        "type": "message",
        **at(8),
        "message": {
            "role": "assistant",
            "content": [],
            "model": "m",
            "stopReason": "aborted",
            "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        },
    },
]


def test_pi_restarts_from_summary_and_kept_entries(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, lines(*PI))
    assert kinds(readings) == ["LLM", "TOOL", "LLM", "COMPACTION", "LLM", "LLM"]
    first, second, third, aborted = llm(readings)
    assert weight(first, Consumer.SCRATCHPAD) == 0
    assert weight(second, Consumer.SCRATCHPAD) > 200
    assert weight(third, Consumer.SCRATCHPAD) == 0  # entry 4, "done", was kept; the file was not
    assert third.usage is not None
    assert (third.usage.input_tokens, third.usage.cache_read_tokens, third.usage.cache_inclusive) == (3, 197, False)
    assert aborted.failure is not None
    assert aborted.failure.aborted
    assert readings[3].compaction is not None
    assert readings[3].compaction.before_tokens == 1_505


def test_pi_tool_calls_meet_their_results(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, lines(*PI))
    tool = readings[1].tool
    assert tool is not None
    assert (tool.name, tool.arguments != 0, tool.result != 0) == ("read", True, True)
    assert readings[1].end_ns - readings[1].start_ns == 1_000_000_000


# --- Claude Code -----------------------------------------------------------------------------------------------------


def record(
    uuid: str, parent: str | None, second: int, kind: str, message: dict[str, Any], **extra: Any
) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s1",
        "isSidechain": False,
        "type": kind,
        "message": message,
        **at(second),
        **extra,
    }


def said(identity: str, part: dict[str, Any], output: int) -> dict[str, Any]:
    usage = {
        "input_tokens": 4,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 96,
        "output_tokens": output,
    }
    return {"id": identity, "role": "assistant", "model": "claude", "content": [part], "usage": usage}


CLAUDE = [
    record("u1", None, 1, "user", {"role": "user", "content": "question"}),
    record("u2", "u1", 2, "assistant", said("m1", {"type": "thinking", "thinking": "hm"}, 1)),
    record("u3", "u2", 3, "assistant", said("m1", {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "please look into the matter of the missing water level readings", "subagent_type": "digger"}}, 40)),
    record("k1", None, 3, "user", {"role": "user", "content": "please look into it"}, isSidechain=True, agentId="kid"),
    record("k2", "k1", 4, "assistant", {**said("k1", {"type": "text", "text": "found"}, 3)}, isSidechain=True, agentId="kid"),
    record("u4", "u3", 5, "user", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "found it"}]}, toolUseResult={"agentId": "kid"}),
    record("u5", "u4", 6, "assistant", said("m2", {"type": "text", "text": "answer"}, 7)),
    {**record("u6", None, 7, "system", {}), "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 5_000}},
    record("u7", "u6", 7, "user", {"role": "user", "content": "what happened so far"}, isCompactSummary=True),
    record("u8", "u7", 8, "assistant", {"id": "x", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": "No response."}], "usage": {"input_tokens": 0}}),
    record("u9", "u7", 9, "assistant", said("m3", {"type": "text", "text": "on"}, 2)),
]  # fmt: skip


def test_claude_code_merges_records_of_one_answer_and_drops_synthetic_ones(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, lines(*CLAUDE))
    main = [item for item in llm(readings) if item.agent_id == "main"]
    assert [item.span_id for item in main] == ["m1", "m2", "m3"]
    assert main[0].usage is not None
    assert main[0].usage.output_tokens == 40
    assert main[0].output is not None
    assert len(main[0].output) == 2


def test_claude_code_subagents_are_agents_of_their_own(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, lines(*CLAUDE))
    (agent,) = [item for item in readings if item.kind is Operation.AGENT]
    assert (agent.agent_id, agent.agent_name, agent.parent_agent_id) == ("kid", "digger", "main")
    (task,) = [item for item in readings if item.kind is Operation.TOOL]
    assert task.tool is not None
    assert task.tool.name == "Task"
    assert task.tool.sketch


def test_claude_code_compaction_leaves_the_summary(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, lines(*CLAUDE))
    last = llm(readings)[-1]
    assert last.content is not None
    assert len(last.content) == 2  # the summary, and the program's own answer
    (mark,) = [item for item in readings if item.compaction is not None]
    assert mark.compaction is not None
    assert (mark.compaction.before_tokens, mark.compaction.trigger) == (5_000, "auto")


# --- trajectories ----------------------------------------------------------------------------------------------------


def step(text: str, tokens: int, created: int) -> dict[str, Any]:
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 10,
        "total_tokens": tokens + 10,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    return {
        "role": "assistant",
        "content": text,
        "extra": {"response": {"id": f"r{created}{tokens}", "model": "m", "created": created, "usage": usage}},
    }


MINI = {
    "trajectory_format": "mini-swe-agent-1",
    "instance_id": "i1",
    "info": {"mini_version": "1"},
    "messages": [
        {"role": "system", "content": "you can run commands"},
        {"role": "user", "content": "fix it"},
        step("look\n```bash\nls -l\n```", 100, 1_700_000_000),
        {"role": "user", "content": "<returncode>0</returncode>"},
        step("two\n```bash\nls\n```\n```bash\npwd\n```", 150, 1_700_000_000),
        {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 2"},
        step("again\n```bash\nls -l\n```", 200, 1_700_000_009),
        {"role": "user", "content": "<returncode>0</returncode>"},
    ],
}


def test_mini_swe_agent_counts_only_what_was_executed(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, json.dumps(MINI))
    assert kinds(readings) == ["LLM", "TOOL", "LLM", "LLM", "TOOL"]
    tools = [item.tool for item in readings if item.tool is not None]
    assert tools[0].arguments == tools[1].arguments != 0
    assert [item.usage.input_tokens for item in llm(readings) if item.usage] == [100, 150, 200]
    assert weight(llm(readings)[1], Consumer.SCRATCHPAD) > 0


SWE = {
    "trajectory": [
        {
            "action": "ls",
            "observation": "a b",
            "response": "look",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "task"}],
        },
        {
            "action": "ls",
            "observation": "a b",
            "response": "look",
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "task"},
                {"role": "assistant", "content": "look"},
                {"role": "user", "content": "a b"},
            ],
        },
    ]
}


def test_swe_agent_steps_hold_exactly_what_was_sent(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, json.dumps(SWE))
    assert kinds(readings) == ["LLM", "TOOL", "LLM", "TOOL"]
    assert [len(item.content) for item in llm(readings) if item.content is not None] == [2, 4]
    assert {item.timeless for item in readings} == {True}


# --- chats -----------------------------------------------------------------------------------------------------------

TEAM = [
    {"role": "human", "content": "who won?"},
    {"role": "Orchestrator (thought)", "content": "we need to search"},
    {
        "role": "Orchestrator (-> Surfer)",
        "content": "please search the web for the winner of the race in the year 2020",
    },
    {"role": "Surfer", "content": "I searched and found a page with many names on it"},
    {"role": "Orchestrator (thought)", "content": "done"},
]


def test_delegations_are_tool_calls_of_the_orchestrator(tmp_path: Path) -> None:
    readings, _ = read(tmp_path, json.dumps(TEAM))
    (run,) = [item for item in readings if item.kind is Operation.TOOL]
    assert (run.agent_name, run.name) == ("Orchestrator", "Surfer")
    assert run.tool is not None
    assert run.tool.sketch
    assert run.tool.result
    last = llm(readings)[-1]
    assert last.agent_name == "Orchestrator"
    assert weight(last, Consumer.SCRATCHPAD) > 0


def test_a_plain_chat_is_one_call_per_answer(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "q2"},
        {"role": "assistant", "content": "b"},
    ]
    readings, _ = read(tmp_path, json.dumps({"messages": chat}))
    assert [len(item.content) for item in llm(readings) if item.content is not None] == [2, 4]
    assert [item.usage for item in llm(readings)] == [None, None]


# --- cassettes -------------------------------------------------------------------------------------------------------


def cassette(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> str:
    return str(
        yaml.safe_dump(
            {"interactions": [{"request": request, "response": response} for request, response in pairs], "version": 1}
        )
    )


def test_openai_chat_with_tools_and_limits(tmp_path: Path) -> None:
    request = {
        "parsed_body": {
            "model": "m",
            "max_completion_tokens": 77,
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "messages": [{"role": "user", "content": "q"}],
        }
    }
    response = {
        "status": {"code": 200},
        "parsed_body": {
            "id": "r",
            "model": "m-1",
            "choices": [{"message": {"role": "assistant", "content": "a"}}],
            "usage": {"prompt_tokens": 50, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}},
        },
    }
    (only,), _ = read(tmp_path, cassette((request, response)))
    assert (only.model, only.max_output_tokens, only.response_id) == ("m-1", 77, "r")
    assert only.usage is not None
    assert (only.usage.input_tokens, only.usage.cache_read_tokens, only.usage.cache_inclusive) == (50, 20, True)
    assert weight(only, Consumer.TOOLS) > 0


def test_a_streamed_answer_is_put_together(tmp_path: Path) -> None:
    events = [
        {
            "type": "message_start",
            "message": {
                "id": "r",
                "model": "claude",
                "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 12}},
    ]
    body = "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)
    request = {"body": json.dumps({"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]})}
    (only,), _ = read(tmp_path, cassette((request, {"status": {"code": 200}, "body": {"string": body}})))
    assert only.usage is not None
    assert (only.usage.input_tokens, only.usage.cache_read_tokens, only.usage.output_tokens) == (10, 90, 12)
    assert only.output is not None
    assert sum(only.output.characters) == 5


def test_a_refusal_keeps_class_and_no_text(tmp_path: Path) -> None:
    request = {"parsed_body": {"model": "m", "messages": [{"role": "user", "content": "q"}]}}
    response = {
        "status": {"code": 429},
        "parsed_body": {
            "error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "rate-limited upstream"}}
        },
    }
    (only,), _ = read(tmp_path, cassette((request, response)))
    assert only.failure is not None
    assert (only.failure.status, only.failure.upstream, only.failure.signals) == (429, True, ("rate_limit",))


def frame(payload: dict[str, Any]) -> bytes:
    data = json.dumps(payload).encode()
    headers = b"\x0b:event-type\x07\x00\x05trace"
    total = 16 + len(headers) + len(data)
    return struct.pack(">III", total, len(headers), 0) + headers + data + b"\0\0\0\0"


@pytest.mark.parametrize("cut", [0, 10])
def test_a_bedrock_stream_is_read_frame_by_frame(tmp_path: Path, cut: int) -> None:
    reference = "water levels fell by two metres since the spring"
    steps = [
        {"observation": {"knowledgeBaseLookupOutput": {"retrievedReferences": [{"content": {"text": reference}}]}}},
        {
            "modelInvocationInput": {
                "text": f"use: {reference} to answer",
                "inferenceConfiguration": {"maximumLength": 2048},
            }
        },
        {"modelInvocationOutput": {"metadata": {"usage": {"inputTokens": 70, "outputTokens": 7}}}},
    ]
    stream = b"".join(
        frame(
            {
                "agentId": "a",
                "sessionId": "s",
                "eventTime": "2026-01-01T00:00:01.5Z",
                "trace": {"orchestrationTrace": item},
            }
        )
        for item in steps
    )
    stream += frame({"bytes": base64.b64encode(b"x").decode()})
    readings, replay = read(tmp_path, cassette(({"body": "{}"}, {"body": {"string": stream[: len(stream) - cut]}})))
    (found,) = [item for item in readings if item.kind is Operation.RETRIEVAL]
    assert found.documents == 1
    (only,) = llm(readings)
    assert only.max_output_tokens == 2_048
    assert weight(only, Consumer.RETRIEVAL) > 5
    assert bool(replay.problems.total) == bool(cut)


def test_annotations_about_traces_are_no_trace(tmp_path: Path) -> None:
    readings, replay = read(tmp_path, json.dumps([{"trajectory_id": "t", "failures": [{"step_number": 3}]}]))
    assert readings == []
    assert replay.problems.total == 1
