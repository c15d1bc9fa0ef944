"""Silent starvation of a context: the residual stays below the requirement while every gauge is calm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowwater.collectors.consumers import Consumer, Provenance
from lowwater.collectors.content import Content
from lowwater.detector.composer import RoleState
from lowwater.detector.config import DetectorConfig
from lowwater.detector.events import Observation
from lowwater.detector.findings import Advice, Finding, Kind, Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.base import Episode, Signal, about, span_key
from lowwater.policies.starvation import Arbitration, Claims, Held, Regime, arbitrate

__all__ = ["StarvationOperator", "StarvationState"]

_DECIDING = (
    "ceiling_tokens",
    "input_tokens",
    "retrieval_tokens",
    "scratchpad_tokens",
    "requirement_tokens",
)

_LOWEST_TRIGGER_RATIO = 0.65
"""The earliest trigger of any framework that is known (a buffer of 35 % of the window, copilot-cli#3539). Below it an
assumed trigger cannot be what makes a call silent rather than loud; above it, it can, and then it never pages."""


_INFERRED_PATIENCE = 2
"""How many times longer a deficit must last when the split is inferred from usage alone: a large result that came and went
looks like a held one until the next drop, and what a framework released is seen late."""


@dataclass(slots=True)
class StarvationState:
    """State of one context."""

    episode: Episode = field(default_factory=Episode)
    last_eviction_turn: int | None = None
    working: dict[int, int] = field(default_factory=dict)


class StarvationOperator:
    """Operator keyed by context: sets the regime of each entry and keeps the starvation episode."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config

    def initial(self) -> StarvationState:
        """State of a context that was never seen."""
        return StarvationState()

    def step(self, state: StarvationState, role: RoleState, seen: Observation) -> Iterator[Finding]:
        """Judge the next turn; a healthy one teaches the role's requirement."""
        entry = seen.entry
        if entry.rollup:
            return
        if entry.compacted:
            state.last_eviction_turn = entry.turn
        verdict = self._judge(state, seen)
        entry.regime = verdict.regime.value
        lost = _lost_working_tokens(state, seen.content)
        if entry.working_tokens and verdict.regime is not Regime.UNKNOWN:
            role.requirement.learn_one(entry.working_tokens, censored=_censored(state, entry, verdict))
        if verdict.regime is Regime.UNKNOWN and state.episode.firing is None:
            return
        signal = self._signal(state, seen, verdict, lost) if verdict.regime is Regime.SILENT_STARVATION else None
        yield from state.episode.step(
            Kind.SILENT_STARVATION,
            span_key(seen),
            signal,
            about(seen),
            fire_after=self._fire_after(seen),
            resolve_after=self._config.resolve_after_turns,
        )

    def _fire_after(self, seen: Observation) -> int:
        turns = self._config.fire_after_turns
        inferred = seen.entry.provenance.get("scratchpad_tokens", Provenance.UNKNOWN) <= Provenance.INFERRED
        return turns * _INFERRED_PATIENCE if inferred else turns

    def _judge(self, state: StarvationState, seen: Observation) -> Arbitration:
        entry = seen.entry
        window = self._config.eviction_window_turns
        evicted = state.last_eviction_turn is not None and entry.turn - state.last_eviction_turn < window
        floor = seen.turn.call.reading.declared.get("working_set.floor_tokens")
        if not isinstance(floor, int):
            floor = self._config.declared("floor_tokens", entry.service, entry.agent, entry.model)
        held = entry.held
        return arbitrate(
            ceiling_tokens=entry.ceiling_tokens,
            input_tokens=entry.input_tokens,
            claims=Claims(
                reserved_tokens=entry.reserved.total(),
                retrieval_tokens=entry.retrieval_tokens,
                scratchpad_tokens=entry.scratchpad_tokens,
                working_tokens=entry.working_tokens,
            ),
            held=Held(
                reserved_tokens=entry.reserved.total(),
                retrieval_tokens=held.get(Consumer.RETRIEVAL.value, 0),
                scratchpad_tokens=held.get(Consumer.SCRATCHPAD.value, 0),
            ),
            requirement_tokens=_required(entry),
            trigger_ratio=entry.trigger_ratio if entry.trigger_ratio is not None else self._config.trigger_ratio,
            floor_tokens=floor,
            evicted_recently=evicted,
        )

    def _signal(self, state: StarvationState, seen: Observation, verdict: Arbitration, lost: int | None) -> Signal:
        entry = seen.entry
        evidence: dict[str, object] = {
            "residual_tokens": verdict.residual_tokens,
            "requirement_tokens": entry.requirement_tokens,
            "deficit_tokens": verdict.deficit_tokens,
            "utilization_ratio": None if entry.utilization_ratio is None else round(entry.utilization_ratio, 4),
            "trigger_ratio": entry.trigger_ratio,
            "ceiling_tokens": entry.ceiling_tokens,
            "reserved_tokens": entry.reserved.total(),
            "retrieval_tokens": entry.retrieval_tokens,
            "scratchpad_tokens": entry.scratchpad_tokens,
            "working_tokens": entry.working_tokens,
            "sticky_claimants": list(verdict.sticky_claimants),
            "starved_turns": state.episode.bad + 1,
        }
        if lost:
            evidence["working_lost_tokens"] = lost
        if seen.repetition is not None:
            evidence["repetition"] = seen.repetition
        severe = (verdict.deficit_tokens or 0) >= self._config.page_deficit_ratio * (entry.requirement_tokens or 0)
        lasting = state.episode.bad + 1 >= self._config.page_after_turns
        worse = severe and (lasting or seen.repetition in ("loop", "lost_memory"))
        names = _DECIDING if (entry.utilization_ratio or 0) < _LOWEST_TRIGGER_RATIO else (*_DECIDING, "trigger_ratio")
        levels = {name: entry.provenance.get(name, Provenance.UNKNOWN) for name in names}
        return Signal(
            reason=verdict.reason,
            severity=Severity.PAGE if worse else Severity.TICKET,
            evidence=evidence,
            provenance=levels,
            advice=tuple(Advice(action, tokens) for action, tokens in verdict.advice),
        )


def _required(entry: LedgerEntry) -> int | None:
    """What the call is judged by.

    A need that was learned from other contexts of the role, or assumed, is no more than this window holds beside its
    reservations, and does not hold against a context that leaves more room unused than it is said to lack: nobody
    squeezes it, it just needs less. What is declared holds in any case.
    """
    required, residual, working = entry.requirement_tokens, entry.residual_tokens, entry.working_tokens
    guessed = entry.provenance.get("requirement_tokens", Provenance.UNKNOWN) <= Provenance.LEARNED
    if required is None or residual is None or working is None or entry.ceiling_tokens is None or not guessed:
        return required
    possible = min(required, max(1, entry.ceiling_tokens - entry.reserved.total()))
    return min(possible, max(1, residual)) if residual - working >= possible - residual else possible


def _censored(state: StarvationState, entry: LedgerEntry, verdict: Arbitration) -> bool:
    """Whether the call may hold less than it wanted: what it holds then is a lower bound of the need.

    A turn near to a starved one does not show, either, what the role needs when it has room.
    """
    return verdict.regime is not Regime.HEALTHY or state.episode.firing is not None or state.episode.bad > 0


def _lost_working_tokens(state: StarvationState, content: Content | None) -> int | None:
    """Estimated tokens of working memory that vanished since the previous turn: the symptom, not an eviction."""
    if content is None:
        return None
    now = {key: weight for kind, weight, _, key, _ in content.blocks() if kind.consumer is Consumer.WORKING}
    lost = sum(weight for key, weight in state.working.items() if key not in now)
    state.working = now
    return lost
