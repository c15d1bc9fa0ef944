"""Rejections of a role's calls: what refused them, whether compaction debt did, and how the retries behave."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from lowwater.collectors.consumers import Provenance
from lowwater.detector.config import DetectorConfig
from lowwater.detector.events import CompactionMark, Observation
from lowwater.detector.findings import Advice, Finding, Kind, Severity
from lowwater.detector.models.scheduler import DebtShare, SchedulerTick
from lowwater.detector.operators.base import Episode, Signal, about, span_key
from lowwater.policies.rejection import (
    Classification,
    CompactionRecord,
    RejectionClass,
    classify_rejection,
)
from lowwater.policies.retry import amplification, synchrony

__all__ = ["RejectionOperator", "RejectionState"]

MAX_CONTEXTS = 1_024
"""Contexts remembered per role for retry counts."""

_RECENT_RETRIES = 256

_SEVERITY = {
    RejectionClass.SPEND_CAP: Severity.TICKET,
    RejectionClass.TOKEN_QUOTA: Severity.TICKET,
    RejectionClass.COMPACTION_DEBT: Severity.TICKET,
    RejectionClass.CONTEXT_LENGTH: Severity.TICKET,
    RejectionClass.RATE_LIMIT: Severity.INFO,
    RejectionClass.OVERLOAD: Severity.INFO,
    RejectionClass.UNKNOWN: Severity.INFO,
}


@dataclass(slots=True)
class _Caller:
    """Attempts of one context's current logical call."""

    attempts: int = 0
    episodes: dict[str, Episode] = field(default_factory=dict)


@dataclass(slots=True)
class RejectionState:
    """State of one role (service and agent)."""

    callers: dict[str, _Caller] = field(default_factory=dict)
    tick: SchedulerTick = field(default_factory=SchedulerTick)
    declared_tick_seconds: float | None = None
    shares: DebtShare | None = None
    attempts: int = 0
    logical: int = 0
    retries: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_RECENT_RETRIES))
    share: Episode = field(default_factory=Episode)
    amplification: Episode = field(default_factory=Episode)
    synchrony: Episode = field(default_factory=Episode)


