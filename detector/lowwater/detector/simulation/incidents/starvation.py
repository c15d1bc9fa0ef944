"""One agent whose retrieval and scratchpad hold on, so that its notes never fit together.

The task is done when notes on all facts are held at once. Each turn the agent calls a tool for the first fact that it holds
no note of; the result stays in the scratchpad, the note goes to working memory, and the oldest note goes when there is no
room. So a fact that fell out is asked for again, with the same arguments. With the rule, `arbitrate` is asked before each
turn and what it advises first is done: scratchpad is released until the requirement fits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, Outcome, summarize
from lowwater.policies.starvation import Claims, Held, arbitrate

__all__ = ["PARAMETERS", "Parameters", "fit", "run"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Given by the design, except where said.

    Attributes:
        scratchpad_cap_tokens: fitted; oldest results go beyond it.
        result_tokens: assumed; mean of a tool's result.
        facts: assumed; the requirement is held in notes of equal size.
    """

    ceiling_tokens: int = 28_700
    reserved_tokens: int = 11_200
    requirement_tokens: int = 6_000
    chunks_least: int = 12
    chunks_most: int = 18
    chunk_tokens: int = 400
    trigger_ratio: float = 0.90
    facts: int = 24
    result_tokens: int = 800
    turns: int = 80
    scratchpad_cap_tokens: int = 9_200


PARAMETERS = Parameters()


def run(parameters: Parameters, seed: int, rule: bool) -> Outcome:
    """One task, until its synthesis or its last turn."""
    p, draw = parameters, random.Random(f"starvation/{seed}")
    note = p.requirement_tokens // p.facts
    notes: list[int] = []
    results: list[int] = []
    chunks = (p.chunks_least + p.chunks_most) // 2
    asked: list[int] = []
    samples: list[tuple[float, int, int, int]] = []
    completed = False
    for _ in range(p.turns):
        last_chunks = chunks
        chunks = min(p.chunks_most, max(p.chunks_least, chunks + draw.choice((-1, 0, 1))))  # results of a query stay
        fact = next((fact for fact in range(p.facts) if fact not in notes), None)
        if fact is None:
            completed = True
            break
        held_results = sum(results)
        results.append(round(p.result_tokens * draw.uniform(0.6, 1.4)))
        while sum(results) > p.scratchpad_cap_tokens:
            results.pop(0)
        asked.append(fact)
        notes.append(fact)
        retrieval = chunks * p.chunk_tokens
        if rule:
            while results:
                scratchpad = sum(results)
                verdict = arbitrate(
                    ceiling_tokens=p.ceiling_tokens,
                    input_tokens=retrieval + scratchpad + note * len(notes),
                    claims=Claims(p.reserved_tokens, retrieval, scratchpad, note * len(notes)),
                    held=Held(
                        p.reserved_tokens, min(chunks, last_chunks) * p.chunk_tokens, min(held_results, scratchpad)
                    ),
                    requirement_tokens=p.requirement_tokens,
                    trigger_ratio=p.trigger_ratio,
                )
                if not verdict.deficit_tokens:
                    break
                results.pop(0)
        residual = p.ceiling_tokens - p.reserved_tokens - retrieval - sum(results)
        while notes and note * len(notes) > residual:
            notes.pop(0)
        working = note * len(notes)
        samples.append(((retrieval + sum(results) + working) / p.ceiling_tokens, retrieval, sum(results), working))
    if not completed:
        completed = len(set(notes)) == p.facts
    samples = samples[-3:]  # where the run ended, in both columns: the ramp is no steady state
    count = max(1, len(samples))
    return {
        "completed_ratio": float(completed),
        "repeated_calls": float(len(asked) - len(set(asked))),
        "utilization_ratio": sum(item[0] for item in samples) / count,
        "retrieval_tokens": sum(item[1] for item in samples) / count,
        "scratchpad_tokens": sum(item[2] for item in samples) / count,
        "working_tokens": sum(item[3] for item in samples) / count,
    }


def fit() -> Parameters:
    """The scratchpad's cap that comes nearest to a scratchpad of 9k and working memory of 2.5k before."""

    def miss(cap: int) -> float:
        trial = replace(PARAMETERS, scratchpad_cap_tokens=cap)
        seen = summarize([run(trial, seed, False) for seed in FITTING_SEEDS[:300]])
        return abs(seen["scratchpad_tokens"].mean / 9_000 - 1) + abs(seen["working_tokens"].mean / 2_500 - 1)

    return replace(PARAMETERS, scratchpad_cap_tokens=min(range(8_600, 10_401, 100), key=miss))
