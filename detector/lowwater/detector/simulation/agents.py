"""One agent's loop, token by token: what it asks, holds, drops and compacts; and the ledger of a perfect observer.

The loop is that of any framework: a prompt is assembled from what is held, a model answers, tools run, their results are held
for the next turn. What differs between agents is the policy: who may stay, and who has to go when the prompt is to be kept
below its target. The wish for working memory grows with the task; a policy that drops it while results of tools and stores
stay is what starves an agent below every gauge.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Any

from lowwater.detector.simulation.model import (
    Agent,
    CallTruth,
    Compaction,
    LlmCall,
    Part,
    Piece,
    Style,
    ToolRun,
)

__all__ = ["SECOND_NS", "AgentLoop", "Ids", "Policy", "Work"]

SECOND_NS = 1_000_000_000
EPOCH_NS = 1_780_000_000 * SECOND_NS


class Ids:
    """Ids of one process, from what it is called."""

    def __init__(self, name: str) -> None:
        self._draw = random.Random(f"ids/{name}")
        self._identity = self._draw.randrange(1 << 40) << 16

    def trace(self) -> int:
        """A trace id."""
        return self._draw.randrange(1 << 64, 1 << 128)

    def span(self) -> int:
        """A span id."""
        return self._draw.randrange(1 << 32, 1 << 64)

    def text(self) -> int:
        """The identity of a text that nothing else has."""
        self._identity += 1
        return self._identity


@dataclass(frozen=True, slots=True)
class Policy:
    """What a framework does when the prompt grows.

    Attributes:
        target_ratio: part of the window that a prompt may fill; None for all of it.
        drop: ``working`` drops the oldest notes first and keeps results (the fault), ``results`` the oldest results,
            ``nothing`` lets it grow.
        keep_results: tool results held at most, the latest; None for all.
        keep_retrieved: retrieved chunks held at most, the latest; None for all.
        floor_tokens: working memory that is never dropped; results are refused instead.
        compacts: whether what is above the trigger is summarised.
        trigger_ratio: part of the window where compaction is due.
        summary_tokens: what a compaction leaves of working memory and results.
        announces: whether a compaction is told in the trace.
    """

    target_ratio: float | None = None
    drop: str = "nothing"
    keep_results: int | None = None
    keep_retrieved: int | None = None
    floor_tokens: int | None = None
    compacts: bool = False
    trigger_ratio: float = 0.90
    summary_tokens: int = 1_500
    announces: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent has to do, in tokens; pairs are the least and the most of a uniform draw.

    Attributes:
        need_tokens: the working set of the task: with less, it cannot be finished.
        question_tokens: the user's message at the start, and again every ``question_every`` turns.
        note_tokens: what the model says and keeps in a turn.
        result_tokens: a tool's result.
        retrieved_chunks: chunks that a retriever brings, at its turns.
        retrieve_every: turns between retrievals, 0 for none.
        repeats: whether the agent asks again for what it has when it has lost too much of its notes.
        seconds: length of a call; ``pause_seconds`` is what lies between calls.
    """

    turns: int = 20
    need_tokens: int = 4_000
    question_tokens: tuple[int, int] = (80, 300)
    question_every: int = 0
    note_tokens: tuple[int, int] = (120, 420)
    tools_per_turn: tuple[int, int] = (1, 1)
    result_tokens: tuple[int, int] = (200, 900)
    result_style: Style = Style.JSON
    retrieve_every: int = 0
    retrieved_chunks: tuple[int, int] = (3, 6)
    chunk_tokens: tuple[int, int] = (300, 480)
    repeats: bool = False
    seconds: tuple[float, float] = (1.0, 6.0)
    pause_seconds: tuple[float, float] = (0.05, 1.5)


@dataclass(slots=True)
class _Held:
    system: list[Piece] = field(default_factory=list)
    schemas: list[Piece] = field(default_factory=list)
    rest: list[Piece] = field(default_factory=list)

    def all(self) -> list[Piece]:
        return [*self.system, *self.schemas, *self.rest]

    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.all())

    def of(self, *parts: Part) -> int:
        return sum(piece.tokens for piece in self.rest if piece.part in parts)