class RejectionOperator:
    """Operator keyed by role."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config

    def initial(self) -> RejectionState:
        """State of a role that was never seen."""
        return RejectionState()

    @staticmethod
    def note_compaction(state: RejectionState, mark: CompactionMark) -> None:
        """Learn the scheduler's tick from a compaction of the role."""
        if mark.compaction.outcome == "success" and mark.origin.time_ns is not None:
            state.tick.learn_one(mark.origin.time_ns / 1e9)

    def tick_seconds(self, state: RejectionState, seen: Observation) -> float | None:
        """The scheduler's tick: declared on the call or in configuration, else learned, else None."""
        declared = seen.turn.call.reading.declared.get("scheduler.tick_seconds")
        if isinstance(declared, int | float) and declared > 0:
            state.declared_tick_seconds = float(declared)
        entry = seen.entry
        configured: float | None = self._config.declared("tick_seconds", entry.service, entry.agent, entry.model)
        return state.declared_tick_seconds or configured or state.tick.estimate_seconds()

    def step(
        self, state: RejectionState, seen: Observation, record: CompactionRecord | None, tick_seconds: float | None
    ) -> Iterator[Finding]:
        """Take the next call of the role.

        Args:
            record: the context's last compaction.
            tick_seconds: from `tick_seconds`.
        """
        entry, failure = seen.entry, seen.failure
        if entry.rollup or (failure is not None and failure.aborted):
            return
        verdict = None
        if failure is not None:
            verdict = classify_rejection(
                status=failure.status,
                code=failure.code,
                type=failure.type,
                signals=failure.signals,
                upstream=failure.upstream,
                now_seconds=None if entry.time_ns is None else entry.time_ns / 1e9,
                record=record,
                scheduler_tick_seconds=tick_seconds,
            )
        caller = self._caller(state, entry.context)
        yield from self._rejection_episodes(caller, seen, verdict)
        if verdict is not None:
            entry.rejection = verdict.cls.value
            yield from self._debt_share(state, seen, verdict)
        yield from self._retries(state, caller, seen, rejected=verdict is not None)

    @staticmethod
    def _caller(state: RejectionState, context: str) -> _Caller:
        caller = state.callers.get(context)
        if caller is None:
            if len(state.callers) >= MAX_CONTEXTS:
                del state.callers[next(iter(state.callers))]
            caller = state.callers[context] = _Caller()
        return caller

    def _rejection_episodes(
        self, caller: _Caller, seen: Observation, verdict: Classification | None
    ) -> Iterator[Finding]:
        names = {verdict.cls.value} if verdict is not None else set()
        for name in sorted(set(caller.episodes) | names):
            episode = caller.episodes.setdefault(name, Episode())
            signal = self._rejection(seen, verdict) if verdict is not None and name in names else None
            yield from episode.step(
                Kind.REJECTION, f"{span_key(seen)}/{name}", signal, about(seen), fire_after=1, resolve_after=1
            )
            if episode.firing is None:
                del caller.episodes[name]

    @staticmethod
    def _rejection(seen: Observation, verdict: Classification) -> Signal:
        failure = seen.failure
        evidence = {
            "class": verdict.cls.value,
            "action": verdict.action,
            **verdict.evidence,
            "status": failure.status if failure is not None else None,
            "code": failure.code if failure is not None else None,
            "upstream": failure.upstream if failure is not None else False,
            "retry_after_seconds": failure.retry_after_seconds if failure is not None else None,
        }
        levels = {"class": Provenance.REPORTED}
        return Signal(
            verdict.reason, _SEVERITY[verdict.cls], evidence, levels, (Advice(verdict.action.replace("_", " "), None),)
        )

    def _debt_share(self, state: RejectionState, seen: Observation, verdict: Classification) -> Iterator[Finding]:
        if state.shares is None:
            state.shares = DebtShare()
        shares = state.shares
        shares.learn_one(verdict.cls is RejectionClass.COMPACTION_DEBT)
        over = shares.rejections >= self._config.debt_share_min_rejections and shares.share() >= self._config.debt_share
        signal = None
        if over:
            evidence = {
                "debt_share_ratio": round(shares.share(), 4),
                "rejections": shares.rejections,
                "debt_rejections": shares.debts,
                "share_changed": shares.changed,
            }
            step = Advice("give the compaction scheduler more workers or a shorter tick", None)
            signal = Signal(
                "debt_dominates_rejections",
                Severity.PAGE,
                evidence,
                {"debt_share_ratio": Provenance.REPORTED},
                (step,),
            )
        yield from state.share.step(
            Kind.COMPACTION_DEBT_SHARE, seen.role, signal, about(seen), fire_after=1, resolve_after=2
        )

    def _retries(
        self, state: RejectionState, caller: _Caller, seen: Observation, *, rejected: bool
    ) -> Iterator[Finding]:
        caller.attempts += 1
        retrying = caller.attempts > 1
        if not rejected:
            state.attempts += caller.attempts
            state.logical += 1
            caller.attempts = 0
        time_ns = seen.turn.call.origin.start_ns or seen.turn.call.origin.end_ns
        if retrying and not seen.turn.call.origin.timeless:
            state.retries.append((time_ns / 1e9, seen.entry.context))
        if not (rejected or retrying):
            return
        yield from state.amplification.step(
            Kind.RETRY_AMPLIFICATION, seen.role, self._amplified(state), about(seen), fire_after=1, resolve_after=2
        )
        yield from state.synchrony.step(
            Kind.RETRY_SYNCHRONY, seen.role, self._synchronous(state), about(seen), fire_after=1, resolve_after=2
        )

    def _amplified(self, state: RejectionState) -> Signal | None:
        open_calls = [caller.attempts for caller in state.callers.values() if caller.attempts]
        attempts, logical = state.attempts + sum(open_calls), state.logical + len(open_calls)
        ratio = amplification(attempts, logical)
        doomed = max(open_calls, default=0)
        believed = logical >= _BELIEVED_CALLS and ratio is not None and ratio >= self._config.amplification_ratio
        if ratio is None or not (believed or doomed >= _DOOMED_ATTEMPTS):
            return None
        evidence = {
            "attempts": attempts,
            "logical_calls": logical,
            "attempts_per_call_ratio": round(ratio, 3),
            "longest_run_of_attempts": doomed,
        }
        return Signal(
            "attempts_per_call",
            Severity.TICKET,
            evidence,
            {"attempts": Provenance.REPORTED},
            (Advice("stop retrying what waiting cannot cure; one retry layer, not three", None),),
        )

    def _synchronous(self, state: RejectionState) -> Signal | None:
        window = self._config.synchrony_window_seconds
        herd = synchrony(list(state.retries), window_seconds=window, min_callers=self._config.synchrony_callers)
        if herd is None or herd.share_ratio < _HERD_SHARE:
            return None
        evidence = {
            "together_ratio": round(herd.share_ratio, 4),
            "callers": herd.callers,
            "retries": herd.retries,
            "window_seconds": window,
        }
        return Signal(
            "retries_wake_together",
            Severity.TICKET,
            evidence,
            {"retries": Provenance.REPORTED},
            (Advice("add jitter to the backoff, per caller", None),),
        )


_DOOMED_ATTEMPTS = 6
"""Six attempts at one call: the official SDKs stop after three, gateways multiply layers (cognee#4679 saw 36)."""

_BELIEVED_CALLS = 5
"""Logical calls before their mean number of attempts means anything; one call that was tried thrice is no trend."""

_HERD_SHARE = 0.5
"""Half of the recent retries in common wake-ups; independent jittered retries of five callers stay below a fifth."""
