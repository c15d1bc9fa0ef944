"""Turns to ledger entries: who holds the tokens of this call, and how that is known.

Each number is taken from the strongest source that has it: declared, reported, measured in content and scaled to the
provider's total, inferred from usage deltas, default. A total that is not known is not replaced by an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import CONSUMERS, Consumer, Provenance
from lowwater.collectors.content import BlockKind, Content
from lowwater.collectors.reading import Compaction, Reading
from lowwater.collectors.tokens import apportion
from lowwater.detector.config import DetectorConfig
from lowwater.detector.events import Observation, Turn
from lowwater.detector.ledger import LedgerEntry, Reserved, residual_tokens
from lowwater.detector.models.calibration import Calibration
from lowwater.detector.models.requirement import RequirementModel
from lowwater.detector.profiles import profile_for
from lowwater.detector.windows import base_model, model_limits

__all__ = ["Composer", "ContextState", "RoleState", "default_requirement"]

Split = dict[Consumer, int]

_DECLARED_SPLIT = {
    Consumer.SYSTEM: "reserved.system_tokens",
    Consumer.TOOLS: "reserved.tools_tokens",
    Consumer.RETRIEVAL: "context.retrieval_tokens",
    Consumer.SCRATCHPAD: "context.scratchpad_tokens",
    Consumer.WORKING: "context.working_tokens",
}

_RELEASED = 0.2
"""Without content: a prompt that loses this part of its claims at once has let go of results; notes go one by one."""

_CALLED = 0.5
"""Without content: part of an answer before tools ran that is taken for their arguments; the rest is text of the model.
Nothing in usage tells. Counting all of it as scratchpad made agents that say much look starved just before they compact."""

_HEAD_EVIDENT = 0.10
"""A head that the content shows in part is completed only by a regression that finds at least this share missing."""


_TASK_FACTOR = 4
"""A context may come to need this many times the working memory it has shown; beyond it, its role says nothing of it."""


def default_requirement(ceiling_tokens: int | None) -> int:
    """6,000 tokens or a fifth of the window, whichever is smaller: the need of the reference incident.

    >>> default_requirement(200_000), default_requirement(8_000), default_requirement(None)
    (6000, 1600, 6000)
    """
    return 6_000 if ceiling_tokens is None else min(6_000, ceiling_tokens // 5)


@dataclass(slots=True)
class RoleState:
    """What is known of an agent role: one (service, agent, model)."""

    requirement: RequirementModel
    least_first_tokens: int | None = None
    refuted_window_tokens: int = 0
    """The largest window of the table that an answered prompt of this role was beyond."""


@dataclass(slots=True)
class ContextState:
    """The composer's state of one context."""

    calibration: Calibration | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    split: Split | None = None
    content: Content | None = None
    first_tokens: int | None = None
    largest_working_tokens: int = 0


