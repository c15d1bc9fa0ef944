"""Most dialects differ in names only. A `TableDialect` is the table of its names, and a hook for what is odd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.chunks import is_retrieved
from lowwater.collectors.content import BlockKind
from lowwater.collectors.dialects.base import Draft
from lowwater.collectors.messages import flatten, names_only, read_messages, read_system, read_tools
from lowwater.collectors.reading import Operation, ToolUse
from lowwater.collectors.records import LogRecord, SpanRecord
from lowwater.collectors.sketch import delegation, sketch
from lowwater.collectors.tokens import estimate_tokens
from lowwater.collectors.values import canonical, first, is_withheld, load_json, text_of, unwrap

__all__ = ["Keys", "TableDialect", "read_content", "read_tool"]

Keys = tuple[str, ...]

_HEAD = frozenset({BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA})


@dataclass(frozen=True, slots=True)
class TableDialect:
    """One convention, by the names that it uses. Within a field the first key that is present wins.

    Attributes:
        name: permanent name, shown by ``lowwater doctor``.
        versions: what the names were read from.
        namespaces: first dotted parts of keys that mark the dialect.
        scopes: prefixes of instrumentation scopes that mark it, too.
        keys: exact keys that mark it.
        kinds: (key, value to operation): the first that is known wins.
        odd_kinds: tells the kind where no attribute does (by the span's name, say).
        texts: field of the reading to keys.
        counts: field of the reading to keys.
        usage: field of the usage to keys.
        cache_inclusive: what this dialect's producer always means by input; None if it does not settle it.
        system: keys of system instructions.
        tools: keys of tool definitions.
        messages: keys of the prompt.
        answers: keys of the answer.
        tool_name, tool_id, tool_arguments, tool_result, tool_type: keys on tool spans.
        documents: keys of retrieved documents.
        spans: hook for what a table cannot say; called before the table.
        logs: hook for log records; True if it read the record.
    """

    name: str
    versions: str
    namespaces: frozenset[str] = frozenset()
    scopes: Keys = ()
    keys: frozenset[str] = frozenset()
    kinds: tuple[tuple[str, Mapping[str, Operation]], ...] = ()
    odd_kinds: Callable[[SpanRecord], Operation | None] | None = None
    texts: Mapping[str, Keys] = field(default_factory=dict)
    counts: Mapping[str, Keys] = field(default_factory=dict)
    usage: Mapping[str, Keys] = field(default_factory=dict)
    cache_inclusive: bool | None = None
    system: Keys = ()
    tools: Keys = ()
    messages: Keys = ()
    answers: Keys = ()
    tool_name: Keys = ()
    tool_id: Keys = ()
    tool_arguments: Keys = ()
    tool_result: Keys = ()
    tool_type: Keys = ()
    documents: Keys = ()
    spans: Callable[[SpanRecord, Draft], None] | None = None
    logs: Callable[[LogRecord, Draft], bool] | None = None

    def matches(self, span: SpanRecord) -> bool:
        """Whether the span carries one of the dialect's marks."""
        if self.scopes and span.scope_name.startswith(self.scopes):
            return True
        if not self.keys.isdisjoint(span.attributes):
            return True
        return not self.namespaces.isdisjoint(span.namespaces())

    def kind_of(self, span: SpanRecord) -> Operation | None:
        """What the span is, as far as this dialect tells."""
        for key, values in self.kinds:
            kind = values.get(str(span.attributes.get(key) or "").lower())
            if kind is not None:
                return kind
        return None if self.odd_kinds is None else self.odd_kinds(span)

    def read(self, span: SpanRecord, draft: Draft) -> None:
        """Fill what the span states and nobody stated before."""
        if self.spans is not None:
            self.spans(span, draft)
        attributes, reading = span.attributes, draft.reading
        for name, keys in self.texts.items():
            draft.set(name, text_of(first(attributes, *keys)))
        for name, keys in self.counts.items():
            draft.tokens(name, first(attributes, *keys))
        draft.usage(**{name: first(attributes, *keys) for name, keys in self.usage.items()})
        if self.cache_inclusive is not None and reading.usage is not None:
            draft.usage(cache_inclusive=self.cache_inclusive)
        if reading.kind in (Operation.TOOL, Operation.RETRIEVAL):
            self._read_tool(span, draft)
        elif reading.kind is Operation.LLM:
            read_content(
                draft,
                system=first(attributes, *self.system),
                tools=first(attributes, *self.tools),
                messages=first(attributes, *self.messages),
                answer=first(attributes, *self.answers),
            )

    def read_log(self, record: LogRecord, draft: Draft) -> bool:
        """Read a log record; False if it is not of this dialect."""
        return self.logs is not None and self.logs(record, draft)

    def _read_tool(self, span: SpanRecord, draft: Draft) -> None:
        attributes = span.attributes
        documents = load_json(first(attributes, *self.documents)) if self.documents else None
        if isinstance(documents, list) and draft.reading.documents is None:
            draft.reading.documents = len(documents)
        result = first(attributes, *self.tool_result)
        read_tool(
            draft,
            name=text_of(first(attributes, *self.tool_name)),
            call_id=text_of(first(attributes, *self.tool_id)),
            arguments=first(attributes, *self.tool_arguments),
            result=result if result is not None else documents,
            kind=text_of(first(attributes, *self.tool_type)),
        )


def read_content(
    draft: Draft, *, system: Any = None, tools: Any = None, messages: Any = None, answer: Any = None
) -> None:
    """Reduce prompt and answer into the draft, unless a more trusted dialect gave them.

    The head (system, tools) and the messages may come from different dialects on one span: what one lacks the other
    completes, and no block is counted twice.
    """
    reading = draft.reading
    known = reading.content
    kinds = frozenset() if known is None else frozenset(map(BlockKind, known.kinds))
    if tools is not None and names_only(tools):
        tools = None
    head, rest = draft.context.builder(), draft.context.builder()
    if system is not None and BlockKind.SYSTEM not in kinds:
        read_system(system, head)
    if tools is not None and BlockKind.TOOL_SCHEMA not in kinds:
        read_tools(tools, head)
    if messages is not None and kinds <= _HEAD:
        named = {
            kind for kind, value in ((BlockKind.SYSTEM, system), (BlockKind.TOOL_SCHEMA, tools)) if value is not None
        }
        read_messages(messages, rest, known=kinds | named)
    for part, first_part in ((head.build(), True), (rest.build(), False)):
        if part is not None:
            known = part if known is None else part.extended(known) if first_part else known.extended(part)
    reading.content = known
    if reading.output is None and answer is not None:
        builder = draft.context.builder()
        read_messages(answer, builder, default_role="assistant")
        reading.output = builder.build()


def read_tool(
    draft: Draft,
    *,
    name: str | None,
    call_id: str | None = None,
    arguments: Any = None,
    result: Any = None,
    kind: str | None = None,
) -> None:
    """Reduce a tool's execution into the draft, or complete what a more trusted dialect left open."""
    reading, hasher = draft.reading, draft.context.hasher
    arguments, result = (None if is_withheld(value) else value for value in (arguments, result))
    tool = reading.tool
    if tool is None:
        if name is None and arguments is None and result is None and reading.kind is not Operation.RETRIEVAL:
            return
        tool = reading.tool = ToolUse(name or reading.name or "tool")
        tool.retriever = reading.kind is Operation.RETRIEVAL
    tool.retriever = tool.retriever or (kind or "").lower() == "datastore" or draft.context.is_retriever(tool.name)
    if not tool.call and call_id:
        tool.call = hasher.hash(call_id)
    if not tool.arguments and arguments is not None:
        tool.arguments = hasher.hash(canonical(arguments))
        instruction = delegation(unwrap(load_json(arguments)))
        if instruction:
            tool.sketch = sketch(instruction, hasher)
    if not tool.result and result is not None:
        text = flatten(load_json(result))
        tool.result = hasher.hash(text)
        tool.result_tokens = estimate_tokens(text)
        tool.retriever = tool.retriever or is_retrieved(text)
