"""Arguments and exit codes of the ``lowwater`` command."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from lowwater.detector.errors import LowwaterError

__all__ = ["EXIT_FINDINGS", "EXIT_OK", "EXIT_PARTIAL", "EXIT_USAGE", "main"]

EXIT_OK = 0
"""Everything was read."""
EXIT_USAGE = 2
"""Wrong arguments or configuration, or nothing at all could be read."""
EXIT_PARTIAL = 3
"""Something was read, and something could not be; it is counted and named on standard error."""
EXIT_FINDINGS = 4
"""A finding of the severity given by ``--fail-on`` or worse."""

_EPILOG = """exit codes:
  0  everything was read
  2  wrong arguments or configuration, or nothing could be read
  3  some of the input could not be read (counted and named on standard error)
  4  a finding of the severity of --fail-on or worse, even where 3 holds too
130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a letter is no reason to say nothing
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except LowwaterError as error:
        print(f"lowwater: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("lowwater: interrupted", file=sys.stderr)
        return 130
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lowwater",
        description="Finds LLM agents that quietly run out of working memory, from their traces.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lowwater {version('lowwater')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_replay(commands)
    _add_doctor(commands)
    return parser


def _add_input(command: argparse.ArgumentParser) -> None:
    from lowwater.detector.readers.detect import FORMAT_NAMES  # noqa: PLC0415 - keeps --version quick

    command.add_argument("files", nargs="+", metavar="FILE", help="files or folders; - is standard input")
    command.add_argument(
        "--format", choices=FORMAT_NAMES, metavar="NAME", help=f"do not detect the format: {', '.join(FORMAT_NAMES)}"
    )
    command.add_argument("--config", metavar="FILE", help="TOML with thresholds and declared values")
    command.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    command.add_argument(
        "--no-progress", action="store_true", help="no progress bar (there is none without a terminal)"
    )


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "replay",
        help="token ledger and findings of recorded traces",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_input(command)
    command.add_argument("--calls", choices=("telling", "all", "none"), default="telling", help="which calls to list")
    command.add_argument("--findings", metavar="FILE", help="write findings as JSON lines")
    command.add_argument("--ledger", metavar="FILE", help="write the ledger as JSON lines, one per call")
    command.add_argument(
        "--fail-on", choices=("info", "ticket", "page"), help="exit with 4 on a finding this severe or worse"
    )

    def run(options: argparse.Namespace) -> int:
        from lowwater.detector.cli.replay import run_replay  # noqa: PLC0415

        return run_replay(options)

    command.set_defaults(run=run)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "doctor",
        help="what traces tell, what is missing, and which line would fix it",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_input(command)

    def run(options: argparse.Namespace) -> int:
        from lowwater.detector.cli.doctor import run_doctor  # noqa: PLC0415

        return run_doctor(options)

    command.set_defaults(run=run)
