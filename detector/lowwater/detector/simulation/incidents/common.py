"""What the four incident experiments share: the outcome of a run, and means with intervals over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FITTING_SEEDS", "REPORTED_SEEDS", "Incident", "Outcome", "Summary", "summarize"]

FITTING_SEEDS = range(10_000, 12_000)
"""Parameters are fitted on these, and on the `before` column only."""

REPORTED_SEEDS = range(1_000)
"""Tables are made of these; they share none with the fitting seeds. A rate of 0.20 has a standard error of 0.013 on so many,
less than its tolerance; on 200 it would be 0.028."""

Outcome = Mapping[str, float]
"""Measured quantities of one run by name; a quantity that did not occur is left out."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A quantity over seeds: its mean and the 5th and 95th percentile of the runs that showed it."""

    mean: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True)
class Incident:
    """An experiment.

    Attributes:
        parameters: the committed values: given, assumed and fitted.
        run: (parameters, seed, rule) to outcome.
        fit: makes the fitted values again from the `before` column and the fitting seeds.
        fitted: names of the fitted parameters.
    """

    name: str
    parameters: Any
    run: Callable[[Any, int, bool], Outcome]
    fit: Callable[[], Any]
    fitted: tuple[str, ...]


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Summary]:
    """Each quantity over the runs that showed it."""
    result = {}
    for name in sorted({name for outcome in outcomes for name in outcome}):
        values = sorted(outcome[name] for outcome in outcomes if name in outcome)
        at = len(values) - 1
        result[name] = Summary(
            statistics.fmean(values), values[round(0.05 * at)], values[round(0.95 * at)], len(values)
        )
    return result
