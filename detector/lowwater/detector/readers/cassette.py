"""Recorded provider traffic: cassettes of vcr (YAML), requests beside responses.

Shapes are told by the bodies: Anthropic Messages, OpenAI chat and Responses, and what gateways wrap around them; streamed
answers (server-sent events) are put together. Agents of Amazon Bedrock answer in an event stream, read in `bedrock`.
Cassettes have no times: calls are ordered by their place.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.failures import read_failure
from lowwater.collectors.messages import flatten, read_messages, read_system, read_tools
from lowwater.collectors.reading import Compaction, Failure, Operation, Reading, Usage
from lowwater.collectors.values import count, first, load_json, text_of
from lowwater.detector.readers import bedrock
from lowwater.detector.readers.base import Document, Format, Problems

__all__ = ["FORMAT"]

_MAX_BYTES = 64 << 20
_MAX_NODES = 5_000_000
"""Values in a cassette with its aliases written out; a few lines of nested aliases make billions."""
_RETRY_HEADERS: Mapping[str, float] = {"retry-after-ms": 0.001, "retry-after": 1.0}
_GZIP_MAGIC = b"\x1f\x8b"


def _sniff(head: bytes) -> bool:
    return head.lstrip().startswith((b"interactions:", b"version: 1\ninteractions:", b"---\ninteractions:"))


def _read(document: Document, context: ReadContext, problems: Problems) -> Iterator[Reading]:
    data = document.bytes()
    if len(data) > _MAX_BYTES:
        problems.add(document.name, f"byte {_MAX_BYTES}", "cassettes of more than 64 MiB are not read")
        return
    try:
        loaded = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark is not None else "byte 0"
        problems.add(document.name, place, "broken YAML; nothing of the cassette is read")
        return
    if not _within(loaded, {}, _MAX_NODES):
        problems.add(document.name, "byte 0", f"aliases that repeat themselves or make over {_MAX_NODES:,} values")
        return
    interactions = loaded.get("interactions") if isinstance(loaded, dict) else None
    if not isinstance(interactions, list):
        problems.add(document.name, "byte 0", "no interactions in the cassette")
        return
    # Of the whole file: cassettes of one test suite begin with the same request.
    run = f"cassette-{hashlib.blake2b(data, digest_size=8).hexdigest()}"
    for index, item in enumerate(interactions):
        request, response = _part(item, "request"), _part(item, "response")
        sent, raw = _body(request), _bytes(response)
        if bedrock.is_event_stream(raw):
            yield from bedrock.readings(raw, run, index, context, document.name, problems)
            continue
        answer = _answer(response, raw)
        if not isinstance(sent, dict):
            problems.add(document.name, f"interaction {index}", "no JSON request to a model")
            continue
        if any(key in sent for key in ("messages", "input", "contents")):
            call = _call(run, index, sent, answer, _status(response), context)
            if call.failure is not None and call.failure.retry_after_seconds is None:
                call.failure.retry_after_seconds = _retry_after(response.get("headers"))
            yield call


def _within(loaded: Any, sizes: dict[int, int], limit: int) -> bool:
    """Whether a loaded graph, written out as a tree, has at most so many values; one within itself has no end."""

    def size_of(value: Any) -> int:
        if not isinstance(value, dict | list | tuple | set):
            return 1
        known = sizes.get(id(value))
        if known is None:
            sizes[id(value)] = limit + 1  # met again below itself
            known = 1
            for part in value.values() if isinstance(value, dict) else value:
                known += size_of(part)
                if known > limit:
                    break
            sizes[id(value)] = known
        return known

    try:
        return size_of(loaded) <= limit
    except RecursionError:
        return False


def _part(item: Any, name: str) -> dict[str, Any]:
    part = item.get(name) if isinstance(item, dict) else None
    return part if isinstance(part, dict) else {}


def _body(message: Mapping[str, Any]) -> Any:
    if "parsed_body" in message:
        return message["parsed_body"]
    return load_json(_bytes(message).decode("utf-8", "replace").strip())


def _bytes(message: Mapping[str, Any]) -> bytes:
    data = _recorded(message)
    if not data.startswith(_GZIP_MAGIC):
        return data
    # Recorded as it was sent; what is damaged or does not fit is left out.
    try:
        return zlib.decompressobj(wbits=31).decompress(data, _MAX_BYTES)
    except zlib.error:
        return b""


def _recorded(message: Mapping[str, Any]) -> bytes:
    body = message.get("body")
    if isinstance(body, dict):
        if isinstance(body.get("base64_string"), str):
            try:
                return base64.b64decode(body["base64_string"])
            except (binascii.Error, ValueError):
                return b""
        body = body.get("string")
    return body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else b""


def _answer(response: Mapping[str, Any], raw: bytes) -> dict[str, Any]:
    parsed = response.get("parsed_body")
    if isinstance(parsed, dict):
        return parsed
    text = parsed if isinstance(parsed, str) else raw.decode("utf-8", "replace")
    if "data:" in text[:2000] and not text.lstrip().startswith("{"):
        return _from_events(text)
    body = load_json(text.strip())
    return body if isinstance(body, dict) else {}


def _from_events(text: str) -> dict[str, Any]:
    """An answer put together from its server-sent events: text joined, the last usage kept."""
    answer: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    spoken: list[str] = []
    for line in text.splitlines():
        event = load_json(line[5:].strip()) if line.startswith("data:") else None
        if not isinstance(event, dict):
            continue
        whole = event.get("message") or event.get("response")
        if isinstance(whole, dict):
            answer.update({key: value for key, value in whole.items() if key != "usage"})
        for usage in (event.get("usage"), whole.get("usage") if isinstance(whole, dict) else None):
            if isinstance(usage, dict):
                known = answer.get("usage")
                merged = dict(known) if isinstance(known, dict) else {}
                merged.update({key: value for key, value in usage.items() if value is not None})
                answer["usage"] = merged
        for key in ("id", "model"):
            if isinstance(event.get(key), str):
                answer.setdefault(key, event[key])
        if isinstance(event.get("content_block"), dict):
            blocks[count(event.get("index")) or 0] = dict(event["content_block"])
        _delta(event, blocks, spoken)
    if blocks:
        answer["content"] = [blocks[index] for index in sorted(blocks)]
    elif spoken:
        answer.setdefault("choices", [{"message": {"role": "assistant", "content": "".join(spoken)}}])
    return answer


def _delta(event: Mapping[str, Any], blocks: dict[int, dict[str, Any]], spoken: list[str]) -> None:
    delta = event.get("delta")
    if isinstance(delta, dict):
        block = blocks.get(count(event.get("index")) or 0)
        for key in ("text", "thinking", "partial_json"):
            if block is not None and isinstance(delta.get(key), str):
                name = "arguments" if key == "partial_json" else key
                block[name] = str(block.get(name) or "") + delta[key]
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        inner = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("content"), str):
            spoken.append(inner["content"])


def _status(response: Mapping[str, Any]) -> int | None:
    status = response.get("status")
    return count(status.get("code")) if isinstance(status, dict) else count(status)


def _retry_after(headers: Any) -> float | None:
    """Seconds that the response asked to wait; a date says nothing, as nobody knows when the recording was made."""
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if str(name).lower() in _RETRY_HEADERS:
            text = value[0] if isinstance(value, list) and value else value
            try:
                seconds = float(text) * _RETRY_HEADERS[str(name).lower()]
            except (TypeError, ValueError):
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    return None


def _call(
    run: str, index: int, sent: Mapping[str, Any], answer: Mapping[str, Any], status: int | None, context: ReadContext
) -> Reading:
    clock = 2 * index + 2
    usage, compaction = _usage(answer)
    blocks = answer.get("content")
    compacted = next(
        (
            part
            for part in (blocks if isinstance(blocks, list) else ())
            if isinstance(part, dict) and part.get("type") == "compaction"
        ),
        None,
    )
    output = context.builder()
    if answer and status in (None, 200):
        read_messages(answer.get("content") or answer.get("output") or answer, output, default_role="assistant")
    return Reading(
        trace_id=run, span_id=f"{run}/{index}", start_ns=clock - 1, end_ns=clock, ordinal=clock, timeless=True,
        kind=Operation.LLM, name="recorded call", dialects=("cassette",), scope="cassette", conversation=run,
        response_id=text_of(answer.get("id")), model=text_of(answer.get("model")) or text_of(sent.get("model")),
        usage=usage, compaction=compaction, content=_prompt(sent, compacted, context), output=output.build(),
        max_output_tokens=count(first(sent, "max_tokens", "max_completion_tokens", "max_output_tokens")) or None,
        trigger_tokens=_trigger(sent), failure=_failure(answer, status),
    )  # fmt: skip


def _prompt(sent: Mapping[str, Any], compacted: Mapping[str, Any] | None, context: ReadContext) -> Content | None:
    """What the call held: where the server compacted before it answered, the summary stands for the messages."""
    builder = context.builder()
    if sent.get("system") is not None or sent.get("instructions") is not None:
        read_system(first(sent, "system", "instructions"), builder)
    if sent.get("tools"):
        read_tools(sent["tools"], builder)
    if compacted is not None:
        builder.compaction()
        builder.add(BlockKind.SUMMARY, flatten(compacted.get("content")))
    else:
        read_messages(first(sent, "messages", "input", "contents"), builder)
    return builder.build()


def _usage(answer: Mapping[str, Any]) -> tuple[Usage | None, Compaction | None]:
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None, None
    compaction = None
    iterations = usage.get("iterations")
    for item in iterations if isinstance(iterations, list) else ():
        if isinstance(item, dict) and item.get("type") == "compaction":
            compaction = Compaction(before_tokens=count(item.get("input_tokens")), source="usage.iterations")
    details = first(usage, "prompt_tokens_details", "input_tokens_details")
    cached = count(details.get("cached_tokens")) if isinstance(details, dict) else None
    anthropic = "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage
    found = Usage(
        input_tokens=count(first(usage, "prompt_tokens", "input_tokens")),
        output_tokens=count(first(usage, "completion_tokens", "output_tokens")),
        total_tokens=count(usage.get("total_tokens")),
        cache_read_tokens=count(usage.get("cache_read_input_tokens")) if anthropic else cached,
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
        cache_inclusive=not anthropic,
    )
    return found, compaction


def _trigger(sent: Mapping[str, Any]) -> int | None:
    """Where the request asks the server to compact: Anthropic's edits, OpenAI's threshold."""
    management = sent.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else management
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, dict) and str(edit.get("type", "")).startswith("compact"):
            trigger = edit.get("trigger")
            value = trigger.get("value") if isinstance(trigger, dict) else edit.get("compact_threshold")
            return count(value) or None
    return None


def _failure(answer: Mapping[str, Any], status: int | None) -> Failure | None:
    error = answer.get("error")
    if status is not None and status < 400 and not isinstance(error, dict):
        return None
    if not isinstance(error, dict):
        return read_failure(None, None, status) if status is not None else None
    code = text_of(error.get("code"))
    return read_failure(
        text_of(error.get("type")),
        json.dumps({key: value for key, value in error.items() if key != "code"}, default=str),
        status if status is not None and status >= 400 else count(error.get("code")),
        code=None if code is None or code.isdigit() else code,
    )


FORMAT = Format("cassette", "recorded provider traffic (vcr YAML)", _read, sniff_bytes=_sniff)
