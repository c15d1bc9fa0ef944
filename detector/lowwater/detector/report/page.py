"""The page: the verdict, the findings, then every context with its charts, worst first.

One file without any request: style and script are inside, and the content security policy allows these two by their hash and
nothing else. Names come from traces and are escaped; message text never gets this far.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from lowwater.detector.findings import Kind, Severity
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.report.charts import held_chart, pool_chart, room_chart
from lowwater.detector.report.series import Point, SeriesBook
from lowwater.detector.summary import ContextSummary, Episode, Summary
from lowwater.detector.wording import finding_name, plural, short_id, tokens, when

__all__ = ["page"]

_MAX_DRAWN = 60
_MAX_FINDINGS = 100
_MAX_POOLS = 40
_LEGEND = (
    ("system", "system prompt"), ("tools", "tool schemas"), ("retrieval", "retrieval"), ("scratchpad", "tool exchanges"),
    ("working", "working memory"), ("reserved", "reserved of the ceiling"), ("bad", "starved turn"),
)  # fmt: skip
_COLUMNS = (
    "turn", "time", "input", "system", "tools", "retrieval", "tool exchanges", "working", "left for working", "needed",
    "state",
)  # fmt: skip


def page(sources: Sequence[str], summary: Summary, book: SeriesBook) -> str:
    """The whole document. The same input gives the same bytes.

    Args:
        sources: names of what was read.
        summary: contexts, findings and pools.
        book: the calls of the contexts.
    """
    style, script = _asset("style.css"), _asset("script.js")
    policy = f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'"
    title = _verdict(summary)[1]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)} · lowwater</title><style>{style}</style></head><body>",
        *_head(sources, summary),
        "<main>",
        *_findings(summary),
        *_pools(summary),
        *_contexts(summary, book),
        f"</main><script>{script}</script></body></html>\n",
    ]
    return "".join(parts)


def _asset(name: str) -> str:
    return files("lowwater.detector.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- the verdict -----------------------------------------------------------------------------------------------------


def _verdict(summary: Summary) -> tuple[str, str]:
    """Class and text of the headline: what is worst, and with whom."""
    episodes = summary.worst_first()
    if not episodes:
        if summary.calls and summary.unjudged >= summary.calls:
            return "info", "Nothing can be said: input or window of all calls is unknown"
        return ("ok", "No findings") if summary.calls else ("info", "No LLM call was found")
    worst = episodes[0].worst
    same = [each for each in episodes if each.worst.severity == worst.severity]
    who = worst.agent or worst.pool or worst.service or "an agent"
    name = finding_name(worst)
    more = f", and {len(same) - 1} more" if len(same) > 1 else ""
    return worst.severity.label, f"{name[0].upper()}{name[1:]}: {who}{more}"


def _head(sources: Sequence[str], summary: Summary) -> Iterator[str]:
    kind, text = _verdict(summary)
    names = ", ".join(Path(name).name for name in sources[:3]) + (
        f" and {len(sources) - 3} more" if len(sources) > 3 else ""
    )
    contexts = len(summary.contexts) + summary.dropped_contexts
    counts = [plural(summary.calls, "call"), plural(contexts, "context")]
    levels = (Severity.PAGE, Severity.TICKET, Severity.INFO)
    worse = (0, summary.count(Severity.PAGE), summary.count(Severity.TICKET))
    counts += [f"{summary.count(level) - more} {level.label}" for level, more in zip(levels, worse, strict=True)]
    button = '<button id="theme" type="button">light / dark</button>'
    yield f'<header><div class="top"><p class="meta">lowwater · {escape(names)}</p>{button}</div>'
    yield f'<h1 class="{kind}">{escape(text)}</h1><p class="soft">{" · ".join(counts)}</p>'
    if summary.unjudged and summary.calls:
        yield (
            f'<p class="soft">{summary.unjudged:,} of {summary.calls:,} calls could not be judged: their input or window is'
            " unknown. <code>lowwater doctor</code> says what would help.</p>"
        )
    yield "</header>"


def _findings(summary: Summary) -> Iterator[str]:
    episodes = summary.worst_first()
    if not episodes:
        return
    yield '<section aria-labelledby="findings"><h2 id="findings">What is wrong, and what to do</h2>'
    for episode in episodes[:_MAX_FINDINGS]:
        yield from _finding(episode)
    if len(episodes) > _MAX_FINDINGS:
        yield f'<p class="soft">… and {len(episodes) - _MAX_FINDINGS} more: --findings FILE writes all.</p>'
    yield "</section>"


def _finding(episode: Episode) -> Iterator[str]:
    finding = episode.worst
    label = finding.severity.label
    who = " · ".join(escape(part) for part in (finding.agent or finding.pool, finding.model, finding.service) if part)
    since = f"from turn {episode.first.turn}" if episode.first.turn is not None else ""
    since += f" at {when(episode.first.time_ns)}" if episode.first.time_ns is not None else ""
    until = f", over at turn {episode.last.turn}" if episode.resolved and episode.last.turn is not None else ""
    until = until or (", over" if episode.resolved else ", goes on")
    link = f' · <a href="#c-{short_id(finding.context)}">its calls</a>' if finding.context else ""
    yield f'<article class="card finding {label}"><h3><span class="badge">{label}</span>{escape(finding_name(finding))}</h3>'
    yield f'<p class="meta">{who}{" · " if who else ""}{since}{until}{link}</p>'
    yield f"<p>{escape(_why(episode))}</p>"
    if finding.advice:
        yield "<ol>"
        for step in finding.advice:
            gives = f" <strong>({tokens(step.tokens)} tokens)</strong>" if step.tokens else ""
            yield f"<li>{escape(step.action)}{gives}</li>"
        yield "</ol>"
    yield "<details><summary>the numbers that decided</summary><div class=scroll><table><thead><tr><th>number</th>"
    yield '<th>value</th><th class="text">known from</th></tr></thead><tbody>'
    for name, value in finding.evidence.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        level = finding.provenance.get(name)
        yield (
            f"<tr><td>{escape(name.replace('_', ' '))}</td><td>{escape('unknown' if value is None else shown)}</td>"
            f'<td class="text">{level.label if level is not None else ""}</td></tr>'
        )
    rule = escape(finding.reason.replace("_", " "))
    yield f"</tbody></table></div><p class=meta>rule: {rule} · id {escape(finding.id)}</p></details></article>"


def _why(episode: Episode) -> str:
    """The finding in one sentence, with its numbers."""
    said = episode.sentence()
    worst = episode.hardest.residual_tokens if episode.hardest is not None else None
    if worst is not None and episode.worst.kind is Kind.SILENT_STARVATION:
        said += f"; at worst {tokens(worst)} left"
    said = said or episode.worst.reason.replace("_", " ")
    return f"{said[:1].upper()}{said[1:]}."


# --- pools and contexts ----------------------------------------------------------------------------------------------


def _pools(summary: Summary) -> Iterator[str]:
    pools = sorted(summary.pools.values(), key=_pool_order)
    if not pools:
        return
    yield '<section aria-labelledby="pools"><h2 id="pools">Fan-outs</h2>'
    for pool in pools[:_MAX_POOLS]:
        reserved = _reserved(summary, pool)
        total = pool.peak_tokens + reserved
        over = pool.ceiling_tokens is not None and total > pool.ceiling_tokens
        against = f"of {tokens(pool.ceiling_tokens)}" if pool.ceiling_tokens is not None else "ceiling unknown"
        beside = f" and {tokens(reserved)} reserved" if reserved else ""
        name = f"{pool.width} at once of {pool.members}: {tokens(pool.peak_tokens)} tokens held together{beside}, {against}"
        yield f'<article class="card{" finding page" if over else ""}"><h3>{escape(name)}</h3>'
        yield f'<p class="meta">{escape(pool.service or "unknown service")} · {when(pool.start_ns)}</p>'
        caption = "each block is one subagent at the peak of their sum; grey is reserved for the orchestrator"
        yield f"<figure>{pool_chart(pool, reserved, name)}<figcaption>{caption}</figcaption></figure>"
        yield "</article>"
    if len(pools) > _MAX_POOLS:
        yield f'<p class="soft">… and {len(pools) - _MAX_POOLS} more.</p>'
    yield "</section>"


def _reserved(summary: Summary, pool: PoolReport) -> int:
    """What of the ceiling is kept for the orchestrator, as a finding of the pool says; else what that was seen to hold."""
    for episode in summary.episodes.values():
        said = episode.worst
        if said.pool == pool.pool and said.trace_id == pool.trace_id:
            kept = (said.evidence.get(name) for name in ("parent_reserve_tokens", "synthesis_reserve_tokens"))
            return sum(value for value in kept if isinstance(value, int))
    return pool.parent_peak_tokens or 0


def _pool_order(pool: PoolReport) -> tuple[float, str, int]:
    ratio = pool.peak_tokens / pool.ceiling_tokens if pool.ceiling_tokens else 0.0
    return -ratio, pool.trace_id, pool.run


def _contexts(summary: Summary, book: SeriesBook) -> Iterator[str]:
    if not summary.contexts:
        return
    worst: dict[str, Severity] = {}
    for episode in summary.episodes.values():
        worst[episode.worst.context] = max(worst.get(episode.worst.context, Severity.INFO), episode.worst.severity)
    ranked = sorted(
        summary.contexts.values(),
        key=lambda each: (-worst.get(each.key, -1), -(each.peak_tokens or 0), each.key),
    )
    yield '<section aria-labelledby="contexts"><h2 id="contexts">Who held the tokens</h2>' + _legend()
    for context in ranked[:_MAX_DRAWN]:
        yield from _context(context, book)
    if len(ranked) > _MAX_DRAWN:
        yield '<article class="card"><h3>The other contexts</h3><div class=scroll><table><thead><tr><th>agent</th>'
        yield "<th>calls</th><th>largest prompt</th><th>least left</th></tr></thead><tbody>"
        for context in ranked[_MAX_DRAWN:]:
            least = context.tightest.residual_tokens if context.tightest is not None else None
            yield (
                f"<tr><td>{escape(_name(context))}</td><td>{context.calls:,}</td><td>{tokens(context.peak_tokens)}</td>"
                f"<td>{tokens(least)}</td></tr>"
            )
        yield "</tbody></table></div></article>"
    yield "</section>"


def _legend() -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{kind}" width="12" height="12"/></svg>{name}</li>'
        for kind, name in _LEGEND
    )
    marks = ("▼ compaction", "× failed call", "— ceiling", "- - where compaction is due")
    items += "".join(f"<li>{mark}</li>" for mark in marks)
    return f'<ul class="legend">{items}</ul>'


def _name(context: ContextSummary) -> str:
    return " · ".join(part for part in (context.agent or "unnamed agent", context.model, context.service) if part)


def _context(context: ContextSummary, book: SeriesBook) -> Iterator[str]:
    series = book.series.get(context.key)
    points = series.shown() if series is not None else []
    anchor = short_id(context.key)
    yield f'<article class="card" id="c-{anchor}"><h3>{escape(_name(context))}</h3>'
    least = context.tightest.residual_tokens if context.tightest is not None else None
    facts = [
        plural(context.calls, "call"), f"largest prompt {tokens(context.peak_tokens)}",
        f"least left for working memory {tokens(least)}", f"context {anchor}",
    ]  # fmt: skip
    if series is not None and series.calls > len(points):
        facts.append(f"{len(points)} of {series.calls:,} calls drawn, the most telling of each group")
    yield f'<p class="meta">{" · ".join(facts)}</p>'
    if points:
        yield from _figures(context, points)
        yield from _table(points, anchor)
    yield "</article>"


def _figures(context: ContextSummary, points: Sequence[Point]) -> Iterator[str]:
    starved = sum(point.regime == "silent_starvation" for point in points)
    held = (
        f"Tokens by consumer over {len(points)} calls of {_name(context)}; largest prompt {tokens(context.peak_tokens)}"
    )
    yield f'<figure><div class="chart" tabindex="0" role="group" aria-label="{escape(held)}; arrow keys read call by call">'
    yield held_chart(points, held) + "</div>"
    judged = [p for p in points if p.residual is not None and p.requirement is not None]
    if judged:
        room = f"Room for working memory against the need; {starved} starved of {len(points)} calls"
        yield room_chart(points, room)
        yield "<figcaption>above: who holds the window · below: what is left for working memory, red line: what is needed"
    else:
        yield "<figcaption>who holds the window; what is left for working memory is unknown"
    yield "</figcaption><output aria-live=polite></output></figure>"


def _table(points: Sequence[Point], anchor: str) -> Iterator[str]:
    yield "<details><summary>the same as a table</summary><div class=scroll tabindex=0"
    yield f' role="region" aria-label="table of calls of context {anchor}"><table><thead><tr>'
    yield (
        "".join(f"<th{' class=text' if name == 'state' else ''}>{name}</th>" for name in _COLUMNS)
        + "</tr></thead><tbody>"
    )
    for p in points:
        state = "failed" if p.failed else p.regime.replace("_", " ")
        state += ", compacted" if p.compacted else ""
        numbers = (p.input_tokens, p.system, p.tools, p.retrieval, p.scratchpad, p.working, p.residual, p.requirement)
        cells = "".join(f"<td>{'unknown' if value is None else f'{value:,}'}</td>" for value in numbers)
        mark = " class=starved" if p.regime == "silent_starvation" else ""
        yield f"<tr{mark}><td>{p.turn}</td><td>{when(p.time_ns, date=False)}</td>{cells}<td class=text>{state}</td></tr>"
    yield "</tbody></table></div></details>"
