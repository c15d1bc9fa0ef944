"""What the commands share: configuration, progress, files written, problems reported."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
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


def when(time_ns: int | None, *, date: bool = True) -> str:
    """A moment for people, in UTC: with its date, or the time of day alone.

    >>> when(1_750_000_000_500_000_000), when(1_750_000_000_500_000_000, date=False), when(None)
    ('2025-06-15 15:06:40Z', '15:06:40', '?')
    """
    if time_ns is None:
        return "?"
    moment = datetime.datetime.fromtimestamp(time_ns // 1_000_000_000, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ" if date else "%H:%M:%S")


def duration(seconds: float) -> str:
    """A length of time for people, in its two largest units.

    >>> duration(0.4), duration(12.3), duration(754), duration(7_300), duration(200_000)
    ('0.4 s', '12 s', '12 min 34 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s".replace(" 0 s", "")
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min".replace(" 0 min", "")
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h".replace(" 0 h", "")


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "call"), plural(1_200, "call"), plural(2, "retry")
    ('1 call', '1,200 calls', '2 retries')
    """
    if count != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
    return f"{count:,} {noun}"


def short_id(context: str) -> str:
    """Six digits that tell contexts of one name apart, the same in every report.

    >>> short_id("svc/conversation/agent/model")
    'e5f5be'
    """
    return hashlib.blake2b(context.encode(), digest_size=3).hexdigest()


def width() -> int:
    """Columns of the terminal; where there is none COLUMNS or 80, so that files and logs stay readable."""
    if sys.stdout.isatty():
        return max(_LEAST_WIDTH, Console().width)
    columns = os.environ.get("COLUMNS", "")
    return max(_LEAST_WIDTH, int(columns)) if columns.isdecimal() else 80


_LEAST_WIDTH = 40
