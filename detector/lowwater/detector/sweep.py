"""A backtest under many settings: the files are read and reduced once, the pipeline runs once per setting.

The sorted readings lie in one private file while the sweep lasts; each run reads it from the start, so that memory
holds one pipeline per process, however many settings there are.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lowwater.collectors.reading import Reading
from lowwater.detector.backtest import Backtest
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.errors import ConfigError
from lowwater.detector.pipeline import Pipeline
from lowwater.detector.settings import with_setting
from lowwater.detector.sorting import stored, storing

__all__ = ["MAX_SETTINGS", "Setting", "Sweep", "SweepRow", "grid", "parse_sweep"]

MAX_SETTINGS = 100
"""Settings of one sweep: a table of more is not read, and each costs a run of the pipeline."""

_WORTH_READINGS = 10_000
"""Readings times settings from which further processes pay: each takes a second to start, a reading 0.2 to 0.4 ms."""

Setting = dict[str, float]
"""Values by name; empty is the configuration as it is."""


def parse_sweep(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read ``KEY=VALUE,VALUE`` of the command line.

    Raises:
        ConfigError: it is written otherwise, or a key comes twice.

    >>> parse_sweep(["fire_after_turns=1,2", "page_deficit_ratio=0.25"])
    {'fire_after_turns': (1, 2), 'page_deficit_ratio': (0.25,)}
    """
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        key = key.strip()
        if key in found:
            msg = f"--sweep {text}: {key} is swept twice; give all its values at once: {key}=1,2,3"
            raise ConfigError(msg)
        try:
            found[key] = tuple(dict.fromkeys(_number(value) for value in values.split(",")))
        except ValueError:
            msg = f"--sweep {text}: write it as KEY=NUMBER,NUMBER, for example fire_after_turns=1,2,3"
            raise ConfigError(msg) from None
    return found


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def grid(config: DetectorConfig, swept: Mapping[str, Sequence[float]]) -> list[tuple[Setting, DetectorConfig]]:
    """Every combination of the values, each with its configuration, in the order in which they were written.

    Raises:
        ConfigError: a key is no number of the configuration, a value is refused, or there are more than `MAX_SETTINGS`.
    """
    count = 1
    for values in swept.values():
        count *= len(values)
    if count > MAX_SETTINGS:
        msg = f"--sweep: {count:,} settings; at most {MAX_SETTINGS} at once. Sweep fewer values or fewer keys."
        raise ConfigError(msg)
    settings: list[tuple[Setting, DetectorConfig]] = []
    for values in itertools.product(*swept.values()):
        setting, changed = dict(zip(swept, values, strict=True)), config
        for key, value in setting.items():
            try:
                changed = with_setting(changed, key, value)
            except ConfigError as error:
                msg = f"--sweep {error}"
                raise ConfigError(msg) from None
        settings.append((setting, changed))
    return settings


@dataclass(frozen=True, slots=True)
class SweepRow:
    """What one setting would have done.

    Attributes:
        setting: the swept values; None where the configuration leaves one open (a value of overrides).
        current: it is the configuration as it is.
        median_turns_to_fire: see `Backtest.median_turns_to_fire`.
    """

    setting: Mapping[str, float | None]
    current: bool
    findings: Mapping[str, int]
    pages: int
    contexts_paged: int
    short_lived_pages: int
    pages_per_agent_hour: float | None
    median_turns_to_fire: float | None

    def to_json(self) -> dict[str, Any]:
        """The public record."""
        rate = self.pages_per_agent_hour
        return {
            "setting": dict(self.setting),
            "current": self.current,
            "findings": dict(self.findings),
            "pages": self.pages,
            "contexts_paged": self.contexts_paged,
            "short_lived_pages": self.short_lived_pages,
            "pages_per_agent_hour": None if rate is None else round(rate, 6),
            "median_turns_to_fire": self.median_turns_to_fire,
        }


