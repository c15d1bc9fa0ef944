"""What refused a call, and when compaction debt did: at the thresholds and with every kind of bad record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.detector.errors import DebtClassificationError
from lowwater.detector.policies.rejection import Classification, CompactionRecord, RejectionClass, classify_rejection

STALE = CompactionRecord(last_compaction_seconds=1_000.0, resident_after_tokens=28_000, window_tokens=32_000)


def classify(**changes: Any) -> Classification | None:
    arguments: dict[str, Any] = {
        "signals": ("budget_exceeded",), "now_seconds": 1_011.0, "record": STALE, "scheduler_tick_seconds": 5.0,
    }  # fmt: skip
    return classify_rejection(**{**arguments, **changes})


def kind(**changes: Any) -> RejectionClass | None:
    found = classify(**changes)
    return None if found is None else found.cls


def test_stale_and_full_is_compaction_debt_and_asks_for_a_compaction() -> None:
    found = classify()
    assert found is not None
    assert (found.cls, found.action) == (RejectionClass.COMPACTION_DEBT, "request_compaction_then_retry")
    assert found.evidence["staleness_seconds"] == 11.0


@pytest.mark.parametrize(
    ("changes", "record"),
    [
        ({"now_seconds": 1_010.0}, "fresh"),  # exactly two ticks
        ({"now_seconds": 1_010.001}, "stale_and_full"),
        ({"record": CompactionRecord(1_000.0, 27_200, 32_000)}, "roomy"),  # exactly 0.85
        ({"record": CompactionRecord(1_000.0, 27_201, 32_000)}, "stale_and_full"),
        ({"record": None}, "missing"),
        ({"record": CompactionRecord(None, 28_000, 32_000)}, "missing"),
        ({"record": CompactionRecord(1_017.0, 28_000, 32_000)}, "future"),
        ({"record": CompactionRecord(1_014.0, 28_000, 32_000)}, "fresh"),  # within the tolerance of clocks
        ({"record": CompactionRecord(1_000.0, 28_000, 32_000, clock="other")}, "other_clock"),
        ({"now_seconds": None}, "other_clock"),
        ({"record": CompactionRecord(1_000.0, None, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, -5, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, 70_000, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, 28_000, 0)}, "absurd"),
        ({"record": CompactionRecord(float("nan"), 28_000, 32_000)}, "absurd"),
        ({"scheduler_tick_seconds": None}, "no_tick"),
    ],
)
def test_the_record_decides_at_its_thresholds(changes: dict[str, Any], record: str) -> None:
    found = classify(**changes)
    assert found is not None
    assert found.record == record
    assert (found.cls is RejectionClass.COMPACTION_DEBT) == (record == "stale_and_full")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"signals": (), "code": "insufficient_quota", "status": 429}, RejectionClass.SPEND_CAP),
        ({"signals": ("spend_cap",)}, RejectionClass.SPEND_CAP),
        ({"signals": ("rate_limit", "token_quota"), "record": None}, RejectionClass.TOKEN_QUOTA),
        ({"signals": (), "code": "rate_limit_exceeded", "record": None}, RejectionClass.RATE_LIMIT),
        ({"signals": (), "status": 429, "record": None}, RejectionClass.RATE_LIMIT),
        (
            {"signals": (), "status": 529},
            RejectionClass.COMPACTION_DEBT,
        ),  # only a status: the record explains it better
        ({"signals": ("overloaded",)}, RejectionClass.OVERLOAD),
        ({"signals": ("context_length",)}, RejectionClass.CONTEXT_LENGTH),
        ({"signals": ("rate_limit",), "upstream": True}, RejectionClass.RATE_LIMIT),  # the provider, not our governor
        ({"record": None}, RejectionClass.UNKNOWN),  # a budget that is not named
        ({"signals": (), "status": 400, "code": "unsupported_parameter"}, None),
        ({"signals": (), "status": 500}, None),
        ({"signals": ()}, None),
    ],
)
def test_what_the_error_says(changes: dict[str, Any], expected: RejectionClass | None) -> None:
    assert kind(**changes) is expected


def test_a_caller_that_must_not_guess_is_told_what_is_missing() -> None:
    found = classify(record=None)
    assert found is not None
    with pytest.raises(DebtClassificationError, match="record missing"):
        found.require_record()
    debt = classify()
    assert debt is not None
    assert debt.require_record() is debt


@given(
    st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 64_000), st.integers(1, 64_000), st.floats(0.1, 1_000),
    st.sampled_from([(), ("rate_limit",), ("budget_exceeded",), ("spend_cap",)]),
)  # fmt: skip
def test_debt_needs_both_staleness_and_fullness(
    now: float, last: float, resident: int, window: int, tick: float, signals: tuple[str, ...]
) -> None:
    found = classify(
        now_seconds=now,
        record=CompactionRecord(last, resident, window),
        scheduler_tick_seconds=tick,
        signals=signals,
        status=429,
    )
    assert found is not None
    if found.cls is RejectionClass.COMPACTION_DEBT:
        assert now - last > 2 * tick
        assert resident / window > 0.85


def test_a_tick_must_be_positive() -> None:
    with pytest.raises(ValueError, match="scheduler_tick_seconds"):
        classify(scheduler_tick_seconds=0.0)
