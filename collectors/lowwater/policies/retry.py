"""How to retry, and how retries make a failure worse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Herd", "RetryDecision", "amplification", "enforce_retry_policy", "synchrony"]

MAX_ATTEMPTS = 4
"""Attempts at one call before giving up. The official SDKs make three; more only help where a limit resets soon."""

_FIRST_WAIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether and when to try again.

    Attributes:
        retry: whether to try again at all.
        wait_seconds: how long to wait first, 0 or more.
        compact_first: a compaction has to be requested and awaited before the retry.
        reason: ``compact_then_retry``, ``back_off``, ``waiting_cannot_cure``, ``attempts_exhausted``.
    """

    retry: bool
    wait_seconds: float
    compact_first: bool
    reason: str


_CURES: Mapping[str, str] = {
    # Waiting does not lower the debt; the compaction does, and then nothing is left to wait for.
    "compaction_debt": "compact_then_retry",
    "spend_cap": "waiting_cannot_cure",
    "context_length": "waiting_cannot_cure",
    "token_quota": "back_off",
    "rate_limit": "back_off",
    "overload": "back_off",
    "unknown": "back_off",
}
"""What helps against each class of rejection."""


def enforce_retry_policy(
    rejection_class: str, attempt: int, *, retry_after_seconds: float | None = None, jitter: float = 0.5
) -> RetryDecision:
    """Decide on the next attempt at a refused call.

    Args:
        rejection_class: a value of `RejectionClass`.
        attempt: attempts made so far, 1 or more.
        retry_after_seconds: what the provider asked to wait, honoured as a minimum of a backoff.
        jitter: the caller's random number in [0, 1): spreads callers over the second half of the wait.

    Raises:
        ValueError: an argument is out of range, or the class is none.
    """
    cure = _CURES.get(rejection_class)
    if cure is None:
        msg = f"rejection_class must be one of {', '.join(sorted(_CURES))}, not {rejection_class!r}"
        raise ValueError(msg)
    if attempt < 1:
        msg = f"attempt must be 1 or more, not {attempt}"
        raise ValueError(msg)
    if not 0 <= jitter < 1:
        msg = f"jitter must be in [0, 1), not {jitter}"
        raise ValueError(msg)
    if retry_after_seconds is not None and not (math.isfinite(retry_after_seconds) and retry_after_seconds >= 0):
        msg = f"retry_after_seconds must be finite and not negative, not {retry_after_seconds}"
        raise ValueError(msg)
    if cure == "waiting_cannot_cure":
        return RetryDecision(False, 0.0, False, cure)
    if attempt >= MAX_ATTEMPTS:
        return RetryDecision(False, 0.0, False, "attempts_exhausted")
    if cure == "compact_then_retry":
        return RetryDecision(True, 0.0, True, cure)
    backoff = _FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1)
    wait = backoff * (0.5 + jitter / 2)
    if retry_after_seconds is not None:
        # Everybody was told the same moment: the spread goes on top of it.
        wait = retry_after_seconds + wait * 0.5
    return RetryDecision(True, wait, False, cure)


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

    Raises:
        ValueError: ``min_callers`` is below 2, or ``window_seconds`` negative or not finite.
    """
    if min_callers < 2:
        msg = f"min_callers must be 2 or more, not {min_callers}"
        raise ValueError(msg)
    if not (math.isfinite(window_seconds) and window_seconds >= 0):
        msg = f"window_seconds must be finite and not negative, not {window_seconds}"
        raise ValueError(msg)
    if len({caller for _, caller in retries}) < min_callers:
        return None
    ordered = sorted(retries)
    awake: Counter[str] = Counter()
    together = largest = start = counted = 0  # the first `counted` retries are settled
    for end, (time, caller) in enumerate(ordered):
        awake[caller] += 1
        while time - ordered[start][0] > window_seconds:
            left = ordered[start][1]
            awake[left] -= 1
            if not awake[left]:
                del awake[left]
            start += 1
        if len(awake) >= min_callers:
            together += end + 1 - max(start, counted)
            counted = end + 1
            largest = max(largest, len(awake))
    return Herd(together / len(ordered), largest, len(ordered))