def _row(setting: Mapping[str, float | None], backtest: Backtest, *, current: bool) -> SweepRow:
    pages = backtest.pages()
    return SweepRow(
        setting=setting,
        current=current,
        findings=backtest.by_severity(),
        pages=len(pages),
        contexts_paged=backtest.contexts_paged(),
        short_lived_pages=sum(episode.is_short_lived(backtest.short_turns) for episode in pages),
        pages_per_agent_hour=backtest.pages_per_agent_hour(),
        median_turns_to_fire=backtest.median_turns_to_fire(),
    )


def run_setting(path: Path, directory: Directory, short_turns: int, config: DetectorConfig) -> Backtest:
    """Run the pipeline over stored readings."""
    backtest = Backtest(short_turns)
    for output in Pipeline(config, directory=directory).run(stored(path)):
        backtest.add(output)
    return backtest


def _run_row(
    path: Path, directory: Directory, short_turns: int, job: tuple[Setting, DetectorConfig]
) -> SweepRow:  # at the top of the module, so that other processes find it
    setting, config = job
    return _row(setting, run_setting(path, directory, short_turns, config), current=False)


@dataclass(slots=True)
class Sweep:
    """A sweep around one ordinary run. As a context manager it keeps the readings until it ends.

    Args:
        config: the configuration as it is.
        swept: values by key.
        short_turns: see `Backtest`.
    """

    config: DetectorConfig
    swept: Mapping[str, Sequence[float]]
    short_turns: int
    settings: list[tuple[Setting, DetectorConfig]] = field(init=False)
    _readings: int = 0
    _path: Path | None = None
    _cleanup: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.settings = grid(self.config, self.swept)

    def __enter__(self) -> Sweep:
        folder = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="lowwater-sweep-"))
        self._path = Path(folder) / "readings"
        return self

    def __exit__(self, *exception: object) -> None:
        self._cleanup.close()

    def keep(self, readings: Iterator[Reading]) -> Iterator[Reading]:
        """Keep sorted readings while they pass; for `Replay.run`."""
        if self._path is None:
            raise RuntimeError("keep needs the sweep's context")
        for reading in storing(self._path, readings):
            self._readings += 1
            yield reading

    def rows(
        self,
        current: Backtest,
        directory: Directory,
        *,
        on_progress: Callable[[int], None] | None = None,
        processes: int | None = None,
    ) -> list[SweepRow]:
        """Run all settings over what was kept; the configuration as it is comes first where it is no setting.

        Args:
            current: what the ordinary run found.
            directory: the names that it learned.
            on_progress: called with the number of settings that are done.
            processes: how many at once; None for as many as pay.
        """
        if self._path is None:
            raise RuntimeError("rows needs the sweep's context")
        as_it_is = _as_it_is(self.config, self.swept)
        jobs = [job for job in self.settings if job[0] != as_it_is]
        if processes is None:
            pays = len(jobs) > 1 and self._readings * len(jobs) >= _WORTH_READINGS
            processes = min(len(jobs), os.cpu_count() or 1) if pays else 1
        run = partial(_run_row, self._path, directory, self.short_turns)
        done: list[SweepRow] = []
        with ExitStack() as stack:
            results: Iterator[SweepRow] = map(run, jobs)
            if processes > 1:
                # A fresh interpreter, not a fork: the progress bar's thread may hold a lock.
                pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes, _quiet_worker))
                results = pool.imap(run, jobs)
            for row in results:
                done.append(row)
                if on_progress is not None:
                    on_progress(len(done))
        by_setting = {tuple(row.setting.items()): row for row in done}
        own = _row(as_it_is, current, current=True)
        rows = [by_setting.get(tuple(setting.items()), own) for setting, _ in self.settings]
        return rows if own in rows else [own, *rows]


def _as_it_is(config: DetectorConfig, swept: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    return {key: getattr(config, key, None) for key in swept}


def _quiet_worker() -> None:
    """Leave an interruption to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
