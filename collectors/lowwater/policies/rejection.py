"""What refused a call: money, quota, rate, load, length, or compaction that fell behind.

Compaction debt looks like an exhausted quota: the governor refuses because the context that it keeps for the agent is
stale and full. It takes a record to tell: the last compaction is older than two scheduler ticks *and* what it left
still fills more than 0.85 of the window. Then waiting cures nothing; a compaction does.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.policies.errors import DebtClassificationError

__all__ = [
    "STALE_TICKS",
    "WATERMARK_RATIO",
    "Classification",
    "CompactionRecord",
    "RejectionClass",
    "classify_rejection",
]

STALE_TICKS = 2.0
"""Ticks after which a compaction record is stale: one may have just been missed, two may not. Compared strictly."""

WATERMARK_RATIO = 0.85
"""Part of the window above which what a compaction left counts as full. Compared strictly; lower values call healthy
long contexts debt, higher ones leave no room for the turn that is refused."""

CLOCK_TOLERANCE_SECONDS = 5.0
"""How far in the future a record may lie before its clock is not believed: NTP-disciplined hosts stay within this."""


class RejectionClass(enum.Enum):
    """Why a call was refused. The values are public: evidence and metric labels."""

    SPEND_CAP = "spend_cap"
    TOKEN_QUOTA = "token_quota"  # noqa: S105 - not a secret
    RATE_LIMIT = "rate_limit"
    OVERLOAD = "overload"
    CONTEXT_LENGTH = "context_length"
    COMPACTION_DEBT = "compaction_debt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """The last compaction of a context.

    Attributes:
        last_compaction_seconds: when, in Unix seconds of ``clock``; None if never or not known.
        resident_after_tokens: what it left.
        window_tokens: the window it left it in.
        clock: name of the clock domain; times of different domains are not compared.
    """

    last_compaction_seconds: float | None
    resident_after_tokens: int | None
    window_tokens: int | None
    clock: str = "event"


@dataclass(frozen=True, slots=True)
class Classification:
    """The verdict on a rejection.

    Attributes:
        cls: the class.
        reason: which evidence decided, a bounded vocabulary.
        action: what to do: ``request_compaction_then_retry``, ``back_off``, ``shorten_the_prompt``,
            ``raise_the_budget_or_stop``, ``wait_for_the_quota``, ``look_at_the_error``.
        evidence: the numbers that decided.
        record: how the compaction record was judged: ``stale_and_full``, ``fresh``, ``roomy``, ``missing``, ``future``,
            ``other_clock``, ``absurd``, ``no_tick``.
    """

    cls: RejectionClass
    reason: str
    action: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    record: str = "missing"

    def require_record(self) -> Classification:
        """This verdict, for callers that must not guess between debt and quota.

        Raises:
            DebtClassificationError: the record could not be used, so that debt was neither shown nor excluded.
        """
        if self.record in ("missing", "future", "other_clock", "absurd", "no_tick"):
            msg = (
                f"compaction debt cannot be told from {self.cls.value}: record {self.record}. "
                "Report compactions (lowwater.compaction) and declare lowwater.scheduler.tick_seconds."
            )
            raise DebtClassificationError(msg)
        return self


_ACTIONS = {
    RejectionClass.SPEND_CAP: "raise_the_budget_or_stop",
    RejectionClass.TOKEN_QUOTA: "wait_for_the_quota",
    RejectionClass.RATE_LIMIT: "back_off",
    RejectionClass.OVERLOAD: "back_off",
    RejectionClass.CONTEXT_LENGTH: "shorten_the_prompt",
    RejectionClass.COMPACTION_DEBT: "request_compaction_then_retry",
    RejectionClass.UNKNOWN: "look_at_the_error",
}

# What the provider said, most specific first: a code settles it, then a phrase, then the status.
_CODES: Mapping[str, RejectionClass] = {
    "insufficient_quota": RejectionClass.SPEND_CAP,
    "insufficient_credits": RejectionClass.SPEND_CAP,
    "billing_hard_limit_reached": RejectionClass.SPEND_CAP,
    "billing_error": RejectionClass.SPEND_CAP,
    "credit_balance_too_low": RejectionClass.SPEND_CAP,
    "payment_required": RejectionClass.SPEND_CAP,
    "context_length_exceeded": RejectionClass.CONTEXT_LENGTH,
    "request_too_large": RejectionClass.CONTEXT_LENGTH,
    "string_above_max_length": RejectionClass.CONTEXT_LENGTH,
    "quota_exceeded": RejectionClass.TOKEN_QUOTA,
    "usage_limit_reached": RejectionClass.TOKEN_QUOTA,
    "servicequotaexceededexception": RejectionClass.TOKEN_QUOTA,
    "rate_limit_exceeded": RejectionClass.RATE_LIMIT,
    "rate_limit_error": RejectionClass.RATE_LIMIT,
    "throttlingexception": RejectionClass.RATE_LIMIT,
    "toomanyrequestsexception": RejectionClass.RATE_LIMIT,
    "overloaded_error": RejectionClass.OVERLOAD,
    "server_overloaded": RejectionClass.OVERLOAD,
    "serviceunavailableexception": RejectionClass.OVERLOAD,
}

_SIGNALS: tuple[tuple[str, RejectionClass], ...] = (
    ("spend_cap", RejectionClass.SPEND_CAP),
    ("context_length", RejectionClass.CONTEXT_LENGTH),
    ("token_quota", RejectionClass.TOKEN_QUOTA),
    ("quota", RejectionClass.TOKEN_QUOTA),
    ("overloaded", RejectionClass.OVERLOAD),
    ("rate_limit", RejectionClass.RATE_LIMIT),
)

_EXCEPTIONS: Mapping[str, RejectionClass] = {
    "ratelimiterror": RejectionClass.RATE_LIMIT,
    "contextwindowexceedederror": RejectionClass.CONTEXT_LENGTH,
    "overloadederror": RejectionClass.OVERLOAD,
    "serviceunavailableerror": RejectionClass.OVERLOAD,
}
"""Classes that SDKs raise, by status alone (OpenAI's, Anthropic's and LiteLLM's): any code or phrase says more."""

_AMBIGUOUS = frozenset({"budget_exceeded", "budgetexceedederror", "resource_exhausted"})
"""Words that do not say which budget: a gateway's governor uses one for money, quota and stale context, and Gemini one for
rate and quota."""

_OWN_STATUSES: Mapping[int, RejectionClass] = {
    402: RejectionClass.SPEND_CAP,
    413: RejectionClass.CONTEXT_LENGTH,
    529: RejectionClass.OVERLOAD,
}
"""Statuses with one meaning: payment required, content too large, and Anthropic's overload."""

_SHARED_STATUSES: Mapping[int, RejectionClass] = {429: RejectionClass.RATE_LIMIT, 503: RejectionClass.OVERLOAD}
"""Statuses that a governor gives for anything."""

_FIRM = frozenset({RejectionClass.SPEND_CAP, RejectionClass.CONTEXT_LENGTH, RejectionClass.OVERLOAD})
"""Classes that a compaction record does not overrule when a code, phrase or status of their own named them."""


def classify_rejection(
    *,
    status: int | None = None,
    code: str | None = None,
    type: str | None = None,  # noqa: A002 - the attribute's name
    signals: Collection[str] = (),
    upstream: bool = False,
    now_seconds: float | None = None,
    record: CompactionRecord | None = None,
    scheduler_tick_seconds: float | None = None,
    clock: str = "event",
) -> Classification | None:
    """Classify a failed call, or None when the failure is no budget rejection at all.

    Args:
        status: HTTP status.
        code: the provider's error code or type.
        type: ``error.type`` or the exception's class.
        signals: recognised phrases, as `lowwater.collectors.failures` names them.
        upstream: a gateway says that the provider behind it refused; then the local governor's debt is no explanation.
        now_seconds: time of the rejection in Unix seconds of ``clock``.
        record: the context's last compaction, None if none is known.
        scheduler_tick_seconds: how often the compaction scheduler runs; None if unknown, and then debt cannot be shown.
        clock: clock domain of ``now_seconds``.

    Raises:
        ValueError: the tick is not positive.
    """
    if scheduler_tick_seconds is not None and not scheduler_tick_seconds > 0:
        msg = f"scheduler_tick_seconds must be positive, not {scheduler_tick_seconds}"
        raise ValueError(msg)
    stated, reason, named = _stated(status, code, type, frozenset(signals))
    if stated is None:
        return None
    verdict, evidence = _judge_record(now_seconds, record, scheduler_tick_seconds, clock)
    if upstream:
        evidence["upstream"] = True
    if verdict == "stale_and_full" and not upstream and not (named and stated in _FIRM):
        return Classification(
            RejectionClass.COMPACTION_DEBT,
            "stale_and_full",
            _ACTIONS[RejectionClass.COMPACTION_DEBT],
            {**evidence, "stated_class": stated.value},
            verdict,
        )
    return Classification(stated, reason, _ACTIONS[stated], evidence, verdict)


def _stated(
    status: int | None, code: str | None, kind: str | None, signals: frozenset[str]
) -> tuple[RejectionClass | None, str, bool]:
    """(class, reason, whether the error named it itself) of what the error says; None if it is no rejection."""
    words = [text.strip().lower() for text in (code, kind) if text]
    for word in words:
        found = _CODES.get(word)
        if found is not None:
            # One code for two limits: "tokens per ...", or OpenAI's type "tokens", makes a rate limit a token quota.
            if found is RejectionClass.RATE_LIMIT and ("token_quota" in signals or "tokens" in words):
                return RejectionClass.TOKEN_QUOTA, "token_quota", True
            return found, "code", True
    for signal, cls in _SIGNALS:
        if signal in signals:
            return cls, signal, True
    if (found := _OWN_STATUSES.get(status or 0)) is not None:
        return found, "status", True
    if not _AMBIGUOUS.isdisjoint((*words, *signals)):
        return RejectionClass.UNKNOWN, "budget_unnamed", False
    for word in words:
        if (found := _EXCEPTIONS.get(word)) is not None:
            return found, "exception", found is RejectionClass.CONTEXT_LENGTH
    found = _SHARED_STATUSES.get(status or 0)
    return (found, "status", False) if found is not None else (None, "", False)


def _judge_record(
    now: float | None, record: CompactionRecord | None, tick: float | None, clock: str
) -> tuple[str, dict[str, Any]]:
    """How the record is to be taken, and its numbers."""
    if record is None or record.last_compaction_seconds is None:
        return "missing", {"record": "missing"}
    if now is None or record.clock != clock:
        return "other_clock", {"record": "other_clock"}
    numbers = (record.last_compaction_seconds, now)
    resident, window = record.resident_after_tokens, record.window_tokens
    if (
        not all(map(math.isfinite, numbers))
        or resident is None
        or window is None
        or window <= 0
        or not 0 <= resident <= 2 * window
    ):
        return "absurd", {"record": "absurd"}
    staleness = now - record.last_compaction_seconds
    if staleness < -CLOCK_TOLERANCE_SECONDS:
        return "future", {"record": "future", "staleness_seconds": staleness}
    staleness = max(0.0, staleness)
    evidence = {
        "staleness_seconds": staleness,
        "tick_seconds": tick,
        "resident_after_ratio": resident / window,
    }
    if tick is None:
        return "no_tick", {**evidence, "record": "no_tick"}
    if not staleness > STALE_TICKS * tick:
        return "fresh", {**evidence, "record": "fresh"}
    if not resident / window > WATERMARK_RATIO:
        return "roomy", {**evidence, "record": "roomy"}
    return "stale_and_full", {**evidence, "record": "stale_and_full"}
