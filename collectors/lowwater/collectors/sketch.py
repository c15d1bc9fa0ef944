"""Signatures of prose, to see that two instructions ask for the same without keeping a word of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from lowwater.collectors.tokens import Hasher

__all__ = ["delegation", "similarity", "sketch"]

SIZE = 64
"""Positions of a signature: the similarity is estimated to within about 0.06 (one standard deviation)."""

_MAX_CHARACTERS = 4_000
"""An instruction differs from another in its first pages, and a signature costs a look at every word."""

_WORD = re.compile(r"\w+")
_MASK = (1 << 64) - 1


def sketch(text: str, hasher: Hasher, size: int = SIZE) -> tuple[int, ...]:
    """MinHash signature of the text's word bigrams, empty for fewer than two words.

    The share of equal positions of two signatures estimates the Jaccard similarity of the bigram sets.
    """
    words = _WORD.findall(text[:_MAX_CHARACTERS].lower())
    grams = {hasher.hash(f"{left} {right}") for left, right in pairwise(words)}
    if not grams:
        return ()
    # One keyed hash per bigram, spread by odd multipliers: as good as independent hashes for this purpose.
    return tuple(
        min(
            ((gram ^ (gram >> 29)) * (2 * position + 1) * 0x9E3779B97F4A7C15 + position * 0xD1B54A32D192ED03) & _MASK
            for gram in grams
        )
        & 0xFFFFFFFF
        for position in range(size)
    )


def similarity(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Estimated Jaccard similarity in [0, 1]; 0 where either is empty or their sizes differ."""
    if not one or len(one) != len(other):
        return 0.0
    return sum(left == right for left, right in zip(one, other, strict=True)) / len(one)


_INSTRUCTION_KEYS = frozenset(
    {"prompt", "instruction", "instructions", "message", "task", "request", "objective", "goal", "question", "query", "input",
     "assignment", "task_description", "user_prompt"}
)  # fmt: skip
_MATERIAL_KEYS = frozenset(
    {"command", "code", "path", "file_path", "filename", "content", "old_string", "new_string", "sql"}
)


def delegation(arguments: Any) -> str:
    """The instruction in a tool's arguments, where the tool is asked in prose as another agent is; else empty.

    A command, a file or an edit is no instruction, however wordy.
    """
    if isinstance(arguments, str):
        text = arguments
    elif isinstance(arguments, Mapping):
        if not _MATERIAL_KEYS.isdisjoint(arguments):
            return ""
        texts = [value for key, value in arguments.items() if key in _INSTRUCTION_KEYS and isinstance(value, str)]
        text = max(texts, key=len, default="")
    else:
        return ""
    return text if _is_prose(text) else ""


def _is_prose(text: str) -> bool:
    """At least forty characters and six words, and mostly letters and spaces."""
    if len(text) < 40 or len(text.split()) < 6:
        return False
    plain = sum(character.isalpha() or character in " ,.'\u2019\n" for character in text)
    return plain >= 0.85 * len(text)
