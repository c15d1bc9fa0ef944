"""Trajectories of SWE-agent: every step holds the exact messages that were sent, as history processors left them.

Replays report no usage, and nothing in the file has a time: calls are ordered by their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.messages import read_messages
from lowwater.collectors.reading import Operation, Reading, ToolUse
from lowwater.collectors.values import load_json, text_of
from lowwater.detector.readers.base import Document, Format, Problems
from lowwater.detector.readers.sessions import digest, finish_tool, start_tool

__all__ = ["FORMAT"]


def _sniff(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    steps = value.get("trajectory")
    return isinstance(steps, list) and bool(steps) and isinstance(steps[0], dict) and "observation" in steps[0]


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    value = document.json()
    if not _sniff(value):
        problems.add(document.name, "byte 0", "no SWE-agent trajectory")
        return
    steps = value["trajectory"]
    # Of all steps: replays of one demonstration begin alike.
    run = f"swe-agent-{digest(steps)}"
    info = value.get("info")
    stats = info.get("model_stats") if isinstance(info, dict) else None
    model = text_of(stats.get("model")) if isinstance(stats, dict) else None
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            problems.add(document.name, f"step {index}", "no step")
            continue
        later = steps[index + 1] if index + 1 < len(steps) else None
        after = _sent(later) if isinstance(later, dict) else _listed(value.get("history"))
        yield from _step(run, index, step, _calls(step, after), model, context)


def _listed(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _sent(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that the step sent; older versions call them ``query``. A result names its call in a list."""
    sent = []
    for message in _listed(step.get("messages", step.get("query"))):
        answered = message.get("tool_call_ids")
        known = {"tool_call_id": answered[0]} if isinstance(answered, list) and answered else {}
        sent.append({**message, **known})
    return sent


def _calls(step: Mapping[str, Any], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls of a step's answer: its own, or as the answer is listed in what was sent after it."""
    own = _listed(load_json(step.get("tool_calls")))
    if own:
        return own
    for message in reversed(after):
        if message.get("role") == "assistant" and message.get("action") == step.get("action"):
            return _listed(message.get("tool_calls"))
    return []


def _step(
    run: str, index: int, step: Mapping[str, Any], calls: list[dict[str, Any]], model: str | None, context: ReadContext
) -> Iterator[Reading]:
    messages = _sent(step)
    answer = str(step.get("response") or step.get("thought") or "")
    clock = 2 * index + 2
    common: dict[str, Any] = {
        "trace_id": run,
        "conversation": run,
        "service": "swe-agent",
        "scope": "swe-agent",
        "agent_name": next((name for item in messages if (name := text_of(item.get("agent")))), "main"),
        "timeless": True,
        "dialects": ("swe_agent",),
    }
    prompt, output = context.builder(), context.builder()
    read_messages(messages, prompt)
    read_messages({"role": "assistant", "content": answer, "tool_calls": calls}, output)
    yield Reading(
        **common, span_id=f"{run}/{index}", start_ns=clock - 1, end_ns=clock, ordinal=clock, kind=Operation.LLM,
        name="step", model=model, content=prompt.build(), output=output.build(),
    )  # fmt: skip
    action = str(step.get("action") or "").strip()
    if action:
        use = _use(action, calls, context)
        finish_tool(context, use, step.get("observation"))
        yield Reading(
            **common, span_id=f"{run}/{index}/action", start_ns=clock, end_ns=clock + 1, ordinal=clock + 1,
            kind=Operation.TOOL, name=use.name, tool=use,
        )  # fmt: skip


def _use(action: str, calls: list[dict[str, Any]], context: ReadContext) -> ToolUse:
    """What was run: the function that was called, or else the first word of the command."""
    call: Mapping[str, Any] = calls[0] if calls else {}
    function = call.get("function")
    name = text_of(function.get("name")) if isinstance(function, dict) else None
    use = start_tool(context, name or action.split(maxsplit=1)[0][:40], text_of(call.get("id")), action)
    # Arguments are a command, whatever it says in words.
    use.sketch = ()
    return use


FORMAT = Format("swe-agent", "trajectory of SWE-agent", _read, sniff_json=_sniff)
