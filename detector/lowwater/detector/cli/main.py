"""The ``lowwater`` command: finds the module of the command that was asked for, and runs it.

A command is a module of this package with a function ``add(commands)``, which adds its parser and sets ``run`` to a
function from the parsed options to an exit code. Only the module that is asked for is imported, and what is slow to
import is imported where it runs: ``lowwater --version`` needs neither.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from lowwater.collectors.errors import LowwaterError
from lowwater.detector.cli.codes import EPILOG, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE

__all__ = ["main"]

COMMANDS: dict[str, str] = {
    "replay": "lowwater.detector.cli.replay",
    "doctor": "lowwater.detector.cli.doctor",
    "serve": "lowwater.detector.cli.serve",
    "demo": "lowwater.detector.cli.demo",
    "simulate": "lowwater.detector.cli.simulate",
    "config": "lowwater.detector.cli.config",
}
"""The module of each command, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a letter is no reason to say nothing
    try:
        options = _parser(given).parse_args(given)
        code: int = options.run(options)
        sys.stdout.flush()
    except LowwaterError as error:
        print(f"lowwater: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ModuleNotFoundError as error:
        if (error.name or "lowwater").partition(".")[0] == "lowwater":
            raise
        print(
            f"lowwater: {error.name} is not installed: the command line needs pip install 'lowwater[detector]'",
            file=sys.stderr,
        )
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("lowwater: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (head, less): not an error, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        print(f"lowwater: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    return code


class _Version(argparse.Action):
    """``--version``: the package's metadata is read only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"lowwater {version('lowwater')}")
        parser.exit()


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lowwater",
        description="Finds LLM agents that quietly run out of working memory, from their traces.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands: Any = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in _wanted(given):
        import_module(module).add(commands)
    return parser


def _wanted(given: Sequence[str]) -> list[str]:
    """Modules needed to parse these arguments: all where it is the help, or a mistake, that must name them."""
    if given[:1] == ["--version"]:
        return []
    named = next((argument for argument in given if not argument.startswith("-")), "")
    return [COMMANDS[named]] if named in COMMANDS else list(COMMANDS.values())
