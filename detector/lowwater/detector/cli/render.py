"""A replay for people: findings first, then contexts and their telling calls, in 80 columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowwater.collectors.consumers import CONSUMERS, Consumer
from lowwater.collectors.tokens import apportion
from lowwater.detector.cli.common import Terminal, tokens
from lowwater.detector.cli.words import SEVERITY_STYLE, finding_name
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.replay import Replay
from lowwater.detector.summary import CompactionSeen, ContextSummary, Episode, Summary

__all__ = ["render"]

_LETTERS = {
    Consumer.SYSTEM: ("s", "blue"),
    Consumer.TOOLS: ("t", "cyan"),
    Consumer.RETRIEVAL: ("R", "magenta"),
    Consumer.SCRATCHPAD: ("x", "yellow"),
    Consumer.WORKING: ("W", "green"),
}
"""A letter and a colour per consumer: the letters carry the meaning where there is no colour."""

_INDENT = (0, 0, 0, 7)
_BAR = 20
_COLUMNS = (
    ("turn", "right", 4), ("at", "left", 0), ("input", "right", 6), ("used", "right", 4), ("who holds it", "left", _BAR),
    ("left", "right", 6), ("need", "right", 5), ("", "left", 0),
)  # fmt: skip
"""Columns of calls: (name, alignment, least width); the last one, of remarks, is cut where it gets narrow."""

_TELLING = 16
_SHORT = 24
"""Contexts of up to so many calls are listed whole."""
_MAX_CONTEXTS = 40


def render(replay: Replay, summary: Summary, *, calls: str, seconds: float) -> None:
    """Print to standard output.

    Args:
        calls: ``telling``, ``all`` or ``none``.
        seconds: how long the replay took.
    """
    console = Terminal()
    _headline(console, replay, summary, seconds)
    if not summary.calls and not summary.rollups:
        console.print("No LLM call was found. [dim]lowwater doctor FILE says what the file holds.[/dim]")
        return
    _findings(console, summary)
    for pool in summary.pools.values():
        _pool(console, pool)
    shown = sorted(
        summary.contexts.values(),
        key=lambda item: (-_worst(summary, item), -(item.peak.input_tokens or 0 if item.peak else 0), item.key),
    )
    for context in shown[:_MAX_CONTEXTS]:
        _context(console, context, calls)
    more = len(shown) + summary.dropped_contexts - _MAX_CONTEXTS
    if more > 0:
        console.print(f"[dim]… and {more:,} more contexts (--json lists all)[/dim]\n")
    _legend(console)


def _headline(console: Console, replay: Replay, summary: Summary, seconds: float) -> None:
    names = [report.file for report in replay.files]
    contexts = len(summary.contexts) + summary.dropped_contexts
    what = Path(names[0]).name if len(names) == 1 else f"{len(names)} files"
    parts = [
        f"[bold]{escape(what)}[/bold]",
        f"{summary.calls:,} call{'' if summary.calls == 1 else 's'} in {contexts:,} context"
        f"{'' if contexts == 1 else 's'}",
    ]
    if summary.rollups:
        parts.append(f"{summary.rollups} roll-up{'' if summary.rollups == 1 else 's'} without calls")
    parts.append(f"{seconds:.1f} s")
    console.print(" · ".join(parts))
    console.print()


# --- findings --------------------------------------------------------------------------------------------------------


def _findings(console: Console, summary: Summary) -> None:
    episodes = summary.worst_first()
    if not episodes:
        if summary.unjudged < summary.calls:
            console.print("[green]No findings.[/green]")
        _unjudged(console, summary)
        console.print()
        return
    for episode in episodes[:20]:
        _finding(console, episode)
    if len(episodes) > 20:
        console.print(f"[dim]… and {len(episodes) - 20} more findings (--findings FILE writes all)[/dim]")
    console.print()


def _unjudged(console: Console, summary: Summary) -> None:
    """Say that silence means nothing of calls that could not be judged."""
    if summary.unjudged:
        console.print(
            f"[yellow]{summary.unjudged:,} of {summary.calls:,} calls could not be judged[/yellow]: their input or window"
            " is unknown. [dim]lowwater doctor FILE says what would help.[/dim]"
        )


def _finding(console: Console, episode: Episode) -> None:
    finding = episode.worst
    line = Text()
    line.append(f"{finding.severity.label.upper():<6} ", SEVERITY_STYLE[finding.severity])
    line.append(finding_name(finding), "bold")
    who = (finding.pool if finding.kind.value.startswith("fanout_") else None) or finding.agent or finding.service
    if who:
        line.append(f" · {who}")
    first, last = episode.first.turn, episode.last.turn
    if first is not None:
        until = f"–{last}" if episode.resolved and last not in (None, first) else "" if episode.resolved else " on"
        line.append(f" · turn {first}{until}")
    if finding.kind.value.startswith("compaction_") or finding.kind.value == "repetition":
        line.append(f" · {finding.reason.replace('_', ' ')}")
    if episode.resolved:
        line.append(" · over", "dim")
    console.print(line)
    sentence = episode.sentence()
    if sentence:
        console.print(Padding(Text(sentence), _INDENT, expand=False))
    for step in (episode.last if episode.resolved else finding).advice[:3]:
        gives = f" ({tokens(step.tokens)} tokens)" if step.tokens else ""
        console.print(Padding(Text(f"→ {step.action}{gives}", "dim"), _INDENT, expand=False))


def _pool(console: Console, pool: PoolReport) -> None:
    shown = ", ".join(tokens(value) for value in pool.first_input_tokens[:6])
    more = " …" if len(pool.first_input_tokens) > 6 else ""
    held = f"{pool.width} at once of {pool.members} · {tokens(pool.peak_tokens)} held together at the peak"
    console.print(Text.assemble(("Fan-out ", "bold"), held))
    parent = "" if pool.parent_peak_tokens is None else f" · orchestrator up to {tokens(pool.parent_peak_tokens)}"
    ceiling = "not declared: not judged" if pool.ceiling_tokens is None else tokens(pool.ceiling_tokens)
    console.print(Padding(Text(f"first calls {shown}{more}{parent} · ceiling {ceiling}", "dim"), _INDENT, expand=False))
    console.print()


# --- contexts and calls ----------------------------------------------------------------------------------------------


def _worst(summary: Summary, context: ContextSummary) -> int:
    return max(
        (int(item.worst.severity) + 1 for item in summary.episodes.values() if item.worst.context == context.key),
        default=0,
    )


def _context(console: Console, context: ContextSummary, calls: str) -> None:
    title = Text(context.agent or "agent unnamed", "bold")
    title.append(f" · {context.model or 'model unknown'}", "")
    if context.service:
        title.append(f" · {context.service}", "dim")
    console.print(title)
    peak = context.peak
    ceiling = peak.ceiling_tokens if peak is not None else None
    facts = [f"{context.calls:,} calls"]
    if context.unknown_calls:
        facts.append(f"{context.unknown_calls} with unknown input")
    if peak is not None:
        of = f" of {tokens(ceiling)}" if ceiling else ", window unknown"
        facts.append(f"peak {tokens(peak.input_tokens)}{of}")
    compactions = context.all_compactions()
    facts += [_compaction(item) for item in compactions[:4]]
    if len(compactions) > 4:
        facts.append(f"{len(compactions)} compactions in all")
    if context.rewrites:
        facts.append(f"history rewritten {context.rewrites} times")
    console.print(Padding(Text(" · ".join(facts), "dim"), (0, 0, 0, 2), expand=False))
    if calls == "none":
        console.print()
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name, justify, least in _COLUMNS:
        table.add_column(name, justify=justify, no_wrap=True, min_width=least)  # type: ignore[arg-type]
    for entry in _chosen(context, calls):
        table.add_row(*_row(entry))
    console.print(table)
    console.print()


def _compaction(item: CompactionSeen) -> str:
    if item.turn is None:
        return f"compacted after the last call, at {tokens(item.announced_before_tokens or item.before_tokens)}"
    before = item.before_tokens if item.before_tokens is not None else item.announced_before_tokens
    return f"compacted at turn {item.turn}: {tokens(before)} to {tokens(item.after_tokens)}"


def _chosen(context: ContextSummary, calls: str) -> list[LedgerEntry]:
    kept = context.kept()
    if calls == "all" or len(kept) <= _SHORT:
        return kept
    wanted: dict[int, LedgerEntry] = {}
    for entry in _by_interest(context, kept):
        wanted.setdefault(entry.turn, entry)
        if len(wanted) >= _TELLING:
            break
    return sorted(wanted.values(), key=lambda entry: entry.turn)


def _by_interest(context: ContextSummary, kept: list[LedgerEntry]) -> Iterator[LedgerEntry]:
    yield kept[0]
    yield kept[-1]
    if context.peak is not None:
        yield context.peak
    if context.tightest is not None:
        yield context.tightest
    for before, entry in pairwise(kept):
        if entry.compacted:
            yield before
            yield entry
    for before, entry in pairwise(kept):
        if entry.regime != before.regime and "unknown" not in (entry.regime, before.regime):
            yield entry
    step = -(-len(kept) // _TELLING)
    yield from kept[::step]


def _row(entry: LedgerEntry) -> tuple[str | Text, ...]:
    used = "" if entry.utilization_ratio is None else f"{entry.utilization_ratio:.0%}"
    notes = []
    if entry.rollup:
        notes.append("roll-up")
    if entry.regime not in ("healthy", "unknown"):
        notes.append({"silent_starvation": "starved", "floor_enforced": "floor held"}.get(entry.regime, entry.regime))
    if entry.compacted:
        notes.append("compacted")
    elif entry.history == "rewritten":
        notes.append("rewritten")
    shown = "?" if entry.input_tokens is None else tokens(entry.input_tokens)
    if entry.time_ns is None:
        time = ""
    else:
        time = datetime.datetime.fromtimestamp(entry.time_ns / 1e9, tz=datetime.UTC).strftime("%H:%M:%S")
    style = "red" if entry.regime == "silent_starvation" else ""
    return (
        str(entry.turn),
        time,
        shown,
        used,
        _bar(entry),
        Text("" if entry.residual_tokens is None else tokens(entry.residual_tokens), style),
        "" if entry.residual_tokens is None else tokens(entry.requirement_tokens),
        Text(" ".join(notes), style or "dim"),
    )


def _bar(entry: LedgerEntry) -> Text:
    """The composition of the input as a bar; a question mark where it is not known."""
    parts = [
        entry.reserved.system, entry.reserved.tools, entry.retrieval_tokens, entry.scratchpad_tokens, entry.working_tokens
    ]  # fmt: skip
    if entry.input_tokens is None or any(part is None for part in parts):
        return Text("?", "dim")
    known = [part or 0 for part in parts]
    if not sum(known):
        return Text("?", "dim")
    text = Text()
    for consumer, cells in zip(CONSUMERS, apportion(_BAR, known), strict=True):
        letter, colour = _LETTERS[consumer]
        text.append(letter * cells, colour)
    return text


def _legend(console: Console) -> None:
    legend = Text("s system · t tool schemas · R retrieval · x tool exchanges · W working memory\n", "dim")
    legend.append("left: what working memory may hold · need: what it needs · ? not reported", "dim")
    console.print(legend)
