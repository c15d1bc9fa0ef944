"""The conventions in which agents write their spans, one module each.

`BUILTIN` is the order of trust: the first dialect to state a field wins. Others are found through the entry-point group
``lowwater.dialects`` and come after the built-in ones::

    [project.entry-points."lowwater.dialects"]
    ours = "our_package.lowwater_dialect:DIALECT"
"""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import entry_points

from lowwater.collectors.dialects.base import Dialect, Draft, ReadContext

__all__ = ["BUILTIN", "GROUP", "Dialect", "Draft", "ReadContext", "load_dialects"]

GROUP = "lowwater.dialects"

BUILTIN: tuple[str, ...] = (
    "lowwater",
    "breakdown",
    "budget",
    "compaction",
    "anthropic",
    "gen_ai",
    "vercel",
    "openinference",
    "pydantic_ai",
    "adk",
    "claude_code",
    "codex",
    "mlflow",
    "openai_agents",
    "openllmetry",
    "langsmith",
    "strands",
    "agent_framework",
    "semantic_kernel",
    "autogen",
    "copilot_chat",
    "gemini_cli",
    "litellm",
    "sentry",
    "langfuse",
    "gen_ai_legacy",
)
"""Modules of this package, most trusted first: what an operator declared, then what the emitter says of the context,
then conventions, then the emitters' own spellings, and the oldest spelling last."""


@functools.cache
def load_dialects() -> tuple[tuple[Dialect, ...], tuple[str, ...]]:
    """All dialects in order of trust, and what is wrong with plug-ins that could not be used."""
    dialects: list[Dialect] = [importlib.import_module(f"{__name__}.{module}").DIALECT for module in BUILTIN]
    problems: list[str] = []
    known = {dialect.name for dialect in dialects}
    for entry in sorted(entry_points(group=GROUP), key=lambda item: item.name):
        try:
            plugin = entry.load()
        except Exception as error:
            problems.append(f"dialect {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not isinstance(plugin, Dialect):
            problems.append(f"dialect {entry.name} ({entry.value}) lacks part of the Dialect interface")
        elif plugin.name in known:
            problems.append(f"dialect {entry.name} ({entry.value}) uses the name {plugin.name!r}, which is taken")
        else:
            dialects.append(plugin)
            known.add(plugin.name)
    return tuple(dialects), tuple(problems)
