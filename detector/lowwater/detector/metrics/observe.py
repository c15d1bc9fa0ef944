"""The pipeline's outputs to metrics: counters of what is confirmed, gauges of what was seen last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.detector.events import CompactionMark
from lowwater.detector.findings import State
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.metrics.catalogue import CLOSED
from lowwater.detector.metrics.registry import UNKNOWN, Exemplar, Registry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Output

__all__ = ["AgentMetrics"]

_ACTIVE_SECONDS = 300
_RUN_OVER_SECONDS = 60
_MAX_RUNS = 5_000
_TIGHT = 1.25
"""A residual below so many times the requirement leaves the agent tight."""

_STARVED = "silent_starvation"
_TRIGGERS = frozenset(CLOSED["trigger"])
_OUTCOMES = frozenset(CLOSED["outcome"])
_HELD = ("retrieval", "scratchpad", "working")

Role = tuple[str, str]


@dataclass(slots=True)
class _Active:
    """The last call of a context."""

    seen_seconds: int
    role: Role
    entry: LedgerEntry


@dataclass(slots=True)
class _Run:
    """A fan-out that goes on."""

    seen_seconds: int
    report: PoolReport
    overrun_tokens: int


class AgentMetrics:
    """Counts what the pipeline gives. Used from one thread.

    Args:
        registry: where to.
        max_contexts: contexts in the gauges at most; the longest idle one leaves beyond it.
    """

    def __init__(self, registry: Registry, *, max_contexts: int = 20_000) -> None:
        self._registry = registry
        self._max_contexts = max_contexts
        self._active: OrderedDict[str, _Active] = OrderedDict()
        self._previous: OrderedDict[str, tuple[int, dict[str, int]]] = OrderedDict()
        """Of each context, the input and what each consumer held, at its last confirmed call."""
        self._runs: OrderedDict[tuple[str, str, int], _Run] = OrderedDict()
        self._firing: dict[str, tuple[str, str, str, str]] = {}
        self._roles: set[tuple[str, str, str]] = set()

    def observe(self, output: Output, provisional: bool, now_ns: int) -> None:
        """Take an output. Provisional ones, of an early look, move gauges alone: they come again when they are sure."""
        now = now_ns // 1_000_000_000
        if isinstance(output, LedgerEntry):
            if output.rollup:
                return
            if output.input_tokens is not None:
                self._activate(output, now)
            if not provisional:
                self._turn(output)
        elif provisional:
            return
        elif isinstance(output, PoolReport):
            self._run(output, now)
        elif isinstance(output, CompactionMark):
            origin, compaction = output.origin, output.compaction
            self._compacted(_role(origin.service, origin.anchor.name), compaction.trigger, compaction.outcome)
            if compaction.duration_seconds is not None:
                self._registry.observe(
                    "lowwater_compaction_duration_seconds",
                    _role(origin.service, origin.anchor.name),
                    compaction.duration_seconds,
                )

    def told(self, line: Mapping[str, Any]) -> None:
        """Take a line of a finding that people are shown."""
        service = line["service"] or UNKNOWN
        if line["state"] == State.FIRING.value:
            self._registry.announce({"service": service})
            self._registry.inc("lowwater_findings_total", (service, line["kind"], line["severity"]))
        self.show(line)

    def show(self, line: Mapping[str, Any]) -> None:
        """Take a finding as it stands, without counting it: one that fired before a restart."""
        if line["state"] == State.FIRING.value:
            self._firing[line["id"]] = (*_role(line["service"], line["agent"]), line["kind"], line["severity"])
        else:
            self._firing.pop(line["id"], None)

    def tick(self, now_ns: int) -> None:
        """Recompute the gauges; what has been silent leaves them."""
        now = now_ns // 1_000_000_000
        while self._active:
            oldest = next(iter(self._active))
            if self._active[oldest].seen_seconds + _ACTIVE_SECONDS > now:
                break
            del self._active[oldest]
        for key in [key for key, run in self._runs.items() if run.seen_seconds + _RUN_OVER_SECONDS <= now]:
            self._run_over(self._runs.pop(key))
        self._gauges()

    # --- calls -------------------------------------------------------------------------------------------------------

    def _activate(self, entry: LedgerEntry, now: int) -> None:
        self._active.pop(entry.context, None)
        self._active[entry.context] = _Active(now, _role(entry.service, entry.agent), entry)
        if len(self._active) > self._max_contexts:
            self._active.popitem(last=False)

    def _turn(self, entry: LedgerEntry) -> None:
        registry = self._registry
        role = _role(entry.service, entry.agent)
        call = (*role, entry.model or UNKNOWN)
        if call not in self._roles and len(self._roles) < self._max_contexts:
            self._roles.add(call)
            registry.announce({"service": call[0], "agent": call[1], "model": call[2]})
        registry.inc("lowwater_turns_total", (*call, entry.regime))
        registry.inc("lowwater_tokens_input_total", call, entry.input_tokens or 0)
        if entry.actions:
            registry.inc("lowwater_actions_total", role, entry.actions)
        if entry.repeated_actions:
            registry.inc("lowwater_actions_repeated_total", role, entry.repeated_actions)
        if entry.rejection is not None:
            registry.inc("lowwater_rejections_total", (*role, entry.rejection))
        exemplar = _exemplar(entry)
        if entry.regime == _STARVED:
            registry.inc("lowwater_turns_starved_total", call, 1, exemplar(1.0))
        if entry.residual_tokens is not None and entry.working_tokens is not None and entry.ceiling_tokens:
            free = max(0, entry.residual_tokens - entry.working_tokens) / entry.ceiling_tokens
            registry.observe("lowwater_context_free_ratio", call, free, exemplar(free))
        if entry.compaction is not None and entry.compaction.get("source") == "inferred":
            self._compacted(role, "inferred", str(entry.compaction.get("outcome")))
        self._growth(entry, role)

    def _growth(self, entry: LedgerEntry, role: Role) -> None:
        if entry.input_tokens is None:
            return
        parts = {
            "retrieval": entry.retrieval_tokens,
            "scratchpad": entry.scratchpad_tokens,
            "working": entry.working_tokens,
        }
        held = {name: value for name, value in parts.items() if value is not None}
        previous = self._previous.pop(entry.context, None)
        self._previous[entry.context] = (entry.input_tokens, held)
        if len(self._previous) > self._max_contexts:
            self._previous.popitem(last=False)
        if previous is None or entry.history == "unknown":
            return
        grown = entry.input_tokens - previous[0]
        if grown > 0:
            self._registry.inc("lowwater_compaction_accrued_tokens_total", role, grown)
        elif grown < 0 and entry.compacted:
            self._registry.inc("lowwater_compaction_reclaimed_tokens_total", role, -grown)
        for name, tokens in held.items():
            gone = previous[1].get(name, 0) - tokens
            if gone > 0:
                self._registry.inc("lowwater_evicted_tokens_total", (*role, name), gone)

    def _compacted(self, role: Role, trigger: str | None, outcome: str) -> None:
        known = trigger if trigger in _TRIGGERS else "other"
        self._registry.inc("lowwater_compactions_total", (*role, known, outcome if outcome in _OUTCOMES else "success"))

    # --- fan-outs ----------------------------------------------------------------------------------------------------

    def _run(self, report: PoolReport, now: int) -> None:
        key = (report.trace_id, report.pool, report.run)
        known = self._runs.pop(key, None)
        overrun = 0 if report.ceiling_tokens is None else max(0, report.peak_tokens - report.ceiling_tokens)
        more = overrun - (known.overrun_tokens if known is not None else 0)
        if more > 0:
            self._registry.inc("lowwater_fanout_overrun_tokens_total", (report.service or UNKNOWN,), more)
        self._runs[key] = _Run(now, report, overrun)
        if len(self._runs) > _MAX_RUNS:
            self._run_over(self._runs.popitem(last=False)[1])

    def _run_over(self, run: _Run) -> None:
        report, labels = run.report, (run.report.service or UNKNOWN,)
        self._registry.inc("lowwater_fanout_runs_total", labels)
        self._registry.observe("lowwater_fanout_width", labels, report.width)
        if report.ceiling_tokens:
            self._registry.observe("lowwater_fanout_peak_ratio", labels, report.peak_tokens / report.ceiling_tokens)

    # --- gauges ------------------------------------------------------------------------------------------------------

    def _gauges(self) -> None:
        tables: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _GAUGES}
        for active in self._active.values():
            entry, role = active.entry, active.role
            _add(tables["lowwater_agents_active"], role, 1)
            _add(tables["lowwater_agents_starved"], role, entry.regime == _STARVED)
            _most(tables["lowwater_agent_state"], role, _state(entry))
            ceiling, residual, required = entry.ceiling_tokens, entry.residual_tokens, entry.requirement_tokens
            if ceiling and residual is not None and required is not None:
                _least(tables["lowwater_context_headroom_ratio"], role, (residual - required) / ceiling)
            if ceiling and entry.input_tokens is not None:
                _add(tables["lowwater_context_ceiling_tokens"], role, ceiling)
                _most(tables["lowwater_context_utilization_ratio"], role, entry.input_tokens / ceiling)
                if entry.trigger_ratio is not None:
                    over = max(0.0, entry.input_tokens - entry.trigger_ratio * ceiling)
                    _add(tables["lowwater_compaction_debt_tokens"], role, over)
            for name, tokens in _used(entry):
                if tokens is not None:
                    _add(tables["lowwater_context_used_tokens"], (*role, name), tokens)
            if entry.scratchpad_free_tokens is not None:
                _least(tables["lowwater_scratchpad_free_tokens"], role, entry.scratchpad_free_tokens)
            if entry.exhaustion_seconds is not None:
                _least(tables["lowwater_exhaustion_seconds"], role, entry.exhaustion_seconds)
        for run in self._runs.values():
            labels = (run.report.service or UNKNOWN,)
            _add(tables["lowwater_fanout_committed_tokens"], labels, run.report.peak_tokens)
            if run.report.ceiling_tokens is not None:
                _add(tables["lowwater_fanout_budget_tokens"], labels, run.report.ceiling_tokens)
        for firing in self._firing.values():
            _add(tables["lowwater_findings_firing"], firing, 1)
        for name, values in tables.items():
            self._registry.replace(name, values)


_GAUGES = (
    "lowwater_agents_active", "lowwater_agents_starved", "lowwater_agent_state", "lowwater_context_headroom_ratio",
    "lowwater_context_used_tokens", "lowwater_context_ceiling_tokens", "lowwater_context_utilization_ratio",
    "lowwater_scratchpad_free_tokens", "lowwater_exhaustion_seconds", "lowwater_fanout_committed_tokens",
    "lowwater_fanout_budget_tokens", "lowwater_compaction_debt_tokens", "lowwater_findings_firing",
)  # fmt: skip


def _role(service: str | None, agent: str | None) -> Role:
    return service or UNKNOWN, agent or UNKNOWN


def _exemplar(entry: LedgerEntry) -> Any:
    seconds = (entry.time_ns or 0) / 1e9
    return lambda value: Exemplar(entry.trace_id, entry.span_id, value, seconds)


def _state(entry: LedgerEntry) -> int:
    if entry.regime == _STARVED:
        return 2
    residual, required = entry.residual_tokens, entry.requirement_tokens
    return int(residual is not None and required is not None and residual < _TIGHT * required)


def _used(entry: LedgerEntry) -> tuple[tuple[str, int | None], ...]:
    reserved = entry.reserved
    return (
        ("system", reserved.system), ("tools", reserved.tools), ("retrieval", entry.retrieval_tokens),
        ("scratchpad", entry.scratchpad_tokens), ("working", entry.working_tokens), ("output", reserved.output),
        ("retry", reserved.retry), ("staging", reserved.staging),
    )  # fmt: skip


def _add(table: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    table[labels] = table.get(labels, 0.0) + value


def _most(table: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    table[labels] = max(table.get(labels, value), value)


def _least(table: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    table[labels] = min(table.get(labels, value), value)
