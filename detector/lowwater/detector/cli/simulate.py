"""``lowwater simulate``: labelled traces of simulated agents, in any dialect, with the truth beside them."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path

from rich.table import Table

from lowwater.detector.cli.arguments import Commands, add_command
from lowwater.detector.cli.codes import EXIT_OK
from lowwater.detector.cli.common import Terminal, steps
from lowwater.detector.errors import InputError

__all__ = ["add"]

_FORMATS = {"otlp-json": "otlp.jsonl", "otlp-proto": "otlp.pb"}


def add(commands: Commands) -> None:
    """Add ``lowwater simulate``."""
    command = add_command(commands, "simulate", "write labelled traces of simulated agents", _run)
    command.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="names of --list; none for all")
    command.add_argument("--list", action="store_true", help="show the scenarios and dialects")
    command.add_argument("--out", metavar="FOLDER", default="simulated", help="where to write (simulated)")
    command.add_argument("--dialect", default="gen_ai", metavar="NAME", help="how spans are written (gen_ai)")
    command.add_argument("--format", choices=_FORMATS, default="otlp-json", help="how files are written (otlp-json)")
    command.add_argument("--no-content", action="store_true", help="without messages, arguments and results")
    command.add_argument("--runs", type=_positive, default=1, metavar="N", help="runs of each scenario (1)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first run (0)")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--no-progress", action="store_true", help="no progress bar")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from lowwater.detector.simulation.emit import spans  # noqa: PLC0415 - slow, and --help needs none of it
    from lowwater.detector.simulation.files import batches, truth_of, write_json, write_proto  # noqa: PLC0415
    from lowwater.detector.simulation.scenarios import SCENARIOS  # noqa: PLC0415
    from lowwater.detector.simulation.writers import WRITERS  # noqa: PLC0415

    if options.list:
        return _list(options)
    _known("scenario", options.scenarios, SCENARIOS)
    _known("dialect", [options.dialect], WRITERS)
    names = options.scenarios or list(SCENARIOS)
    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: cannot be made: {error.strerror}: give another folder with --out"
        raise InputError(msg) from error
    write = write_json if options.format == "otlp-json" else write_proto
    written = []
    with steps(options, "simulating", len(names)) as done:
        for number, name in enumerate(names, 1):
            path, truth_path = folder / f"{name}.{_FORMATS[options.format]}", folder / f"{name}.truth.jsonl"
            count = 0
            with path.open("wb") as traces, truth_path.open("w", encoding="utf-8") as truths:
                for seed in range(options.seed, options.seed + options.runs):
                    run = SCENARIOS[name].make(seed)
                    for batch in batches(spans(run, options.dialect, content=not options.no_content)):
                        write(batch, traces)
                        count += len(batch)
                    truths.write(json.dumps(truth_of(run)) + "\n")
            written.append({"scenario": name, "file": str(path), "truth": str(truth_path), "spans": count})
            done(number)
    if options.json:
        document = {"schema": "lowwater.simulate/1", "dialect": options.dialect, "seed": options.seed, "files": written}
        sys.stdout.write(json.dumps(document) + "\n")
        return EXIT_OK
    for item in written:
        print(f"{item['spans']:>7,} spans  {item['file']}")
    print(f"What is true of them stands in *.truth.jsonl. Next: lowwater replay {written[0]['file']}")
    return EXIT_OK


def _known(what: str, names: list[str], known: object) -> None:
    """Refuse a name that is not known.

    Raises:
        InputError: names the nearest.
    """
    valid = list(known)  # type: ignore[call-overload]
    for name in names:
        if name not in valid:
            close = difflib.get_close_matches(name, valid, 1, 0.4)
            hint = f"did you mean {close[0]}?" if close else f"valid: {', '.join(valid)}"
            msg = f"{name}: no such {what}; {hint}"
            raise InputError(msg)


def _list(options: argparse.Namespace) -> int:
    from lowwater.detector.simulation.scenarios import SCENARIOS  # noqa: PLC0415
    from lowwater.detector.simulation.writers import WRITERS  # noqa: PLC0415

    if options.json:
        rows = [
            {"name": each.name, "family": each.family, "look_alike_of": each.look_alike_of, "summary": each.summary}
            for each in SCENARIOS.values()
        ]
        document = {"schema": "lowwater.scenarios/1", "scenarios": rows, "dialects": list(WRITERS)}
        sys.stdout.write(json.dumps(document) + "\n")
        return EXIT_OK
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("scenario", "family", "what happens"):
        table.add_column(name)
    for each in SCENARIOS.values():
        family = f"like {each.look_alike_of}" if each.look_alike_of else each.family
        table.add_row(each.name, family, each.summary)
    console = Terminal()
    console.print(table)
    console.print(f"\ndialects: {', '.join(WRITERS)}")
    return EXIT_OK
