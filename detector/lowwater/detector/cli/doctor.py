"""``lowwater doctor``: what traces tell, what is missing, which findings are possible, and what would fix it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import orjson
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowwater.detector.cli.arguments import Commands, add_command, add_input
from lowwater.detector.cli.codes import EXIT_OK, EXIT_PARTIAL, EXIT_USAGE
from lowwater.detector.cli.common import Terminal, configuration, duration, progress, report_problems
from lowwater.detector.diagnosis import Coverage, Diagnosis
from lowwater.detector.errors import InputError
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.replay import Replay

__all__ = ["add"]

_RULES = {
    "absent": "no usage reported",
    "zero": "zero reported, taken as unknown",
    "cache_exceeds_input": "cache-exclusive: more was cached than reported as input",
    "parts_sum": "cache-inclusive: the parts sum to it",
    "total": "settled by the reported total",
    "producer": "settled by the producer's version",
    "producer_observed": "cache-exclusive, as other calls of this producer showed",
    "exclusive_without_cache": "cache-exclusive without the cached part: unknown",
    "implausible_for_content": "far below the content shown: unknown",
    "specification": "taken as inclusive, as the specification asks",
}


def add(commands: Commands) -> None:
    """Add ``lowwater doctor``."""
    command = add_command(commands, "doctor", "what traces tell, what is missing, and which line would fix it", _run)
    add_input(command, nargs="*")
    command.add_argument(
        "--live",
        nargs="?",
        const="http://127.0.0.1:9464",
        metavar="URL",
        help="ask a running detector at its admin address (http://127.0.0.1:9464); LOWWATER_SERVE_TOKEN is its token",
    )


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if options.live is not None:
        if options.files:
            msg = "doctor reads files, or with --live a running detector: give one of them"
            raise InputError(msg)
        return _run_live(options)
    if not options.files:
        msg = "doctor needs files to read, or --live for a running detector"
        raise InputError(msg)
    replay, diagnosis = Replay(configuration(options)), Diagnosis()
    with progress(options) as on_progress:
        for output in replay.run(
            options.files, format_name=options.format, on_progress=on_progress, observe=diagnosis.observe
        ):
            if isinstance(output, LedgerEntry):
                diagnosis.add(output)
    if options.json:
        sys.stdout.write(orjson.dumps(_document(replay, diagnosis)).decode() + "\n")
    else:
        _print(replay, diagnosis)
    report_problems(replay.problems)
    if replay.problems.total:
        return EXIT_PARTIAL if diagnosis.kinds else EXIT_USAGE
    return EXIT_OK


def _document(replay: Replay, diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "schema": "lowwater.doctor/1",
        "files": [dataclasses.asdict(report) for report in replay.files],
        "kinds": dict(sorted(diagnosis.kinds.items())),
        "scopes": dict(sorted(diagnosis.scopes.items())),
        "dialects": {name: dataclasses.asdict(cover) for name, cover in sorted(diagnosis.dialects.items())},
        "input_rules": dict(sorted(diagnosis.rules.items())),
        "calls": diagnosis.calls,
        "rollups": diagnosis.rollups,
        "duplicates": dict(sorted(replay.pipeline.assembler.counts.items())),
        "times": dict(sorted(replay.ingest.times.items())),
        "findings": [
            {"kind": item.kind.value, "possible": item.possible, "why": item.why} for item in diagnosis.possible()
        ],
        "gaps": [dataclasses.asdict(gap) for gap in diagnosis.gaps()],
        "problems": {"total": replay.problems.total, "first": [str(problem) for problem in replay.problems.kept]},
    }


def _run_live(options: argparse.Namespace) -> int:
    document = _fetch(options.live)
    if options.json:
        sys.stdout.write(orjson.dumps(document).decode() + "\n")
        return EXIT_OK
    console = Terminal()
    _print_live(console, options.live, document)
    stated = document["diagnosis"]
    dialects = {name: Coverage(**cover) for name, cover in stated.pop("dialects").items()}
    _print_diagnosis(console, Diagnosis(dialects=dialects, **stated), document["duplicates"], document["times"])
    return EXIT_OK


def _fetch(url: str) -> dict[str, Any]:
    """What a running detector says of itself.

    Raises:
        InputError: it cannot be asked; names the place and the remedy.
    """
    import requests  # noqa: PLC0415 - only for a running detector

    token = os.environ.get("LOWWATER_SERVE_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = requests.get(f"{url.rstrip('/')}/v1/doctor", headers=headers, timeout=10)
    except requests.RequestException as error:
        msg = f"{url}: no detector answers ({type(error).__name__}): start lowwater serve, or give its admin address"
        raise InputError(msg) from error
    if answer.status_code == 401:
        msg = f"{url}: wants a token: set LOWWATER_SERVE_TOKEN"
        raise InputError(msg)
    try:
        document: dict[str, Any] = answer.json()
        known = document["schema"] == "lowwater.doctor.live/1"
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        msg = f"{url}: answers, but is no lowwater of this version: give the admin address of lowwater serve"
        raise InputError(msg)
    return document


def _print_live(console: Terminal, url: str, document: dict[str, Any]) -> None:
    received = (
        ", ".join(f"{count:,.0f} {what}" for what, count in document["received"].items() if count) or "nothing yet"
    )
    console.print(Text.assemble((url, "bold"), f" · received {received}"))
    last = document["last_span_seconds"]
    if last:
        since = duration(max(0.0, time.time() - last))
        console.print(Text(f"  last data {since} ago; lag {duration(document['lag_seconds'])}", "dim"))
    for reason, count in sorted(document["dropped"].items()):
        console.print(Text(f"  {count:,.0f} not taken: {reason.replace('_', ' ')}", "yellow"))
    if document["late"]:
        console.print(Text(f"  {document['late']:,.0f} came later than the lateness allows", "yellow"))
    console.print()


def _print(replay: Replay, diagnosis: Diagnosis) -> None:
    console = Terminal()
    for report in replay.files[:20]:
        counts = {"spans": report.spans, "log records": report.logs, "readings": report.readings}
        items = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"
        console.print(Text.assemble((report.file, "bold"), f" · {report.format or 'no known format'} · {items}"))
    if len(replay.files) > 20:
        console.print(f"[dim]… and {len(replay.files) - 20} more files[/dim]")
    console.print()
    _print_diagnosis(console, diagnosis, replay.pipeline.assembler.counts, replay.ingest.times)


def _print_diagnosis(
    console: Terminal, diagnosis: Diagnosis, counts: Mapping[str, int], times: Mapping[str, int]
) -> None:
    if not diagnosis.dialects and not diagnosis.calls:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(diagnosis.kinds.items())) or "no spans at all"
        console.print(f"No LLM call was recognised ({kinds}).")
        return
    _print_dialects(console, diagnosis)
    if not diagnosis.calls and not diagnosis.rollups:
        console.print("No call is old enough to be judged: ask again in two minutes.")
        return
    _print_counting(console, diagnosis, counts, times)
    console.print("[bold]Findings that this input allows[/bold]")
    for item in diagnosis.possible():
        mark = Text("yes ", "green") if item.possible else Text("no  ", "red")
        what = item.kind.value.replace("_", " ")
        console.print(Padding(Text.assemble(mark, what, (f" · {item.why}", "dim")), (0, 0, 0, 2), expand=False))
    console.print()
    gaps = list(diagnosis.gaps())
    if gaps:
        console.print("[bold]What is missing, and the line that fixes it[/bold]")
    for gap in gaps:
        lacking = f"{gap.what}: {gap.lacking} of {gap.calls} calls lack it"
        console.print(Padding(Text.assemble(lacking, (f" · {gap.costs}", "dim")), (0, 0, 0, 2), expand=False))
        console.print(Padding(Text(f"→ {gap.fix}", "cyan"), (0, 0, 0, 4), expand=False))


def _print_dialects(console: Terminal, diagnosis: Diagnosis) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("dialects of LLM spans", overflow="fold")
    for name in ("spans", "usage", "cache", "content", "conv.", "agent", "max out"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, cover in sorted(diagnosis.dialects.items(), key=lambda item: -item[1].calls):
        shares = (
            cover.with_usage,
            cover.with_cache_split,
            cover.with_content,
            cover.with_conversation,
            cover.with_agent,
            cover.with_max_output,
        )
        table.add_row(name, f"{cover.calls:,}", *(f"{share / cover.calls:.0%}" for share in shares))
    console.print(table)
    console.print()


def _print_counting(
    console: Terminal, diagnosis: Diagnosis, counts: Mapping[str, int], times: Mapping[str, int]
) -> None:
    console.print(
        f"[bold]Counted once[/bold]: {diagnosis.calls:,} calls; {counts.get('rollups', 0)} roll-ups above them and"
        f" {counts.get('duplicate_calls', 0) + counts.get('duplicate_spans', 0)} duplicates left out"
        + (f"; {diagnosis.rollups} roll-ups kept, having no calls below" if diagnosis.rollups else "")
    )
    for rule, calls in sorted(diagnosis.rules.items(), key=lambda item: -item[1]):
        console.print(Text(f"  {calls:>6,}  {_RULES.get(rule, rule)}", "dim"))
    for what, calls in sorted(times.items()):
        console.print(Text(f"  {calls:>6,}  spans with {what.replace('_', ' ')}, clamped", "yellow"))
    console.print()
