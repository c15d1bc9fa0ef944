"""The token ledger: arithmetic only.

All quantities are tokens of one context (one agent's conversation with one model) at one LLM call.
``residual = ceiling - reserved - retrieval - scratchpad`` is the most that working memory may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import Provenance

__all__ = ["LedgerEntry", "Reserved", "residual_tokens"]

SCHEMA = "lowwater.ledger/1"


@dataclass(slots=True)
class Reserved:
    """Deductions that survive every claim, in tokens; None is unknown.

    ``system`` and ``tools`` lie inside the input, the others outside it.
    """

    system: int | None = None
    tools: int | None = None
    output: int | None = None
    retry: int | None = None
    staging: int | None = None

    def total(self) -> int:
        """The known part. Unknown reservations deduct nothing; their absence is visible in the provenance."""
        return sum(
            value for value in (self.system, self.tools, self.output, self.retry, self.staging) if value is not None
        )


def residual_tokens(
    ceiling_tokens: int | None, reserved_tokens: int, retrieval_tokens: int | None, scratchpad_tokens: int | None
) -> int | None:
    """The most that working memory may be; negative when the others already overrun the ceiling.

    The published rule leaves the reservations out and then calls its own incident healthy: 17.5k used at
    utilisation 0.61 is a ceiling of 28.7k; less 6k retrieval and 9k scratchpad leaves 13.7k against a need of 6k.
    With the 11.2k that are reserved it leaves the 2.5k that were observed.

    >>> residual_tokens(28_700, 0, 6_000, 9_000), residual_tokens(28_700, 11_200, 6_000, 9_000)
    (13700, 2500)
    """
    if ceiling_tokens is None or retrieval_tokens is None or scratchpad_tokens is None:
        return None
    return ceiling_tokens - reserved_tokens - retrieval_tokens - scratchpad_tokens


@dataclass(slots=True)
class LedgerEntry:
    """One line of ``lowwater.ledger/1``: who held the tokens at one call. Unknown is None.

    Attributes:
        context: key of the context, for joining lines; made of ids, never of text.
        turn: counted from 1 within the context; a call without usage has its place too.
        time_ns: end of the call in Unix nanoseconds, None where the source has no time.
        input_tokens: the whole prompt, cached part included; None where it is not known.
        input_rule: how the input was read from the usage, for example ``cache_exceeds_input``.
        rollup: the numbers of several calls, kept because none of them reported its own.
        failed: the call was refused, aborted or broke; it usually has no usage.
        regime: the verdict of `lowwater.policies.starvation` on this call.
        compacted: a compaction was seen since the previous call (or by this one).
        history: how the prompt relates to the context's previous one: ``first``, ``appended``, ``rewritten``,
            ``compacted`` or ``unknown``.
        characters: characters of the prompt's content, None where the trace carries none.
        compaction: what was announced of the compaction since the previous call, successful or not: ``before_tokens``,
            ``after_tokens``, ``trigger``, ``outcome``, ``source`` (``inferred`` where nobody announced it).
        held: tokens by consumer held over from the previous turn, where known; this and what follows, up to
            ``rejection``, is for metrics and not part of the public line.
        grown_tokens: how much larger the prompt is than the context's previous one, negative where it is smaller.
        gone: of each consumer that holds less than at the previous call, by how many tokens.
        actions: tool calls since the previous call.
        repeated_actions: those among them that repeat an earlier one as a loop or because its result was lost.
        scratchpad_free_tokens: what is left of the scratchpad's reservation, where there is one.
        exhaustion_seconds: forecast of when compaction can no longer have its staging buffer.
        rejection: class of the refusal, where the call was refused.
        provenance: level per field.
    """

    trace_id: str
    span_id: str
    context: str = ""
    conversation: str | None = None
    agent: str | None = None
    service: str | None = None
    turn: int = 0
    model: str | None = None
    time_ns: int | None = None
    ceiling_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reserved: Reserved = field(default_factory=Reserved)
    working_tokens: int | None = None
    retrieval_tokens: int | None = None
    scratchpad_tokens: int | None = None
    residual_tokens: int | None = None
    requirement_tokens: int | None = None
    utilization_ratio: float | None = None
    trigger_ratio: float | None = None
    regime: str = "unknown"
    compacted: bool = False
    compaction: dict[str, Any] | None = None
    rollup: bool = False
    failed: bool = False
    input_rule: str = ""
    history: str = "unknown"
    characters: int | None = None
    held: dict[str, int] = field(default_factory=dict)
    grown_tokens: int | None = None
    gone: dict[str, int] = field(default_factory=dict)
    actions: int = 0
    repeated_actions: int = 0
    scratchpad_free_tokens: int | None = None
    exhaustion_seconds: float | None = None
    rejection: str | None = None
    provenance: dict[str, Provenance] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The public record; unknown is null."""
        return {
            "schema": SCHEMA,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "conversation": self.conversation,
            "agent": self.agent,
            "service": self.service,
            "context": self.context,
            "turn": self.turn,
            "model": self.model,
            "time": self.time_ns,
            "ceiling_tokens": self.ceiling_tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "reserved": {
                "system": self.reserved.system,
                "tools": self.reserved.tools,
                "output": self.reserved.output,
                "retry": self.reserved.retry,
                "staging": self.reserved.staging,
            },
            "working_tokens": self.working_tokens,
            "retrieval_tokens": self.retrieval_tokens,
            "scratchpad_tokens": self.scratchpad_tokens,
            "residual_tokens": self.residual_tokens,
            "requirement_tokens": self.requirement_tokens,
            "utilization_ratio": None if self.utilization_ratio is None else round(self.utilization_ratio, 6),
            "trigger_ratio": self.trigger_ratio,
            "regime": self.regime,
            "compacted": self.compacted,
            "compaction": self.compaction,
            "rollup": self.rollup,
            "failed": self.failed,
            "input_rule": self.input_rule,
            "history": self.history,
            "characters": self.characters,
            "provenance": {name: level.label for name, level in self.provenance.items()},
        }
