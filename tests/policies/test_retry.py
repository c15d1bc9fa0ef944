"""How to retry, and when retries amplify or wake together."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.policies.rejection import RejectionClass
from lowwater.policies.retry import amplification, enforce_retry_policy, synchrony


def test_debt_is_compacted_then_retried_without_waiting() -> None:
    decision = enforce_retry_policy("compaction_debt", 1)
    assert (decision.retry, decision.wait_seconds, decision.compact_first) == (True, 0.0, True)


def test_debt_that_compaction_did_not_cure_is_given_up() -> None:
    decision = enforce_retry_policy("compaction_debt", 4)
    assert (decision.retry, decision.compact_first, decision.reason) == (False, False, "attempts_exhausted")


@pytest.mark.parametrize("cls", ["spend_cap", "context_length"])
def test_what_waiting_cannot_cure_is_not_retried(cls: str) -> None:
    assert not enforce_retry_policy(cls, 1).retry


@given(
    st.sampled_from([item.value for item in RejectionClass]),
    st.integers(1, 50),
    st.floats(0, 0.999),
    st.none() | st.floats(0, 600),
)
def test_a_retry_ends_and_honours_what_the_provider_asked(
    cls: str, attempt: int, jitter: float, asked: float | None
) -> None:
    decision = enforce_retry_policy(cls, attempt, retry_after_seconds=asked, jitter=jitter)
    if attempt >= 4:
        assert not decision.retry
    if decision.retry and not decision.compact_first:
        assert decision.wait_seconds >= (asked or 0.0)
        assert decision.wait_seconds <= (asked or 0.0) + 60.0
    if decision.retry:
        assert decision.compact_first == (cls == "compaction_debt")


def test_backoff_grows_with_every_attempt() -> None:
    waits = [enforce_retry_policy("overload", attempt, jitter=0.0).wait_seconds for attempt in (1, 2, 3)]
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("cls", "attempt", "asked", "jitter", "wait"),
    [
        ("rate_limit", 1, None, 0.0, 1.0),  # jitter spreads over the second half of 2, 4, 8 seconds
        ("rate_limit", 1, None, 0.5, 1.5),
        ("rate_limit", 3, None, 0.5, 6.0),
        ("token_quota", 1, 20.0, 0.0, 20.5),  # what was asked is a minimum, and the spread goes on top
        ("token_quota", 3, 20.0, 0.5, 23.0),
        ("overload", 1, 0.0, 0.0, 0.5),
        ("unknown", 2, None, 0.0, 2.0),
        ("compaction_debt", 3, None, 0.9, 0.0),
        ("compaction_debt", 3, 60.0, 0.9, 0.0),  # the time that a governor names is no cure for debt
    ],
)
def test_how_long_to_wait(cls: str, attempt: int, asked: float | None, jitter: float, wait: float) -> None:
    decision = enforce_retry_policy(cls, attempt, retry_after_seconds=asked, jitter=jitter)
    assert (decision.retry, decision.wait_seconds) == (True, wait)


@pytest.mark.parametrize(
    ("cls", "attempt", "reason"),
    [
        ("rate_limit", 3, "back_off"),
        ("rate_limit", 4, "attempts_exhausted"),
        ("compaction_debt", 3, "compact_then_retry"),
        ("compaction_debt", 4, "attempts_exhausted"),
        ("spend_cap", 4, "waiting_cannot_cure"),
        ("context_length", 1, "waiting_cannot_cure"),
    ],
)
def test_the_reason_is_named(cls: str, attempt: int, reason: str) -> None:
    assert enforce_retry_policy(cls, attempt).reason == reason


@given(st.integers(1, 3), st.floats(0, 0.999), st.floats(0, 0.999))
def test_more_jitter_never_shortens_the_wait(attempt: int, one: float, other: float) -> None:
    less, more = sorted((one, other))
    wait = {jitter: enforce_retry_policy("overload", attempt, jitter=jitter).wait_seconds for jitter in (less, more)}
    assert 2.0**attempt / 2 <= wait[less] <= wait[more] <= 2.0**attempt


def test_two_callers_told_the_same_moment_do_not_wake_together() -> None:
    waits = {
        enforce_retry_policy("rate_limit", 2, retry_after_seconds=20.0, jitter=jitter).wait_seconds
        for jitter in (0.1, 0.9)
    }
    assert len(waits) == 2


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_amplification_is_at_least_one(calls: int, extra: int) -> None:
    ratio = amplification(calls + extra, calls)
    assert ratio is not None
    assert ratio >= 1


def test_no_amplification_before_the_first_call() -> None:
    assert amplification(0, 0) is None
    assert amplification(3, 3) == 1.0


@pytest.mark.parametrize(
    ("retries", "share", "callers"),
    [
        ([(0.0, "a"), (1.0, "b")], 1.0, 2),  # exactly the window apart
        ([(0.0, "a"), (1.001, "b")], 0.0, 0),
        ([(0.0, "a"), (0.5, "a"), (9.0, "b")], 0.0, 0),  # one caller twice is no herd
        ([(0.0, "a"), (0.5, "a"), (1.0, "b"), (9.0, "b")], 0.75, 2),
        ([(0.0, "a"), (0.9, "b"), (1.8, "c")], 1.0, 2),  # a chain: all wake with another, never three at once
    ],
)
def test_who_wakes_together(retries: list[tuple[float, str]], share: float, callers: int) -> None:
    found = synchrony(retries, window_seconds=1.0, min_callers=2)
    assert found is not None
    assert (found.share_ratio, found.callers, found.retries) == (share, callers, len(retries))


def test_a_herd_is_told_from_independent_callers() -> None:
    herd = [(round(number / 10) * 10 + 0.01 * number, f"caller{number % 8}") for number in range(40)]
    found = synchrony(herd, window_seconds=1.0, min_callers=5)
    assert found is not None
    assert found.share_ratio > 0.8
    rng = random.Random(7)
    scattered = [(rng.uniform(0, 600), f"caller{number % 8}") for number in range(40)]
    quiet = synchrony(scattered, window_seconds=1.0, min_callers=5)
    assert quiet is not None
    assert quiet.share_ratio < 0.2


@given(
    st.lists(st.tuples(st.floats(0, 100), st.sampled_from("abcdefgh")), max_size=40), st.randoms(use_true_random=False)
)
def test_synchrony_is_a_share_and_does_not_depend_on_order(
    retries: list[tuple[float, str]], rng: random.Random
) -> None:
    found = synchrony(retries, window_seconds=1.0, min_callers=3)
    other = retries[:]
    rng.shuffle(other)
    assert synchrony(other, window_seconds=1.0, min_callers=3) == found
    if found is not None:
        assert 0.0 <= found.share_ratio <= 1.0
        assert (found.callers >= 3) == (found.share_ratio > 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcdef")), min_size=1, max_size=30), st.integers(2, 4))
def test_synchrony_agrees_with_looking_at_every_window(retries: list[tuple[int, str]], least: int) -> None:
    found = synchrony(retries, window_seconds=3.0, min_callers=least)
    windows = [[item for item in retries if start <= item[0] <= start + 3] for start, _ in retries]
    herds = [window for window in windows if len({caller for _, caller in window}) >= least]
    together = [item for item in retries if any(item in window for window in herds)]
    if found is None:
        assert len({caller for _, caller in retries}) < least
    else:
        assert found.share_ratio == len(together) / len(retries)
        assert found.callers == max((len({caller for _, caller in window}) for window in herds), default=0)


def test_one_caller_has_nobody_to_be_synchronous_with() -> None:
    assert synchrony([(1.0, "a"), (1.1, "a")], window_seconds=1.0, min_callers=2) is None


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"rejection_class.*'spendcap'"):
        enforce_retry_policy("spendcap", 1)
    with pytest.raises(ValueError, match="retry_after_seconds"):
        enforce_retry_policy("rate_limit", 1, retry_after_seconds=float("inf"))
    with pytest.raises(ValueError, match="min_callers"):
        synchrony([], window_seconds=1.0, min_callers=1)
    with pytest.raises(ValueError, match="window_seconds"):
        synchrony([], window_seconds=-1.0, min_callers=2)
    with pytest.raises(ValueError, match="attempt"):
        enforce_retry_policy("rate_limit", 0)
    with pytest.raises(ValueError, match="jitter"):
        enforce_retry_policy("rate_limit", 1, jitter=1.0)
    with pytest.raises(ValueError, match="retry_after_seconds"):
        enforce_retry_policy("rate_limit", 1, retry_after_seconds=-1.0)
