"""What refused a call, and when compaction debt did: at the thresholds and with every kind of bad record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.policies.errors import DebtClassificationError
from lowwater.policies.rejection import Classification, CompactionRecord, RejectionClass, classify_rejection

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
        ({"record": CompactionRecord(1_016.0, 28_000, 32_000)}, "fresh"),  # exactly the tolerance of clocks
        ({"record": CompactionRecord(1_016.001, 28_000, 32_000)}, "future"),
        ({"record": CompactionRecord(1_000.0, 28_000, 32_000, clock="other")}, "other_clock"),
        ({"now_seconds": None}, "other_clock"),
        ({"record": CompactionRecord(1_000.0, None, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, -5, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, 64_001, 32_000)}, "absurd"),
        ({"record": CompactionRecord(1_000.0, 64_000, 32_000)}, "stale_and_full"),  # over the window, and believed
        ({"record": CompactionRecord(1_000.0, 0, 32_000)}, "roomy"),
        ({"record": CompactionRecord(1_000.0, 28_000, None)}, "absurd"),
        ({"now_seconds": float("inf")}, "absurd"),
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
        # a status that a governor gives for anything: the record explains it better
        ({"signals": (), "status": 429}, RejectionClass.COMPACTION_DEBT),
        ({"signals": (), "status": 503}, RejectionClass.COMPACTION_DEBT),
        # statuses with one meaning
        ({"signals": (), "status": 402}, RejectionClass.SPEND_CAP),
        ({"status": 402}, RejectionClass.SPEND_CAP),
        ({"signals": (), "status": 413}, RejectionClass.CONTEXT_LENGTH),
        ({"signals": (), "status": 529}, RejectionClass.OVERLOAD),
        # an orchestrator that asks with the error as it got it, without phrases
        ({"signals": (), "status": 400, "type": "budget_exceeded"}, RejectionClass.COMPACTION_DEBT),
        ({"signals": (), "status": 400, "type": "budget_exceeded", "record": None}, RejectionClass.UNKNOWN),
        ({"signals": (), "code": "RESOURCE_EXHAUSTED", "status": 429, "record": None}, RejectionClass.UNKNOWN),
        ({"signals": (), "type": "RateLimitError", "record": None}, RejectionClass.RATE_LIMIT),
        ({"signals": (), "type": "RateLimitError"}, RejectionClass.COMPACTION_DEBT),
        ({"signals": (), "type": "ContextWindowExceededError", "status": 400}, RejectionClass.CONTEXT_LENGTH),
        ({"signals": ("spend_cap",), "type": "RateLimitError", "status": 429}, RejectionClass.SPEND_CAP),
        ({"signals": (), "code": "rate_limit_exceeded", "type": "tokens", "record": None}, RejectionClass.TOKEN_QUOTA),
        ({"signals": (), "status": 401, "type": "AuthenticationError"}, None),
        ({"signals": (), "status": 400, "type": "invalid_request_error"}, None),
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


@pytest.mark.parametrize("signal", ["spend_cap", "context_length", "overloaded"])
def test_a_firm_class_is_not_overruled_and_an_unfirm_one_is(signal: str) -> None:
    firm, loose = classify(signals=(signal, "budget_exceeded")), classify(signals=("rate_limit", "budget_exceeded"))
    assert firm is not None
    assert firm.cls is not RejectionClass.COMPACTION_DEBT
    assert firm.record == "stale_and_full"  # judged, and said
    assert loose is not None
    assert (loose.cls, loose.evidence["stated_class"]) == (RejectionClass.COMPACTION_DEBT, "rate_limit")


def test_what_is_refused_upstream_is_not_explained_by_our_own_record() -> None:
    found = classify(upstream=True)
    assert found is not None
    assert (found.cls, found.action) == (RejectionClass.UNKNOWN, "look_at_the_error")
    assert found.evidence["upstream"] is True


@pytest.mark.parametrize(
    ("signal", "action"),
    [
        ("spend_cap", "raise_the_budget_or_stop"),
        ("context_length", "shorten_the_prompt"),
        ("token_quota", "wait_for_the_quota"),
        ("overloaded", "back_off"),
        ("rate_limit", "back_off"),
        ("budget_exceeded", "look_at_the_error"),
    ],
)
def test_without_debt_each_class_has_its_own_remedy(signal: str, action: str) -> None:
    found = classify(signals=(signal,), record=None)
    assert found is not None
    assert found.action == action


def test_a_clock_ahead_within_the_tolerance_counts_as_now() -> None:
    found = classify(record=CompactionRecord(1_014.0, 28_000, 32_000))
    assert found is not None
    assert found.evidence["staleness_seconds"] == 0.0


def test_the_same_other_clock_on_both_sides_is_compared() -> None:
    found = classify(record=CompactionRecord(1_000.0, 28_000, 32_000, clock="governor"), clock="governor")
    assert found is not None
    assert found.cls is RejectionClass.COMPACTION_DEBT


@pytest.mark.parametrize(
    ("changes", "record"),
    [
        ({"record": None}, "missing"),
        ({"record": CompactionRecord(2_000.0, 28_000, 32_000)}, "future"),
        ({"record": CompactionRecord(1_000.0, 28_000, 32_000, clock="other")}, "other_clock"),
        ({"record": CompactionRecord(1_000.0, -1, 32_000)}, "absurd"),
        ({"scheduler_tick_seconds": None}, "no_tick"),
    ],
)
def test_each_unusable_record_fails_the_gate_by_its_name(changes: dict[str, Any], record: str) -> None:
    found = classify(**changes)
    assert found is not None
    assert found.evidence["record"] == record
    with pytest.raises(DebtClassificationError, match=f"told from unknown: record {record}"):
        found.require_record()


@pytest.mark.parametrize("record", [CompactionRecord(1_009.0, 28_000, 32_000), CompactionRecord(1_000.0, 1, 32_000)])
def test_a_record_that_excludes_debt_passes_the_gate(record: CompactionRecord) -> None:
    found = classify(record=record)
    assert found is not None
    assert found.require_record() is found


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 64_000), st.integers(1, 100))
def test_more_staleness_never_turns_debt_into_something_else(
    staleness: int, more: int, resident: int, tick: int
) -> None:
    def is_debt(seconds: int) -> bool:
        record = CompactionRecord(1_000.0, resident, 32_000)
        return kind(now_seconds=1_000.0 + seconds, record=record, scheduler_tick_seconds=float(tick)) is (
            RejectionClass.COMPACTION_DEBT
        )

    assert is_debt(staleness) == (staleness > 2 * tick and 100 * resident > 85 * 32_000)
    assert is_debt(staleness + more) >= is_debt(staleness)


@given(st.integers(1, 20_000))
def test_exactly_the_watermark_is_not_full_in_any_window(part: int) -> None:
    """0.85 has no exact binary form; the comparison must not notice."""
    assert kind(record=CompactionRecord(1_000.0, 17 * part, 20 * part)) is RejectionClass.UNKNOWN


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


@pytest.mark.parametrize("tick", [0.0, -5.0, float("nan")])
def test_a_tick_must_be_positive(tick: float) -> None:
    with pytest.raises(ValueError, match="scheduler_tick_seconds"):
        classify(scheduler_tick_seconds=tick)
