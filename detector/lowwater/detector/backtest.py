"""Had this been on: what would have fired and paged over recorded traces, when, and for how long.

Paging is approximated as Alertmanager does it with one alert per finding: one page per episode, at the moment at which
the episode first reaches the severity ``page``. Grouping, silences, inhibition and repeated notifications are not
modelled. Whether somebody would have acted on a page cannot be known; which pages ended by themselves can.
"""

from __future__ import annotations

import datetime
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lowwater.detector.findings import Finding, Severity, State, finding_id
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output

__all__ = ["DEFAULT_SHORT_TURNS", "Backtest", "BacktestEpisode"]

DEFAULT_SHORT_TURNS = 5
"""A page that ends within so many turns is short-lived: less than what it takes to look at it. Our choice."""

_RECENT_CALLS = 16
"""Calls remembered per context to find the one at which an episode began; an onset further back stays unknown."""

_NS = 1e9


@dataclass(slots=True)
class _Context:
    """What is remembered of one context: (span id, turn, time) of its last calls, and its extent."""

    agent: tuple[str | None, str | None]
    first_ns: int | None = None
    last_ns: int | None = None
    last_turn: int = 0
    recent: list[tuple[str, int, int | None]] = field(default_factory=list)


@dataclass(slots=True)
class BacktestEpisode:
    """One episode of a finding. Times are Unix nanoseconds; turns are of its context; None where unknown.

    Attributes:
        first: the line with which it fired.
        worst: its most severe line.
        page: the line with which it first reached ``page``.
        resolved: the line that ended it, None while it fires.
        onset_turn: turn of the first call that was wrong, before the finding fired.
        onset_ns: time of that call.
        end_turn: turn at which it ended, or the last one of its context; None where turns do not tell, as for pools.
        end_ns: time of that.
    """

    first: Finding
    worst: Finding
    page: Finding | None = None
    resolved: Finding | None = None
    onset_turn: int | None = None
    onset_ns: int | None = None
    end_turn: int | None = None
    end_ns: int | None = None

    def lasted_turns(self) -> int | None:
        """Turns from firing to the end."""
        return _difference(self.end_turn, self.first.turn)

    def lasted_seconds(self) -> float | None:
        """Seconds from firing to the end."""
        lasted = _difference(self.end_ns, self.first.time_ns)
        return None if lasted is None else lasted / _NS

    def is_short_lived(self, turns: int) -> bool:
        """Whether it paged and was over within so many turns of the page."""
        if self.page is None or self.resolved is None:
            return False
        lasted = _difference(self.end_turn, self.page.turn)
        return lasted is not None and lasted <= turns

    def to_json(self) -> dict[str, Any]:
        """The public record."""
        finding = self.worst
        seconds = self.lasted_seconds()
        return {
            "id": finding.id,
            "kind": finding.kind.value,
            "class": finding.evidence.get("class"),
            "severity": finding.severity.label,
            "reason": finding.reason,
            "service": finding.service,
            "agent": finding.agent,
            "model": finding.model,
            "conversation": finding.conversation,
            "context": finding.context or None,
            "pool": finding.pool,
            "onset_turn": self.onset_turn,
            "onset_time": self.onset_ns,
            "fired_turn": self.first.turn,
            "fired_time": self.first.time_ns,
            "paged_turn": None if self.page is None else self.page.turn,
            "paged_time": None if self.page is None else self.page.time_ns,
            "last_turn": self.end_turn,
            "last_time": self.end_ns,
            "resolved": self.resolved is not None,
            "lasted_turns": self.lasted_turns(),
            "lasted_seconds": None if seconds is None else round(seconds, 3),
        }


