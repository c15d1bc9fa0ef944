"""Seeded streams of calls of one agent role, whose need is known: what `requirement.py` measures learners on.

A role does tasks. Each is a context: its working memory grows to what the task needs, beside claims that take the rest of
the window. Where claims leave less than a call wants, the call is starved, and what it holds is a lower bound of what it
wanted. Several contexts run at once, so that their calls come interleaved, as they do at the detector.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["KINDS", "QUANTILE", "Call", "Kind", "Stream", "make"]

QUANTILE = 0.95
WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
TRUTH_TASKS = 1_500


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it is, and as it is seen.

    Attributes:
        wanted_tokens: working memory that it would hold with room enough; never seen.
        working_tokens: what it holds.
        residual_tokens: the most that it may hold.
        truth_tokens: what the role needs now: the quantile of what its calls want.
    """

    context: int
    turn: int
    wanted_tokens: int
    working_tokens: int
    residual_tokens: int
    truth_tokens: float

    @property
    def starved(self) -> bool:
        """It wants more than it may hold."""
        return self.wanted_tokens > self.residual_tokens


@dataclass(slots=True)
class Stream:
    """Calls of one role.

    Attributes:
        marks: calls from which the need is a settled one: the first, and after each drift.
    """

    kind: str
    seed: int
    window_tokens: int
    reserved_tokens: int
    output_tokens: int
    calls: list[Call] = field(default_factory=list)
    marks: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks of one sort: their share, the median of their needs as part of the role's, and the spread (sigma) of its log."""

    share: float = 1.0
    median: float = 1.0
    sigma: float = 0.4


def _steady(at: float) -> float:
    return 1.0


