"""Findings against the truth of simulated runs.

How they are matched, in this order:

1. A finding is about the agent whose call it names; a finding of a pool about the orchestrator of its trace.
2. It matches an episode of its kind, agent and label (the class of a rejection) that no earlier finding has matched, if it
   fires no more than `EARLY_TURNS` before the onset.
3. A further finding of the family at an agent that has an expected episode of that family, not before its onset, is a
   companion: a debt that becomes a deadlock, a starvation that comes back. It counts neither way.
4. What is left is false; an episode that nothing matched is missed.

Repetition is a symptom that never pages alone; it is judged in `RunScore.repeated` only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lowwater.detector.findings import Finding, Kind, Severity, State
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.simulation.model import Agent, CallTruth, Expected, LlmCall, Run

__all__ = ["EARLY_TURNS", "FAMILIES", "REGIMES", "Counts", "RunScore", "score", "wilson"]

EARLY_TURNS = 2
"""A finding this much before its episode begins is still about it: estimates of a few per cent move the crossing."""

FAMILIES: Mapping[str, str] = {
    Kind.SILENT_STARVATION.value: "starvation",
    Kind.FANOUT_OVERCOMMITTED.value: "fanout",
    Kind.FANOUT_OVERRUN.value: "fanout",
    Kind.FANOUT_REDISTRIBUTION_UNSAFE.value: "fanout",
    Kind.COMPACTION_DEBT.value: "compaction",
    Kind.COMPACTION_DEADLOCK_RISK.value: "compaction",
    Kind.COMPACTION_STALLED.value: "compaction",
    Kind.REJECTION.value: "rejection",
    Kind.COMPACTION_DEBT_SHARE.value: "rejection",
    Kind.RETRY_AMPLIFICATION.value: "rejection",
    Kind.RETRY_SYNCHRONY.value: "rejection",
}
"""Family by kind."""

REGIMES: Mapping[str, str] = {"starved": "silent_starvation"}
"""What the ledger calls a true regime, where the words differ."""


@dataclass(slots=True)
class Counts:
    """Episodes found, made up and missed."""

    found: int = 0
    false: int = 0
    missed: int = 0

    def add(self, other: Counts) -> None:
        """Take over what another counted."""
        self.found += other.found
        self.false += other.false
        self.missed += other.missed

    @property
    def precision(self) -> float | None:
        """Share of findings that are right, None without findings."""
        return self.found / (self.found + self.false) if self.found + self.false else None

    @property
    def recall(self) -> float | None:
        """Share of episodes that are found, None without episodes."""
        return self.found / (self.found + self.missed) if self.found + self.missed else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both: 2 found / (2 found + false + missed)."""
        total = 2 * self.found + self.false + self.missed
        return 2 * self.found / total if total else None


@dataclass(slots=True)
class RunScore:
    """One run.

    Attributes:
        families: counts by family.
        delays_turns: turns from onset to finding, by kind; negative for a finding before the onset.
        false_kinds: kinds of the false findings.
        repeated: whether repetition was reported.
        pages: findings that page although nothing in the run should.
        regimes: calls by (true regime, regime of the ledger).
        classes: refused calls by (true class, class found); ``none`` where no finding names one.
        residual_errors: of each call that is known, how far the residual is from the true one, as part of the ceiling.
    """

    families: dict[str, Counts] = field(default_factory=dict)
    delays_turns: dict[str, list[int]] = field(default_factory=dict)
    false_kinds: list[str] = field(default_factory=list)
    repeated: bool = False
    pages: int = 0
    regimes: dict[tuple[str, str], int] = field(default_factory=dict)
    classes: dict[tuple[str, str], int] = field(default_factory=dict)
    residual_errors: list[float] = field(default_factory=list)