@dataclass(slots=True)
class Backtest:
    """Accumulates the outputs of a pipeline.

    Attributes:
        short_turns: a page that is over within so many turns is short-lived.
        calls: LLM calls.
        unjudged: answered calls of which the input or the window is unknown: silence says nothing of them.
    """

    short_turns: int = DEFAULT_SHORT_TURNS
    calls: int = 0
    unjudged: int = 0
    _contexts: dict[str, _Context] = field(default_factory=dict)
    _episodes: dict[str, BacktestEpisode] = field(default_factory=dict)

    def add(self, output: Output) -> None:
        """Take the next output."""
        if isinstance(output, LedgerEntry):
            self._call(output)
        elif isinstance(output, Finding):
            self._line(output)

    def _call(self, entry: LedgerEntry) -> None:
        context = self._contexts.get(entry.context)
        if context is None:
            context = self._contexts[entry.context] = _Context((entry.service, entry.agent))
        if context.agent[1] is None and entry.agent is not None:
            context.agent = (entry.service, entry.agent)
        context.last_turn = entry.turn
        if entry.time_ns is not None:
            context.first_ns = entry.time_ns if context.first_ns is None else context.first_ns
            context.last_ns = entry.time_ns
        context.recent.append((entry.span_id, entry.turn, entry.time_ns))
        del context.recent[:-_RECENT_CALLS]
        if not entry.rollup:
            self.calls += 1
            known = entry.input_tokens is not None and entry.ceiling_tokens is not None
            self.unjudged += not (known or entry.failed)

    def _line(self, finding: Finding) -> None:
        episode = self._episodes.get(finding.id)
        if episode is None:
            episode = self._episodes[finding.id] = BacktestEpisode(finding, finding)
            episode.onset_turn, episode.onset_ns = self._onset(finding)
        if finding.state is State.RESOLVED:
            episode.resolved = finding
            return
        if finding.severity > episode.worst.severity:
            episode.worst = finding
        if finding.severity is Severity.PAGE and episode.page is None:
            episode.page = finding

    def _onset(self, finding: Finding) -> tuple[int | None, int | None]:
        """Turn and time of the call that a finding's id was made of: the first of the episode."""
        context = self._contexts.get(finding.context)
        for span_id, turn, time_ns in reversed(context.recent) if context is not None else ():
            if finding_id(finding.kind, finding.service or "", span_id) == finding.id:
                return turn, time_ns
        return finding.turn, finding.time_ns

    # --- results -----------------------------------------------------------------------------------------------------

    def episodes(self) -> list[BacktestEpisode]:
        """All episodes, the most severe first, then in order of time; open ones last as long as their context."""
        for episode in self._episodes.values():
            end, own = episode.resolved, self._contexts.get(episode.first.context)
            turns_tell = end is None or end.context == episode.first.context
            if end is not None:
                episode.end_turn, episode.end_ns = (end.turn if turns_tell else None), end.time_ns
            elif own is not None:
                episode.end_turn, episode.end_ns = own.last_turn, own.last_ns
            else:
                episode.end_ns = max((item.last_ns for item in self._contexts.values() if item.last_ns), default=None)
            if episode.first.turn is None:
                episode.end_turn = None
        return sorted(
            self._episodes.values(),
            key=lambda item: (-item.worst.severity, item.first.time_ns or 0, item.first.turn or 0, item.first.id),
        )

    def pages(self) -> list[BacktestEpisode]:
        """The episodes that paged."""
        return [episode for episode in self.episodes() if episode.page is not None]

    def agent_hours(self) -> float:
        """Hours from the first to the last call, summed over contexts; a context of one call adds nothing."""
        spans = (
            item.last_ns - item.first_ns
            for item in self._contexts.values()
            if item.last_ns is not None and item.first_ns is not None
        )
        return sum(spans) / _NS / 3600

    def pages_per_agent_hour(self) -> float | None:
        """Pages per agent-hour; None where no time has passed, or none is known."""
        hours = self.agent_hours()
        return len(self.pages()) / hours if hours > 0 else None

    def pages_per_day(self) -> dict[str, int]:
        """Pages by UTC date, over every day from the first to the last call; pages without a time under ``unknown``."""
        extent = self.extent_ns()
        days: Counter[str] = Counter()
        if extent is not None:
            first, last = (_utc(time_ns).date() for time_ns in extent)
            if (last - first).days <= _MAX_DAYS:
                for number in range((last - first).days + 1):
                    days[(first + datetime.timedelta(days=number)).isoformat()] = 0
        for episode in self.pages():
            time_ns = episode.page.time_ns if episode.page is not None else None
            days["unknown" if time_ns is None else _utc(time_ns).date().isoformat()] += 1
        return dict(sorted(days.items()))

    def extent_ns(self) -> tuple[int, int] | None:
        """Times of the first and the last call; None where none is known."""
        firsts = [item.first_ns for item in self._contexts.values() if item.first_ns is not None]
        lasts = [item.last_ns for item in self._contexts.values() if item.last_ns is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    def contexts(self) -> tuple[int, int]:
        """Number of contexts, and of the agents that they belong to."""
        return len(self._contexts), len({item.agent for item in self._contexts.values()})

    def quiet(self) -> tuple[int, int]:
        """Number of contexts that no finding names, and of the agents that they belong to."""
        loud = {episode.first.context for episode in self._episodes.values()}
        quiet = [item for key, item in self._contexts.items() if key not in loud]
        return len(quiet), len({item.agent for item in quiet})

    def by_severity(self) -> dict[str, int]:
        """Episodes by the worst severity that they reached."""
        counts = Counter(episode.worst.severity.label for episode in self._episodes.values())
        return {severity.label: counts[severity.label] for severity in sorted(Severity, reverse=True)}

    def contexts_paged(self) -> int:
        """Number of contexts with a page; a pool counts as one."""
        firsts = (episode.first for episode in self.pages())
        return len({first.context or (first.trace_id, first.pool) for first in firsts})

    def median_turns_to_fire(self) -> float | None:
        """Median over findings of the turn, counted from the context's first call, at which they fired."""
        turns = [episode.first.turn for episode in self._episodes.values() if episode.first.turn is not None]
        return float(statistics.median(turns)) if turns else None

    def to_json(self) -> dict[str, Any]:
        """Everything but the episodes' files: the body of ``lowwater.backtest/1``."""
        contexts, agents = self.contexts()
        quiet_contexts, quiet_agents = self.quiet()
        extent, rate = self.extent_ns(), self.pages_per_agent_hour()
        pages = self.pages()
        return {
            "counts": {
                "calls": self.calls,
                "unjudged": self.unjudged,
                "contexts": contexts,
                "agents": agents,
                "quiet_contexts": quiet_contexts,
                "quiet_agents": quiet_agents,
            },
            "first_time": None if extent is None else extent[0],
            "last_time": None if extent is None else extent[1],
            "agent_hours": round(self.agent_hours(), 6),
            "findings": self.by_severity(),
            "pages": {
                "total": len(pages),
                "contexts": self.contexts_paged(),
                "per_agent_hour": None if rate is None else round(rate, 6),
                "per_day": self.pages_per_day(),
                "short_lived": sum(episode.is_short_lived(self.short_turns) for episode in pages),
                "short_lived_turns": self.short_turns,
            },
            "episodes": [
                episode.to_json() | {"short_lived": episode.is_short_lived(self.short_turns)}
                for episode in self.episodes()
            ],
        }


_MAX_DAYS = 3_660
"""Ten years; over more, only days with pages are listed."""


def _utc(time_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(time_ns / _NS, tz=datetime.UTC)


def _difference(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else max(0, later - earlier)
