"""Configuration: thresholds, and what operators declare per service, agent and model.

Read from TOML, checked whole: every unknown key is refused by name with the nearest valid one.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowwater.detector.errors import ConfigError

__all__ = ["DetectorConfig", "Override", "load_config", "numeric_settings", "with_setting"]


@dataclass(frozen=True, slots=True)
class Override:
    """What the operator declares for matching contexts; ``service``, ``agent`` and ``model`` are glob patterns.

    The first override that matches and states a value wins. All token counts are positive, ratios in (0, 1].

    Attributes:
        requirement_tokens: the working set that the task needs.
        floor_tokens: a working-memory floor that the agent enforces.
        ceiling_tokens: the window; use it where an account's effective window is smaller than the model's.
        trigger_ratio: where eviction or compaction starts.
        output_tokens: reserved for the answer.
        retry_tokens: headroom kept for retries.
        staging_tokens: buffer that compaction needs.
        scratchpad_reservation_tokens: what the scratchpad may hold.
        turn_slo_seconds: how long a turn may take.
        tick_seconds: how often the compaction scheduler runs.
    """

    service: str = "*"
    agent: str = "*"
    model: str = "*"
    requirement_tokens: int | None = None
    floor_tokens: int | None = None
    ceiling_tokens: int | None = None
    trigger_ratio: float | None = None
    output_tokens: int | None = None
    retry_tokens: int | None = None
    staging_tokens: int | None = None
    scratchpad_reservation_tokens: int | None = None
    turn_slo_seconds: float | None = None
    tick_seconds: float | None = None

    def matches(self, service: str | None, agent: str | None, model: str | None) -> bool:
        """Whether a context is meant; an unknown name matches only ``*``."""
        pairs = ((self.service, service), (self.agent, agent), (self.model, model))
        return all(pattern == "*" or fnmatch.fnmatchcase(name or "", pattern) for pattern, name in pairs)


@dataclass(frozen=True, slots=True)
class DetectorConfig:
    """All settings of the detector. Turns are LLM calls of one context.

    Attributes:
        lateness_seconds: how far out of order spans may come.
        retriever_tools: glob patterns of tool names whose results are retrieval.
        trigger_ratio: where eviction starts when nothing tells (provenance default).
        fire_after_turns: consecutive starved turns before a finding fires. 1 pages on a single odd call; more than 3
            misses the short agents.
        resolve_after_turns: consecutive good turns before it resolves.
        page_after_turns: starved turns after which a finding is worth waking someone, repetition or not.
        page_deficit_ratio: part of the requirement that must be missing before a starved turn can page. A shortfall of a
            few percent is within what a learned requirement varies by; in the reference incident more than half is gone.
        eviction_window_turns: a compaction within so many turns explains a low residual.
        learn_min_calls: healthy calls of a role before its requirement is learned.
        learn_quantile: which quantile of observed working memory is taken for the requirement.
        debt_after_turns: turns above the high-water mark without an admitted compaction before debt fires.
        deadlock_turns: a forecast of at most so many turns is a risk.
        debt_share: share of a role's rejections that are compaction debt before it has a finding of its own.
        debt_share_min_rejections: rejections of a role before its share is believed.
        amplification_ratio: attempts per logical call from which retries amplify a failure.
        synchrony_callers: distinct contexts whose retries wake together before it is a herd.
        synchrony_window_seconds: what "together" means.
        loop_calls: executions of one call with the same result, while it is held, that make a loop.
        overrides: declared values, first match wins.
    """

    lateness_seconds: float = 60.0
    retriever_tools: tuple[str, ...] = (
        "*retriev*", "*knowledge_base*", "*vector*search*", "*search_docs*", "*search_documents*", "*semantic_search*",
        "file_search", "rag_*", "*_rag", "search_runbooks", "memory_search", "search_memory",
    )  # fmt: skip
    trigger_ratio: float = 0.90
    fire_after_turns: int = 2
    resolve_after_turns: int = 2
    page_after_turns: int = 4
    page_deficit_ratio: float = 0.25
    eviction_window_turns: int = 3
    learn_min_calls: int = 50
    learn_quantile: float = 0.95
    debt_after_turns: int = 3
    deadlock_turns: float = 5.0
    debt_share: float = 0.5
    debt_share_min_rejections: int = 5
    amplification_ratio: float = 3.0
    synchrony_callers: int = 5
    synchrony_window_seconds: float = 1.0
    loop_calls: int = 3
    overrides: tuple[Override, ...] = field(default=())

    def declared(self, name: str, service: str | None, agent: str | None, model: str | None) -> Any:
        """The value that the first matching override states for a field, or None."""
        for override in self.overrides:
            value = getattr(override, name)
            if value is not None and override.matches(service, agent, model):
                return value
        return None

    def is_retriever(self, tool: str) -> bool:
        """Whether a tool of this name fetches from a store."""
        name = tool.lower()
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.retriever_tools)


_RATIOS = {"trigger_ratio", "learn_quantile", "debt_share", "page_deficit_ratio"}


def load_config(path: Path) -> DetectorConfig:
    """Read and check a TOML file.

    Raises:
        ConfigError: the file is missing or no TOML, or a key or value is refused; all refusals are listed.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}. Give an existing file with --config."
        raise ConfigError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: not TOML: {error}"
        raise ConfigError(msg) from error
    problems: list[str] = []
    values = _section(DetectorConfig, data.get("detector", {}), "detector", problems)
    overrides = data.get("override", [])
    if not isinstance(overrides, list):
        problems.append("override: write it as [[override]], once per rule")
        overrides = []
    rules = [
        Override(**_section(Override, item, f"override[{index}]", problems)) for index, item in enumerate(overrides, 1)
    ]
    problems += [
        f"{key}: unknown section{_nearest(key, ('detector', 'override'))}"
        for key in data
        if key not in ("detector", "override")
    ]
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return DetectorConfig(**values, overrides=tuple(rules))


