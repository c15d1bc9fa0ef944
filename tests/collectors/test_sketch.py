"""Signatures of instructions: equal for equal words, an honest estimate in between, nothing for what is no prose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.sketch import SIZE, delegation, similarity, sketch
from lowwater.collectors.tokens import Hasher

HASHER = Hasher(b"tests")
PROSE = "Find out how many people live in Tokyo and name your source."


def test_words_make_the_signature_not_case_or_punctuation() -> None:
    assert sketch(PROSE, HASHER) == sketch(PROSE.upper().replace(" ", ",  "), HASHER)
    assert len(sketch(PROSE, HASHER)) == SIZE
    assert len(sketch(PROSE, HASHER, 8)) == 8


def test_order_matters() -> None:
    assert similarity(sketch("the dog bit the old man", HASHER), sketch("man old the bit dog the", HASHER)) < 0.5


def test_signatures_of_two_keys_do_not_match() -> None:
    """Hashes cannot be guessed by those who have not the key."""
    assert similarity(sketch(PROSE, HASHER), sketch(PROSE, Hasher(b"other"))) < 0.2


@pytest.mark.parametrize("text", ["", "word", "...", " \n"])
def test_less_than_two_words_have_none(text: str) -> None:
    assert sketch(text, HASHER) == ()


def test_nothing_is_similar_to_nothing() -> None:
    some = sketch(PROSE, HASHER)
    assert similarity((), ()) == similarity(some, ()) == similarity(some, some[:8]) == 0.0


@pytest.mark.parametrize("shared", [0, 8, 20, 32, 40])
def test_the_estimate_is_near_the_jaccard_similarity(shared: int) -> None:
    """Mean over fifty keys: a bias, as of positions that go together, would show."""
    one = [f"word{number}" for number in range(41)]
    other = one[: shared + 1] + [f"other{number}" for number in range(40 - shared)]
    true = shared / (80 - shared)
    hashers = [Hasher(bytes([number])) for number in range(50)]
    estimates = [similarity(sketch(" ".join(one), by), sketch(" ".join(other), by)) for by in hashers]
    assert sum(estimates) / 50 == pytest.approx(true, abs=0.04)
    assert max(abs(estimate - true) for estimate in estimates) < 0.25


@given(st.text(max_size=200), st.text(max_size=200))
def test_similarity_is_symmetric_and_one_for_the_same(one: str, other: str) -> None:
    left, right = sketch(one, HASHER), sketch(other, HASHER)
    assert similarity(left, right) == similarity(right, left)
    assert 0.0 <= similarity(left, right) <= 1.0
    assert similarity(left, left) == (1.0 if left else 0.0)


def test_a_book_costs_no_more_than_a_page() -> None:
    assert sketch("word by word " * 100_000, HASHER) == sketch("word by word " * 1_000, HASHER)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (PROSE, PROSE),
        ({"prompt": PROSE, "description": "count people"}, PROSE),
        ({"task": "short", "instructions": PROSE}, PROSE),
        ({"prompt": "too short to say"}, ""),
        ({"prompt": "x" * 80}, ""),
        ({"prompt": "{'a': [1, 2], 'b': {3: 4}, 'c': (5, 6)} [7] {8: 9} !!! ###"}, ""),
        ({"command": "ls", "prompt": PROSE}, ""),
        ({"path": "a.txt", "content": PROSE}, ""),
        ({"note": PROSE}, ""),
        ({"prompt": ["a"]}, ""),
        ([PROSE], ""),
        (None, ""),
    ],
)
def test_delegations(arguments: Any, expected: str) -> None:
    assert delegation(arguments) == expected
