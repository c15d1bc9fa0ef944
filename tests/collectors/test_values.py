"""Values as traces hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.values import MAX_TOKENS, canonical, count, first, is_index, load_json, text_of, unwrap


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0), (7, 7), ("2546", 2546), (" 12 ", 12), (12.0, 12), (MAX_TOKENS, MAX_TOKENS),
        (-1, None), (MAX_TOKENS + 1, None), (1.5, None), (float("nan"), None), (float("inf"), None), (1e300, None),
        (True, None), (None, None), ("", None), ("-1", None), ("1e3", None), ("null", None), ("12.0", None),
        ("²", None), ("١٢", None), ("9" * 5_000, None), ([1], None), ({}, None), (b"7", None),
    ],
)  # fmt: skip
def test_counts(value: Any, expected: int | None) -> None:
    assert count(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, "x"),
        ({"intValue": "12"}, 12),
        ({"intValue": "many"}, "many"),
        ({"boolValue": False}, False),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 1}]}}, ["a", 1]),
        ({"arrayValue": {}}, []),
        ({"values": [{"stringValue": "a"}]}, ["a"]),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 1.5}}, "odd"]}}, {"k": 1.5}),
        ({"stringValue": "x", "other": 1}, {"stringValue": "x", "other": 1}),
        ({"text": "x"}, {"text": "x"}),
        ("x", "x"),
    ],
)
def test_typed_values_are_unwrapped(value: Any, expected: Any) -> None:
    assert unwrap(value) == expected


def test_unwrapping_ends() -> None:
    value: Any = {"stringValue": "x"}
    for _ in range(10_000):
        value = {"arrayValue": {"values": [value]}}
    unwrap(value)


@pytest.mark.parametrize("value", ["plain", "", "[", '{"a": 1', "[1,]", 7, None, [1], "12", "true", "[" * 100_000])
def test_what_is_no_json_document_comes_back(value: Any) -> None:
    assert load_json(value) is value


def test_json_is_parsed() -> None:
    assert load_json(' [1, {"a": null}]') == [1, {"a": None}]
    assert load_json('"text"') == "text"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), ("None", None), ("undefined", None), ("", None), (7, "7"), (True, None), ({}, None)],
)
def test_texts(value: Any, expected: str | None) -> None:
    assert text_of(value) == expected


def test_the_first_that_is_present() -> None:
    assert first({"a": None, "b": 0, "c": 1}, "a", "b", "c") == 0
    assert first({}, "a") is None


@pytest.mark.parametrize(
    ("part", "expected"),
    [("0", True), ("17", True), ("1234567", False), ("²", False), ("٣", False), ("", False), ("-1", False)],
)
def test_positions_in_names(part: str, expected: bool) -> None:
    assert is_index(part) is expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_equal_arguments_have_one_text(value: dict[str, Any]) -> None:
    """Order of keys, spaces, and whether it came as text make no difference."""
    backwards = dict(reversed(value.items()))
    texts = {
        canonical(value),
        canonical(backwards),
        canonical(json.dumps(value)),
        canonical(json.dumps(value, indent=2)),
    }
    assert len(texts) == 1 or unwrap(value) is not value


@given(JSON, JSON)
def test_different_arguments_have_different_texts(one: Any, other: Any) -> None:
    if json.dumps({"a": one}, sort_keys=True) != json.dumps({"a": other}, sort_keys=True):
        assert canonical({"a": one, "b": 1}) != canonical({"a": other, "b": 1})


@given(st.dictionaries(st.integers() | st.text(), st.binary() | st.floats()))
def test_anything_has_a_text(value: Any) -> None:
    assert isinstance(canonical(value), str)