class Composer:
    """Operator keyed by context, with a view of the role's state."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config

    def initial(self) -> ContextState:
        """State of a context that was never seen."""
        return ContextState()

    def initial_role(self) -> RoleState:
        """State of a role that was never seen."""
        return RoleState(RequirementModel(self._config.learn_quantile, self._config.learn_min_calls))

    def step(self, state: ContextState, role: RoleState, turn: Turn) -> Observation:
        """Compose the ledger entry of the next turn of the context."""
        reading, origin = turn.call.reading, turn.call.origin
        state.declared.update(reading.declared)
        entry = LedgerEntry(
            trace_id=origin.trace_id,
            span_id=origin.span_id,
            context=turn.context,
            conversation=origin.conversation,
            agent=origin.anchor.name,
            service=origin.service,
            turn=turn.number,
            model=reading.model,
            time_ns=origin.time_ns,
            input_tokens=turn.input_tokens,
            output_tokens=None if reading.usage is None else reading.usage.output_tokens or None,
            compacted=turn.compaction is not None and turn.compaction.outcome == "success",
            compaction=_announced(turn.compaction),
            rollup=turn.call.rollup,
            failed=reading.failure is not None,
            input_rule=turn.input_rule,
            history=turn.history,
            characters=None if reading.content is None else sum(reading.content.characters),
        )
        content = self._whole_content(state, turn)
        split, level = (None, Provenance.UNKNOWN) if turn.call.rollup else self._split(state, role, turn, content)
        held = self._held(state, split, content)
        self._write_numbers(entry, state, role, turn, split, level)
        entry.held = {consumer.value: tokens for consumer, tokens in held.items()} if held is not None else {}
        kept = None if content is None else frozenset(content.keys)
        if split is not None and state.split is not None and turn.history != "unknown":
            entry.grown_tokens = sum(split.values()) - sum(state.split.values())
            changes = {consumer: state.split[consumer] - split[consumer] for consumer in CONSUMERS[2:]}
            entry.gone = {consumer.value: tokens for consumer, tokens in changes.items() if tokens > 0}
        if split is not None:
            state.split = split
        if content is not None:
            state.content = content
        return Observation(turn, entry, role_key(turn), split, kept, content, reading.failure)

    # --- the split ---------------------------------------------------------------------------------------------------

    def _whole_content(self, state: ContextState, turn: Turn) -> Content | None:
        content = turn.call.reading.content
        if content is None or not turn.call.reading.content_is_delta:
            return content
        # Only what is new was sent along: it extends what was held, unless the history was replaced.
        if state.content is None or turn.history in ("first", "compacted"):
            return content
        return state.content.extended(content)

    def _split(
        self, state: ContextState, role: RoleState, turn: Turn, content: Content | None
    ) -> tuple[Split | None, Provenance]:
        total, reading = turn.input_tokens, turn.call.reading
        if total is None:
            return None, Provenance.UNKNOWN
        if turn.number == 1 or state.first_tokens is None:
            state.first_tokens = total
            role.least_first_tokens = min(total, role.least_first_tokens or total)
        declared = {consumer: state.declared.get(name) for consumer, name in _DECLARED_SPLIT.items()}
        if all(
            isinstance(value, int) and name in reading.declared
            for (consumer, value), name in zip(declared.items(), _DECLARED_SPLIT.values(), strict=True)
        ):
            return _scaled(total, [int(declared[consumer] or 0) for consumer in CONSUMERS]), Provenance.DECLARED
        if reading.breakdown:
            return self._reported(state, turn, total, reading.breakdown, content), Provenance.REPORTED
        if content is not None and len(content):
            calls = BlockKind.TOOL_ARGUMENTS in content.kinds or BlockKind.TOOL_RESULT in content.kinds
            return self._measured(state, total, content.consumer_weights(), turn, calls), Provenance.MEASURED
        if reading.weights is not None:  # the agent's process has counted what it does not send
            return self._measured(state, total, reading.weights, turn, reading.weights[3] > 0), Provenance.MEASURED
        return self._inferred(state, role, turn, total), Provenance.INFERRED

    @staticmethod
    def _measured(state: ContextState, total: int, weights: Sequence[int], turn: Turn, calls: bool) -> Split:
        calibration = state.calibration = state.calibration or Calibration()
        visible = sum(weights)
        calibration.learn_one(visible, total)
        shows_system, shows_schemas = weights[0] > 0, weights[1] > 0
        uses_tools = bool(turn.between) or calls
        head = calibration.head_tokens()
        # The head is constant and the rest cannot be negative, so neither a late nor an early call may exceed it.
        head = min(head, max(0, total - 1), state.first_tokens or total)
        if shows_system and (shows_schemas or not uses_tools):
            head = 0
        elif shows_system or shows_schemas:
            head = head if head >= _HEAD_EVIDENT * total and calibration.factor() != 1.0 else 0
        if visible == 0:
            return _scaled(total, [1, 0, 0, 0, 0])
        parts = apportion(total - head, weights)
        parts[1 if shows_system else 0] += head
        return dict(zip(CONSUMERS, parts, strict=True))

    def _reported(
        self, state: ContextState, turn: Turn, total: int, breakdown: dict[Consumer, int], content: Content | None
    ) -> Split:
        """The agent's own breakdown; what it lumps together as messages is divided by content or by deltas."""
        head = [breakdown.get(Consumer.SYSTEM, 0), breakdown.get(Consumer.TOOLS, 0)]
        claims = [breakdown.get(consumer, 0) for consumer in CONSUMERS[2:]]
        lumped = Consumer.RETRIEVAL not in breakdown and Consumer.SCRATCHPAD not in breakdown
        if lumped and content is not None:
            weights = list(content.consumer_weights()[2:])
            if sum(weights):
                claims = apportion(sum(claims), weights)
        elif lumped and state.split is not None and turn.history == "appended":
            claims = self._grown(state.split, turn, max(0, sum(claims)))
        return _scaled(total, head + claims)

    def _inferred(self, state: ContextState, role: RoleState, turn: Turn, total: int) -> Split:
        """From usage alone: the head is the least first call of the role, the rest what each turn added."""
        head = min(total, role.least_first_tokens or total)
        if state.split is None or turn.history == "first":
            return dict(zip(CONSUMERS, (head, 0, 0, 0, total - head), strict=True))
        head = min(head, state.split[Consumer.SYSTEM] + state.split[Consumer.TOOLS])
        if turn.history == "compacted" or turn.previous_input_tokens is None:
            # What a compaction leaves is a summary and recent turns: text, with everything recoverable released.
            return dict(zip(CONSUMERS, (head, 0, 0, 0, total - head), strict=True))
        claims = self._grown(state.split, turn, total - head)
        return dict(zip(CONSUMERS, [head, 0, *claims], strict=True))

    @staticmethod
    def _grown(previous: Split, turn: Turn, claims_total: int) -> list[int]:
        """Retrieval, scratchpad and working memory after a turn, summing to ``claims_total``.

        The answer stays in the history: half as tool calls if tools ran after it, else as text. What came on top is
        attributed to the spans in between by the size of their results. Where there are none it is what tools returned
        if the answer called some, else what the user said.
        """
        claims = [previous[consumer] for consumer in CONSUMERS[2:]]
        grown = claims_total - sum(claims)
        if grown <= 0:
            kept = max(0, claims_total)
            if -grown > _RELEASED * sum(claims):
                return _released(claims, -grown)
            return apportion(kept, claims) if sum(claims) else [0, 0, kept]
        kept_answer = min(grown, turn.previous_output_tokens or 0)
        added = grown - kept_answer
        if turn.between or turn.after_calls:
            as_calls = round(_CALLED * kept_answer)
            claims[1] += as_calls
            claims[2] += kept_answer - as_calls
        else:
            claims[2] += kept_answer + added
            return claims
        if not turn.between:
            claims[1] += added
            return claims
        sizes = [float(run.tool.result_tokens or 1) for run in turn.between]
        for run, part in zip(turn.between, apportion(added, sizes), strict=True):
            claims[0 if run.tool.retriever else 1] += part
        return claims

    @staticmethod
    def _held(state: ContextState, split: Split | None, content: Content | None) -> Split | None:
        """Tokens held over from the previous turn without release, by consumer."""
        if split is None or state.split is None:
            return None
        if content is None or state.content is None:
            return {consumer: min(split[consumer], state.split[consumer]) for consumer in CONSUMERS}
        before = set(state.content.keys)
        weights, kept = [0] * 5, [0] * 5
        for kind, weight, _, key, _ in content.blocks():
            index = CONSUMERS.index(kind.consumer)
            weights[index] += weight
            kept[index] += weight if key in before else 0
        return {
            consumer: split[consumer] if not weights[index] else split[consumer] * kept[index] // weights[index]
            for index, consumer in enumerate(CONSUMERS)
        }

    # --- the other numbers -------------------------------------------------------------------------------------------

    def _write_numbers(
        self,
        entry: LedgerEntry,
        state: ContextState,
        role: RoleState,
        turn: Turn,
        split: Split | None,
        level: Provenance,
    ) -> None:
        reading, provenance = turn.call.reading, entry.provenance
        if entry.input_tokens is not None:
            provenance["input_tokens"] = Provenance.REPORTED
        entry.ceiling_tokens, provenance["ceiling_tokens"] = self._ceiling(state, role, turn)
        self._reserve(entry, state, turn)
        if split is not None:
            entry.reserved.system, entry.reserved.tools = split[Consumer.SYSTEM], split[Consumer.TOOLS]
            entry.retrieval_tokens = split[Consumer.RETRIEVAL]
            entry.scratchpad_tokens = split[Consumer.SCRATCHPAD]
            entry.working_tokens = split[Consumer.WORKING]
            state.largest_working_tokens = max(state.largest_working_tokens, entry.working_tokens)
        for name in ("reserved.system", "reserved.tools", "retrieval_tokens", "scratchpad_tokens", "working_tokens"):
            provenance[name] = level
        entry.residual_tokens = residual_tokens(
            entry.ceiling_tokens, entry.reserved.total(), entry.retrieval_tokens, entry.scratchpad_tokens
        )
        entry.requirement_tokens, provenance["requirement_tokens"] = self._requirement(entry, state, role)
        if entry.ceiling_tokens and entry.input_tokens is not None and not entry.rollup:
            entry.utilization_ratio = entry.input_tokens / entry.ceiling_tokens
        entry.trigger_ratio, provenance["trigger_ratio"] = self._trigger(entry, reading, state)

    def _ceiling(self, state: ContextState, role: RoleState, turn: Turn) -> tuple[int | None, Provenance]:
        reading, origin = turn.call.reading, turn.call.origin
        declared = _positive(state.declared.get("context.ceiling_tokens"))
        configured = self._config.declared("ceiling_tokens", origin.service, origin.anchor.name, reading.model)
        limits = model_limits(reading.model)
        for value, level in (
            (declared or configured, Provenance.DECLARED),
            (reading.window_tokens, Provenance.REPORTED),
            (limits.window_tokens if limits is not None else None, Provenance.TABLE),
        ):
            if value:
                if level is Provenance.TABLE and not turn.call.rollup and (turn.input_tokens or 0) > value:
                    # A prompt that was answered beyond the window refutes the window, for the calls to come too.
                    role.refuted_window_tokens = max(role.refuted_window_tokens, int(value))
                refuted = level is Provenance.TABLE and value <= role.refuted_window_tokens
                return (None, Provenance.UNKNOWN) if refuted else (int(value), level)
        return None, Provenance.UNKNOWN

    def _reserve(self, entry: LedgerEntry, state: ContextState, turn: Turn) -> None:
        reading, config = turn.call.reading, self._config
        names = (entry.service, entry.agent, entry.model)
        limits = model_limits(reading.model)
        profile = profile_for(reading.scope, reading.service)
        sources: dict[str, tuple[tuple[int | None, Provenance], ...]] = {
            "output": (
                (_positive(state.declared.get("reserved.output_tokens")), Provenance.DECLARED),
                (config.declared("output_tokens", *names), Provenance.DECLARED),
                (
                    reading.max_output_tokens if limits is None or limits.output_shares_window else None,
                    Provenance.REPORTED,
                ),
            ),
            "retry": (
                (_positive(state.declared.get("reserved.retry_tokens")), Provenance.DECLARED),
                (config.declared("retry_tokens", *names), Provenance.DECLARED),
            ),
            "staging": (
                (_positive(state.declared.get("reserved.staging_tokens")), Provenance.DECLARED),
                (config.declared("staging_tokens", *names), Provenance.DECLARED),
                (reading.reserved_staging_tokens, Provenance.REPORTED),
                (profile.staging_tokens if profile is not None else None, Provenance.TABLE),
            ),
        }
        reserved = Reserved()
        for name, candidates in sources.items():
            for value, level in candidates:
                if value is not None:
                    setattr(reserved, name, int(value))
                    entry.provenance[f"reserved.{name}"] = level
                    break
        entry.reserved = reserved

    def _requirement(self, entry: LedgerEntry, state: ContextState, role: RoleState) -> tuple[int | None, Provenance]:
        declared = _positive(state.declared.get("working_set.required_tokens"))
        configured = self._config.declared("requirement_tokens", entry.service, entry.agent, entry.model)
        if declared or configured:
            return int(declared or configured), Provenance.DECLARED
        default = default_requirement(entry.ceiling_tokens)
        learned = role.requirement.estimate()
        if learned is None:
            return default, Provenance.DEFAULT
        # A role does small tasks and large ones: a context that never held much does not need what others held.
        believed = max(default, _TASK_FACTOR * state.largest_working_tokens)
        return min(learned, believed), Provenance.LEARNED if learned <= believed else Provenance.DEFAULT

    def _trigger(self, entry: LedgerEntry, reading: Reading, state: ContextState) -> tuple[float, Provenance]:
        configured = self._config.declared("trigger_ratio", entry.service, entry.agent, entry.model)
        if configured:
            return float(configured), Provenance.DECLARED
        ceiling = entry.ceiling_tokens
        if reading.trigger_tokens and ceiling:
            return min(1.0, reading.trigger_tokens / ceiling), Provenance.REPORTED
        profile = profile_for(reading.scope, reading.service)
        if profile is not None and ceiling:
            tokens = profile.trigger_tokens_for(ceiling)
            if tokens:
                return min(1.0, tokens / ceiling), Provenance.TABLE
        return self._config.trigger_ratio, Provenance.DEFAULT


def _released(claims: list[int], tokens: int) -> list[int]:
    """What is left of retrieval, scratchpad and working memory when so much went at once: what can be had again first."""
    left = list(claims)
    for index in (1, 0, 2):
        gone = min(left[index], tokens)
        left[index] -= gone
        tokens -= gone
    return left


def role_key(turn: Turn) -> str:
    """The agent role of a turn: service, agent and model."""
    origin = turn.call.origin
    return f"{origin.service or ''}/{origin.anchor.name or ''}/{base_model(turn.call.reading.model)}"


def _announced(compaction: Compaction | None) -> dict[str, Any] | None:
    if compaction is None:
        return None
    return {
        "before_tokens": compaction.before_tokens,
        "after_tokens": compaction.after_tokens,
        "trigger": compaction.trigger,
        "outcome": compaction.outcome,
        "source": compaction.source,
    }


def _scaled(total: int, weights: list[int]) -> Split:
    if sum(weights) <= 0:
        weights = [1, 0, 0, 0, 0]
    return dict(zip(CONSUMERS, apportion(total, weights), strict=True))


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
