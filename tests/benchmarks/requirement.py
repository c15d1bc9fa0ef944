"""How well a role's requirement is learned: learners side by side, on streams whose need is known, under the real rule.

Two ranges of seeds: everything was chosen with ``--tune``; ``--score`` makes the table of docs/requirement.md.

    .venv/bin/python -m tests.benchmarks.requirement --score --streams 10 --write docs/requirement.md
    .venv/bin/python -m tests.benchmarks.requirement --tune --streams 6
"""

from __future__ import annotations

import argparse
import math
import pickle
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.requirement_learners import LEARNERS, Learner
from tests.benchmarks.requirement_streams import KINDS, Stream, make

from lowwater.collectors.consumers import Consumer, Provenance
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector import events
from lowwater.detector.composer import Composer, ContextState, RoleState, default_requirement
from lowwater.detector.config import DetectorConfig
from lowwater.detector.ledger import LedgerEntry, Reserved
from lowwater.detector.models.requirement import RequirementModel
from lowwater.detector.operators.starvation import StarvationOperator, StarvationState

TUNE_SEED, SCORE_SEED = 1_000_000, 9_000_000
NEAR = 0.20
"""An estimate is near when it is off by at most this part of the truth, for `NEAR_CALLS` calls in a row."""

NEAR_CALLS = 20
DETECTOR, KNOWN = "**the detector's**", "the truth itself"


class Truth:
    """Knows: what a perfect learner would get out of the rule."""

    def __init__(self) -> None:
        self.calls, self.truth_tokens = 0, 0.0

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        self.calls += not censored

    def estimate(self) -> int | None:
        return round(self.truth_tokens)


def detector() -> Learner:
    config = DetectorConfig()
    return RequirementModel(config.learn_quantile, config.learn_min_calls)


ALL: dict[str, Callable[[], Learner]] = {KNOWN: Truth, DETECTOR: detector, **LEARNERS}


