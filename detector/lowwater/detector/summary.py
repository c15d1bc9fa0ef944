"""What a replay found, small enough to show: contexts, their telling calls, pools and findings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from lowwater.detector.events import CompactionMark
from lowwater.detector.findings import Finding, Kind, Severity, State
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Output
from lowwater.detector.wording import tokens

__all__ = ["CompactionSeen", "ContextSummary", "Episode", "Summary"]

_MAX_CONTEXTS = 2_000
"""Contexts kept for display. Of more, the ones with the largest prompts and those with findings stay; all are counted."""

_MAX_KEPT = 400
"""Calls kept per context for display; of a longer one the first and last halves are kept."""


@dataclass(frozen=True, slots=True)
class CompactionSeen:
    """A compaction: as the ledger saw it, by the known inputs on both sides, or as announced and not followed by a call."""

    turn: int | None
    before_tokens: int | None
    after_tokens: int | None
    announced_before_tokens: int | None = None
    source: str = ""


@dataclass(slots=True)
class ContextSummary:
    """One context over the whole replay. Token counts are None where no call had them."""

    key: str
    service: str | None
    agent: str | None
    model: str | None
    conversation: str | None
    calls: int = 0
    unknown_calls: int = 0
    rollups: int = 0
    rewrites: int = 0
    last_input_tokens: int | None = None
    peak: LedgerEntry | None = None
    tightest: LedgerEntry | None = None
    compactions: list[CompactionSeen] = field(default_factory=list)
    regimes: dict[str, int] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    last_turn: int = 0
    head: list[LedgerEntry] = field(default_factory=list)
    tail: list[LedgerEntry] = field(default_factory=list)
    announced: CompactionMark | None = None

    def add(self, entry: LedgerEntry) -> None:
        """Take the next call of the context."""
        if entry.rollup:
            self.rollups += 1
        else:
            self.calls += 1
        self.agent = self.agent or entry.agent
        self.last_turn = entry.turn
        if entry.time_ns is not None:
            self.first_ns = entry.time_ns if self.first_ns is None else self.first_ns
            self.last_ns = entry.time_ns
        self.regimes[entry.regime] = self.regimes.get(entry.regime, 0) + 1
        if entry.history == "rewritten":
            self.rewrites += 1
        if entry.compacted:
            said = entry.compaction or {}
            self.compactions.append(
                CompactionSeen(
                    entry.turn,
                    self.last_input_tokens,
                    entry.input_tokens,
                    said.get("before_tokens"),
                    said.get("source", ""),
                )
            )
            self.announced = None
        if entry.input_tokens is None:
            self.unknown_calls += 1
        else:
            self.last_input_tokens = entry.input_tokens
            if self.peak is None or entry.input_tokens > (self.peak.input_tokens or 0):
                self.peak = entry
        if entry.residual_tokens is not None and (
            self.tightest is None or entry.residual_tokens < (self.tightest.residual_tokens or 0)
        ):
            self.tightest = entry
        half = _MAX_KEPT // 2
        if len(self.head) < half:
            self.head.append(entry)
        else:
            self.tail.append(entry)
            del self.tail[:-half]

    @property
    def peak_tokens(self) -> int | None:
        """The largest prompt: of a call, or announced by a compaction, which may come before its call is answered."""
        said = [item.announced_before_tokens for item in self.all_compactions()]
        if self.peak is not None:
            said.append(self.peak.input_tokens)
        return max((value for value in said if value is not None), default=None)

    def all_compactions(self) -> list[CompactionSeen]:
        """The compactions, with one that was announced after the last call."""
        if self.announced is None:
            return self.compactions
        mark = self.announced.compaction
        last = CompactionSeen(None, self.last_input_tokens, mark.after_tokens, mark.before_tokens, mark.source)
        return [*self.compactions, last]

    def kept(self) -> list[LedgerEntry]:
        """The calls that are kept, in order."""
        return self.head + self.tail

    def to_json(self) -> dict[str, Any]:
        """The public record."""
        return {
            "context": self.key,
            "service": self.service,
            "agent": self.agent,
            "model": self.model,
            "conversation": self.conversation,
            "calls": self.calls,
            "unknown_calls": self.unknown_calls,
            "rollups": self.rollups,
            "peak_input_tokens": None if self.peak is None else self.peak.input_tokens,
            "peak_tokens": self.peak_tokens,
            "last_input_tokens": self.last_input_tokens,
            "least_residual_tokens": None if self.tightest is None else self.tightest.residual_tokens,
            "rewrites": self.rewrites,
            "compactions": [dataclasses.asdict(item) for item in self.all_compactions()],
            "regimes": dict(sorted(self.regimes.items())),
        }


@dataclass(slots=True)
class Episode:
    """A finding from its first to its last line.

    Attributes:
        hardest: of a context's finding, the call after the firing one at which the numbers were worst: the least residual
            of a starved turn, or the largest prompt above the mark; None where there was no such call.
        latest: the last of these calls.
    """

    first: Finding
    worst: Finding
    last: Finding
    hardest: LedgerEntry | None = None
    latest: LedgerEntry | None = None

    def see(self, entry: LedgerEntry) -> None:
        """Take the next call of the context while the finding fires."""
        if self.first.kind is Kind.SILENT_STARVATION:
            if entry.regime != "silent_starvation":
                return
            best = self.hardest.residual_tokens if self.hardest is not None else None
            harder = best is None or (entry.residual_tokens is not None and entry.residual_tokens < best)
        else:
            if entry.input_tokens is None or entry.compacted:
                return
            most = self.hardest.input_tokens if self.hardest is not None else None
            harder = most is None or entry.input_tokens > most
        self.latest = entry
        if harder:
            self.hardest = entry

    @property
    def resolved(self) -> bool:
        """Whether it has ended."""
        return self.last.state is State.RESOLVED

    def sentence(self) -> str:
        """The numbers of a finding as a sentence: the last ones of its self."""
        fact = (self.last if self.resolved else self.worst).evidence.get
        kind = self.worst.kind.value
        if kind == "silent_starvation":
            ratio = fact("utilization_ratio")
            return (
                f"{tokens(fact('residual_tokens'))} left for working memory, {tokens(fact('requirement_tokens'))} needed"
                f" ({self.worst.provenance['requirement_tokens'].label}), at {ratio:.0%} utilisation"
            )
        if kind.startswith("compaction_") and kind != "compaction_debt_share":
            left = fact("turns_left")
            soon = f", full in {left:.0f} turns" if isinstance(left, float | int) else ""
            full = f"{tokens(fact('input_tokens'))} of {tokens(fact('ceiling_tokens'))}"
            return f"{full}, {fact('debt_turns')} turns above its mark{soon}"
        if kind == "fanout_overrun":
            green = ", each within its own limit" if fact("all_members_green") else ""
            parent = fact("parent_reserve_tokens")
            beside = f", beside {tokens(parent)} for the orchestrator" if parent else ""
            return (
                f"{fact('width')} at once hold {tokens(fact('aggregate_tokens'))} tokens{beside}:"
                f" over {tokens(fact('pool_ceiling_tokens'))} by {tokens(fact('overrun_tokens'))}{green}"
            )
        if kind == "fanout_overcommitted":
            return (
                f"{fact('planned_width')} subagents were promised {tokens(fact('committed_tokens'))} tokens of"
                f" {tokens(fact('pool_ceiling_tokens'))}; {fact('feasible_width')} of them fit"
            )
        if kind == "repetition":
            return f"{fact('tool')}: {fact('calls')} times, {fact('consecutive_calls')} in a row"
        if kind == "rejection":
            status = fact("status")
            return f"status {status}{', by the upstream provider' if fact('upstream') else ''}" if status else ""
        return ""


@dataclass(slots=True)
class Summary:
    """Accumulates the outputs of a pipeline."""

    contexts: dict[str, ContextSummary] = field(default_factory=dict)
    episodes: dict[str, Episode] = field(default_factory=dict)
    pools: dict[tuple[str, str, int], PoolReport] = field(default_factory=dict)
    calls: int = 0
    rollups: int = 0
    unjudged: int = 0
    """Answered calls of which the input or the window is unknown: silence says nothing of them."""
    input_rules: dict[str, int] = field(default_factory=dict)
    dropped_contexts: int = 0
    _open: dict[str, list[Episode]] = field(default_factory=dict)
    """Episodes that fire, by context."""

    def add(self, output: Output) -> None:
        """Take the next output."""
        if isinstance(output, LedgerEntry):
            context = self.contexts.get(output.context)
            if context is None:
                if len(self.contexts) >= 2 * _MAX_CONTEXTS:
                    self._drop_small()
                context = self.contexts[output.context] = ContextSummary(
                    output.context, output.service, output.agent, output.model, output.conversation
                )
            context.add(output)
            for episode in self._open.get(output.context, ()):
                episode.see(output)
            self.calls += not output.rollup
            self.rollups += output.rollup
            known = output.input_tokens is not None and output.ceiling_tokens is not None
            self.unjudged += not (known or output.rollup or output.failed)
            self.input_rules[output.input_rule] = self.input_rules.get(output.input_rule, 0) + 1
        elif isinstance(output, Finding):
            self._line(output)
        elif isinstance(output, CompactionMark):
            marked = self.contexts.get(output.context or "")
            if marked is not None and output.compaction.outcome == "success":
                marked.announced = output
        else:
            self.pools[(output.trace_id, output.pool, output.run)] = output

    def _line(self, finding: Finding) -> None:
        episode = self.episodes.get(finding.id)
        if episode is None:
            episode = self.episodes[finding.id] = Episode(finding, finding, finding)
            if finding.context:
                self._open.setdefault(finding.context, []).append(episode)
        episode.last = finding
        if finding.severity > episode.worst.severity:
            episode.worst = finding
        if episode.resolved and finding.context:
            self._open[finding.context] = [item for item in self._open[finding.context] if item is not episode]

    def _drop_small(self) -> None:
        """Forget the contexts of least interest, so that a file of a million conversations can be shown at all."""
        found = {item.worst.context for item in self.episodes.values()}

        def interest(context: ContextSummary) -> tuple[bool, int]:
            return context.key in found, (context.peak.input_tokens or 0) if context.peak is not None else 0

        ranked = sorted(self.contexts.values(), key=interest, reverse=True)
        self.dropped_contexts += len(ranked) - _MAX_CONTEXTS
        kept = {context.key for context in ranked[:_MAX_CONTEXTS]}
        self.contexts = {key: context for key, context in self.contexts.items() if key in kept}

    def worst_first(self) -> list[Episode]:
        """Episodes by severity, then by time of onset."""
        return sorted(
            self.episodes.values(),
            key=lambda item: (-item.worst.severity, item.first.time_ns or 0, item.first.turn or 0, item.first.id),
        )

    def count(self, severity: Severity) -> int:
        """Episodes that reached at least this severity."""
        return sum(item.worst.severity >= severity for item in self.episodes.values())
