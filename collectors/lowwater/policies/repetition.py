"""When doing the same again is a symptom: a loop, lost memory, or the same request in other words.

Same tool and arguments while the earlier result is still held, with the same result, is a loop. After the result was
evicted it is lost memory; one re-read per key and compaction is what a careful agent does, and is granted. A call whose
results change is polling, and neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "LOOP_CALLS",
    "REPHRASED_CALLS",
    "REPHRASED_SIMILARITY",
    "SCATTERED_FACTOR",
    "RepetitionVerdict",
    "ToolCallView",
    "judge_repetition",
]

LOOP_CALLS = 3
"""Executions of one call that make a loop. Two happen in healthy runs (a test before and after an edit that changed
nothing); public loop guards act at three to four identical calls (agentcoach, openclaw#128148). One more delays the
first sign by a turn, one less reports every careful check."""

SCATTERED_FACTOR = 2
"""Calls with other calls in between need twice as many to make a loop: a check that is run after every edit and passes every
time is the same call with the same result, and no loop; two calls that alternate get there in the end."""

REPHRASED_SIMILARITY = 0.35
"""Estimated Jaccard similarity of word bigrams from which two instructions ask for the same. Unrelated instructions of one
orchestrator share names and phrases up to about 0.2; a request put in other words keeps 0.4 and more."""

REPHRASED_CALLS = 3
"""Near-identical instructions, this one included, that show a plan going in circles."""


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A tool call as the rule needs it.

    Attributes:
        turn: the turn that the call led to.
        arguments_key: keyed hash of the canonical arguments.
        result_key: keyed hash of the result, 0 if unknown.
        held: the result was still in the prompt when the judged call was decided.
        evicted_by_compaction: it left the prompt by a compaction.
        sketch: MinHash signature of prose arguments, empty for others.
    """

    turn: int
    arguments_key: int
    result_key: int = 0
    held: bool = True
    evicted_by_compaction: bool = False
    sketch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RepetitionVerdict:
    """The verdict on one call.

    Attributes:
        kind: ``first``, ``repeat`` (too few to mean anything), ``loop``, ``lost_memory``, ``grace``, ``polling`` or
            ``rephrased``.
        count: executions of the call so far, this one included; similar ones for ``rephrased``.
        consecutive: executions in a row without another call in between, this one included.
    """

    kind: str
    count: int
    consecutive: int


def judge_repetition(
    history: Sequence[ToolCallView],
    current: ToolCallView,
    *,
    grace_used: bool,
    consecutive: int = 1,
    similar: Sequence[ToolCallView] = (),
    loop_calls: int = LOOP_CALLS,
) -> RepetitionVerdict:
    """Judge a call by the earlier calls of the same tool with the same arguments.

    Args:
        history: those calls, oldest first.
        current: the call.
        grace_used: this key was re-read before, since the last compaction.
        consecutive: executions of this key in a row, the current included.
        similar: earlier calls of the tool whose arguments are prose, oldest first.
        loop_calls: executions that make a loop, 2 or more.

    Raises:
        ValueError: ``loop_calls`` is below 2 or ``consecutive`` below 1.
    """
    if loop_calls < 2:
        msg = f"loop_calls must be 2 or more, not {loop_calls}"
        raise ValueError(msg)
    if consecutive < 1:
        msg = f"consecutive must be 1 or more, not {consecutive}"
        raise ValueError(msg)
    count = len(history) + 1
    if not history:
        return _rephrased(similar, current) or RepetitionVerdict("first", 1, 1)
    last = history[-1]
    if not any(view.held for view in history):
        evicted = any(view.evicted_by_compaction for view in history)
        if evicted and not grace_used:
            return RepetitionVerdict("grace", count, consecutive)
        return RepetitionVerdict("lost_memory", count, consecutive)
    if current.result_key and last.result_key and current.result_key != last.result_key:
        return RepetitionVerdict("polling", count, consecutive)
    same = 1
    for view in reversed(history):
        if not view.held or (current.result_key and view.result_key and view.result_key != current.result_key):
            break
        same += 1
    if min(consecutive, same) >= loop_calls or same >= loop_calls * SCATTERED_FACTOR:
        return RepetitionVerdict("loop", same, min(consecutive, same))
    return _rephrased(similar, current) or RepetitionVerdict("repeat", count, consecutive)


def _rephrased(similar: Sequence[ToolCallView], current: ToolCallView) -> RepetitionVerdict | None:
    """The same request in other words while its earlier answers are held; identical words are the loop rule's."""
    if not current.sketch:
        return None
    alike = 1 + sum(
        view.held
        and view.arguments_key != current.arguments_key
        and _similarity(view.sketch, current.sketch) >= REPHRASED_SIMILARITY
        for view in similar
    )
    return RepetitionVerdict("rephrased", alike, 1) if alike >= REPHRASED_CALLS else None


def _similarity(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Share of equal positions of two MinHash signatures: an estimate of the Jaccard similarity."""
    if not one or len(one) != len(other):
        return 0.0
    return sum(left == right for left, right in zip(one, other, strict=True)) / len(one)
