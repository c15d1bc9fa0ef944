"""What simulated agents did, token by token, before any framework writes it down, and what is true of it.

A `Run` is what one process did: agents with their calls, tools, retrievals and compactions, and the truth about them.
Ids are part of the model, so that truth names spans without knowing how they are emitted.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Agent", "CallTruth", "Compaction", "Expected", "LlmCall", "Part", "Piece", "Refusal", "Run", "Style", "ToolRun",
    "Truth",
]  # fmt: skip


class Part(enum.Enum):
    """What a piece of a prompt is; the truth about who holds its tokens."""

    SYSTEM = "system"
    TOOL_SCHEMA = "tool_schema"
    USER = "user"
    ASSISTANT = "assistant"
    REASONING = "reasoning"
    SUMMARY = "summary"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RETRIEVED = "retrieved"
    """A chunk from a store: the result of a retriever, or injected into a user message."""

    @property
    def consumer(self) -> str:
        """The name of the consumer in the ledger: system, tools, working, scratchpad or retrieval."""
        return _CONSUMER[self]


_CONSUMER = {
    Part.SYSTEM: "system",
    Part.TOOL_SCHEMA: "tools",
    Part.USER: "working",
    Part.ASSISTANT: "working",
    Part.REASONING: "working",
    Part.SUMMARY: "working",
    Part.TOOL_CALL: "scratchpad",
    Part.TOOL_RESULT: "scratchpad",
    Part.RETRIEVED: "retrieval",
}


class Style(enum.Enum):
    """What a text looks like; characters per token differ by it (real tokenizers, not the detector's estimate)."""

    PROSE = "prose"
    CODE = "code"
    JSON = "json"
    LOG = "log"
    CJK = "cjk"


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of a prompt or an answer. Equal pieces are the same text.

    Attributes:
        tokens: what the model's tokenizer counts, at least 1.
        identity: which text it is: two pieces of one identity, part, style and size have the same characters.
        call_id: ties a tool call to its result; empty otherwise.
        tool: name of the tool, for schemas, calls and results (and retrieved pieces that a tool brought).
    """

    part: Part
    tokens: int
    identity: int
    style: Style = Style.PROSE
    call_id: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call was refused: what the client library raised."""

    status: int | None
    error_type: str
    message: str
    code: str | None = None
    retry_after_seconds: float | None = None


@dataclass(slots=True)
class LlmCall:
    """One call of a model.

    Attributes:
        prompt: everything that was sent, in order.
        answer: what came back; empty for a refusal.
        cached_tokens: part of the prompt read from the provider's cache.
        attempt: 1 for the first try of a logical call.
        compacted: the prompt was compacted since the agent's previous call.
    """

    span_id: int
    start_ns: int
    end_ns: int
    model: str
    prompt: tuple[Piece, ...]
    answer: tuple[Piece, ...] = ()
    cached_tokens: int = 0
    max_output_tokens: int | None = None
    response_id: str = ""
    refusal: Refusal | None = None
    attempt: int = 1
    compacted: bool = False

    @property
    def input_tokens(self) -> int:
        """Tokens of the whole prompt, cached part included."""
        return sum(piece.tokens for piece in self.prompt)

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        return sum(piece.tokens for piece in self.answer)


@dataclass(slots=True)
class ToolRun:
    """One execution of a tool or a retriever between two calls.

    Attributes:
        arguments: the call as it stands in the answer (`Part.TOOL_CALL`).
        result: what came back; it need not stay in the next prompt.
    """

    span_id: int
    start_ns: int
    end_ns: int
    name: str
    arguments: Piece
    result: tuple[Piece, ...]
    retriever: bool = False
    failed: bool = False


@dataclass(slots=True)
class Compaction:
    """A compaction that the framework made, or tried to.

    Attributes:
        announced: whether the framework tells it in its trace (where the dialect has words for it).
        outcome: success, no_op, failure, or started for one that never ends.
    """

    span_id: int
    start_ns: int
    end_ns: int
    before_tokens: int
    after_tokens: int
    window_tokens: int
    trigger: str = "auto"
    outcome: str = "success"
    announced: bool = True


@dataclass(slots=True)
class Agent:
    """One run of an agent: a root of a trace, or a subagent of another.

    Attributes:
        name: its role.
        id: its instance.
        conversation: session or thread; several agents and runs may share one.
        steps: calls, tools, compactions and subagents, in order of start.
        declared: ``lowwater.*`` attributes stated on its span.
        model_window_tokens: what the model truly holds.
        reports_window: the trace states the window where the dialect has words for it.
    """

    span_id: int
    trace_id: int
    name: str
    id: str
    start_ns: int
    end_ns: int
    conversation: str = ""
    steps: list[LlmCall | ToolRun | Compaction | Agent] = field(default_factory=list)
    declared: dict[str, Any] = field(default_factory=dict)
    model_window_tokens: int = 200_000
    reports_window: bool = False
    failed: bool = False


@dataclass(slots=True)
class CallTruth:
    """What is true at one call: the ledger a perfect observer would write.

    Attributes:
        requirement_tokens: the working set that the task needed at this call.
        wanted_working_tokens: working memory that the agent would hold if nobody squeezed it.
        regime: healthy, starved, transient, loud, floor_enforced; as DESIGN's definitions say of the true numbers.
    """

    span_id: int
    turn: int
    ceiling_tokens: int
    system_tokens: int
    tools_tokens: int
    retrieval_tokens: int
    scratchpad_tokens: int
    working_tokens: int
    output_reserved_tokens: int
    retry_reserved_tokens: int
    staging_reserved_tokens: int
    requirement_tokens: int
    wanted_working_tokens: int
    regime: str


@dataclass(slots=True)
class Expected:
    """One episode that a right detector finds.

    Attributes:
        kind: of the finding.
        agent_id: instance of the agent it is about; the orchestrator for pools.
        trace_id: of the trace where it happens, 0 where it spans several.
        onset_span_id: first call at which it is true.
        onset_turn: that call's turn, counted from 1.
        label: class of a rejection, reason of a debt; empty where the kind says all.
        pages: whether a person should be woken.
    """

    kind: str
    agent_id: str
    trace_id: int
    onset_span_id: int
    onset_turn: int
    label: str = ""
    pages: bool = False


@dataclass(slots=True)
class Truth:
    """What is true of a run.

    Attributes:
        scenario: which one made it.
        look_alike: what it resembles without being it; empty for a real fault or plain health.
        healthy: nothing should page.
        agent_hours: hours in which agents were at work, summed over agents.
        rejections: true class by span id of the refused call.
    """

    scenario: str
    look_alike: str = ""
    healthy: bool = True
    agent_hours: float = 0.0
    expected: list[Expected] = field(default_factory=list)
    calls: list[CallTruth] = field(default_factory=list)
    rejections: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """What one process did, with the truth about it.

    Attributes:
        agents: roots; each is a trace of its own.
        scheduler_tick_seconds: declared where the process has a compaction scheduler.
    """

    service: str
    seed: int
    agents: list[Agent]
    truth: Truth
    scheduler_tick_seconds: float | None = None
