"""What the commands share: configuration, progress, files written, problems reported."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lowwater.detector.config import DetectorConfig
from lowwater.detector.errors import InputError
from lowwater.detector.readers.base import Problems
from lowwater.detector.settings import load_config
from lowwater.detector.wording import duration, plural, short_id, tokens, when

__all__ = [
    "Terminal",
    "check_outputs",
    "configuration",
    "duration",
    "open_output",
    "plural",
    "progress",
    "report_problems",
    "short_id",
    "steps",
    "tokens",
    "when",
    "width",
]

_SHOWN_PROBLEMS = 8


def configuration(options: argparse.Namespace) -> DetectorConfig:
    """The configuration of ``--config`` and the environment, or the defaults."""
    return load_config(Path(options.config) if options.config else None, os.environ)


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


@contextlib.contextmanager
def steps(options: argparse.Namespace, description: str, total: int) -> Iterator[Callable[[int], None]]:
    """As `progress`, over a known number of steps."""
    if options.no_progress or not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


class Terminal(Console):
    """Standard output for people, as wide as the terminal. Lines that go into a file or a pipe end without blanks."""

    def __init__(self) -> None:
        file = None if sys.stdout.isatty() else cast(IO[str], _Trimmed(sys.stdout))
        super().__init__(file=file, width=width(), highlight=False, soft_wrap=False)

    def on_broken_pipe(self) -> None:
        """Pass the error on: a reader that went away is the command's to judge; rich would exit with 1."""
        raise BrokenPipeError


class _Trimmed:
    """A text stream that drops the blanks before line ends; tables are padded to their columns."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_BLANKS.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_BLANKS = re.compile(r"[ \t]+(?=\n)")


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


def width() -> int:
    """Columns of the terminal; where there is none COLUMNS or 80, so that files and logs stay readable."""
    if sys.stdout.isatty():
        return max(_LEAST_WIDTH, Console().width)
    columns = os.environ.get("COLUMNS", "")
    return max(_LEAST_WIDTH, int(columns)) if columns.isdecimal() else 80


_LEAST_WIDTH = 40
