"""Trajectories of mini-swe-agent: messages with the provider's whole response beside each answer.

The agent acts through one bash block per answer. An answer with none or several is refused with a reminder, and nothing is
executed. Responses carry the second in which they were created; what happens in one second keeps the order of the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.content import BlockKind, ContentBuilder
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.messages import flatten, read_messages
from lowwater.collectors.reading import Operation, Reading, Usage
from lowwater.collectors.values import count, text_of
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.sessions import Prompt, digest, finish_tool, start_tool
from lowwater.detector.readers.values import nanoseconds

__all__ = ["FORMAT"]

_COMMAND = re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL)
_REFUSAL = "Please always provide EXACTLY ONE action"


def _sniff(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("messages"), list)
        and (
            str(value.get("trajectory_format", "")).startswith("mini-swe-agent")
            or "mini_version" in str(value.get("info", ""))[:4000]
        )
    )


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    value = document.json()
    if not _sniff(value):
        problems.add(document.name, "byte 0", "no mini-swe-agent trajectory")
        return
    yield from _trajectory(value, context, document.name, problems)


def _trajectory(value: Mapping[str, Any], context: ReadContext, file: str, problems: Problems) -> Iterator[Reading]:
    # Two attempts at one instance are two runs, in two files of the same name.
    run = f"{text_of(value.get('instance_id')) or 'mini-swe-agent'}-{digest(value['messages'])}"
    common: dict[str, Any] = {
        "trace_id": run,
        "conversation": run,
        "service": "mini-swe-agent",
        "scope": "mini-swe-agent",
        "agent_name": "mini-swe-agent",
        "dialects": ("mini_swe_agent",),
    }
    prompt = Prompt()
    command: str | None = None
    clock = 0
    timeless = True  # until a response says when it was created
    for index, message in enumerate(value["messages"]):
        if not isinstance(message, dict):
            problems.add(file, f"message {index}", "no message")
            continue
        builder = context.builder()
        if message.get("role") == "assistant":
            response = _response(message)
            created = nanoseconds(response.get("created"))
            clock, timeless = max(clock + 2, created), timeless and not created
            read_messages({"role": "assistant", "content": message.get("content")}, builder)
            block = builder.build()
            yield Reading(
                **common, span_id=f"{run}/{index}", start_ns=clock, end_ns=clock, kind=Operation.LLM, name="assistant",
                response_id=text_of(response.get("id")), model=text_of(response.get("model")),
                provider=text_of(response.get("provider")), usage=_usage(response), content=prompt.snapshot(), output=block,
                timeless=timeless, finish_reasons=_finish(response),
            )  # fmt: skip
            commands = _COMMAND.findall(flatten(message.get("content")))
            command = commands[0] if len(commands) == 1 else None
            prompt.add(block)
            continue
        text = flatten(message.get("content"))
        if command is not None and not text.startswith(_REFUSAL):
            clock += 1
            call_id = f"{run}/{index}"
            use = start_tool(context, "bash", call_id, command.strip())
            # Arguments are a command, whatever it says in words.
            use.sketch = ()
            finish_tool(context, use, text)
            yield Reading(
                **common, span_id=call_id, start_ns=clock, end_ns=clock, kind=Operation.TOOL, name="bash", tool=use,
                timeless=timeless,
            )  # fmt: skip
            builder.add(BlockKind.TOOL_RESULT, text, call_id=call_id)
        else:
            _plain(message, builder)
        command = None
        prompt.add(builder.build())


def _plain(message: Mapping[str, Any], builder: ContentBuilder) -> None:
    read_messages({"role": message.get("role") or "user", "content": message.get("content")}, builder)


def _response(message: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = message.get("extra")
    response = extra.get("response") if isinstance(extra, dict) else None
    return response if isinstance(response, dict) else {}


def _finish(response: Mapping[str, Any]) -> tuple[str, ...]:
    choices = response.get("choices")
    items = choices if isinstance(choices, list) else []
    found = [text_of(item.get("finish_reason")) for item in items if isinstance(item, dict)]
    return tuple(reason for reason in found if reason)


def _usage(response: Mapping[str, Any]) -> Usage | None:
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, answer = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        total_tokens=count(usage.get("total_tokens")),
        cache_read_tokens=count(prompt.get("cached_tokens")) if isinstance(prompt, dict) else None,
        reasoning_tokens=count(answer.get("reasoning_tokens")) if isinstance(answer, dict) else None,
        cache_inclusive=True,
    )


FORMAT = Format("mini-swe-agent", "trajectory of mini-swe-agent", _read, sniff_json=_sniff)