def numeric_settings() -> tuple[str, ...]:
    """Names that `with_setting` takes: the numbers of `DetectorConfig`, then those of `Override` alone.

    >>> "fire_after_turns" in numeric_settings(), "requirement_tokens" in numeric_settings()
    (True, True)
    """
    items = (*dataclasses.fields(DetectorConfig), *dataclasses.fields(Override))
    return tuple(dict.fromkeys(item.name for item in items if str(item.type).startswith(("int", "float"))))


def with_setting(config: DetectorConfig, key: str, value: float) -> DetectorConfig:
    """The configuration with one number changed.

    Args:
        key: one of `numeric_settings`. What only an `Override` has is declared for all contexts, before other overrides.
        value: checked as in a file.

    Raises:
        ConfigError: no number is called so, or the value is refused.
    """
    if key not in numeric_settings():
        msg = f"{key}: no such number to set{_nearest(key, numeric_settings())}"
        raise ConfigError(msg)
    whole = isinstance(value, float) and value.is_integer()
    own = {item.name: str(item.type) for item in dataclasses.fields(DetectorConfig)}
    kinds = own if key in own else {item.name: str(item.type) for item in dataclasses.fields(Override)}
    checked, why = _check(key, int(value) if whole else value, kinds[key])
    if why:
        msg = f"{key}: {why}, not {value!r}"
        raise ConfigError(msg)
    if key in own:
        return dataclasses.replace(config, **{key: checked})
    return dataclasses.replace(config, overrides=(Override(**{key: checked}), *config.overrides))


def _section(cls: type, data: Any, where: str, problems: list[str]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        problems.append(f"{where}: must be a table")
        return {}
    fields = {item.name: item for item in dataclasses.fields(cls) if item.name != "overrides"}
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in fields:
            problems.append(f"{where}.{key}: unknown key{_nearest(key, tuple(fields))}")
            continue
        checked, why = _check(key, value, str(fields[key].type))
        if why:
            problems.append(f"{where}.{key}: {why}, not {value!r}")
        else:
            values[key] = checked
    return values


def _check(key: str, value: Any, kind: str) -> tuple[Any, str | None]:
    if kind.startswith("tuple"):
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return (tuple(value), None) if good else (None, "must be a list of strings")
    if kind.startswith("str"):
        return (value, None) if isinstance(value, str) else (None, "must be a string")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None, "must be a positive number"
    if key in _RATIOS and value > 1:
        return None, "must be a ratio in (0, 1]"
    if kind.startswith("int"):
        return (value, None) if isinstance(value, int) else (None, "must be a whole number")
    return float(value), None


def _nearest(key: str, valid: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, valid, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else f"; valid: {', '.join(valid)}"
