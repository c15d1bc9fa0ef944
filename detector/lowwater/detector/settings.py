"""Configuration from TOML and the environment, checked whole: what is wrong is named with the nearest right name.

Where several say something the first wins: command line, environment (``LOWWATER_SERVE_GRPC`` for ``serve.grpc``), file,
default.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.detector.config import DetectorConfig, Override, ServeConfig
from lowwater.detector.errors import ConfigError

__all__ = ["SECRETS", "Loaded", "load", "load_config", "numeric_settings", "with_setting"]

SECRETS = frozenset(("token", "webhook_secret", "webhook_token"))
"""Keys of `ServeConfig` whose values are never shown."""

_SECTIONS: Mapping[str, type] = {"detector": DetectorConfig, "serve": ServeConfig}
_TABLES = (*_SECTIONS, "override")
_PREFIX = "LOWWATER_"
_RATIOS = frozenset(("trigger_ratio", "learn_quantile", "debt_share", "page_deficit_ratio"))
_ALLOWED = {"otlp_protocol": ("grpc", "http/protobuf"), "webhook_min_severity": ("info", "ticket", "page")}
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Configuration and where each value comes from.

    Attributes:
        sources: ``file``, ``environment`` or ``command line`` by ``section.key``; what is not in it is a default.
    """

    detector: DetectorConfig
    serve: ServeConfig
    sources: Mapping[str, str]


def load(path: Path | None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read and check everything.

    Args:
        path: a TOML file, or None.
        environ: variables; those that begin as a section does must name a key of it.
        flags: values of the command line, by ``section.key``.

    Raises:
        ConfigError: the file is missing or no TOML, or a key or value is refused; all refusals are listed.
    """
    problems: list[str] = []
    data = {} if path is None else _read(path)
    found: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    for section, cls in _SECTIONS.items():
        found[section] = _section(cls, data.get(section, {}), section, problems)
        sources.update({f"{section}.{key}": "file" for key in found[section]})
    rules = data.get("override", [])
    if not isinstance(rules, list):
        problems.append("override: write it as [[override]], once per rule")
        rules = []
    overrides = tuple(
        Override(**_section(Override, item, f"override[{index}]", problems)) for index, item in enumerate(rules, 1)
    )
    problems += [f"{key}: unknown section{_nearest(key, _TABLES)}" for key in data if key not in _TABLES]
    problems = [f"{path}: {problem}" for problem in problems]
    for given, source in ((_variables(environ or {}, problems), "environment"), (flags or {}, "command line")):
        for name, value in given.items():
            section, _, key = name.partition(".")
            checked, why = _check(key, value, _kinds(_SECTIONS[section])[key])
            if why:
                problems.append(f"{source}: {name}: {why}, not {_shown(key, value)}")
            else:
                found[section][key] = checked
                sources[name] = source
    problems += _contradictions(ServeConfig(**found["serve"]))
    if problems:
        raise ConfigError("\n".join(problems))
    detector = DetectorConfig(**found["detector"], overrides=overrides)
    return Loaded(detector, ServeConfig(**found["serve"]), sources)


def load_config(path: Path | None, environ: Mapping[str, str] | None = None) -> DetectorConfig:
    """The thresholds and declared values alone; the whole file is checked all the same.

    Raises:
        ConfigError: as `load`.
    """
    return load(path, environ).detector


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}. Give an existing file with --config."
        raise ConfigError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: not TOML: {error}"
        raise ConfigError(msg) from error


def _variables(environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Values of the environment by ``section.key``."""
    values: dict[str, Any] = {}
    for section, cls in _SECTIONS.items():
        kinds = _kinds(cls)
        prefix = f"{_PREFIX}{section.upper()}_"
        known = {f"{prefix}{key.upper()}": key for key in kinds}
        for name in sorted(name for name in environ if name.startswith(prefix)):
            if name not in known:
                problems.append(f"environment: {name}: unknown variable{_nearest(name, tuple(known))}")
            else:
                values[f"{section}.{known[name]}"] = _parsed(environ[name], kinds[known[name]])
    return values


def _parsed(text: str, kind: str) -> Any:
    """The value that a text stands for; what does not fit stays text, and is refused by the check."""
    if kind.startswith("tuple"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind.startswith("bool"):
        return _WORDS.get(text.lower(), text)
    if kind.startswith(("int", "float")):
        try:
            return int(text) if text.lstrip("-").isdecimal() else float(text)
        except ValueError:
            return text
    return text


def _contradictions(serve: ServeConfig) -> list[str]:
    """What each key allows but not all together."""
    problems = []
    if bool(serve.tls_cert) != bool(serve.tls_key):
        problems.append("serve.tls_cert and serve.tls_key: give both, or none")
    if serve.tls_client_ca and not serve.tls_cert:
        problems.append("serve.tls_client_ca: needs serve.tls_cert and serve.tls_key")
    if not (serve.grpc or serve.http):
        problems.append("serve.grpc and serve.http: give at least one address to listen on")
    if serve.otlp_metrics and not serve.otlp_endpoint:
        problems.append("serve.otlp_metrics: needs serve.otlp_endpoint")
    return problems


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
    kinds = _kinds(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in kinds:
            problems.append(f"{where}.{key}: unknown key{_nearest(key, tuple(kinds))}")
            continue
        checked, why = _check(key, value, kinds[key])
        if why:
            problems.append(f"{where}.{key}: {why}, not {_shown(key, value)}")
        else:
            values[key] = checked
    return values


def _kinds(cls: type) -> dict[str, str]:
    """Types, as written, by key."""
    return {item.name: str(item.type) for item in dataclasses.fields(cls) if item.name != "overrides"}


def _shown(key: str, value: Any) -> str:
    return "what was given" if key in SECRETS else repr(value)


def _check(key: str, value: Any, kind: str) -> tuple[Any, str | None]:
    if kind.startswith("tuple"):
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return (tuple(value), None) if good else (None, "must be a list of strings")
    if kind.startswith("bool"):
        return (value, None) if isinstance(value, bool) else (None, "must be true or false")
    if kind.startswith("str"):
        allowed = _ALLOWED.get(key)
        if allowed is not None and value not in allowed:
            return None, f"must be one of {', '.join(allowed)}"
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
