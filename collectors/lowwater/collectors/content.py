"""A conversation reduced to counts and keyed hashes: what remains once the text is dropped.

A `Content` holds one entry per block (a message part, a tool schema, a tool result). It is
kept as parallel arrays, not objects, because a context of 500 blocks is re-sent on every call.
No character of the text survives in it.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lowwater.collectors.consumers import CONSUMERS, Consumer
from lowwater.collectors.tokens import Hasher
from lowwater.collectors.values import is_withheld

__all__ = ["BlockKind", "Content", "ContentBuilder"]


class BlockKind(enum.IntEnum):
    """What a block of a conversation is. The values are stored in snapshots: append, never renumber."""

    SYSTEM = 0
    TOOL_SCHEMA = 1
    USER = 2
    ASSISTANT = 3
    REASONING = 4
    TOOL_ARGUMENTS = 5
    TOOL_RESULT = 6
    RETRIEVAL = 7
    SUMMARY = 8
    """Text that stands for a compacted stretch of the conversation."""

    @property
    def consumer(self) -> Consumer:
        """Which consumer holds a block of this kind."""
        return _CONSUMER_OF[self]


_CONSUMER_OF: dict[BlockKind, Consumer] = {
    BlockKind.SYSTEM: Consumer.SYSTEM,
    BlockKind.TOOL_SCHEMA: Consumer.TOOLS,
    BlockKind.USER: Consumer.WORKING,
    BlockKind.ASSISTANT: Consumer.WORKING,
    BlockKind.REASONING: Consumer.WORKING,
    BlockKind.TOOL_ARGUMENTS: Consumer.SCRATCHPAD,
    BlockKind.TOOL_RESULT: Consumer.SCRATCHPAD,
    BlockKind.RETRIEVAL: Consumer.RETRIEVAL,
    BlockKind.SUMMARY: Consumer.WORKING,
}
_CONSUMER_INDEX: bytes = bytes(CONSUMERS.index(_CONSUMER_OF[kind]) for kind in BlockKind)


@dataclass(slots=True)
class Content:
    """The blocks of one prompt or one answer, in order, without their text.

    Attributes:
        kinds: one `BlockKind` value per block.
        weights: estimated tokens per block; only their shares are used when the provider's total is known.
        characters: characters per block.
        keys: 64-bit keyed hash of each block's text; equal text gives equal keys within one process key.
        refs: 64-bit keyed hash of the tool-call id of each block, 0 where it has none.
        compacted: a compaction block stood in the messages; what came before it is not held and not listed here.
        messages: messages read, for display only.
        retrievers: refs of the calls of tools that fetch from a store: a result that comes in a record of its own
            counts as retrieval, too.
    """

    kinds: bytearray = field(default_factory=bytearray)
    weights: array[int] = field(default_factory=lambda: array("I"))
    characters: array[int] = field(default_factory=lambda: array("I"))
    keys: array[int] = field(default_factory=lambda: array("Q"))
    refs: array[int] = field(default_factory=lambda: array("Q"))
    compacted: bool = False
    messages: int = 0
    retrievers: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.kinds)

    def consumer_weights(self) -> tuple[int, int, int, int, int]:
        """Estimated tokens per consumer, in the order of `CONSUMERS`."""
        totals = [0, 0, 0, 0, 0]
        for kind, weight in zip(self.kinds, self.weights, strict=True):
            totals[_CONSUMER_INDEX[kind]] += weight
        return (totals[0], totals[1], totals[2], totals[3], totals[4])

    def blocks(self) -> Iterator[tuple[BlockKind, int, int, int, int]]:
        """Yield (kind, weight, characters, key, ref) per block."""
        for kind, weight, characters, key, ref in zip(
            self.kinds, self.weights, self.characters, self.keys, self.refs, strict=True
        ):
            yield BlockKind(kind), weight, characters, key, ref

    def extended(self, other: Content) -> Content:
        """A new content with the blocks of ``other`` appended."""
        kinds, retrievers = other.kinds, self.retrievers | other.retrievers
        if self.retrievers:
            kinds = bytearray(
                BlockKind.RETRIEVAL if kind == BlockKind.TOOL_RESULT and ref in self.retrievers else kind
                for kind, ref in zip(other.kinds, other.refs, strict=True)
            )
        return Content(
            self.kinds + kinds,
            self.weights + other.weights,
            self.characters + other.characters,
            self.keys + other.keys,
            self.refs + other.refs,
            self.compacted or other.compacted,
            self.messages + other.messages,
            retrievers,
        )


class ContentBuilder:
    """Collects blocks while messages are read. The text is reduced at once and not kept.

    Args:
        hasher: the process's keyed hash.
        is_retriever: tells whether a tool of this name fetches from a store, so that its results
            count as retrieval and not as scratchpad.
    """

    def __init__(self, hasher: Hasher, is_retriever: Callable[[str], bool] | None = None) -> None:
        self.hasher = hasher
        self._is_retriever = is_retriever or (lambda name: False)
        self._content = Content()
        self._retriever_refs: set[int] = set()

    def add(self, kind: BlockKind, text: str, *, call_id: str | None = None, tool: str | None = None) -> None:
        """Reduce one block of text and append it. Empty text without a tool-call id adds nothing, nor does a withheld one.

        Args:
            kind: what the block is.
            text: its text; not retained.
            call_id: the tool call that it belongs to.
            tool: the tool's name, on arguments and results. A result of a retriever becomes `BlockKind.RETRIEVAL`,
                also when only the call's arguments carried the name.
        """
        if (not text and call_id is None) or is_withheld(text):
            return
        ref = self.hasher.hash(call_id) if call_id else 0
        if tool is not None and self._is_retriever(tool):
            if ref:
                self._retriever_refs.add(ref)
            if kind is BlockKind.TOOL_RESULT:
                kind = BlockKind.RETRIEVAL
        elif kind is BlockKind.TOOL_RESULT and ref and ref in self._retriever_refs:
            kind = BlockKind.RETRIEVAL
        content = self._content
        content.kinds.append(kind)
        key, weight = self.hasher.weigh(text)
        content.weights.append(min(weight, 0xFFFFFFFF))
        content.characters.append(min(len(text), 0xFFFFFFFF))
        content.keys.append(key)
        content.refs.append(ref)

    def message(self) -> None:
        """Count one message."""
        self._content.messages += 1

    def compaction(self) -> None:
        """A compaction block was met: forget all blocks before it, except system text and tool schemas."""
        old, new = self._content, Content(compacted=True, messages=self._content.messages)
        for index, kind in enumerate(old.kinds):
            if kind in (BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA):
                new.kinds.append(kind)
                new.weights.append(old.weights[index])
                new.characters.append(old.characters[index])
                new.keys.append(old.keys[index])
                new.refs.append(old.refs[index])
        self._content = new

    def build(self) -> Content | None:
        """The content, or None when nothing was added: unknown is not empty."""
        if self._retriever_refs:
            self._content.retrievers = frozenset(self._retriever_refs)
        return self._content if len(self._content) or self._content.compacted else None
