"""Silent starvation of working memory, and the neighbours it must be told apart from.

::

    residual >= requirement                                  healthy
    residual <  requirement and utilization >= trigger       loud: every gauge shows it, compaction is due
    ... and a floor of at least the requirement is enforced  floor_enforced
    ... and releasing what is not held on to would cure it   transient
    ... and fewer than two claimants hold on                 transient (one large claim is released or compacted)
    ... and something was evicted lately                     transient
    otherwise                                                silent_starvation
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from lowwater.policies.errors import WorkingMemoryStarvationError

__all__ = ["Arbitration", "Claims", "Held", "Regime", "arbitrate"]

MEANINGFUL_SHARE = 0.02
"""Part of the window from which a claimant counts: below it, releasing the claim would move nothing. A tenth would
overlook a 2,000-token scratchpad in a 32k window, a thousandth would count every system prompt."""


class Regime(enum.Enum):
    """The state of a context at one call. The values are public."""

    HEALTHY = "healthy"
    TRANSIENT = "transient"
    LOUD = "loud"
    SILENT_STARVATION = "silent_starvation"
    FLOOR_ENFORCED = "floor_enforced"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Claims:
    """What takes room, in tokens; None is unknown.

    Attributes:
        reserved_tokens: all reservations, inside and outside the input.
        retrieval_tokens: retrieved chunks in the prompt.
        scratchpad_tokens: tool exchanges in the prompt.
        working_tokens: what working memory holds now.
    """

    reserved_tokens: int
    retrieval_tokens: int | None
    scratchpad_tokens: int | None
    working_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The sticky part of the claims: held over from the previous turn without release, in tokens."""

    reserved_tokens: int = 0
    retrieval_tokens: int = 0
    scratchpad_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Arbitration:
    """The verdict.

    Attributes:
        regime: the state.
        residual_tokens: the most that working memory may be; negative when the claims alone overrun the window.
        deficit_tokens: how much is missing to the requirement, 0 or more.
        utilization_ratio: input over ceiling.
        sticky_claimants: names of the claimants that hold on, largest first.
        deficit_after_release_tokens: what would be missing if only the sticky part were held.
        reason: which condition decided, a bounded vocabulary.
        advice: (action, tokens that it gives back), in the order of recoverability.
    """

    regime: Regime
    reason: str
    residual_tokens: int | None = None
    deficit_tokens: int | None = None
    utilization_ratio: float | None = None
    sticky_claimants: tuple[str, ...] = ()
    deficit_after_release_tokens: int | None = None
    advice: tuple[tuple[str, int], ...] = ()

    def require(self) -> Arbitration:
        """This verdict, as a gate before a turn.

        Raises:
            WorkingMemoryStarvationError: the working set cannot be held.
        """
        if self.regime is Regime.SILENT_STARVATION:
            steps = "; ".join(f"{action} ({tokens} tokens)" for action, tokens in self.advice) or "shrink the claims"
            msg = (
                f"working memory may hold {self.residual_tokens} tokens, {self.deficit_tokens} too few, "
                f"with {', '.join(self.sticky_claimants)} holding on: {steps}"
            )
            raise WorkingMemoryStarvationError(msg)
        return self


