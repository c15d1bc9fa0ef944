"""A reading: what one span, log record or session-log entry said, in one vocabulary.

Dialects fill readings; everything after them sees readings only. A field that nobody stated stays
None: unknown is never zero. No text survives in a reading except names and ids.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import Consumer
from lowwater.collectors.content import Content
from lowwater.collectors.values import word_of

__all__ = ["Compaction", "Failure", "Operation", "Reading", "ToolUse", "Usage"]


class Operation(enum.IntEnum):
    """What a span is. The values are stored in snapshots: append, never renumber."""

    OTHER = 0
    LLM = 1
    AGENT = 2
    WORKFLOW = 3
    TOOL = 4
    RETRIEVAL = 5
    EMBEDDING = 6
    COMPACTION = 7


@dataclass(slots=True)
class Usage:
    """Token usage as reported, before anyone decides what "input" means.

    Attributes:
        input_tokens: the reported input or prompt tokens. 0 is kept here and treated as unknown later.
        output_tokens: tokens of the answer, reasoning included where the provider does so.
        cache_read_tokens: tokens read from a prompt cache.
        cache_write_tokens: tokens written to a prompt cache.
        uncached_tokens: the part of the input outside the cache, where a dialect states it.
        reasoning_tokens: tokens of hidden reasoning, part of the output.
        total_tokens: the reported total.
        cache_inclusive: whether input_tokens includes the cached part: True or False where the dialect or its
            producer's version settles it, None where it does not.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    uncached_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    cache_inclusive: bool | None = None


@dataclass(slots=True)
class ToolUse:
    """One execution of a tool.

    Attributes:
        name: the tool's name.
        call: keyed hash of the tool-call id, 0 if unknown; matches `Content.refs`.
        arguments: keyed hash of the canonical arguments, 0 if unknown.
        result: keyed hash of the result, 0 if unknown.
        result_tokens: estimated tokens of the result, None if unknown.
        retriever: whether the tool fetches from a store (its results are retrieval, not scratchpad).
        sketch: MinHash signature of the words of the arguments, for tools whose arguments are prose
            (a delegation to another agent); empty otherwise.
    """

    name: str
    call: int = 0
    arguments: int = 0
    result: int = 0
    result_tokens: int | None = None
    retriever: bool = False
    sketch: tuple[int, ...] = ()


@dataclass(slots=True)
class Compaction:
    """A compaction that somebody announced.

    Attributes:
        before_tokens: the context before, in tokens.
        after_tokens: the context after, in tokens.
        window_tokens: the window it was measured against.
        trigger: what started it, for example ``auto`` or ``manual``.
        outcome: ``success``, ``no_op`` or ``failure``; ``started`` for a begin without an end yet.
        duration_seconds: how long it took.
        source: the marker that announced it, for example ``gen_ai.conversation.compacted``.
        tokens: tokens consumed by each side of the split where an emitter reports them, by consumer.
    """

    before_tokens: int | None = None
    after_tokens: int | None = None
    window_tokens: int | None = None
    trigger: str | None = None
    outcome: str = "success"
    duration_seconds: float | None = None
    source: str = ""
    reason: str | None = None

    def __post_init__(self) -> None:
        # People write these by hand: what is more than a word might be content.
        self.trigger, self.reason = word_of(self.trigger), word_of(self.reason)


@dataclass(slots=True)
class Failure:
    """Why a call failed, reduced to what classification needs.

    Attributes:
        type: ``error.type`` or the exception's class name.
        status: the HTTP status, also when only the message named it.
        code: the provider's error code or type, for example ``insufficient_quota``.
        signals: recognised phrases of the message, as names from `lowwater.collectors.failures`; never the message.
        retry_after_seconds: what the provider asked to wait.
        upstream: a gateway says that the provider behind it refused.
        aborted: the caller cancelled; no rejection.
    """

    type: str | None = None
    status: int | None = None
    code: str | None = None
    signals: tuple[str, ...] = ()
    retry_after_seconds: float | None = None
    upstream: bool = False
    aborted: bool = False


@dataclass(slots=True)
class Reading:
    """What one span or record said.

    Attributes:
        trace_id: groups spans of one request.
        span_id: identity of the span; duplicates by (trace_id, span_id) count once.
        parent_span_id: None for a root.
        start_ns: event time of the start in Unix nanoseconds; 0 if unknown.
        end_ns: event time of the end, the time by which readings are ordered.
        ordinal: position in the source, the last tie-break of the order and the only order where time is unknown.
        timeless: the source gave no time: ``start_ns`` and ``end_ns`` only order, and must not be shown.
        kind: what the span is.
        name: the span's name.
        dialects: names of the dialects that contributed, in order of trust.
        agent_name: role of the agent, a low-cardinality name.
        agent_id: identity of the agent instance where the source has one (a subagent's id, an agent call's id).
        parent_agent_id: the instance that started this one.
        conversation: conversation, session or thread id.
        response_id: the provider's id of the answer: one call seen by several emitters has one.
        model: the model that answered, else the one asked for.
        max_output_tokens: output reserved by the request.
        window_tokens: the context window stated by the trace.
        trigger_tokens: input size at which the framework compacts, as stated by the trace.
        content: the prompt, system text and tool schemas included.
        weights: estimated tokens of the prompt by consumer, in the order of `CONSUMERS`, counted in the agent's process
            where the content itself is not sent.
        output: the answer.
        content_is_delta: ``content`` holds only what is new since the previous call.
        documents: retrieved documents, on a retrieval span.
        breakdown: input tokens by consumer as the agent itself reports them.
        reserves_staging_tokens: the agent's own compaction buffer, as reported.
        compaction: an announced compaction.
        compacted: the provider or framework flagged that this call's conversation was compacted.
        failure: why the call failed.
        declared: ``lowwater.*`` attributes by the part of the name after ``lowwater.``.
        budget_tokens: an agent's token budget, with what it has consumed.
        finish_reasons: as reported.
        joins: content of a log record that belongs to the span ``span_id``; merged into it and nothing by itself.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    ordinal: int = 0
    timeless: bool = False
    kind: Operation = Operation.OTHER
    name: str = ""
    dialects: tuple[str, ...] = ()
    scope: str = ""
    scope_version: str = ""
    service: str | None = None
    agent_name: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    conversation: str | None = None
    response_id: str | None = None
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    max_output_tokens: int | None = None
    window_tokens: int | None = None
    trigger_tokens: int | None = None
    content: Content | None = None
    weights: tuple[int, ...] | None = None
    output: Content | None = None
    content_is_delta: bool = False
    tool: ToolUse | None = None
    documents: int | None = None
    breakdown: dict[Consumer, int] | None = None
    reserved_staging_tokens: int | None = None
    compaction: Compaction | None = None
    compacted: bool | None = None
    failure: Failure | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    budget_limit_tokens: int | None = None
    budget_consumed_tokens: int | None = None
    finish_reasons: tuple[str, ...] = ()
    joins: bool = False

    def order(self) -> tuple[int, int, int, str, str]:
        """Sort key: by end; at the same end the later start first, so that a child precedes its parent."""
        return (self.end_ns, -self.start_ns, self.ordinal, self.span_id, self.trace_id)
