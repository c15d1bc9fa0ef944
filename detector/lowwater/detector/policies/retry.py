"""How to retry, and how retries make a failure worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Herd", "RetryDecision", "amplification", "enforce_retry_policy", "synchrony"]

MAX_ATTEMPTS = 4
"""Attempts at one call before giving up. The official SDKs make three; more only help where a limit resets soon."""

_FIRST_WAIT_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 60.0
"""Backoff doubles from two seconds (2, 4, 8, 16 in the reference incident) and stops growing at a minute, which is
how often per-minute limits reset."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether and when to try again.

    Attributes:
        retry: whether waiting can cure the rejection.
        wait_seconds: how long to wait first, 0 or more.
        compact_first: a compaction has to be requested and awaited before the retry.
        reason: a bounded vocabulary.
    """

    retry: bool
    wait_seconds: float
    compact_first: bool
    reason: str


def enforce_retry_policy(
    rejection_class: str, attempt: int, *, retry_after_seconds: float | None = None, jitter: float = 0.5
) -> RetryDecision:
    """Decide on the next attempt at a refused call.

    Args:
        rejection_class: a value of `RejectionClass`.
        attempt: attempts made so far, 1 or more.
        retry_after_seconds: what the provider asked to wait, honoured as a minimum.
        jitter: the caller's random number in [0, 1): spreads callers over the second half of the wait.

    Raises:
        ValueError: an argument is out of range.
    """
    if attempt < 1:
        msg = f"attempt must be 1 or more, not {attempt}"
        raise ValueError(msg)
    if not 0 <= jitter < 1:
        msg = f"jitter must be in [0, 1), not {jitter}"
        raise ValueError(msg)
    if retry_after_seconds is not None and not retry_after_seconds >= 0:
        msg = f"retry_after_seconds must not be negative, not {retry_after_seconds}"
        raise ValueError(msg)
    if rejection_class == "compaction_debt":
        # Waiting does not lower the debt; the compaction does, and then nothing is left to wait for.
        return RetryDecision(attempt < MAX_ATTEMPTS, 0.0, True, "compact_then_retry")
    if rejection_class in ("spend_cap", "context_length"):
        return RetryDecision(False, 0.0, False, "waiting_cannot_cure")
    if attempt >= MAX_ATTEMPTS:
        return RetryDecision(False, 0.0, False, "attempts_exhausted")
    backoff = min(_FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), _LONGEST_WAIT_SECONDS)
    wait = backoff * (0.5 + jitter / 2)
    if retry_after_seconds is not None:
        # Everybody was told the same moment: the spread goes on top of it.
        wait = retry_after_seconds + wait * 0.5
    return RetryDecision(True, wait, False, "back_off")


def amplification(attempts: int, logical_calls: int) -> float | None:
    """Attempts per logical call, 1 or more; None before the first call.

    >>> amplification(36, 1), amplification(0, 0)
    (36.0, None)
    """
    return attempts / logical_calls if logical_calls > 0 else None


@dataclass(frozen=True, slots=True)
class Herd:
    """How much retries wake together.

    Attributes:
        share_ratio: retries that woke within the window with enough others, in [0, 1].
        callers: distinct callers in the largest wake-up.
        retries: retries looked at.
    """

    share_ratio: float
    callers: int
    retries: int


def synchrony(retries: Sequence[tuple[float, str]], *, window_seconds: float, min_callers: int) -> Herd | None:
    """How many retries wake together with those of other callers.

    Args:
        retries: (time in seconds, caller), in any order.
        window_seconds: retries within this much of each other wake together.
        min_callers: distinct callers in one wake-up that make it a herd, 2 or more.

    Returns:
        None with fewer than ``min_callers`` distinct callers: nothing to be synchronous with.
    """
    if len({caller for _, caller in retries}) < min_callers:
        return None
    ordered = sorted(retries)
    together: set[int] = set()
    largest = 0
    start = 0
    for end, (time, _) in enumerate(ordered):
        while time - ordered[start][0] > window_seconds:
            start += 1
        callers = len({caller for _, caller in ordered[start : end + 1]})
        if callers >= min_callers:
            together.update(range(start, end + 1))
            largest = max(largest, callers)
    return Herd(len(together) / len(ordered), largest, len(ordered))