_WORKING = (Part.USER, Part.ASSISTANT, Part.REASONING, Part.SUMMARY)
_RESULTS = (Part.TOOL_RESULT, Part.TOOL_CALL)


class AgentLoop:
    """Runs one agent.

    Args:
        draw: randomness.
        ids: of the process.
        agent: its span; steps and end are filled in.
        work: what it has to do.
        policy: what its framework does.
        system_tokens: the system prompt.
        schema_tokens: each tool's schema.
        output_tokens: reserved for the answer.
        staging_tokens: reserved for compaction; 0 for none.
        declares: also state the requirement, the ceiling and the reservations on the spans.
        model: name of the model.
    """

    def __init__(
        self,
        draw: random.Random,
        ids: Ids,
        agent: Agent,
        work: Work,
        policy: Policy,
        *,
        system_tokens: int = 900,
        schema_tokens: tuple[int, ...] = (180, 220, 150),
        output_tokens: int = 1_000,
        staging_tokens: int = 0,
        declares: bool = True,
        model: str = "in-house-1",
    ) -> None:
        self.draw, self.ids, self.agent, self.work, self.policy = draw, ids, agent, work, policy
        self.model, self.output_tokens, self.staging_tokens = model, output_tokens, staging_tokens
        self.window_tokens = agent.model_window_tokens
        self.now_ns = agent.start_ns
        self.truths: list[CallTruth] = []
        self.turn = 0
        self.wanted_tokens = 0
        self.compactions = 0
        self._last: frozenset[int] = frozenset()
        self._tools = [f"tool_{chr(97 + index)}" for index in range(len(schema_tokens))]
        self._poll_identity = ids.text()
        self._asked: list[tuple[Piece, Piece]] = []
        self._held = _Held(
            [Piece(Part.SYSTEM, system_tokens, ids.text())],
            [
                Piece(Part.TOOL_SCHEMA, tokens, ids.text(), Style.JSON, tool=name)
                for name, tokens in zip(self._tools, schema_tokens, strict=True)
            ],
        )
        if declares:
            agent.declared |= self._declared()

    def _declared(self) -> dict[str, Any]:
        declared: dict[str, Any] = {
            "lowwater.context.ceiling_tokens": self.window_tokens,
            "lowwater.working_set.required_tokens": self.work.need_tokens,
        }
        if self.staging_tokens:
            declared["lowwater.reserved.staging_tokens"] = self.staging_tokens
        if self.policy.floor_tokens is not None:
            declared["lowwater.working_set.floor_tokens"] = self.policy.floor_tokens
        return declared

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> Agent:
        """All turns."""
        for _ in range(self.work.turns):
            self.step()
        self.agent.end_ns = self.now_ns + SECOND_NS // 100
        return self.agent

    def step(self) -> LlmCall:
        """One turn: assemble, call, use tools."""
        work = self.work
        if self.turn == 0 or (work.question_every and self.turn % work.question_every == 0):
            self._hold(Piece(Part.USER, self._some(work.question_tokens), self.ids.text()))
        self.turn += 1
        compacted = self._assemble()
        call = self.call(compacted=compacted)
        lost = self.wanted_tokens > 2 * self._held.of(*_WORKING) and self.turn > 4
        for _ in range(self._some(work.tools_per_turn)):
            again = work.repeats and lost and bool(self._asked) and self.draw.random() < 0.7
            self.use_tool(repeat=again)
        if work.retrieve_every and self.turn % work.retrieve_every == 0:
            self.retrieve()
        self.pause(work.pause_seconds)
        return call

    def call(self, *, compacted: bool = False) -> LlmCall:
        """One call of the model with what is held; its answer is held, too."""
        prompt = tuple(self._held.all())
        note = Piece(Part.ASSISTANT, self._some(self.work.note_tokens), self.ids.text())
        start_ns = self.now_ns
        self.pause(self.work.seconds)
        call = LlmCall(
            span_id=self.ids.span(),
            start_ns=start_ns,
            end_ns=self.now_ns,
            model=self.model,
            prompt=prompt,
            answer=(note,),
            max_output_tokens=self.output_tokens,
            response_id=f"resp-{self.ids.span():016x}",
            compacted=compacted,
        )
        self.agent.steps.append(call)
        self.truths.append(self._truth(call))
        self._hold(note)
        return call

    def prompt(self) -> tuple[Piece, ...]:
        """What the next call would send."""
        return tuple(self._held.all())

    def use_tool(self, *, repeat: bool = False) -> None:
        """A tool call and its result; a repeated one has the same arguments and brings the same."""
        if repeat:
            self._again(*self._asked[-1 - self.draw.randrange(min(2, len(self._asked)))])
            return
        tool, call_id = self.draw.choice(self._tools), f"call-{self.ids.text()}"
        made = Piece(Part.TOOL_CALL, self.draw.randint(15, 60), self.ids.text(), Style.JSON, call_id, tool)
        tokens = self._some(self.work.result_tokens)
        result = Piece(Part.TOOL_RESULT, tokens, self.ids.text(), self.work.result_style, call_id, tool)
        self._asked.append((made, result))
        self._exchange(made, result)

    def _again(self, old_call: Piece, old_result: Piece) -> None:
        call_id = f"call-{self.ids.text()}"
        self._exchange(dataclasses.replace(old_call, call_id=call_id), dataclasses.replace(old_result, call_id=call_id))

    def _exchange(self, made: Piece, result: Piece) -> None:
        self._run(made, (result,), retriever=False)
        self._hold(made, wanted=False)
        self._hold(result, wanted=False)

    def retrieve(self) -> None:
        """A query to a store; its chunks are held."""
        call_id = f"call-{self.ids.text()}"
        made = Piece(Part.TOOL_CALL, self.draw.randint(10, 30), self.ids.text(), Style.JSON, call_id, "search_docs")
        chunks = tuple(
            Piece(
                Part.RETRIEVED, self._some(self.work.chunk_tokens), self.ids.text(), Style.PROSE, call_id, "search_docs"
            )
            for _ in range(self._some(self.work.retrieved_chunks))
        )
        self._run(made, chunks, retriever=True)
        self._hold(made, wanted=False)
        for chunk in chunks:
            self._hold(chunk, wanted=False)

    def poll(self, tool: str = "job_status", tokens: int = 60) -> None:
        """Ask the same again; what comes back is new each time, and replaces the earlier answer in the prompt."""
        call_id = f"call-{self.ids.text()}"
        made = Piece(Part.TOOL_CALL, 20, self._poll_identity, Style.JSON, call_id, tool)
        result = Piece(Part.TOOL_RESULT, tokens, self.ids.text(), Style.JSON, call_id, tool)
        self._exchange(made, result)

    def read_again(self, number: int) -> None:
        """One of the earlier tool calls (by its place) once more, with the same result."""
        self._again(*self._asked[number])

    @property
    def asked(self) -> int:
        """Tool calls made so far, repeated ones not counted."""
        return len(self._asked)

    def pause(self, seconds: tuple[float, float]) -> None:
        """Let time go by."""
        self.now_ns += int(self.draw.uniform(*seconds) * SECOND_NS)

    def _run(self, made: Piece, result: tuple[Piece, ...], *, retriever: bool) -> None:
        asking = next((step for step in reversed(self.agent.steps) if isinstance(step, LlmCall)), None)
        if asking is not None and asking.refusal is None:
            asking.answer += (made,)  # the model wrote the call: it is part of what it put out
        self.pause((0.01, 0.05))
        start_ns = self.now_ns
        self.pause((0.05, 0.8))
        self.agent.steps.append(
            ToolRun(self.ids.span(), start_ns, self.now_ns, made.tool, made, result, retriever=retriever)
        )

    def _some(self, bounds: tuple[int, int]) -> int:
        return self.draw.randint(*bounds)

    def _hold(self, piece: Piece, *, wanted: bool = True) -> None:
        self._held.rest.append(piece)
        if wanted:
            self.wanted_tokens += piece.tokens

    # --- what stays --------------------------------------------------------------------------------------------------

    def _assemble(self) -> bool:
        """Apply the policy before a call; returns whether it compacted."""
        policy, held = self.policy, self._held
        if policy.keep_results is not None:
            self._keep_last((Part.TOOL_RESULT,), policy.keep_results)
        if policy.keep_retrieved is not None:
            self._keep_last((Part.RETRIEVED,), policy.keep_retrieved)
        if policy.compacts and held.tokens() > policy.trigger_ratio * self.window_tokens:
            self.compact()
            return True
        if policy.target_ratio is None or policy.drop == "nothing":
            return False
        target = round(policy.target_ratio * self.window_tokens)
        first = _WORKING if policy.drop == "working" else (*_RESULTS, Part.RETRIEVED)
        while held.tokens() > target:
            floor = policy.floor_tokens
            may = (
                first
                if first != _WORKING or floor is None or held.of(*_WORKING) > floor
                else (*_RESULTS, Part.RETRIEVED)
            )
            # The latest exchange always stays: the model has to see what it asked for.
            candidates = [piece for piece in held.rest[:-3] if piece.part in may]
            if not candidates:
                break
            self._drop(candidates[0])
        return False

    def compact(self, *, outcome: str = "success") -> None:
        """Summarise all but the latest exchange."""
        held, before = self._held, self._held.tokens()
        start_ns = self.now_ns
        self.pause((0.3, 2.0))
        if outcome == "success":
            summary = Piece(Part.SUMMARY, self.policy.summary_tokens, self.ids.text())
            held.rest = [summary, *held.rest[-1:]] if held.rest[-1:] and held.rest[-1].part is Part.USER else [summary]
            self.wanted_tokens = sum(piece.tokens for piece in held.rest)
            self.compactions += 1
        done = Compaction(
            self.ids.span(), start_ns, self.now_ns, before, held.tokens(), self.window_tokens, "auto", outcome
        )
        done.announced = self.policy.announces
        self.agent.steps.append(done)

    def _keep_last(self, parts: tuple[Part, ...], count: int) -> None:
        found = [piece for piece in self._held.rest if piece.part in parts]
        for piece in found[: max(0, len(found) - count)]:
            self._drop(piece)

    def _drop(self, piece: Piece) -> None:
        """Remove a piece; a tool call and its result go together."""
        tied = piece.call_id and piece.part in (*_RESULTS, Part.RETRIEVED)
        self._held.rest = [
            other
            for other in self._held.rest
            if other is not piece and not (tied and other.call_id == piece.call_id and piece.part is not Part.RETRIEVED)
        ]

    # --- what is true ------------------------------------------------------------------------------------------------

    def _truth(self, call: LlmCall) -> CallTruth:
        held = self._held
        system, tools = sum(p.tokens for p in held.system), sum(p.tokens for p in held.schemas)
        retrieval, scratchpad = held.of(Part.RETRIEVED), held.of(*_RESULTS)
        working = held.of(*_WORKING)
        residual = (
            self.window_tokens - system - tools - self.output_tokens - self.staging_tokens - retrieval - scratchpad
        )
        return CallTruth(
            span_id=call.span_id,
            turn=self.turn,
            ceiling_tokens=self.window_tokens,
            system_tokens=system,
            tools_tokens=tools,
            retrieval_tokens=retrieval,
            scratchpad_tokens=scratchpad,
            working_tokens=working,
            output_reserved_tokens=self.output_tokens,
            retry_reserved_tokens=0,
            staging_reserved_tokens=self.staging_tokens,
            requirement_tokens=self.work.need_tokens,
            wanted_working_tokens=self.wanted_tokens,
            regime=self._regime(call, residual),
        )

    def _regime(self, call: LlmCall, residual: int) -> str:
        """DESIGN's definitions on the true numbers."""
        claims = [piece for piece in self._held.rest if piece.part in (*_RESULTS, Part.RETRIEVED)]
        fresh = sum(piece.tokens for piece in claims if id(piece) not in self._last)
        self._last = frozenset(id(piece) for piece in claims)
        if residual >= self.work.need_tokens:
            return "healthy"
        if call.input_tokens >= self.policy.trigger_ratio * self.window_tokens:
            return "loud"
        if self.policy.floor_tokens is not None:
            return "floor_enforced"
        # What came with this turn need not stay: sticky is what was held over.
        if residual + fresh >= self.work.need_tokens or call.compacted:
            return "transient"
        return "starved"
