"""``lowwater replay``: run the pipeline over files, print what it found, write what was asked for."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from contextlib import ExitStack
from typing import Any

import orjson

from lowwater.detector.backtest import DEFAULT_SHORT_TURNS, Backtest
from lowwater.detector.cli.arguments import Commands, add_command, add_input
from lowwater.detector.cli.backtest import backtest_document, render_backtest
from lowwater.detector.cli.codes import EXIT_FINDINGS, EXIT_OK, EXIT_PARTIAL, EXIT_USAGE
from lowwater.detector.cli.common import check_outputs, configuration, open_output, progress, report_problems, steps
from lowwater.detector.cli.render import render
from lowwater.detector.findings import Finding, Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.replay import Replay
from lowwater.detector.report.page import page
from lowwater.detector.report.series import SeriesBook
from lowwater.detector.summary import Summary
from lowwater.detector.sweep import Sweep, SweepRow, parse_sweep

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add ``lowwater replay``."""
    command = add_command(commands, "replay", "token ledger and findings of recorded traces", _run)
    add_input(command)
    command.add_argument(
        "--calls",
        choices=("telling", "all", "none"),
        default="telling",
        help="which calls to list: those that tell something (the first and last, the fullest, around compactions and"
        " changes of state; default), all, or none",
    )
    command.add_argument("--findings", metavar="FILE", help="write findings as JSON lines")
    command.add_argument("--html", metavar="FILE", help="write a report to open in a browser: one file, no network")
    command.add_argument("--ledger", metavar="FILE", help="write the ledger as JSON lines, one per call")
    command.add_argument(
        "--fail-on", choices=("info", "ticket", "page"), help="exit with 4 on a finding this severe or worse"
    )
    command.add_argument(
        "--backtest", action="store_true", help="say what would have fired and paged, when, and for how long"
    )
    command.add_argument(
        "--sweep",
        metavar="KEY=N,N",
        action="append",
        default=[],
        help="backtest every value of a number of the configuration, for example fire_after_turns=1,2,3; again for"
        " another key: all combinations",
    )
    command.add_argument(
        "--short-lived",
        metavar="TURNS",
        type=_turns,
        default=DEFAULT_SHORT_TURNS,
        help="with --backtest: a page that is over within so many turns is short-lived (default %(default)s)",
    )


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config = configuration(options)
    replay, summary = Replay(config), Summary()
    check_outputs(options.files, (options.findings, options.ledger, options.html))
    backtest = Backtest(options.short_lived) if options.backtest or options.sweep else None
    rows: list[SweepRow] = []
    started = time.perf_counter()
    with ExitStack() as stack:
        sweep = None
        if options.sweep:
            sweep = stack.enter_context(Sweep(config, parse_sweep(options.sweep), options.short_lived))
        findings = stack.enter_context(open_output(options.findings))
        ledger = stack.enter_context(open_output(options.ledger))
        html = stack.enter_context(open_output(options.html))
        book = SeriesBook() if html is not None else None
        with progress(options) as on_progress:
            for output in replay.run(
                options.files,
                format_name=options.format,
                on_progress=on_progress,
                through=None if sweep is None else sweep.keep,
            ):
                summary.add(output)
                if book is not None:
                    book.add(output)
                if backtest is not None:
                    backtest.add(output)
                if ledger is not None and isinstance(output, LedgerEntry):
                    ledger.write(_line(output.to_json()))
                elif findings is not None and isinstance(output, Finding):
                    findings.write(_line(output.to_json()))
        if html is not None and book is not None:
            html.write(page([report.file for report in replay.files], summary, book))
        if sweep is not None and backtest is not None:
            with steps(options, "settings", len(sweep.settings)) as on_step:
                rows = sweep.rows(backtest, replay.directory, on_progress=on_step)
    seconds = time.perf_counter() - started
    outputs = (options.findings, options.ledger, options.html)
    if options.json and backtest is not None:
        sys.stdout.write(_line(backtest_document(replay, backtest, rows)))
    elif options.json:
        sys.stdout.write(_line(_document(replay, summary)))
    elif "-" not in outputs and backtest is not None:
        render_backtest(replay, backtest, rows, seconds=seconds)
    elif "-" not in outputs:
        render(replay, summary, calls=options.calls, seconds=seconds)
    report_problems(replay.problems)
    if options.fail_on and summary.count(Severity[options.fail_on.upper()]):
        return EXIT_FINDINGS
    if replay.problems.total:
        return EXIT_PARTIAL if summary.calls or summary.rollups else EXIT_USAGE
    return EXIT_OK


def _turns(text: str) -> int:
    """A number of turns, at least 1.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not (text.isdecimal() and int(text) >= 1):
        msg = f"{text!r} is no number of turns; give a whole number from 1"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _line(record: dict[str, Any]) -> str:
    return orjson.dumps(record).decode() + "\n"


def _document(replay: Replay, summary: Summary) -> dict[str, Any]:
    return {
        "schema": "lowwater.replay/1",
        "files": [dataclasses.asdict(report) for report in replay.files],
        "counts": {
            "calls": summary.calls,
            "rollups": summary.rollups,
            "unjudged": summary.unjudged,
            "contexts": len(summary.contexts) + summary.dropped_contexts,
            **dict(sorted(replay.pipeline.assembler.counts.items())),
            **dict(sorted(replay.ingest.times.items())),
            **dict(sorted(replay.ingest.context.rejected.items())),
        },
        "input_rules": dict(sorted(summary.input_rules.items())),
        "contexts": [context.to_json() for context in summary.contexts.values()],
        "pools": [
            {
                "pool": pool.pool,
                "run": pool.run,
                "trace_id": pool.trace_id,
                "service": pool.service,
                "conversation": pool.conversation,
                "width": pool.width,
                "members": pool.members,
                "peak_tokens": pool.peak_tokens,
                "peak_input_tokens": list(pool.peak_input_tokens),
                "first_input_tokens": list(pool.first_input_tokens),
                "parent_peak_tokens": pool.parent_peak_tokens,
                "spend_tokens": pool.spend_tokens,
                "ceiling_tokens": pool.ceiling_tokens,
            }
            for pool in summary.pools.values()
        ],
        "findings": [episode.worst.to_json() | {"resolved": episode.resolved} for episode in summary.worst_first()],
        "problems": {"total": replay.problems.total, "first": [str(problem) for problem in replay.problems.kept]},
    }
