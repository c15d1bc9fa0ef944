"""What the commands share: configuration, progress, files written, problems reported."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lowwater.detector.config import DetectorConfig, load_config
from lowwater.detector.errors import InputError
from lowwater.detector.readers.base import Problems

__all__ = ["Terminal", "check_outputs", "configuration", "open_output", "progress", "report_problems", "tokens"]

_SHOWN_PROBLEMS = 8


def configuration(options: argparse.Namespace) -> DetectorConfig:
    """The configuration named by ``--config``, or the defaults."""
    return load_config(Path(options.config)) if options.config else DetectorConfig()


@contextlib.contextmanager
def progress(options: argparse.Namespace) -> Iterator[Callable[[str, int], None]]:
    """A progress bar on standard error while files are read; silent where nobody looks at it."""
    if options.no_progress or not sys.stderr.isatty():
        yield lambda name, done: None
        return
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        tasks: dict[str, TaskID] = {}

        def update(name: str, done: int) -> None:
            task = tasks.get(name)
            if task is None:
                size = Path(name).stat().st_size if name != "-" and Path(name).is_file() else None
                task = tasks[name] = bar.add_task(Path(name).name[:30], total=size)
            bar.update(task, completed=done)

        yield update


class Terminal(Console):
    """Standard output for people. A reader that went away is the command's to judge: rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise BrokenPipeError


def check_outputs(files: Sequence[str], outputs: Sequence[str | None]) -> None:
    """Refuse to write over what is read, or two outputs into one file.

    Raises:
        InputError: two of them are one file.
    """
    taken: dict[Path, str] = {}
    for name in files:
        path = Path(name)
        if name != "-":
            found = [item for item in path.rglob("*") if item.is_file()] if path.is_dir() else [path]
            taken.update((item.resolve(), "is also read") for item in found)
    for output in outputs:
        if output is None or Path(output).is_char_device():
            continue
        place = Path(output).resolve() if output != "-" else Path("-")
        if place in taken:
            msg = f"{output}: {taken[place]}; nothing was written. Name another file to write."
            raise InputError(msg)
        taken[place] = "is written twice"


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[IO[str] | None]:
    """Open a file to write, None for none.

    Raises:
        InputError: it cannot be written.
    """
    if path is None:
        yield None
        return
    if path == "-":
        yield sys.stdout
        return
    try:
        handle = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}. Name a file in an existing, writable folder."
        raise InputError(msg) from error
    with handle:
        yield handle


def report_problems(problems: Problems) -> None:
    """Say on standard error what could not be read, and where."""
    for problem in problems.kept[:_SHOWN_PROBLEMS]:
        print(f"lowwater: {problem}", file=sys.stderr)
    rest = problems.total - min(len(problems.kept), _SHOWN_PROBLEMS)
    if rest > 0:
        print(
            f"lowwater: and {rest} more that could not be read (--json lists the first {problems.limit})",
            file=sys.stderr,
        )


def tokens(value: float | None) -> str:
    """A token count for people: exact below ten thousand, then in thousands; unknown is a question mark.

    >>> tokens(None), tokens(4530), tokens(174_738), tokens(1_048_576)
    ('?', '4,530', '174.7k', '1.05M')
    """
    if value is None:
        return "?"
    if abs(value) < 10_000:
        return f"{value:,.0f}"
    if abs(value) < 1_000_000:
        return f"{value / 1_000:.1f}k"
    return f"{value / 1_000_000:.2f}M"


def width() -> int:
    """Columns of the terminal; 80 where there is none, so that files and logs stay readable."""
    return Console().width if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "80"))
