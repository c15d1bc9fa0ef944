"""Agents of Amazon Bedrock: the trace that their answer streams, in AWS event-stream framing.

A frame is: total length, headers length (4 bytes each, big-endian), checksum, headers, payload, checksum. The payloads that
matter are JSON with ``trace.orchestrationTrace``: model invocations, and what a knowledge base returned.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.reading import Operation, Reading, ToolUse, Usage
from lowwater.collectors.tokens import estimate_tokens
from lowwater.collectors.values import count, load_json, text_of
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.values import nanoseconds

__all__ = ["is_event_stream", "readings"]

_PRELUDE = struct.Struct(">III")
_MIN_FRAME = 16


def is_event_stream(data: bytes) -> bool:
    """Whether bytes begin with a frame of an event stream."""
    return len(data) >= _MIN_FRAME and b":event-type" in data[:64]


def _frames(data: bytes) -> Iterator[bytes | None]:
    """Payload per frame; None, and the end, where a frame is cut off or its lengths make no sense."""
    place = 0
    while place < len(data):
        if len(data) - place < _MIN_FRAME:
            yield None
            return
        total, headers, _ = _PRELUDE.unpack_from(data, place)
        if total < _MIN_FRAME or headers > total - _MIN_FRAME or place + total > len(data):
            yield None
            return
        yield data[place + _PRELUDE.size + headers : place + total - 4]
        place += total


def readings(
    data: bytes, run: str, index: int, context: ReadContext, file: str, problems: Problems
) -> Iterator[Reading]:
    """Yield the model calls and retrievals of one answer."""
    sent: Mapping[str, Any] = {}
    references: list[str] = []
    for number, payload in enumerate(_frames(data)):
        if payload is None:
            problems.add(file, f"interaction {index}, frame {number}", "event stream cut off")
            return
        event = load_json(payload.decode("utf-8", "replace"))
        trace = event.get("trace") if isinstance(event, dict) else None
        steps = (
            next((value for value in trace.values() if isinstance(value, dict)), None)
            if isinstance(trace, dict)
            else None
        )
        if steps is None:
            continue
        common: dict[str, Any] = {
            "trace_id": f"{run}/{index}", "span_id": f"{run}/{index}/{number}",
            "conversation": text_of(event.get("sessionId")),
            "agent_name": text_of(event.get("agentCollaboratorName")), "agent_id": text_of(event.get("agentId")),
            "service": "bedrock-agent", "scope": "bedrock-agent", "dialects": ("bedrock_agents",),
        }  # fmt: skip
        found = _found(steps)
        if found:
            references += found
            tokens = sum(map(estimate_tokens, found))
            use = ToolUse(
                "knowledge base", result=context.hasher.hash("\n".join(found)), result_tokens=tokens, retriever=True
            )
            yield Reading(
                **common, **_times(steps.get("observation"), "knowledgeBaseLookupOutput", event), kind=Operation.RETRIEVAL,
                name="knowledge base", documents=len(found), tool=use,
            )  # fmt: skip
        if isinstance(steps.get("modelInvocationInput"), dict):
            sent = steps["modelInvocationInput"]
        done = steps.get("modelInvocationOutput")
        if isinstance(done, dict):
            yield _call(common, sent, done, references, event, context)


def _found(steps: Mapping[str, Any]) -> list[str]:
    observation = steps.get("observation")
    output = observation.get("knowledgeBaseLookupOutput") if isinstance(observation, dict) else None
    items = output.get("retrievedReferences") if isinstance(output, dict) else None
    contents = [item.get("content") for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    return [str(content.get("text") or "") for content in contents if isinstance(content, dict)]


def _call(
    common: dict[str, Any], sent: Mapping[str, Any], done: Mapping[str, Any], references: list[str],
    event: Mapping[str, Any], context: ReadContext,
) -> Reading:  # fmt: skip
    metadata = done.get("metadata")
    usage = metadata.get("usage") if isinstance(metadata, dict) else None
    settings = sent.get("inferenceConfiguration")
    return Reading(
        **common, **_times(done, None, event), kind=Operation.LLM, name="model invocation", provider="bedrock",
        model=text_of(sent.get("foundationModel")), content=_prompt(str(sent.get("text") or ""), references, context),
        usage=Usage(input_tokens=count(usage.get("inputTokens")), output_tokens=count(usage.get("outputTokens")))
        if isinstance(usage, dict) else None,
        max_output_tokens=count(settings.get("maximumLength")) or None if isinstance(settings, dict) else None,
    )  # fmt: skip


def _prompt(text: str, references: list[str], context: ReadContext) -> Content | None:
    """The prompt with the retrieved references told apart, wherever the template put them.

    The prompt is JSON inside JSON, so a reference may stand in it escaped.
    """
    builder = context.builder()
    rest = text
    for reference in references:
        for spelling in (
            reference,
            reference.replace("\n", "\\n").replace('"', '\\"'),
            reference.replace("\\", "\\\\").replace('"', '\\"'),
        ):
            before, found, after = rest.partition(spelling)
            if found and spelling:
                builder.add(BlockKind.RETRIEVAL, reference)
                rest = before + after
                break
    builder.add(BlockKind.SYSTEM, rest)
    return builder.build()


def _times(part: Any, inner: str | None, event: Mapping[str, Any]) -> dict[str, Any]:
    if inner is not None:
        part = part.get(inner) if isinstance(part, dict) else None
    metadata = part.get("metadata") if isinstance(part, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    end = nanoseconds(metadata.get("endTime")) or nanoseconds(event.get("eventTime"))
    start = nanoseconds(metadata.get("startTime")) or end
    return {"start_ns": min(start, end), "end_ns": end}