@dataclass(slots=True)
class Score:
    """Sums over streams of one learner.

    Attributes:
        logs: natural logarithms of estimate over truth; positive is too much.
        cold: calls until near from the first call on, None where it never came near; ``drifted`` likewise after a drift.
    """

    logs: list[float] = field(default_factory=list)
    cold: list[int | None] = field(default_factory=list)
    drifted: list[int | None] = field(default_factory=list)
    healthy: int = 0
    false: int = 0
    starved: int = 0
    missed: int = 0
    alarms: int = 0
    calls: int = 0
    seconds: float = 0.0
    state_bytes: int = 0

    def add(self, other: Score) -> None:
        """Take over another's."""
        for name in ("logs", "cold", "drifted"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("healthy", "false", "starved", "missed", "alarms", "calls", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.state_bytes = max(self.state_bytes, other.state_bytes)


class Timed:
    """A learner whose time is taken."""

    def __init__(self, inner: Learner) -> None:
        self.inner, self.seconds = inner, 0.0

    @property
    def calls(self) -> int:
        return self.inner.calls

    def learn_one(self, working_tokens: int, *, censored: bool = False) -> None:
        start = time.perf_counter()
        self.inner.learn_one(working_tokens, censored=censored)
        self.seconds += time.perf_counter() - start

    def estimate(self) -> int | None:
        start = time.perf_counter()
        value = self.inner.estimate()
        self.seconds += time.perf_counter() - start
        return value


def judge(stream: Stream, name: str) -> Score:
    """Run a stream through the composer's choice of the requirement and the operator, as the detector does."""
    config = DetectorConfig()
    composer, operator = Composer(config), StarvationOperator(config)
    learner = Timed(ALL[name]())
    role = RoleState(learner)  # type: ignore[arg-type]
    states: dict[int, tuple[ContextState, StarvationState, dict[str, int]]] = {}
    score, errors = Score(), []
    for call in stream.calls:
        if isinstance(learner.inner, Truth):
            learner.inner.truth_tokens = call.truth_tokens
        context, starvation, held = states.setdefault(call.context, (ContextState(), StarvationState(), {}))
        claims = stream.window_tokens - stream.reserved_tokens - stream.output_tokens - call.residual_tokens
        retrieval = round(0.4 * claims)
        scratchpad = claims - retrieval
        entry = LedgerEntry(
            "trace",
            f"{call.context}-{call.turn}",
            context=str(call.context),
            turn=call.turn,
            ceiling_tokens=stream.window_tokens,
            input_tokens=stream.reserved_tokens + claims + call.working_tokens,
            reserved=Reserved(system=stream.reserved_tokens, output=stream.output_tokens),
            working_tokens=call.working_tokens,
            retrieval_tokens=retrieval,
            scratchpad_tokens=scratchpad,
            residual_tokens=call.residual_tokens,
            held={consumer: min(tokens, held.get(consumer, 0)) for consumer, tokens in _claims(retrieval, scratchpad)},
        )
        entry.utilization_ratio = (entry.input_tokens or 0) / stream.window_tokens
        held.update(_claims(retrieval, scratchpad))
        levels = dict.fromkeys(("ceiling_tokens", "input_tokens"), Provenance.REPORTED)
        entry.provenance = levels | dict.fromkeys(("retrieval_tokens", "scratchpad_tokens"), Provenance.MEASURED)
        context.largest_working_tokens = max(context.largest_working_tokens, call.working_tokens)
        required, entry.provenance["requirement_tokens"] = composer._requirement(entry, context, role)
        entry.requirement_tokens = required
        findings = list(operator.step(starvation, role, _observation(entry)))
        found = entry.regime == "silent_starvation"
        estimate = learner.inner.estimate()
        stands = default_requirement(stream.window_tokens) if estimate is None else estimate
        errors.append(math.log(max(1, stands) / call.truth_tokens))
        score.healthy += not call.starved
        score.false += found and not call.starved
        score.starved += call.starved
        score.missed += call.starved and not found
        score.alarms += len(findings)
    score.logs = errors[::5]
    score.calls, score.seconds = len(stream.calls), learner.seconds
    score.state_bytes = len(pickle.dumps(learner.inner))
    for mark in stream.marks:
        (score.drifted if mark else score.cold).append(_until_near(errors[mark:]))
    return score


def _claims(retrieval: int, scratchpad: int) -> list[tuple[str, int]]:
    return [(Consumer.RETRIEVAL.value, retrieval), (Consumer.SCRATCHPAD.value, scratchpad)]


def _observation(entry: LedgerEntry) -> events.Observation:
    reading = Reading(entry.trace_id, entry.span_id, kind=Operation.LLM)
    origin = events.Origin(entry.trace_id, entry.span_id, 0, 0, True, None, None, events.Anchor(entry.context))
    turn = events.Turn(
        events.Call(origin, reading), entry.context, entry.turn, "appended", entry.input_tokens, "as_reported"
    )
    return events.Observation(turn, entry, "role")


def _until_near(logs: list[float]) -> int | None:
    """Calls until the estimate is near and stays so for a while."""
    run = 0
    for number, value in enumerate(logs):
        run = run + 1 if abs(math.expm1(value)) <= NEAR else 0
        if run == NEAR_CALLS:
            return number + 1 - NEAR_CALLS
    return None


# --- the tables ----------------------------------------------------------------------------------------------------------


def quantile(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[round(part * (len(ordered) - 1))] if ordered else math.nan


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def error(scores: dict[str, Score]) -> float:
    """What learners are ordered by: the mean of |log(estimate / truth)|, every kind of stream counting the same."""
    return statistics.fmean(statistics.fmean(map(abs, score.logs)) for score in scores.values())


def waited(values: list[int | None]) -> str:
    """Median calls, and how many streams never came near."""
    if not values:
        return "-"
    never = sum(value is None for value in values)
    median = quantile((math.inf if value is None else value for value in values), 0.5)
    return ("never" if math.isinf(median) else f"{median:g}") + (
        f" ({percent(never / len(values))} never)" if never else ""
    )


def row(name: str, scores: dict[str, Score]) -> list[str]:
    total = Score()
    for score in scores.values():
        total.add(score)
    relative = [math.expm1(value) for value in total.logs]
    return [
        name,
        f"{error(scores):.3f}",
        percent(quantile(map(abs, relative), 0.5)),
        percent(quantile(map(abs, relative), 0.9)),
        percent(statistics.fmean(max(0.0, value) for value in relative)),
        percent(statistics.fmean(max(0.0, -value) for value in relative)),
        waited(total.cold),
        waited(total.drifted),
        f"{1_000 * total.false / total.healthy:.1f}",
        percent(total.missed / total.starved),
        f"{1e6 * total.seconds / total.calls:.1f}",
        f"{total.state_bytes}",
    ]


def table(columns: str, lines: list[list[str]]) -> str:
    heads = columns.split("|")
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *lines])


def _one(job: tuple[str, int, tuple[str, ...]]) -> tuple[str, dict[str, Score]]:
    kind, seed, names = job
    stream = make(kind, seed)
    return kind, {name: judge(stream, name) for name in names}


def measure(
    base: int, count: int, names: tuple[str, ...], kinds: list[str], workers: int
) -> dict[str, dict[str, Score]]:
    """Scores by learner and kind of stream."""
    found = {name: {kind: Score() for kind in kinds} for name in names}
    jobs = [(kind, base + number, names) for kind in kinds for number in range(count)]
    with ProcessPoolExecutor(workers) as pool:
        for number, (kind, scores) in enumerate(pool.map(_one, jobs, chunksize=2)):
            for name, score in scores.items():
                found[name][kind].add(score)
            if number % 50 == 49:
                print(f"{number + 1} of {len(jobs)} streams", file=sys.stderr)
    return found


BEGIN, END = "<!-- measured -->", "<!-- end of what is measured -->"
COLUMNS = (
    "learner|error|median|90th percentile|too much|too little|calls until near|... after a drift"
    "|false per 1,000 healthy calls|starved calls missed|µs per call|bytes"
)


def document(found: dict[str, dict[str, Score]], base: int, count: int) -> str:
    kinds = list(next(iter(found.values())))
    known = [name for name in found if name == KNOWN]
    order = known + sorted((name for name in found if name != KNOWN), key=lambda name: error(found[name]))
    calls = sum(score.calls for score in next(iter(found.values())).values())
    lines = [
        f"{count * len(kinds)} streams, {count} of each kind, {calls} calls; seeds from {base}.",
        "",
        table(COLUMNS, [row(name, found[name]) for name in order]),
        "",
        "Error by kind of stream, and in brackets false verdicts per 1,000 healthy calls and the share of starved calls missed:",
        "",
        table("stream|" + "|".join(order[:SHOWN]), [by_kind(kind, found, order[:SHOWN]) for kind in kinds]),
    ]
    return "\n".join(lines)


SHOWN = 7


def by_kind(kind: str, found: dict[str, dict[str, Score]], names: list[str]) -> list[str]:
    cells = [kind]
    for name in names:
        score = found[name][kind]
        false, missed = 1_000 * score.false / max(1, score.healthy), score.missed / max(1, score.starved)
        cells.append(f"{statistics.fmean(map(abs, score.logs)):.3f} ({false:.0f}, {100 * missed:.0f} %)")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--tune", action="store_true")
    which.add_argument("--score", action="store_true")
    parser.add_argument("--streams", type=int, default=20, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--learners", nargs="*", default=list(ALL))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path, help="page whose generated part is replaced")
    given = parser.parse_args()
    base = TUNE_SEED if given.tune else SCORE_SEED
    found = measure(base, given.streams, tuple(given.learners), given.kinds, given.workers)
    text = document(found, base, given.streams)
    if given.write:
        before, _, rest = given.write.read_text(encoding="utf-8").partition(BEGIN)
        given.write.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
