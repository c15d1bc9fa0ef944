"""All regimes, their boundaries, and the laws of arbitration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.policies.errors import WorkingMemoryStarvationError
from lowwater.policies.starvation import Arbitration, Claims, Held, Regime, arbitrate

STARVED: dict[str, Any] = {
    "ceiling_tokens": 28_700,
    "input_tokens": 17_500,
    "claims": Claims(reserved_tokens=11_200, retrieval_tokens=6_000, scratchpad_tokens=9_000, working_tokens=2_500),
    "held": Held(reserved_tokens=11_200, retrieval_tokens=6_000, scratchpad_tokens=9_000),
    "requirement_tokens": 6_000,
    "trigger_ratio": 0.90,
}


def judge(**changes: Any) -> Arbitration:
    return arbitrate(**{**STARVED, **changes})


def test_the_worked_example_of_the_incident() -> None:
    """17.5k at utilisation 0.61 is a window of 28.7k; with 11.2k reserved, 2.5k are left where 6k are needed."""
    verdict = judge()
    assert verdict.regime is Regime.SILENT_STARVATION
    assert verdict.residual_tokens == 2_500
    assert verdict.deficit_tokens == 3_500
    assert verdict.utilization_ratio == pytest.approx(0.61, abs=0.005)
    assert verdict.sticky_claimants == ("reserved", "scratchpad", "retrieval")


def test_the_published_rule_without_reservations_calls_the_incident_healthy() -> None:
    verdict = judge(claims=Claims(0, 6_000, 9_000, 2_500), held=Held(0, 6_000, 9_000))
    assert (verdict.regime, verdict.residual_tokens) == (Regime.HEALTHY, 13_700)


@pytest.mark.parametrize(
    ("changes", "regime"),
    [
        ({"requirement_tokens": 2_500}, Regime.HEALTHY),  # residual == requirement
        ({"requirement_tokens": 2_501}, Regime.SILENT_STARVATION),
        ({"trigger_ratio": 17_500 / 28_700}, Regime.LOUD),  # utilisation == trigger
        ({"trigger_ratio": 17_501 / 28_700}, Regime.SILENT_STARVATION),
        ({"floor_tokens": 6_000}, Regime.FLOOR_ENFORCED),
        ({"floor_tokens": 5_999}, Regime.SILENT_STARVATION),  # a floor below the need protects too little
        ({"evicted_recently": True}, Regime.TRANSIENT),
        ({"held": Held(11_200, 2_500, 9_000)}, Regime.TRANSIENT),  # releasing 3,500 covers the deficit exactly
        ({"held": Held(11_200, 2_501, 9_000)}, Regime.SILENT_STARVATION),
        ({"held": Held(11_200, 0, 0)}, Regime.TRANSIENT),
        ({"ceiling_tokens": None}, Regime.UNKNOWN),
        ({"input_tokens": None}, Regime.UNKNOWN),
        ({"requirement_tokens": None}, Regime.UNKNOWN),
        ({"claims": Claims(11_200, None, 9_000)}, Regime.UNKNOWN),
        ({"claims": Claims(11_200, 6_000, None)}, Regime.UNKNOWN),
        ({"claims": Claims(26_200, 0, 0), "held": Held(26_200, 0, 0)}, Regime.TRANSIENT),  # a single claimant
    ],
)
def test_every_regime_at_its_boundary(changes: dict[str, Any], regime: Regime) -> None:
    assert judge(**changes).regime is regime


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "sticky_claims_exceed_window"),
        ({"claims": Claims(26_200, 0, 0), "held": Held(26_200, 0, 0)}, "single_claimant"),
        ({"held": Held(11_200, 0, 0)}, "release_would_cure"),  # named before the single claimant
        ({"held": Held(11_200, 0, 0), "evicted_recently": True}, "evicted_recently"),
        ({"evicted_recently": True, "floor_tokens": 6_000}, "floor_covers_requirement"),
        ({"evicted_recently": True, "floor_tokens": 6_000, "trigger_ratio": 0.5}, "at_trigger"),
        ({"requirement_tokens": 0, "trigger_ratio": 0.5}, "residual_covers_requirement"),  # full, and content with it
        ({"ceiling_tokens": None, "input_tokens": None}, "ceiling_unknown"),
        ({"input_tokens": None, "requirement_tokens": None}, "input_unknown"),
        ({"requirement_tokens": None, "claims": Claims(0, None, None)}, "requirement_unknown"),
        ({"claims": Claims(11_200, 6_000, None)}, "split_unknown"),
    ],
)
def test_the_condition_that_decided_is_named(changes: dict[str, Any], reason: str) -> None:
    assert judge(**changes).reason == reason


@pytest.mark.parametrize(("scratchpad", "sticky"), [(574, True), (573, False)])
def test_a_claimant_counts_from_a_fiftieth_of_the_window(scratchpad: int, sticky: bool) -> None:
    """574 is exactly 0.02 of 28,700."""
    verdict = judge(claims=Claims(26_200, 0, scratchpad), held=Held(26_200, 0, scratchpad))
    assert ("scratchpad" in verdict.sticky_claimants) is sticky
    assert (verdict.regime is Regime.SILENT_STARVATION) is sticky


@given(st.integers(1, 20_000))
def test_exactly_a_fiftieth_counts_in_every_window(part: int) -> None:
    verdict = judge(ceiling_tokens=50 * part, claims=Claims(0, 0, part), held=Held(0, 0, part))
    assert verdict.sticky_claimants == ("scratchpad",)


def test_what_is_held_is_no_more_than_what_is_there() -> None:
    """A claim that shrank since the previous turn holds on with what is left of it."""
    verdict = judge(claims=Claims(11_200, 0, 15_000, 2_500), held=Held(11_200, 6_000, 15_000))
    assert verdict.sticky_claimants == ("scratchpad", "reserved")
    assert verdict.deficit_after_release_tokens == verdict.deficit_tokens == 3_500


def test_claims_beyond_the_window_leave_less_than_nothing() -> None:
    verdict = judge(claims=Claims(15_200, 6_000, 9_000), held=Held(15_200, 6_000, 9_000))
    assert (verdict.residual_tokens, verdict.deficit_tokens) == (-1_500, 7_500)


@given(st.integers(1, 1_000), st.integers(1, 400))
def test_utilisation_at_the_trigger_is_loud_whatever_the_decimals(thousandths: int, thousands: int) -> None:
    """0.7 x 11,000 is more than 7,700 in floating point; the comparison must not notice."""
    window = 1_000 * thousands
    claims, held = Claims(window, window, window), Held(window, window, window)
    facts: dict[str, Any] = {"ceiling_tokens": window, "claims": claims, "held": held}
    at = judge(**facts, input_tokens=thousandths * thousands, trigger_ratio=thousandths / 1_000)
    below = judge(**facts, input_tokens=thousandths * thousands - 1, trigger_ratio=thousandths / 1_000)
    assert (at.regime, below.regime) == (Regime.LOUD, Regime.SILENT_STARVATION)


def test_advice_comes_in_the_order_of_recoverability() -> None:
    assert [(action.split()[0], tokens) for action, tokens in judge().advice] == [
        ("release", 9_000), ("deduplicate", 6_000), ("compact", 2_500),
    ]  # fmt: skip
    assert judge(requirement_tokens=100).advice == ()


def test_the_gate_raises_with_numbers_and_remedy_only_when_starved() -> None:
    with pytest.raises(WorkingMemoryStarvationError, match=r"2500 tokens, 3500 too few.*release scratchpad"):
        judge().require()
    assert judge(requirement_tokens=1).require().regime is Regime.HEALTHY
    loud = judge(trigger_ratio=0.5)
    assert loud.require() is loud


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ceiling_tokens": 0}, "ceiling_tokens"),
        ({"input_tokens": -1}, "input_tokens"),
        ({"trigger_ratio": 0.0}, "trigger_ratio"),
        ({"trigger_ratio": 1.0001}, "trigger_ratio"),
        ({"trigger_ratio": float("nan")}, "trigger_ratio"),
        ({"trigger_ratio": float("inf")}, "trigger_ratio"),
        ({"requirement_tokens": -1}, "requirement_tokens"),
        ({"floor_tokens": -1}, "floor_tokens"),
        ({"claims": Claims(-1, 0, 0)}, r"claims\.reserved_tokens"),
        ({"claims": Claims(0, -1, 0)}, r"claims\.retrieval_tokens"),
        ({"claims": Claims(0, 0, -1)}, r"claims\.scratchpad_tokens"),
        ({"claims": Claims(0, 0, 0, -1)}, r"claims\.working_tokens"),
        ({"held": Held(-1, 0, 0)}, r"held\.reserved_tokens"),
        ({"held": Held(0, -1, 0)}, r"held\.retrieval_tokens"),
        ({"held": Held(0, 0, -1)}, r"held\.scratchpad_tokens"),
    ],
)
def test_impossible_numbers_are_named(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        judge(**changes)


TOKENS = st.integers(0, 200_000)
ARGUMENTS = st.fixed_dictionaries(
    {
        "ceiling_tokens": st.integers(1, 400_000),
        "input_tokens": TOKENS,
        "claims": st.builds(Claims, TOKENS, TOKENS, TOKENS, TOKENS),
        "held": st.builds(Held, TOKENS, TOKENS, TOKENS),
        "requirement_tokens": TOKENS,
        "trigger_ratio": st.floats(0.01, 1.0),
        "floor_tokens": st.none() | TOKENS,
        "evicted_recently": st.booleans(),
    }
)


@given(ARGUMENTS)
def test_silent_starvation_means_what_it_says(arguments: dict[str, Any]) -> None:
    verdict = arbitrate(**arguments)
    if verdict.regime is Regime.SILENT_STARVATION:
        assert verdict.residual_tokens is not None
        assert verdict.residual_tokens < arguments["requirement_tokens"]
        assert verdict.utilization_ratio is not None
        assert verdict.utilization_ratio < arguments["trigger_ratio"]
        assert not arguments["evicted_recently"]
        assert len(verdict.sticky_claimants) >= 2
        assert (verdict.deficit_after_release_tokens or 0) > 0
    assert (verdict.regime is Regime.HEALTHY) == (verdict.deficit_tokens == 0)


@given(ARGUMENTS, st.integers(0, 100_000))
def test_more_room_never_makes_a_healthy_context_anything_else(arguments: dict[str, Any], more: int) -> None:
    if arbitrate(**arguments).regime is Regime.HEALTHY:
        wider = {**arguments, "ceiling_tokens": arguments["ceiling_tokens"] + more}
        assert arbitrate(**wider).regime is Regime.HEALTHY


@given(ARGUMENTS, st.integers(0, 100_000))
def test_more_reservation_never_cures(arguments: dict[str, Any], more: int) -> None:
    claims = arguments["claims"]
    heavier = Claims(
        claims.reserved_tokens + more, claims.retrieval_tokens, claims.scratchpad_tokens, claims.working_tokens
    )
    if arbitrate(**arguments).regime is not Regime.HEALTHY:
        assert arbitrate(**{**arguments, "claims": heavier}).regime is not Regime.HEALTHY
