"""Blocks and estimates: what is kept of a text, and what is not."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.consumers import CONSUMERS, Consumer
from lowwater.collectors.content import BlockKind, Content, ContentBuilder
from lowwater.collectors.tokens import Hasher, estimate_tokens

BLOCKS = st.lists(st.tuples(st.sampled_from(BlockKind), st.text(max_size=40)), max_size=12)


def built(blocks: list[tuple[BlockKind, str]], hasher: Hasher | None = None) -> Content:
    builder = ContentBuilder(hasher or Hasher(b"tests"))
    for kind, text in blocks:
        builder.add(kind, text)
    content = builder.build()
    return Content() if content is None else content


def test_every_kind_has_a_consumer() -> None:
    assert {kind.consumer for kind in BlockKind} == set(CONSUMERS)
    assert BlockKind.TOOL_ARGUMENTS.consumer is Consumer.SCRATCHPAD


@given(BLOCKS)
def test_consumers_share_out_all_the_weight(blocks: list[tuple[BlockKind, str]]) -> None:
    content = built(blocks)
    totals = dict(zip(CONSUMERS, content.consumer_weights(), strict=True))
    assert sum(totals.values()) == sum(content.weights) == sum(estimate_tokens(text) for _, text in blocks)
    for kind, weight, characters, _, _ in content.blocks():
        assert 0 < weight <= totals[kind.consumer]
        assert characters > 0


@given(BLOCKS, BLOCKS)
def test_appending_is_building_in_one_go(one: list[tuple[BlockKind, str]], other: list[tuple[BlockKind, str]]) -> None:
    hasher = Hasher(b"tests")
    assert built(one, hasher).extended(built(other, hasher)) == built(one + other, hasher)


def test_no_text_and_no_id_survives() -> None:
    builder = ContentBuilder(Hasher(b"tests"), lambda name: True)
    builder.add(BlockKind.TOOL_RESULT, "the text of a block", call_id="the id of a call", tool="the name of a tool")
    kept = pickle.dumps(builder.build())
    assert not any(part in kept for part in (b"text of", b"id of", b"name of"))


def test_a_retriever_is_known_by_its_call() -> None:
    builder = ContentBuilder(Hasher(b"tests"), lambda name: name == "kb")
    builder.add(BlockKind.TOOL_ARGUMENTS, "q", call_id="1", tool="kb")
    builder.add(BlockKind.TOOL_RESULT, "chunk", call_id="1")
    builder.add(BlockKind.TOOL_RESULT, "other", call_id="2")
    content = builder.build()
    assert content is not None
    assert list(content.kinds) == [BlockKind.TOOL_ARGUMENTS, BlockKind.RETRIEVAL, BlockKind.TOOL_RESULT]


def test_a_call_without_text_is_still_a_call() -> None:
    content = built([(BlockKind.USER, "")])
    assert len(content) == 0
    builder = ContentBuilder(Hasher(b"tests"))
    builder.add(BlockKind.TOOL_RESULT, "", call_id="1")
    content_of_call = builder.build()
    assert content_of_call is not None
    assert list(content_of_call.weights) == [0]


@given(st.text(), st.text())
def test_keys_are_equal_where_texts_are(one: str, other: str) -> None:
    hasher = Hasher(b"tests")
    assert (hasher.hash(one) == hasher.hash(other)) is (one == other)
    assert hasher.hash(one) != Hasher(b"another").hash(one)
    assert 0 < hasher.hash(one) < 2**64
    assert hasher.weigh(one) == hasher.weigh(one) == (hasher.hash(one), estimate_tokens(one))


@given(st.text(min_size=1), st.text(min_size=1))
def test_estimates_grow_with_the_text_and_are_never_zero(one: str, other: str) -> None:
    assert estimate_tokens(one) >= 1
    assert estimate_tokens(f"{one} {other}") >= max(estimate_tokens(one), estimate_tokens(other)) - 1


@pytest.mark.parametrize(
    "unit",
    [
        "The quick brown fox jumps over the lazy dog. ",
        '{"id": 4711, "ok": true}\n',
        "1234567890",
        "東京の人口は何人ですか。",
        "Сколько людей? ",
    ],
)
def test_estimates_are_proportional(unit: str) -> None:
    """Shares of a prompt are what they are for: a text ten times as long weighs ten times as much."""
    assert estimate_tokens(unit * 1_000) == pytest.approx(10 * estimate_tokens(unit * 100), rel=0.01)


def test_a_digit_or_a_brace_weighs_more_than_a_letter() -> None:
    prose, digits, braces = "letters " * 100, "12345678" * 100, "{[(,;)]}" * 100
    assert estimate_tokens(prose) < estimate_tokens(digits) < estimate_tokens(braces)


def test_a_text_that_is_withheld_is_unknown_and_not_short() -> None:
    """Strands writes a mark in its place when content is not to be captured."""
    assert built([(BlockKind.SYSTEM, "[REDACTED]"), (BlockKind.USER, "<redacted>")]) == Content()
    assert len(built([(BlockKind.USER, "The password is [REDACTED]")])) == 1
