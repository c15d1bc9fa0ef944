"""Laws of the learned requirement: what lower bounds may do to it, and that it is bounded in value and in memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.detector.codec import Codec
from lowwater.detector.models.requirement import RequirementModel

TOKENS = st.integers(0, 2_000_000)
CALLS = st.lists(st.tuples(TOKENS, st.booleans()), min_size=1, max_size=300)
BIN = 1.011
"""Values that share a bin are told apart by nobody; half a bin and rounding to a token."""


def learned(calls: list[tuple[int, bool]], min_calls: int = 1) -> RequirementModel:
    model = RequirementModel(0.95, min_calls)
    for tokens, censored in calls:
        model.learn_one(tokens, censored=censored)
    model._estimate = None  # what is read is at most a thirty-second part old; the laws are about the whole
    return model


@given(CALLS)
def test_it_is_never_above_the_largest_seen(calls: list[tuple[int, bool]]) -> None:
    estimate = learned(calls).estimate()
    if estimate is not None:
        assert 0 <= estimate <= max(tokens for tokens, _ in calls)


@given(st.lists(st.tuples(TOKENS, st.booleans()), min_size=1, max_size=190))
def test_lower_bounds_never_lower_it(calls: list[tuple[int, bool]]) -> None:
    with_room = learned([call for call in calls if not call[1]]).estimate()
    if with_room is not None:
        assert (learned(calls).estimate() or 0) >= with_room


@given(st.lists(st.tuples(TOKENS, st.booleans(), st.integers(0, 5_000)), min_size=1, max_size=190))
def test_larger_needs_never_lower_it(calls: list[tuple[int, bool, int]]) -> None:
    less = learned([(tokens, False) for tokens, _, _ in calls]).estimate() or 0
    more = learned([(tokens + extra, False) for tokens, _, extra in calls]).estimate() or 0
    assert more >= less


@given(st.lists(st.integers(100, 2_000_000), min_size=1, max_size=190))
def test_without_lower_bounds_it_is_the_quantile(tokens: list[int]) -> None:
    ordered = sorted(tokens)
    wanted = ordered[-(-len(ordered) * 95 // 100) - 1]
    estimate = learned([(value, False) for value in tokens]).estimate()
    assert estimate is not None
    assert wanted / BIN <= estimate + 1
    assert estimate - 1 <= wanted * BIN


def test_the_weight_of_starved_calls_goes_to_those_that_held_more() -> None:
    # Nine small tasks in ten, and the large one starved at half of what it needs as often as not.
    model, draw = RequirementModel(), random.Random(3)
    left_out = RequirementModel()
    for _ in range(1_200):
        large = draw.random() < 0.08
        starved = large and draw.random() < 0.5
        tokens = 5_000 if starved else 10_000 if large else draw.randint(1_000, 2_000)
        model.learn_one(tokens, censored=starved)
        if not starved:
            left_out.learn_one(tokens)
    assert left_out.estimate() == pytest.approx(2_000, rel=0.03)
    assert model.estimate() == pytest.approx(10_000, rel=0.01)


def test_only_calls_with_room_make_it_known() -> None:
    model = RequirementModel(min_calls=50)
    for _ in range(1_000):
        model.learn_one(3_000, censored=True)
    assert model.estimate() is None
    assert model.calls == 0


def test_starving_for_long_does_not_make_it_forget() -> None:
    model = RequirementModel()
    for _ in range(100):
        model.learn_one(8_000)
    for _ in range(20_000):
        model.learn_one(2_000, censored=True)
    assert model.estimate() == pytest.approx(8_000, rel=0.01)


def test_a_change_is_followed_within_two_generations_and_tasks_that_differ_are_none() -> None:
    draw, model = random.Random(7), RequirementModel()
    for _ in range(1_200):
        model.learn_one(draw.randint(8_000, 10_000))
    assert len(model._exact) == 7  # six that are full, and the one that begins: nothing was forgotten
    for _ in range(400):
        model.learn_one(draw.randint(2_000, 3_000))
    assert model.estimate() == pytest.approx(2_950, rel=0.03)


def test_its_memory_is_bounded_and_survives_the_codec() -> None:
    draw, model, codec = random.Random(5), RequirementModel(), Codec()
    for _ in range(20_000):
        model.learn_one(round(draw.lognormvariate(8.5, 1.2)), censored=draw.random() < 0.3)
    data = codec.encode(model)
    assert len(data) < 16_384
    again = codec.decode(data)
    for _ in range(300):
        tokens, censored = draw.randint(1, 40_000), draw.random() < 0.3
        model.learn_one(tokens, censored=censored)
        again.learn_one(tokens, censored=censored)
        assert model.estimate() == again.estimate()