def score(run: Run, outputs: Iterable[object]) -> RunScore:
    """Judge what the detector said of one run."""
    owners, turns = _owners(run)
    roots = {f"{agent.trace_id:032x}": agent.id for agent in run.agents}
    findings: dict[str, Finding] = {}
    paging: set[str] = set()
    entries: dict[str, LedgerEntry] = {}
    for output in outputs:
        if isinstance(output, Finding) and output.state is State.FIRING:
            findings.setdefault(output.id, output)
            if output.severity is Severity.PAGE:
                paging.add(output.id)
        elif isinstance(output, LedgerEntry) and not output.rollup:
            entries[output.span_id] = output
    made = RunScore()
    open_ = list(run.truth.expected)
    classes: dict[str, str] = {}
    for found in findings.values():
        kind = found.kind.value
        if kind == Kind.REPETITION.value:
            made.repeated = True
            continue
        family = FAMILIES[kind]
        pool = family == "fanout"
        owner = roots.get(found.trace_id or "") if pool else owners.get(found.span_id or "")
        turn = None if pool else turns.get(found.span_id or "")
        label = str(found.evidence.get("class", "")) if kind == Kind.REJECTION.value else ""
        if label and owner is not None:
            classes.setdefault(owner, label)
        counts = made.families.setdefault(family, Counts())
        matched = next((item for item in open_ if _same(item, kind, owner, label) and _in_time(item, turn)), None)
        if matched is not None:
            open_.remove(matched)
            counts.found += 1
            if turn is not None:
                made.delays_turns.setdefault(kind, []).append(turn - matched.onset_turn)
        elif not _companion(run.truth.expected, family, owner, turn, label):
            counts.false += 1
            made.false_kinds.append(kind)
    for item in open_:
        made.families.setdefault(FAMILIES[item.kind], Counts()).missed += 1
    made.pages = len(paging) if run.truth.healthy else 0
    for truth in run.truth.calls:
        entry = entries.get(f"{truth.span_id:016x}")
        cell = (REGIMES.get(truth.regime, truth.regime), entry.regime if entry is not None else "not_read")
        made.regimes[cell] = made.regimes.get(cell, 0) + 1
        if entry is not None and entry.residual_tokens is not None:
            error = abs(entry.residual_tokens - _residual_tokens(truth)) / truth.ceiling_tokens
            made.residual_errors.append(error)
    for owner, true in {owners[f"{span:016x}"]: true for span, true in run.truth.rejections.items()}.items():
        cell = (true, classes.get(owner, "none"))
        made.classes[cell] = made.classes.get(cell, 0) + 1
    return made


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The score interval of a share (Wilson 1927), 95 % by default.

    Raises:
        ValueError: ``of`` is not positive, or hits lie outside 0 ... ``of``.

    >>> low, high = wilson(0, 200)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.019)
    """
    if of <= 0 or not 0 <= hits <= of:
        msg = f"no share: {hits} of {of}"
        raise ValueError(msg)
    share = hits / of
    middle = share + z * z / (2 * of)
    reach = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def _residual_tokens(truth: CallTruth) -> int:
    reserved = truth.system_tokens + truth.tools_tokens
    reserved += truth.output_reserved_tokens + truth.retry_reserved_tokens + truth.staging_reserved_tokens
    return truth.ceiling_tokens - reserved - truth.retrieval_tokens - truth.scratchpad_tokens


def _same(item: Expected, kind: str, owner: str | None, label: str) -> bool:
    return item.kind == kind and item.agent_id == owner and (not item.label or not label or item.label == label)


def _in_time(item: Expected, turn: int | None) -> bool:
    return turn is None or turn >= item.onset_turn - EARLY_TURNS


def _companion(expected: list[Expected], family: str, owner: str | None, turn: int | None, label: str) -> bool:
    return any(
        FAMILIES[item.kind] == family
        and item.agent_id == owner
        and (not label or item.label == label)
        and _in_time(item, turn)
        for item in expected
    )


def _owners(run: Run) -> tuple[dict[str, str], dict[str, int]]:
    """Agent and turn by the span id of a call; refused calls are turns, too."""
    owners: dict[str, str] = {}
    turns: dict[str, int] = {}
    for agent in run.agents:
        for each in _below(agent):
            owners[f"{each.span_id:016x}"] = each.id
            calls = (step for step in each.steps if isinstance(step, LlmCall))
            for number, call in enumerate(calls, 1):
                owners[f"{call.span_id:016x}"] = each.id
                turns[f"{call.span_id:016x}"] = number
    return owners, turns


def _below(agent: Agent) -> Iterator[Agent]:
    yield agent
    for step in agent.steps:
        if isinstance(step, Agent):
            yield from _below(step)
