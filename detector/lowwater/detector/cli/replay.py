"""``lowwater replay``: run the pipeline over files, print what it found, write what was asked for."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import Any

import orjson

from lowwater.detector.cli.arguments import Commands, add_command, add_input
from lowwater.detector.cli.codes import EXIT_FINDINGS, EXIT_OK, EXIT_PARTIAL, EXIT_USAGE
from lowwater.detector.cli.common import check_outputs, configuration, open_output, progress, report_problems
from lowwater.detector.cli.render import render
from lowwater.detector.findings import Finding, Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.replay import Replay
from lowwater.detector.summary import Summary

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
    command.add_argument("--ledger", metavar="FILE", help="write the ledger as JSON lines, one per call")
    command.add_argument(
        "--fail-on", choices=("info", "ticket", "page"), help="exit with 4 on a finding this severe or worse"
    )


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    replay, summary = Replay(configuration(options)), Summary()
    check_outputs(options.files, (options.findings, options.ledger))
    started = time.perf_counter()
    with (
        progress(options) as on_progress,
        open_output(options.findings) as findings,
        open_output(options.ledger) as ledger,
    ):
        for output in replay.run(options.files, format_name=options.format, on_progress=on_progress):
            summary.add(output)
            if ledger is not None and isinstance(output, LedgerEntry):
                ledger.write(_line(output.to_json()))
            elif findings is not None and isinstance(output, Finding):
                findings.write(_line(output.to_json()))
    seconds = time.perf_counter() - started
    if options.json:
        sys.stdout.write(_line(_document(replay, summary)))
    elif "-" not in (options.findings, options.ledger):
        render(replay, summary, calls=options.calls, seconds=seconds)
    report_problems(replay.problems)
    if options.fail_on and summary.count(Severity[options.fail_on.upper()]):
        return EXIT_FINDINGS
    if replay.problems.total:
        return EXIT_PARTIAL if summary.calls or summary.rollups else EXIT_USAGE
    return EXIT_OK


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
