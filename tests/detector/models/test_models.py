"""What is learned converges to what is true, and a censored sample does not teach."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.detector.models.calibration import Calibration
from lowwater.detector.models.requirement import RequirementModel
from lowwater.detector.models.scheduler import DebtShare, SchedulerTick
from lowwater.detector.models.trend import Trend


@given(st.integers(0, 40_000), st.floats(0.5, 2.5))
def test_calibration_finds_the_invisible_head_and_the_factor(head: int, factor: float) -> None:
    model = Calibration()
    for weight in range(200, 30_000, 900):
        model.learn_one(weight, round(head + factor * weight))
    assert model.factor() == pytest.approx(factor, rel=0.01)
    assert model.head_tokens() == pytest.approx(head, abs=60)


def test_one_call_is_taken_at_face_value() -> None:
    model = Calibration()
    model.learn_one(100, 24_869)
    assert (model.factor(), model.head_tokens()) == (1.0, 24_769)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30))
def test_the_head_is_never_negative(calls: list[tuple[int, int]]) -> None:
    model = Calibration()
    for weight, tokens in calls:
        model.learn_one(weight, tokens)
    assert model.head_tokens() >= 0
    assert 0.4 <= model.factor() <= 3.0


def test_the_requirement_is_a_high_quantile_after_enough_calls() -> None:
    model, rng = RequirementModel(0.95, min_calls=50), random.Random(1)
    for count in range(50):
        assert (model.estimate() is None) == (count < 50)
        model.learn_one(rng.randint(1_000, 2_000))
    estimate = model.estimate()
    assert estimate is not None
    assert 1_900 <= estimate <= 2_000


def test_the_requirement_follows_a_changed_task_mix() -> None:
    model = RequirementModel(0.95, min_calls=50)
    for _ in range(600):
        model.learn_one(9_000)
    for _ in range(600):
        model.learn_one(3_000)
    assert model.estimate() == pytest.approx(3_000, rel=0.01)


def test_the_tick_is_learned_from_gaps_and_not_before_ten() -> None:
    model, rng, now = SchedulerTick(), random.Random(2), 1_000.0
    for _ in range(10):
        assert model.estimate_seconds() is None
        now += 5.0 * rng.choice([1, 1, 2, 3])
        model.learn_one(now)
    for _ in range(40):
        now += 5.0 * rng.choice([1, 1, 2, 3])
        model.learn_one(now)
    assert model.estimate_seconds() == pytest.approx(5.0, abs=2.0)


def test_the_share_of_debt_shows_a_change() -> None:
    model = DebtShare()
    for _ in range(200):
        model.learn_one(False)
    assert model.share() < 0.01
    changed = False
    for _ in range(200):
        model.learn_one(True)
        changed = changed or model.changed
    assert changed
    assert model.share() > 0.9


def test_the_trend_fades() -> None:
    model = Trend()
    assert model.growth_tokens_per_turn() is None
    for _ in range(20):
        model.learn_one(1_000, 2.0)
    for _ in range(10):
        model.learn_one(100, None)
    growth = model.growth_tokens_per_turn()
    assert growth is not None
    assert growth < 200
    assert model.seconds_per_turn() == pytest.approx(2.0)


@pytest.mark.parametrize("model", [Calibration(), RequirementModel(), SchedulerTick(), Trend(), DebtShare()])
def test_models_survive_a_snapshot(model: object) -> None:
    assert pickle.loads(pickle.dumps(model)) is not None  # noqa: S301 - our own bytes