def _no_share(at: float) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What sort of stream.

    Attributes:
        scale: factor on all needs by the part of the stream that has gone by.
        squeezed: share of tasks whose claims take too much, likewise.
        marks: parts of the stream at which a drift is over.
        outliers: share of tasks that need five to twenty times as much.
    """

    calls: int = 1_500
    groups: tuple[Group, ...] = (Group(),)
    scale: Callable[[float], float] = _steady
    squeezed: Callable[[float], float] = _no_share
    marks: tuple[float, ...] = (0.0,)
    outliers: float = 0.0


def _step(factor: float) -> Callable[[float], float]:
    return lambda at: factor if at >= 0.5 else 1.0


def _always(share: float) -> Callable[[float], float]:
    return lambda at: share


KINDS = {
    "narrow": Kind(groups=(Group(sigma=0.15),)),
    "usual": Kind(),
    "wide": Kind(groups=(Group(sigma=0.8),)),
    "mixture": Kind(groups=(Group(0.7, 0.5, 0.3), Group(0.3, 2.5, 0.3))),
    "few calls": Kind(calls=150),
    "starved 10 %": Kind(squeezed=_always(0.1)),
    "starved 30 %": Kind(squeezed=_always(0.3)),
    "starved 60 %": Kind(squeezed=_always(0.6)),
    "mixture, starved 30 %": Kind(groups=(Group(0.7, 0.5, 0.3), Group(0.3, 2.5, 0.3)), squeezed=_always(0.3)),
    "starved at first": Kind(squeezed=lambda at: 1.0 if at < 0.2 else 0.2, marks=(0.2,)),
    "starved later on": Kind(squeezed=lambda at: 0.0 if at < 0.3 else 0.95),
    "starved from birth": Kind(squeezed=_always(1.0)),
    "sudden rise": Kind(scale=_step(2.5), squeezed=_always(0.1), marks=(0.5,)),
    "sudden fall": Kind(scale=_step(0.4), squeezed=_always(0.1), marks=(0.5,)),
    "gradual rise": Kind(
        scale=lambda at: 1.0 + 2.0 * min(1.0, max(0.0, (at - 0.33) / 0.33)), squeezed=_always(0.1), marks=(0.66,)
    ),
    "there and back": Kind(
        scale=lambda at: 2.5 if 0.33 <= at < 0.66 else 1.0, squeezed=_always(0.1), marks=(0.33, 0.66)
    ),
    "outliers": Kind(outliers=0.02, squeezed=_always(0.1)),
}


@dataclass(slots=True)
class _Task:
    number: int
    need: float
    turns: int
    final_residual: float
    turn: int = 0


def make(name: str, seed: int) -> Stream:
    """The stream of a kind and a seed."""
    kind, draw = KINDS[name], random.Random(f"{name}/{seed}")
    median = math.exp(draw.uniform(math.log(1_200), math.log(12_000)))
    truths = _Truths(kind, median, seed)
    widest = max(truths(part / 60) for part in range(60))
    window = next(size for size in WINDOWS if 0.55 * size >= 1.5 * widest)
    reserved, output = round(draw.uniform(0.06, 0.16) * window), round(0.12 * window)
    room = window - reserved - output
    stream = Stream(name, seed, window, reserved, output, marks=tuple(round(mark * kind.calls) for mark in kind.marks))
    running: list[_Task] = []
    tasks, parallel = 0, draw.randint(1, 6)
    for number in range(kind.calls):
        at = number / kind.calls
        while len(running) < parallel:
            tasks += 1
            running.append(_task(draw, kind, median, at, tasks, room))
        task = draw.choice(running)
        task.turn += 1
        stream.calls.append(_call(draw, task, room, truths(at)))
        if task.turn >= task.turns:
            running.remove(task)
    return stream


class _Truths:
    """The quantile of what calls want, by part of the stream; from many tasks of a randomness of its own."""

    def __init__(self, kind: Kind, median: float, seed: int) -> None:
        draw = random.Random(f"truth/{seed}")
        wanted: list[float] = []
        for _ in range(TRUTH_TASKS):
            need, turns = _need(draw, kind, median, 0.0), _turns(draw)
            wanted += [need * _grown(turn, turns) * draw.uniform(0.95, 1.05) for turn in range(1, turns + 1)]
        wanted.sort()
        self._scale, self._unscaled = kind.scale, wanted[round(QUANTILE * (len(wanted) - 1))] / kind.scale(0.0)

    def __call__(self, at: float) -> float:
        return self._unscaled * self._scale(at)


def _turns(draw: random.Random) -> int:
    return draw.randint(6, 40)


def _grown(turn: int, turns: int) -> float:
    """Part of its need that a task has come to hold: all of it when six tenths of its turns are over."""
    return min(1.0, 0.25 + 0.75 * turn / (0.6 * turns))


def _need(draw: random.Random, kind: Kind, median: float, at: float) -> float:
    (group,) = draw.choices(kind.groups, [group.share for group in kind.groups])
    need = median * group.median * math.exp(draw.gauss(0.0, group.sigma)) * kind.scale(at)
    return need * draw.uniform(5, 20) if draw.random() < kind.outliers else need


def _task(draw: random.Random, kind: Kind, median: float, at: float, number: int, room: int) -> _Task:
    need, turns = min(_need(draw, kind, median, at), 0.9 * room), _turns(draw)
    if draw.random() < kind.squeezed(at):
        final = need * draw.uniform(0.3, 0.85)
    else:
        final = min(room, max(1.1 * need, room * draw.uniform(0.3, 0.95)))
    return _Task(number, need, turns, final)


def _call(draw: random.Random, task: _Task, room: int, truth: float) -> Call:
    claimed = min(1.0, 0.3 + 0.7 * task.turn / (0.5 * task.turns))
    residual = round(room - (room - task.final_residual) * claimed)
    wanted = round(task.need * _grown(task.turn, task.turns) * draw.uniform(0.95, 1.05))
    # A framework that drops notes to make room drops a little more than it must.
    held = wanted if wanted <= residual else round(residual * draw.uniform(0.75, 1.0))
    return Call(task.number, task.turn, wanted, max(1, held), residual, truth)


def streams(base: int, count: int) -> Iterator[Stream]:
    """Streams of all kinds, from seeds that begin at the base."""
    for name in KINDS:
        for number in range(count):
            yield make(name, base + number)
