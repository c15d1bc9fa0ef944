"""Token estimates and keyed hashes of text.

An estimate is used for *shares* only: where the provider reports a total, the consumers are
scaled to it. Shares from characters alone are wrong by about eleven points on mixed text, code
and JSON, because a digit or a brace costs far more tokens than a letter; counting words, digit
groups, punctuation and non-ASCII separately brings that to a few points.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

__all__ = ["Hasher", "apportion", "estimate_tokens"]

# One scan of the text; the classes follow how byte-pair tokenizers pre-split it.
_WORDS = re.compile(r"[A-Za-z]+")
_DIGITS = re.compile(r"[0-9]+")
_PUNCTUATION = re.compile(r"[^\sA-Za-z0-9\x80-\U0010ffff]+")
_WIDE = re.compile(r"[\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_FOREIGN = re.compile(r"[\x80-\u2e7f]")
_BREAKS = re.compile(r"\n[ \t]*")

# Tokens per unit. A common word is one token with its leading space, a long one about one per six letters;
# digits go in groups of up to three; punctuation runs merge in pairs; Han and kana cost about one token each,
# other alphabets about one per two letters. Checked against cl100k on the corpora of tests/collectors/test_tokens.py.
_LETTERS_PER_TOKEN = 5.6
_DIGITS_PER_TOKEN = 2.6
_PUNCTUATION_PER_TOKEN = 1.9
_FOREIGN_PER_TOKEN = 2.1
_WIDE_TOKENS = 1.05


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text. At least 1 for non-empty text.

    >>> estimate_tokens("")
    0
    >>> 6 <= estimate_tokens("The quick brown fox jumps over the lazy dog.") <= 14
    True
    """
    if not text:
        return 0
    words = _WORDS.findall(text)
    letters = sum(map(len, words))
    digits = sum(map(len, _DIGITS.findall(text)))
    punctuation = sum(map(len, _PUNCTUATION.findall(text)))
    tokens = max(len(words) * 0.85, letters / _LETTERS_PER_TOKEN)
    tokens += digits / _DIGITS_PER_TOKEN + punctuation / _PUNCTUATION_PER_TOKEN
    tokens += len(_BREAKS.findall(text)) * 0.5
    if not text.isascii():
        tokens += len(_WIDE.findall(text)) * _WIDE_TOKENS + len(_FOREIGN.findall(text)) / _FOREIGN_PER_TOKEN
    return max(1, round(tokens))


def apportion(total: int, weights: Sequence[int | float]) -> list[int]:
    """Split a total into whole parts in proportion to weights, exactly (largest remainder).

    Args:
        total: tokens to split, 0 or more.
        weights: non-negative; at least one positive unless total is 0.

    Raises:
        ValueError: on a negative number, or no positive weight to carry a positive total.

    >>> apportion(10, [1, 1, 1]), apportion(0, [0, 0])
    ([4, 3, 3], [0, 0])
    """
    if total < 0 or any(weight < 0 for weight in weights):
        msg = f"cannot apportion {total} by {list(weights)}: negative"
        raise ValueError(msg)
    scale = sum(weights)
    if scale <= 0:
        if total == 0:
            return [0] * len(weights)
        msg = f"cannot apportion {total}: no positive weight"
        raise ValueError(msg)
    exact = [total * weight / scale for weight in weights]
    parts = [int(value) for value in exact]
    # Ties go to the earlier consumer, so that the result does not depend on float noise of equal weights.
    rest = sorted(range(len(parts)), key=lambda index: (parts[index] - exact[index], index))
    for index in rest[: total - sum(parts)]:
        parts[index] += 1
    return parts


_REMEMBERED = 1 << 16
"""Estimates remembered by hash, some 8 MB: conversations re-send their history on every call."""


class Hasher:
    """A keyed 64-bit hash of text, so that equality can be seen and text cannot be guessed.

    Args:
        key: up to 64 bytes. Without it a random key is made, good for one process; processes that
            must recognise each other's hashes share a key.
    """

    __slots__ = ("_key", "_weights")

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(32) if key is None else key
        self._weights: dict[int, int] = {}

    def hash(self, text: str) -> int:
        """Hash a text to 1 .. 2**64 - 1; 0 is left free to mean "none"."""
        data = text.encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=self._key).digest(), "big") or 1

    def weigh(self, text: str) -> tuple[int, int]:
        """(hash, estimated tokens) of a text; a text that was seen lately is not looked at twice."""
        key = self.hash(text)
        weight = self._weights.get(key)
        if weight is None:
            if len(self._weights) >= _REMEMBERED:
                self._weights.clear()
            weight = self._weights[key] = estimate_tokens(text)
        return key, weight
