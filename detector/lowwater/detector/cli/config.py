"""``lowwater config show``: every setting with its value and where that comes from."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from lowwater.detector.cli.arguments import Commands, add_command
from lowwater.detector.cli.codes import EXIT_OK
from lowwater.detector.settings import SECRETS, Loaded, load

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Add ``lowwater config``."""
    command = add_command(commands, "config", "check the configuration and show every setting", _run)
    command.add_argument("action", choices=("show",), help="show: print all settings as TOML, with their sources")
    command.add_argument("--config", metavar="FILE", help="TOML file")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    loaded = load(Path(options.config) if options.config else None, os.environ)
    sys.stdout.write(_json(loaded) if options.json else _toml(loaded))
    return EXIT_OK


def _sections(loaded: Loaded) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for name, values in (("detector", loaded.detector), ("serve", loaded.serve)):
        shown = {item.name: getattr(values, item.name) for item in dataclasses.fields(values)}
        shown.pop("overrides", None)
        sections[name] = {key: "(set)" if key in SECRETS and value else value for key, value in shown.items()}
    return sections


def _overrides(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in dataclasses.asdict(rule).items() if value is not None and value != "*"}
        for rule in loaded.detector.overrides
    ]


def _json(loaded: Loaded) -> str:
    document = {
        "schema": "lowwater.config/1",
        **_sections(loaded),
        "override": _overrides(loaded),
        "sources": dict(loaded.sources),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _toml(loaded: Loaded) -> str:
    lines: list[str] = []
    for section, values in _sections(loaded).items():
        lines.append(f"[{section}]")
        for key, value in values.items():
            line = f"{key} = {_value(value)}"
            lines.append(f"{line}  # {source}" if (source := loaded.sources.get(f"{section}.{key}")) else line)
        lines.append("")
    for rule in _overrides(loaded):
        lines += ["[[override]]", *(f"{key} = {_value(value)}" for key, value in rule.items()), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    """A value as TOML: strings, booleans, numbers and lists are written as JSON writes them."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
