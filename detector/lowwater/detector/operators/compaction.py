"""Compaction debt of a context: compaction that should have happened and did not, why, and how long it can wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.consumers import Provenance
from lowwater.collectors.reading import Compaction
from lowwater.detector.config import DetectorConfig
from lowwater.detector.events import Observation
from lowwater.detector.findings import Advice, Finding, Kind, Severity
from lowwater.detector.models.trend import Trend
from lowwater.detector.operators.base import Episode, Signal, about, span_key
from lowwater.policies.compaction import (
    Forecast,
    HighWater,
    above_high_water,
    forecast_deadlock,
    is_thrash,
    why_blocked,
)
from lowwater.policies.rejection import CompactionRecord

__all__ = ["CompactionOperator", "CompactionState"]

_MAX_FAILURES = 3
"""Failed compactions in a row that make a stall: frameworks give up after three (claude-code#60600 and kin)."""

_UNENDED_TURNS = 5
"""A compaction that began and has not ended this many calls later hangs; the calls show that the agent goes on."""

_DUE_TURNS = 2
"""Turns above the mark from which a compaction is late: the first is the one that reached it."""

_MAX_HITS = 8


@dataclass(slots=True)
class CompactionState:
    """State of one context."""

    debt: Episode = field(default_factory=Episode)
    deadlock: Episode = field(default_factory=Episode)
    stalled: Episode = field(default_factory=Episode)
    trend: Trend | None = None
    record: CompactionRecord | None = None
    last_time_seconds: float | None = None
    above_turns: int = 0
    compactions: int = 0
    announced: int = 0
    failures: int = 0
    no_ops: int = 0
    started_turn: int | None = None
    resident_after_tokens: int | None = None
    latency_deferrals: int = 0
    hits: list[int] = field(default_factory=list)


class CompactionOperator:
    """Operator keyed by context: keeps the compaction record and the debt episodes."""

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config

    def initial(self) -> CompactionState:
        """State of a context that was never seen."""
        return CompactionState()

    def step(self, state: CompactionState, seen: Observation) -> Iterator[Finding]:
        """Judge the next turn."""
        entry = seen.entry
        if entry.rollup:
            return
        compaction = seen.turn.compaction
        if compaction is not None:
            self._note(state, seen, compaction)
        self._learn(state, seen)
        if entry.input_tokens is None or entry.ceiling_tokens is None:
            # An aborted call says nothing of the context; what is firing goes on firing.
            return
        water = self._high_water(seen)
        reached = water.above and state.above_turns == 0
        state.above_turns = state.above_turns + 1 if water.above and not entry.compacted else 0
        if reached:
            state.hits.append(entry.turn)
            del state.hits[:-_MAX_HITS]
        forecast = self._forecast(state, seen)
        entry.exhaustion_seconds = forecast.seconds
        reservation = self._scratchpad_reservation(seen)
        if reservation is not None and entry.scratchpad_tokens is not None:
            entry.scratchpad_free_tokens = reservation - entry.scratchpad_tokens
        facts = self._facts(state, seen, water, forecast)
        yield from self._advance(state.debt, Kind.COMPACTION_DEBT, seen, self._debt(state, seen, water, facts))
        yield from self._advance(
            state.deadlock, Kind.COMPACTION_DEADLOCK_RISK, seen, self._risk(state, seen, water, forecast, facts)
        )
        yield from self._advance(state.stalled, Kind.COMPACTION_STALLED, seen, self._stall(state, seen, water, facts))

    def _advance(self, episode: Episode, kind: Kind, seen: Observation, signal: Signal | None) -> Iterator[Finding]:
        fire_after = self._config.debt_after_turns if kind is Kind.COMPACTION_DEBT else 1
        return episode.step(kind, span_key(seen), signal, about(seen), fire_after=fire_after, resolve_after=1)

    # --- what is known -----------------------------------------------------------------------------------------------

    def _note(self, state: CompactionState, seen: Observation, compaction: Compaction) -> None:
        entry = seen.entry
        if compaction.outcome == "started":
            state.started_turn = state.started_turn or entry.turn
            return
        state.started_turn = None
        if compaction.outcome == "failure":
            state.failures += 1
            return
        state.failures = 0
        if compaction.outcome == "no_op":
            state.no_ops += 1
            return
        state.compactions += 1
        state.announced += not seen.turn.compaction_inferred
        state.resident_after_tokens = compaction.after_tokens or entry.input_tokens
        time_ns = entry.time_ns
        state.record = CompactionRecord(
            last_compaction_seconds=None if time_ns is None else time_ns / 1e9,
            resident_after_tokens=state.resident_after_tokens,
            window_tokens=compaction.window_tokens or entry.ceiling_tokens,
            clock="event",
        )

    @staticmethod
    def _learn(state: CompactionState, seen: Observation) -> None:
        turn, entry = seen.turn, seen.entry
        seconds = None
        if entry.time_ns is not None:
            now = entry.time_ns / 1e9
            seconds = now - state.last_time_seconds if state.last_time_seconds is not None else None
            state.last_time_seconds = now
        if turn.history == "appended" and turn.previous_input_tokens and entry.input_tokens is not None:
            state.trend = state.trend or Trend()
            state.trend.learn_one(entry.input_tokens - turn.previous_input_tokens, seconds)

    def _high_water(self, seen: Observation) -> HighWater:
        entry = seen.entry
        return above_high_water(
            input_tokens=entry.input_tokens or 0,
            window_tokens=entry.ceiling_tokens or 0,
            trigger_ratio=entry.trigger_ratio or self._config.trigger_ratio,
            scratchpad_tokens=entry.scratchpad_tokens,
            scratchpad_reservation_tokens=self._scratchpad_reservation(seen),
        )

    def _scratchpad_reservation(self, seen: Observation) -> int | None:
        declared = seen.turn.call.reading.declared.get("scratchpad.reservation_tokens")
        entry = seen.entry
        if isinstance(declared, int) and declared > 0:
            return declared
        value: int | None = self._config.declared(
            "scratchpad_reservation_tokens", entry.service, entry.agent, entry.model
        )
        return value

    @staticmethod
    def _forecast(state: CompactionState, seen: Observation) -> Forecast:
        entry = seen.entry
        return forecast_deadlock(
            window_tokens=entry.ceiling_tokens or 0,
            input_tokens=entry.input_tokens or 0,
            growth_tokens_per_turn=(state.trend.growth_tokens_per_turn() if state.trend is not None else None) or 0.0,
            staging_tokens=entry.reserved.staging or 0,
            seconds_per_turn=state.trend.seconds_per_turn() if state.trend is not None else None,
        )

    def _facts(self, state: CompactionState, seen: Observation, water: HighWater, forecast: Forecast) -> dict[str, Any]:
        entry = seen.entry
        facts: dict[str, Any] = {
            "input_tokens": entry.input_tokens,
            "ceiling_tokens": entry.ceiling_tokens,
            "trigger_ratio": entry.trigger_ratio,
            "over_high_water_tokens": water.over_tokens,
            "high_water": water.which,
            "debt_turns": state.above_turns,
            "compactions_seen": state.compactions,
            "staging_tokens": entry.reserved.staging,
            "turns_left": None if forecast.turns is None else round(forecast.turns, 1),
            "seconds_left": None if forecast.seconds is None else round(forecast.seconds, 1),
        }
        if state.failures:
            facts["failures"] = state.failures
        if state.no_ops:
            facts["no_ops"] = state.no_ops
        return facts

    # --- what is wrong -----------------------------------------------------------------------------------------------

    def _reason(self, state: CompactionState, seen: Observation) -> str:
        entry, declared = seen.entry, seen.turn.call.reading.declared
        slo = declared.get("turn.slo_seconds")
        if not isinstance(slo, int | float):
            slo = self._config.declared("turn_slo_seconds", entry.service, entry.agent, entry.model)
        blocked = why_blocked(
            input_tokens=entry.input_tokens or 0,
            window_tokens=entry.ceiling_tokens or 0,
            trigger_tokens=round((entry.trigger_ratio or 1.0) * (entry.ceiling_tokens or 0)),
            staging_tokens=entry.reserved.staging,
            resident_after_tokens=state.resident_after_tokens,
            in_flight=state.started_turn is not None,
            failures=state.failures,
            turn_slo_seconds=slo,
            turn_seconds=state.trend.seconds_per_turn() if state.trend is not None else None,
            summarizer_window_tokens=None,
        )
        return blocked.value

    def _debt(
        self, state: CompactionState, seen: Observation, water: HighWater, facts: dict[str, Any]
    ) -> Signal | None:
        if not water.above or seen.entry.compacted:
            return None
        expected = (
            seen.entry.provenance.get("trigger_ratio", Provenance.UNKNOWN) > Provenance.DEFAULT
            or state.announced > 0
            or water.which == "scratchpad"
        )
        # Where nothing says that this agent compacts at all, a full context is what every gauge shows anyway.
        severity = Severity.TICKET if expected else Severity.INFO
        steps = (
            Advice("request a compaction at the next turn boundary", water.over_tokens),
            Advice("release scratchpad: drop tool results that can be fetched again", seen.entry.scratchpad_tokens),
        )
        return Signal(self._reason(state, seen), severity, facts, self._levels(seen, water), steps)

    def _risk(
        self, state: CompactionState, seen: Observation, water: HighWater, forecast: Forecast, facts: dict[str, Any]
    ) -> Signal | None:
        entry = seen.entry
        if entry.compacted and not self._cannot_converge(state, seen):
            return None
        # At the mark a compaction is due at the next turn boundary; only one that does not come then is a risk.
        near = state.above_turns >= _DUE_TURNS and forecast.turns is not None
        near = near and (forecast.turns or 0.0) <= self._config.deadlock_turns
        # Only where a staging buffer or a reservation is known can its loss be foreseen.
        near = near and (entry.reserved.staging is not None or water.which == "scratchpad")
        if self._cannot_converge(state, seen):
            reason = "floor_above_trigger"
        elif near:
            reason = self._reason(state, seen)
        else:
            return None
        levels = self._levels(seen, water)
        levels["staging_tokens"] = entry.provenance.get("reserved.staging", Provenance.UNKNOWN)
        if levels["staging_tokens"] is Provenance.UNKNOWN:
            del levels["staging_tokens"]
        steps = (
            Advice("compact now, while the staging buffer can still be had", water.over_tokens),
            Advice("raise the reservation or lower what survives compaction", None),
        )
        return Signal(reason, Severity.PAGE, facts, levels, steps)

    @staticmethod
    def _cannot_converge(state: CompactionState, seen: Observation) -> bool:
        """What the last compaction left is itself above the trigger."""
        entry = seen.entry
        if state.resident_after_tokens is None or entry.ceiling_tokens is None or entry.trigger_ratio is None:
            return False
        return state.resident_after_tokens >= entry.trigger_ratio * entry.ceiling_tokens

    def _stall(
        self, state: CompactionState, seen: Observation, water: HighWater, facts: dict[str, Any]
    ) -> Signal | None:
        entry = seen.entry
        if state.failures >= _MAX_FAILURES:
            reason = "failing"
        elif state.started_turn is not None and entry.turn - state.started_turn >= _UNENDED_TURNS:
            reason = "never_ended"
        elif is_thrash(state.hits) and entry.turn - state.hits[-1] <= _UNENDED_TURNS:
            reason = "thrash"
        else:
            return None
        steps = (
            Advice("look at the summarizer: its errors, its window, its time-out", None),
            Advice("start a fresh context from a hand-over note", entry.input_tokens),
        )
        levels = {"input_tokens": Provenance.REPORTED}
        if reason == "thrash":
            # Prompts that grow and shrink are thrash only if the mark is one, and if something compacts at all.
            levels = self._levels(seen, water)
            levels["compactions"] = Provenance.REPORTED if state.announced else Provenance.INFERRED
        return Signal(reason, Severity.PAGE, facts, levels, steps)

    @staticmethod
    def _levels(seen: Observation, water: HighWater) -> dict[str, Provenance]:
        names = ["ceiling_tokens", "input_tokens"]
        names.append("scratchpad_tokens" if water.which == "scratchpad" else "trigger_ratio")
        return {name: seen.entry.provenance.get(name, Provenance.UNKNOWN) for name in names}
