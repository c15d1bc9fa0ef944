"""JSON values in every layout, damage, and times."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.opening import Preview
from lowwater.detector.readers.values import dump_json, iterate_values, nanoseconds, parse_json, salvage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), min_size=1, max_size=5)


def values(data: bytes, problems: Problems | None = None) -> list[Any]:
    found = Problems() if problems is None else problems
    return [value for _, value in iterate_values(Preview("f", [data]), found)]


@given(OBJECTS, st.sampled_from([None, 1, 4]), st.sampled_from(["\n", "\r\n", "\n\n", ""]))
def test_every_layout_gives_the_same_values(objects: list[Any], indent: int | None, between: str) -> None:
    """One per line, indented one after another, or with nothing between them."""
    data = between.join(json.dumps(value, indent=indent) for value in objects).encode()
    problems = Problems()
    assert values(data, problems) == objects
    assert problems.total == 0


def test_bad_lines_are_counted_with_their_number() -> None:
    problems = Problems()
    data = b'{"a": 1}\n{"a": \n\nnot json\n{"a": 2}\n'
    assert values(data, problems) == [{"a": 1}, {"a": 2}]
    assert [problem.place for problem in problems.kept] == ["line 2", "line 4"]


def test_a_damaged_first_line_costs_only_itself() -> None:
    problems = Problems()
    assert values(b'ated": 1}}\n{"a": 1}\n{"a": 2}\n{"a": 3}', problems) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert problems.total == 1


def test_a_list_with_one_object_per_line_is_one_value() -> None:
    assert values(b'[\n{"a": 1},\n{"a": 2},\n{"a": 3}\n]\n') == [[{"a": 1}, {"a": 2}, {"a": 3}]]


def test_brackets_in_strings_do_not_count() -> None:
    objects = [{"a": '}{"\\', "b": "]["}, {"c": '\\\\"}'}]
    assert values("\n".join(json.dumps(o, indent=2) for o in objects).encode()) == objects


def test_brackets_in_an_unfinished_string_do_not_count() -> None:
    assert salvage(b'{"spans": [{"id": 1}, {"id": 2, "text": "if (x) { y[') == {"spans": [{"id": 1}, {"id": 2}]}


@given(OBJECTS, st.integers(1, 400))
def test_the_complete_part_of_a_cut_document_is_a_prefix(objects: list[Any], cut: int) -> None:
    """Whatever survives holds no element that the whole does not hold, in the same order."""
    data = json.dumps({"items": objects, "n": 1}).encode()
    found = salvage(data[: min(cut, len(data) - 1)])
    if isinstance(found, dict) and "items" in found:
        complete = found["items"][:-1]
        assert complete == objects[: len(complete)]


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    values(data)
    salvage(data)


def test_deep_nesting_is_a_problem_not_a_crash() -> None:
    problems = Problems()
    assert values(b"[" * 100_000 + b"]" * 100_000, problems) == []
    assert problems.total == 1
    assert values(b'{"a":' * 100_000) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-12-01T04:11:33.247170Z", 1_796_098_293_247_170_000),
        ("2026-12-01T04:11:33.123456789Z", 1_796_098_293_123_456_789),
        ("2026-12-01T05:11:33+01:00", 1_796_098_293_000_000_000),
        ("2026-12-01 04:11:33", 1_796_098_293_000_000_000),
        (1_796_098_293_247_170_001, 1_796_098_293_247_170_001),
        ("1796098293247170001", 1_796_098_293_247_170_001),
        (1_796_098_293.5, 1_796_098_293_500_000_000),
        (1_796_098_293_500, 1_796_098_293_500_000_000),
        (1_796_098_293_500_000, 1_796_098_293_500_000_000),
        (None, 0),
        (-5, 0),
        (float("nan"), 0),
        (2**70, 0),
        ("yesterday", 0),
        (True, 0),
        ("٣", 0),
        ([], 0),
    ],
)
def test_times(value: Any, expected: int) -> None:
    assert nanoseconds(value) == expected


@given(st.text(max_size=40) | st.integers() | st.floats())
def test_no_time_raises(value: Any) -> None:
    assert 0 <= nanoseconds(value) < 2**63


@given(JSON)
def test_dumped_json_parses_to_the_same(value: Any) -> None:
    assert parse_json(dump_json(value)) == value
    assert parse_json(dump_json({"big": 2**80})) == {"big": 2**80}


def test_a_cut_off_string_full_of_quotes_takes_linear_time() -> None:
    """JSON within a string, cut off: looking for an end from every quote would take hours."""
    data = b'{"resourceSpans": [{"a": "' + b'{\\"k\\": \\"v\\"}, ' * 100_000
    started = time.perf_counter()
    assert values(data)[0] is not None
    assert time.perf_counter() - started < 20
