"""Episodes: one finding from onset to resolution, with hysteresis in turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lowwater.collectors.consumers import Provenance
from lowwater.detector.events import Observation, Origin
from lowwater.detector.findings import Advice, Finding, Kind, Severity, State, finding_id, severity_cap

__all__ = ["Episode", "Signal", "about", "about_origin", "span_key", "weakest"]


@dataclass(frozen=True, slots=True)
class Signal:
    """What a rule says of the current turn, when it says that something is wrong.

    Attributes:
        reason: from the rule's bounded vocabulary.
        severity: what it would ask of people; capped by the weakest provenance.
        evidence: the numbers, units in their names.
        provenance: level per number that decided.
        advice: steps in order.
    """

    reason: str
    severity: Severity
    evidence: Mapping[str, Any]
    provenance: Mapping[str, Provenance]
    advice: tuple[Advice, ...] = ()


@dataclass(slots=True)
class Episode:
    """State of one kind of finding for one key.

    Attributes:
        bad: consecutive turns with a signal.
        good: consecutive turns without.
        first_span_id: span of the first turn of the current run of signals; the finding's identity.
        firing: the line last emitted, None when nothing fires.
    """

    bad: int = 0
    good: int = 0
    first_span_id: str = ""
    firing: Finding | None = None

    def step(
        self,
        kind: Kind,
        key: str,
        signal: Signal | None,
        subject: Finding,
        *,
        fire_after: int,
        resolve_after: int,
        onset: str | None = None,
    ) -> Iterator[Finding]:
        """Advance by one turn; yield a line when the episode fires, grows worse or resolves.

        Args:
            subject: a finding that carries who and when; see `about`.
            fire_after: signals in a row before it fires.
            resolve_after: turns without a signal before it resolves.
            onset: what tells this episode from others of the key; the span of the subject where it begins, if None.
        """
        if signal is None:
            self.bad = 0
            self.good += 1
            if self.firing is not None and self.good >= resolve_after:
                yield replace(subject, **_kept(self.firing), state=State.RESOLVED)
                self.firing = None
            return
        if self.bad == 0 and self.firing is None:
            self.first_span_id = onset if onset is not None else subject.span_id or ""
        self.bad += 1
        self.good = 0
        severity = min(signal.severity, severity_cap(weakest(signal.provenance.values())))
        if self.firing is None and self.bad < fire_after:
            return
        if self.firing is not None and severity <= self.firing.severity:
            # No new line, but the one that resolves it will tell the latest numbers.
            self.firing = replace(
                self.firing,
                evidence=dict(signal.evidence),
                provenance=dict(signal.provenance),
                advice=signal.advice,
            )
            return
        self.firing = replace(
            subject,
            id=finding_id(kind, key, self.first_span_id),
            kind=kind,
            state=State.FIRING,
            severity=severity,
            reason=signal.reason,
            evidence=dict(signal.evidence),
            provenance=dict(signal.provenance),
            advice=signal.advice,
        )
        yield self.firing


def _kept(firing: Finding) -> dict[str, Any]:
    return {
        "id": firing.id,
        "kind": firing.kind,
        "severity": firing.severity,
        "reason": firing.reason,
        "evidence": firing.evidence,
        "provenance": firing.provenance,
        "advice": firing.advice,
    }


def about(observation: Observation) -> Finding:
    """A finding that says who and when of an observation, to be completed by an episode."""
    entry = observation.entry
    subject = about_origin(observation.turn.call.origin)
    subject.model, subject.turn, subject.context = entry.model, entry.turn, entry.context
    return subject


def span_key(observation: Observation) -> str:
    """The key of what concerns one context, for ids of findings.

    The first span of an episode tells the context; its name would not do, since it holds the agent's, which a live
    detector may learn late and a replay knows at once.
    """
    return observation.entry.service or ""


def about_origin(origin: Origin, *, pool: str | None = None) -> Finding:
    """As `about`, for what concerns no single turn of a context."""
    return Finding(
        id="",
        kind=Kind.REPETITION,
        state=State.FIRING,
        severity=Severity.INFO,
        reason="",
        time_ns=origin.time_ns,
        trace_id=origin.trace_id,
        span_id=origin.span_id,
        conversation=origin.conversation,
        agent=origin.anchor.name,
        service=origin.service,
        pool=pool,
    )


def weakest(levels: Iterable[Provenance]) -> Provenance:
    """The weakest of the levels; declared where nothing was needed."""
    return min(levels, default=Provenance.DECLARED)
