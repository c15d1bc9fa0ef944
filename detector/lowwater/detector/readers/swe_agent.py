"""Trajectories of SWE-agent: every step holds the exact messages that were sent, as history processors left them.

Replays report no usage, and nothing in the file has a time: calls are ordered by their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.messages import read_messages
from lowwater.collectors.reading import Operation, Reading
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
    run = f"swe-agent-{digest(value['trajectory'][0])}"
    info = value.get("info")
    stats = info.get("model_stats") if isinstance(info, dict) else None
    for index, step in enumerate(value["trajectory"]):
        if not isinstance(step, dict):
            problems.add(document.name, f"step {index}", "no step")
            continue
        yield from _step(run, index, step, text_of(stats.get("model")) if isinstance(stats, dict) else None, context)


def _step(run: str, index: int, step: Mapping[str, Any], model: str | None, context: ReadContext) -> Iterator[Reading]:
    messages = step.get("messages", step.get("query"))
    messages = messages if isinstance(messages, list) else []
    # A replayed step may list its own answer and observation behind the messages that were sent.
    answer = str(step.get("response") or step.get("thought") or "")
    agents = [text_of(item.get("agent")) for item in messages if isinstance(item, dict)]
    clock = 2 * index + 1
    common: dict[str, Any] = {
        "trace_id": run,
        "conversation": run,
        "service": "swe-agent",
        "scope": "swe-agent",
        "agent_name": next((name for name in agents if name), None) or "main",
        "timeless": True,
        "dialects": ("swe_agent",),
    }
    prompt, output = context.builder(), context.builder()
    read_messages(messages, prompt)
    read_messages({"role": "assistant", "content": answer}, output)
    yield Reading(
        **common, span_id=f"{run}/{index}", start_ns=clock, end_ns=clock, ordinal=clock, kind=Operation.LLM,
        name="step", model=model, content=prompt.build(), output=output.build(),
    )  # fmt: skip
    action = str(step.get("action") or "").strip()
    if action:
        name, call_id = _call(step)
        use = start_tool(context, name or action.partition(" ")[0][:40], call_id, action)
        use.sketch = ()
        finish_tool(context, use, step.get("observation"))
        yield Reading(
            **common, span_id=f"{run}/{index}/action", start_ns=clock + 1, end_ns=clock + 1, ordinal=clock + 1,
            kind=Operation.TOOL, name=use.name, tool=use,
        )  # fmt: skip


def _call(step: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(tool, call id) of the step's own call, where it used function calling."""
    calls = load_json(step.get("tool_calls"))
    call = calls[0] if isinstance(calls, list) and calls else None
    if not isinstance(call, dict):
        return None, None
    function = call.get("function")
    return text_of(function.get("name")) if isinstance(function, dict) else None, text_of(call.get("id"))


FORMAT = Format("swe-agent", "trajectory of SWE-agent", _read, sniff_json=_sniff)
