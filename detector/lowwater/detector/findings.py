"""A finding: one episode of something wrong, with the numbers and the rule that decided."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import Provenance

__all__ = ["Advice", "Finding", "Kind", "Severity", "State", "finding_id", "severity_cap"]

SCHEMA = "lowwater.finding/1"


class Kind(enum.Enum):
    """The kinds of finding. The values are public: metrics labels, alert names and ids are made of them."""

    SILENT_STARVATION = "silent_starvation"
    FANOUT_OVERCOMMITTED = "fanout_overcommitted"
    FANOUT_OVERRUN = "fanout_overrun"
    FANOUT_REDISTRIBUTION_UNSAFE = "fanout_redistribution_unsafe"
    COMPACTION_DEBT = "compaction_debt"
    COMPACTION_DEADLOCK_RISK = "compaction_deadlock_risk"
    COMPACTION_STALLED = "compaction_stalled"
    REJECTION = "rejection"
    COMPACTION_DEBT_SHARE = "compaction_debt_share"
    RETRY_AMPLIFICATION = "retry_amplification"
    RETRY_SYNCHRONY = "retry_synchrony"
    REPETITION = "repetition"


class State(enum.Enum):
    """Whether an episode is going on."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Severity(enum.IntEnum):
    """What a finding asks of people, from least to most."""

    INFO = 0
    TICKET = 1
    PAGE = 2

    @property
    def label(self) -> str:
        """The public name: ``info``, ``ticket`` or ``page``."""
        return self.name.lower()


def severity_cap(provenance: Provenance) -> Severity:
    """The highest severity that a number of this provenance earns: a default or unknown never pages.

    An inferred split (no content, no breakdown) earns a ticket: its reserved part is the least first call seen of
    the agent, which an unusual first message distorts.
    """
    if provenance <= Provenance.UNKNOWN:
        return Severity.INFO
    if provenance <= Provenance.INFERRED:
        return Severity.TICKET
    return Severity.PAGE


@dataclass(frozen=True, slots=True)
class Advice:
    """One step, and the tokens that it gives back (None where that cannot be said)."""

    action: str
    tokens: int | None = None


def finding_id(kind: Kind, key: str, first_span_id: str) -> str:
    """A deterministic id: the same episode seen again (restart, replay, redelivery) has the same one.

    >>> finding_id(Kind.REPETITION, "svc/conv/agent", "00ab") == finding_id(Kind.REPETITION, "svc/conv/agent", "00ab")
    True
    """
    digest = hashlib.blake2b(f"{kind.value}\0{key}\0{first_span_id}".encode(), digest_size=8)
    return f"{kind.value}-{digest.hexdigest()}"


@dataclass(slots=True)
class Finding:
    """One line of ``lowwater.finding/1``.

    Attributes:
        id: from `finding_id`; firing and resolved lines of one episode share it.
        time_ns: event time of the line in Unix nanoseconds, None where the source has no time.
        turn: the context's turn, counted from 1; None for pools and roles.
        reason: the rule that decided, a bounded vocabulary.
        evidence: the numbers, units in their names.
        provenance: level per number, by evidence name.
    """

    id: str
    kind: Kind
    state: State
    severity: Severity
    reason: str
    time_ns: int | None = None
    trace_id: str | None = None
    span_id: str | None = None
    conversation: str | None = None
    agent: str | None = None
    service: str | None = None
    model: str | None = None
    pool: str | None = None
    turn: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    context: str = ""

    def to_json(self) -> dict[str, Any]:
        """The public record, without null-valued surprises: unknown is null."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "kind": self.kind.value,
            "state": self.state.value,
            "severity": self.severity.label,
            "time": self.time_ns,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "conversation": self.conversation,
            "agent": self.agent,
            "service": self.service,
            "model": self.model,
            "pool": self.pool,
            "turn": self.turn,
            "reason": self.reason,
            "evidence": dict(self.evidence),
            "provenance": {name: level.label for name, level in self.provenance.items()},
            "advice": [{"action": step.action, "tokens": step.tokens} for step in self.advice],
        }
