"""What readers of session logs share: a prompt that grows, and tool calls that find their results.

A session log lists messages; the prompt of a call is everything before it. It is kept as one growing `Content` and
copied per call, which costs a few memory copies and no second look at any text.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from lowwater.collectors.content import BlockKind, Content, ContentBuilder
from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.messages import flatten
from lowwater.collectors.reading import ToolUse
from lowwater.collectors.sketch import delegation, sketch
from lowwater.collectors.tokens import estimate_tokens
from lowwater.collectors.values import canonical
from lowwater.detector.readers.values import dump_json

__all__ = ["Prompt", "digest", "finish_tool", "in_order", "one_block", "start_tool"]


class _Chained(Protocol):
    """A record that names the one before it."""

    time_ns: int
    id: str
    parent: str


_R = TypeVar("_R", bound=_Chained)


def in_order(records: Mapping[str, _R]) -> list[_R]:
    """Records by id, in order of time; within one instant parents before children, so that no order of lines matters."""

    def depth(record: _R) -> int:
        steps, above = 0, records.get(record.parent)
        while above is not None and above.time_ns == record.time_ns and steps < len(records):
            steps, above = steps + 1, records.get(above.parent)
        return steps

    return sorted(records.values(), key=lambda record: (record.time_ns, depth(record), record.id))


@dataclass(slots=True)
class Prompt:
    """What a session holds, message by message."""

    content: Content = field(default_factory=Content)

    def add(self, block: Content | None) -> None:
        """Append the blocks of one message."""
        if block is None:
            return
        held = self.content
        held.kinds += block.kinds
        held.weights.extend(block.weights)
        held.characters.extend(block.characters)
        held.keys.extend(block.keys)
        held.refs.extend(block.refs)
        held.messages += max(1, block.messages)

    def snapshot(self) -> Content | None:
        """A copy of what is held now; None when nothing is."""
        held = self.content
        if not len(held):
            return None
        return Content(
            held.kinds[:],
            array("I", held.weights),
            array("I", held.characters),
            array("Q", held.keys),
            array("Q", held.refs),
            held.compacted,
            held.messages,
        )

    def restart(self, *kept: Content | None) -> None:
        """Forget everything and go on with these blocks: what a compaction leaves."""
        self.content = Content()
        for block in kept:
            self.add(block)


def start_tool(context: ReadContext, name: str, call_id: str | None, arguments: Any) -> ToolUse:
    """A tool call as the model asked for it."""
    use = ToolUse(name, retriever=context.is_retriever(name))
    use.call = context.hasher.hash(call_id) if call_id else 0
    if arguments is not None:
        use.arguments = context.hasher.hash(canonical(arguments))
        instruction = delegation(arguments)
        if instruction:
            use.sketch = sketch(instruction, context.hasher)
    return use


def finish_tool(context: ReadContext, use: ToolUse, result: Any) -> None:
    """Add the result to a tool call."""
    text = flatten(result)
    use.result = context.hasher.hash(text)
    use.result_tokens = estimate_tokens(text)


def one_block(context: ReadContext, kind: BlockKind, text: str) -> Content | None:
    """Content of a single block."""
    builder: ContentBuilder = context.builder()
    builder.message()
    builder.add(kind, text)
    return builder.build()


def digest(value: Any) -> str:
    """Sixteen digits that identify a record by its content, whatever the order of its keys."""
    return hashlib.blake2b(dump_json(value), digest_size=8).hexdigest()
