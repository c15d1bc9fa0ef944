"""OpenTelemetry GenAI conventions of semconv 1.36 and before: content in events, or in indexed attributes.

Still the default of most instrumentations. The events come on the span or as log records, which are joined to it by
trace and span id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.dialects.table import TableDialect, read_content
from lowwater.collectors.messages import read_messages
from lowwater.collectors.reading import Operation
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.values import is_index, load_json

__all__ = ["DIALECT", "indexed_messages"]

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_INDEXED = ("gen_ai.prompt", "gen_ai.completion", "llm.request.functions.")
_WHOLE = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}


def indexed_messages(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]] | None:
    """Messages flattened into ``PREFIX.N.role``, ``PREFIX.N.content``, ``PREFIX.N.tool_calls.M.name`` and so on.

    Returns:
        The messages in the order of N, None where there are none.
    """
    start = prefix + "."
    messages: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[int, dict[str, Any]]] = {}
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        head, dot, rest = key[len(start) :].partition(".")
        if not dot or not is_index(head):
            continue
        position = int(head)
        if rest.startswith("tool_calls."):
            number, dot, field = rest[len("tool_calls.") :].partition(".")
            if dot and is_index(number):
                calls.setdefault(position, {}).setdefault(int(number), {})[field.rpartition(".")[2]] = value
                messages.setdefault(position, {})
        else:
            messages.setdefault(position, {})[rest] = load_json(value) if rest == "content" else value
    if not messages:
        return None
    for position, by_number in calls.items():
        messages[position]["tool_calls"] = [by_number[number] for number in sorted(by_number)]
    return [messages[position] for position in sorted(messages)]


def _span(span: SpanRecord, draft: Draft) -> None:
    if draft.reading.kind is not Operation.LLM:
        return
    attributes = span.attributes
    if not span.events and not any(key.startswith(_INDEXED) for key in attributes):
        return
    prompt = indexed_messages(attributes, "gen_ai.prompt") or attributes.get("gen_ai.prompt")
    answer = indexed_messages(attributes, "gen_ai.completion") or attributes.get("gen_ai.completion")
    builder, answers = draft.context.builder(), draft.context.builder()
    for event in span.events:
        _event(event.name, event.attributes, builder, answers)
    if draft.reading.content is None:
        draft.reading.content = builder.build()
    if draft.reading.output is None:
        draft.reading.output = answers.build()
    tools = indexed_messages(attributes, "llm.request.functions")
    read_content(draft, tools=tools, messages=prompt, answer=answer)


def _event(name: str, attributes: Mapping[str, Any], builder: Any, answers: Any) -> None:
    if name in _ROLES:
        read_messages({**attributes, "role": attributes.get("role") or _ROLES[name]}, builder)
    elif name == "gen_ai.choice":
        message = load_json(attributes.get("message", attributes))
        if isinstance(message, Mapping):
            message = {"role": "assistant", **message}
        read_messages(message, answers, default_role="assistant")
    elif name in _WHOLE:
        read_messages(attributes.get(_WHOLE[name]), answers if name.endswith("completion") else builder)


def _log(record: LogRecord, draft: Draft) -> bool:
    if record.event_name not in _ROLES and record.event_name not in _WHOLE and record.event_name != "gen_ai.choice":
        return False
    body = load_json(record.body)
    attributes = {**record.attributes, **(body if isinstance(body, Mapping) else {"content": body})}
    builder, answers = draft.context.builder(), draft.context.builder()
    _event(record.event_name, attributes, builder, answers)
    if isinstance(attributes.get("finish_reason"), str):
        draft.reading.finish_reasons = (attributes["finish_reason"][:40],)
    draft.reading.content, draft.reading.output = builder.build(), answers.build()
    return True


DIALECT = TableDialect(
    name="gen_ai_legacy",
    versions="semconv 1.28 to 1.36: events gen_ai.*.message and gen_ai.choice, gen_ai.prompt.N, gen_ai.completion.N",
    namespaces=frozenset({"gen_ai"}),
    kinds=(
        ("llm.request.type", {"chat": Operation.LLM, "completion": Operation.LLM, "embedding": Operation.EMBEDDING}),
    ),
    spans=_span,
    logs=_log,
)