def arbitrate(
    *,
    ceiling_tokens: int | None,
    input_tokens: int | None,
    claims: Claims,
    held: Held,
    requirement_tokens: int | None,
    trigger_ratio: float,
    floor_tokens: int | None = None,
    evicted_recently: bool = False,
) -> Arbitration:
    """Judge one call of one context.

    Args:
        ceiling_tokens: what the window holds, positive; None if unknown.
        input_tokens: the whole prompt; None if unknown.
        claims: what takes room.
        held: the part of it that is held over from the previous turn.
        requirement_tokens: the working set that the task needs.
        trigger_ratio: where eviction or compaction starts, in (0, 1].
        floor_tokens: a working-memory floor that the agent enforces. Only one of at least the requirement protects it.
        evicted_recently: something was compacted or evicted within the window of turns.

    Raises:
        ValueError: a number is negative, not finite, or out of its range; the message names it.
    """
    _check(ceiling_tokens, input_tokens, claims, held, requirement_tokens, trigger_ratio, floor_tokens)
    if ceiling_tokens is None or input_tokens is None or requirement_tokens is None:
        missing = "ceiling" if ceiling_tokens is None else "input" if input_tokens is None else "requirement"
        return Arbitration(Regime.UNKNOWN, f"{missing}_unknown")
    utilization = input_tokens / ceiling_tokens
    if claims.retrieval_tokens is None or claims.scratchpad_tokens is None:
        return Arbitration(Regime.UNKNOWN, "split_unknown", utilization_ratio=utilization)
    residual = ceiling_tokens - claims.reserved_tokens - claims.retrieval_tokens - claims.scratchpad_tokens
    deficit = max(0, requirement_tokens - residual)
    releasable = max(0, claims.retrieval_tokens - held.retrieval_tokens) + max(
        0, claims.scratchpad_tokens - held.scratchpad_tokens
    )
    after_release = max(0, deficit - releasable)
    sticky = _sticky(ceiling_tokens, claims, held)
    if deficit == 0:
        regime, reason = Regime.HEALTHY, "residual_covers_requirement"
    elif utilization >= trigger_ratio:
        regime, reason = Regime.LOUD, "at_trigger"
    elif floor_tokens is not None and floor_tokens >= requirement_tokens:
        regime, reason = Regime.FLOOR_ENFORCED, "floor_covers_requirement"
    elif evicted_recently:
        regime, reason = Regime.TRANSIENT, "evicted_recently"
    elif after_release == 0:
        regime, reason = Regime.TRANSIENT, "release_would_cure"
    elif len(sticky) < 2:
        regime, reason = Regime.TRANSIENT, "single_claimant"
    else:
        regime, reason = Regime.SILENT_STARVATION, "sticky_claims_exceed_window"
    return Arbitration(
        regime,
        reason,
        residual,
        deficit,
        utilization,
        sticky,
        after_release,
        () if deficit == 0 else _advice(claims),
    )


def _sticky(ceiling: int, claims: Claims, held: Held) -> tuple[str, ...]:
    parts = {
        "reserved": min(claims.reserved_tokens, held.reserved_tokens),
        "retrieval": min(claims.retrieval_tokens or 0, held.retrieval_tokens),
        "scratchpad": min(claims.scratchpad_tokens or 0, held.scratchpad_tokens),
    }
    least = MEANINGFUL_SHARE * ceiling
    return tuple(
        sorted(
            (name for name, value in parts.items() if value > 0 and value >= least),
            key=lambda name: (-parts[name], name),
        )
    )


def _advice(claims: Claims) -> tuple[tuple[str, int], ...]:
    """What to release, what can be had again first; compaction of working memory is lossy and last."""
    steps = (
        ("release scratchpad: drop tool results that can be had by calling again", claims.scratchpad_tokens),
        ("deduplicate and release retrieval: query again when needed", claims.retrieval_tokens),
        ("compact working memory (lossy)", claims.working_tokens),
    )
    return tuple((action, tokens) for action, tokens in steps if tokens)


def _check(
    ceiling: int | None,
    used: int | None,
    claims: Claims,
    held: Held,
    requirement: int | None,
    trigger: float,
    floor: int | None,
) -> None:
    counts = {
        "input_tokens": used,
        "requirement_tokens": requirement,
        "floor_tokens": floor,
        "claims.reserved_tokens": claims.reserved_tokens,
        "claims.retrieval_tokens": claims.retrieval_tokens,
        "claims.scratchpad_tokens": claims.scratchpad_tokens,
        "claims.working_tokens": claims.working_tokens,
        "held.reserved_tokens": held.reserved_tokens,
        "held.retrieval_tokens": held.retrieval_tokens,
        "held.scratchpad_tokens": held.scratchpad_tokens,
    }
    for name, value in counts.items():
        if value is not None and value < 0:
            msg = f"{name} must not be negative, not {value}"
            raise ValueError(msg)
    if ceiling is not None and ceiling <= 0:
        msg = f"ceiling_tokens must be positive, not {ceiling}; pass None when it is not known"
        raise ValueError(msg)
    if not (math.isfinite(trigger) and 0 < trigger <= 1):
        msg = f"trigger_ratio must be in (0, 1], not {trigger}"
        raise ValueError(msg)
