"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from lowwater.detector.cli.codes import EPILOG

if TYPE_CHECKING:
    Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
else:
    Commands = object

__all__ = ["Commands", "add_command", "add_input"]


def add_command(
    commands: Commands, name: str, help_line: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command that shares the exit codes.

    Args:
        help_line: one line for the list of commands.
        run: from the parsed options to the exit code.
    """
    command = commands.add_parser(
        name,
        help=help_line,
        description=help_line,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def add_input(command: argparse.ArgumentParser, *, nargs: str = "+") -> None:
    """Add the files to read, and how."""
    from lowwater.detector.readers.detect import FORMAT_NAMES  # noqa: PLC0415 - slow, and not always needed

    command.add_argument("files", nargs=nargs, metavar="FILE", help="files or folders; - is standard input")
    command.add_argument(
        "--format", choices=FORMAT_NAMES, metavar="NAME", help=f"do not detect the format: {', '.join(FORMAT_NAMES)}"
    )
    command.add_argument("--config", metavar="FILE", help="TOML with thresholds and declared values")
    command.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    command.add_argument(
        "--no-progress", action="store_true", help="no progress bar (there is none without a terminal)"
    )
