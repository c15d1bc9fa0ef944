"""``lowwater replay --backtest`` for people and for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowwater.detector.backtest import Backtest, BacktestEpisode
from lowwater.detector.cli.common import Terminal, duration, plural, short_id, when
from lowwater.detector.cli.words import SEVERITY_STYLE, finding_name
from lowwater.detector.replay import Replay
from lowwater.detector.settings import numeric_settings
from lowwater.detector.sweep import SweepRow

__all__ = ["backtest_document", "render_backtest"]

_MAX_EPISODES = 40
_INDENT = (0, 0, 0, 7)


def backtest_document(replay: Replay, backtest: Backtest, rows: Sequence[SweepRow]) -> dict[str, Any]:
    """The document ``lowwater.backtest/1``."""
    config = replay.config
    return {
        "schema": "lowwater.backtest/1",
        "files": [dataclasses.asdict(report) for report in replay.files],
        "settings": {name: getattr(config, name) for name in numeric_settings() if hasattr(config, name)},
        **backtest.to_json(),
        "sweep": [row.to_json() for row in rows],
        "problems": {"total": replay.problems.total, "first": [str(problem) for problem in replay.problems.kept]},
    }


def render_backtest(replay: Replay, backtest: Backtest, rows: Sequence[SweepRow], *, seconds: float) -> None:
    """Print to standard output."""
    console = Terminal()
    names = [report.file for report in replay.files]
    what = Path(names[0]).name if len(names) == 1 else plural(len(names), "file")
    contexts, agents = backtest.contexts()
    calls = plural(backtest.calls, "call")
    line = f" · {calls} in {plural(contexts, 'context')} of {plural(agents, 'agent')} · {seconds:.1f} s"
    console.print(Text.assemble((what, "bold"), line))
    extent = backtest.extent_ns()
    if extent is not None:
        console.print(Text(f"recorded {when(extent[0])} to {when(extent[1])}", "dim"))
    console.print()
    if not backtest.calls:
        console.print("No LLM call was found. [dim]lowwater doctor FILE says what the file holds.[/dim]")
        return
    console.print("[bold]Had this been on, with these settings[/bold]")
    episodes = backtest.episodes()
    if not episodes:
        console.print("Nothing would have fired.")
    for episode in episodes[:_MAX_EPISODES]:
        _episode(console, episode, short=episode.is_short_lived(backtest.short_turns))
    if len(episodes) > _MAX_EPISODES:
        console.print(f"[dim]… and {plural(len(episodes) - _MAX_EPISODES, 'more finding')} (--json lists all)[/dim]")
    _totals(console, backtest)
    if rows:
        _sweep(console, rows)
    console.print(
        Text(
            "One page per finding, when it first reaches the severity page; grouping, silences and repeats of"
            " Alertmanager are not modelled. An agent-hour is an hour between the first and last call of one context.",
            "dim",
        )
    )


def _episode(console: Terminal, episode: BacktestEpisode, *, short: bool) -> None:
    finding = episode.worst
    line = Text()
    line.append(f"{finding.severity.label.upper():<6} ", SEVERITY_STYLE[finding.severity])
    line.append(finding_name(finding), "bold")
    who = finding.pool if finding.kind.value.startswith("fanout_") else finding.agent or finding.service
    line.append(f" · {who}" if who else "")
    line.append(f" #{short_id(finding.context)}" if finding.context else "", "dim")
    console.print(line)
    fired = f"fired {when(episode.first.time_ns)}"
    if episode.first.turn is not None:
        fired += f", turn {episode.first.turn}"
        if episode.onset_turn not in (None, episode.first.turn):
            fired += f" (began at {episode.onset_turn})"
    console.print(Padding(Text(fired), _INDENT, expand=False))
    if episode.page is not None:
        turn = "" if episode.page.turn is None else f", turn {episode.page.turn}"
        console.print(Padding(Text(f"paged {when(episode.page.time_ns)}{turn}", "red"), _INDENT, expand=False))
    turns, lasted = episode.lasted_turns(), episode.lasted_seconds()
    parts = [plural(turns, "turn")] if turns is not None else []
    parts += [duration(lasted)] if lasted is not None else []
    until = "" if episode.end_turn is None else f", turn {episode.end_turn}"
    if episode.resolved is not None:
        end = f"over {when(episode.end_ns)}{until}" + (", by itself soon after the page" if short else "")
    else:
        end = f"still firing at the end{until}"
    after = f" · {', '.join(parts)} after it fired" if parts else ""
    console.print(Padding(Text(end + after, "dim"), _INDENT, expand=False))


def _totals(console: Terminal, backtest: Backtest) -> None:
    quiet_contexts, quiet_agents = backtest.quiet()
    if quiet_contexts:
        console.print(f"{plural(quiet_contexts, 'context')} of {plural(quiet_agents, 'agent')}: nothing of their own")
    if backtest.unjudged:
        console.print(
            f"[yellow]{backtest.unjudged:,} of {plural(backtest.calls, 'call')} could not be judged[/yellow]: their"
            " input or window is unknown. [dim]lowwater doctor FILE says what would help.[/dim]"
        )
    console.print()
    counts, pages = backtest.by_severity(), backtest.pages()
    findings = f"{plural(counts['page'], 'page')}, {plural(counts['ticket'], 'ticket')}, {counts['info']:,} info"
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("findings", f"{sum(counts.values()):,} ({findings})")
    rate = backtest.pages_per_agent_hour()
    hours = f"{backtest.agent_hours():.3g} agent-hours"
    rated = f"{rate:.3g} per agent-hour ({hours})" if rate is not None else "no time passed: no rate"
    where = f" in {plural(backtest.contexts_paged(), 'context')}" if pages else ""
    table.add_row("pages", f"{len(pages):,}{where}; {rated}")
    days = backtest.pages_per_day()
    if pages and days:
        with_pages = {day: count for day, count in days.items() if count}
        busiest = max(with_pages, key=lambda day: with_pages[day])
        table.add_row(
            "per day",
            f"{len(pages) / len(days):.3g} over {plural(len(days), 'day')}; most {days[busiest]} on {busiest}",
        )
    if pages:
        short = sum(episode.is_short_lived(backtest.short_turns) for episode in pages)
        table.add_row(
            "short-lived", f"{short:,} of them over by themselves within {plural(backtest.short_turns, 'turn')}"
        )
    console.print(table)
    console.print()


def _sweep(console: Terminal, rows: Sequence[SweepRow]) -> None:
    keys = list(rows[0].setting)
    console.print("[bold]With other settings[/bold]")
    for number, key in enumerate(keys, 1):
        console.print(Text(f"  {_letter(number, keys)} {key}", "dim"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for number in range(1, len(keys) + 1):
        table.add_column(_letter(number, keys), justify="right", no_wrap=True)
    for name in ("findings", "pages", "contexts\npaged", "pages per\nagent-hour", "turns to\nfire", "short-\nlived"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        rate, turns = row.pages_per_agent_hour, row.median_turns_to_fire
        table.add_row(
            "▶" if row.current else "",
            *("as is" if value is None else f"{value:g}" for value in row.setting.values()),
            f"{sum(row.findings.values()):,}",
            f"{row.pages:,}",
            f"{row.contexts_paged:,}",
            "?" if rate is None else f"{rate:.3g}",
            "?" if turns is None else f"{turns:g}",
            f"{row.short_lived_pages:,}",
            style="bold" if row.current else "",
        )
    console.print(table)
    console.print(Text("▶ the settings as they are · turns to fire: median, from a context's first call", "dim"))
    console.print()


def _letter(number: int, keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 and len(keys[0]) <= 12 else chr(ord("A") + (number - 1) % 26)
