"""The pipeline's outputs to metrics: counters of what is confirmed, gauges of what was seen last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowwater.detector.events import CompactionMark
from lowwater.detector.findings import State
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.metrics.catalogue import CATALOGUE, CLOSED, Type
from lowwater.detector.metrics.registry import UNKNOWN, Exemplar, Registry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Output

__all__ = ["AgentMetrics"]

_ACTIVE_SECONDS = 300
_RUN_OVER_SECONDS = 60
_RUN_FORGOTTEN_SECONDS = 3_600
_MAX_RUNS = 2_000
_RETAIN_SECONDS = 3_600
_TIGHT = 1.25
"""A residual below so many times the requirement leaves the agent tight."""

_STARVED = "silent_starvation"
_TRIGGERS = frozenset(CLOSED["trigger"])
_OUTCOMES = frozenset(CLOSED["outcome"])

Role = tuple[str, str]


@dataclass(slots=True)
class _Active:
    """The last call of a context."""

    seen_seconds: int
    role: Role
    entry: LedgerEntry


class _Run(NamedTuple):
    """A fan-out: going on, or counted as over and remembered in case that it goes on after all."""

    seen_seconds: int
    counted: bool
    service: str
    width: int
    peak_tokens: int
    ceiling_tokens: int | None
    feasible: bool | None

    @property
    def overrun_tokens(self) -> int:
        return 0 if self.ceiling_tokens is None else max(0, self.peak_tokens - self.ceiling_tokens)


class AgentMetrics:
    """Counts what the pipeline gives. Used from one thread.

    Args:
        registry: where to.
        max_contexts: contexts in the gauges at most; the longest idle one leaves beyond it.
        forget_after_seconds: counters of an agent that has been silent for so long are forgotten.
    """

    def __init__(
        self, registry: Registry, *, max_contexts: int = 20_000, forget_after_seconds: float = 86_400.0
    ) -> None:
        self._registry = registry
        self._max_contexts = max_contexts
        self._forget_after_seconds = forget_after_seconds
        self._active: OrderedDict[str, _Active] = OrderedDict()
        self._runs: OrderedDict[tuple[str, str, int], _Run] = OrderedDict()
        self._firing: dict[str, tuple[str, str, str, str]] = {}
        self._calls: dict[tuple[str, ...], int] = {}
        """When each service, agent and model was last seen, in Unix seconds."""
        self._retained_seconds = 0

    def observe(self, output: Output, provisional: bool, now_ns: int) -> None:
        """Take an output. Provisional ones, of an early look, move gauges alone: they come again when they are sure."""
        now = now_ns // 1_000_000_000
        if isinstance(output, LedgerEntry):
            if output.rollup:
                return
            self._announce(output, now)
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
        for key, run in list(self._runs.items()):
            if run.seen_seconds + _RUN_FORGOTTEN_SECONDS <= now:
                del self._runs[key]
            elif not run.counted and run.seen_seconds + _RUN_OVER_SECONDS <= now:
                self._runs[key] = self._counted(run)
        if self._retained_seconds + _RETAIN_SECONDS <= now:
            self._retained_seconds = now
            self._forget(now)
        self._gauges()

    # --- over a restart ----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[tuple[str, str, int], tuple[Any, ...]]:
        """The fan-outs that are counted in part, as plain data."""
        return {key: tuple(run) for key, run in self._runs.items()}

    def restore(self, snapshot: Mapping[tuple[str, str, int], tuple[Any, ...]], now_ns: int) -> None:
        """Take up a snapshot, after the registry has taken up its own."""
        self._runs = OrderedDict((key, _Run(*run)) for key, run in snapshot.items())
        self._calls = dict.fromkeys(self._registry.calls(), now_ns // 1_000_000_000)

    def _forget(self, now: int) -> None:
        silent = [call for call, seen in self._calls.items() if seen + self._forget_after_seconds <= now]
        for call in silent:
            del self._calls[call]
        if silent:
            self._registry.retain(self._calls)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _activate(self, entry: LedgerEntry, now: int) -> None:
        known = self._active.get(entry.context)
        if known is not None and entry.turn <= known.entry.turn:
            # The pipeline comes a minute after the early look: it confirms the turn shown, and must not show earlier ones.
            if entry.turn == known.entry.turn:
                known.entry = entry
            return
        self._active.pop(entry.context, None)
        self._active[entry.context] = _Active(now, _role(entry.service, entry.agent), entry)
        if len(self._active) > self._max_contexts:
            self._active.popitem(last=False)

    def _announce(self, entry: LedgerEntry, now: int) -> None:
        """Let counters begin at zero before they count: an increase from nothing is none."""
        call = (*_role(entry.service, entry.agent), entry.model or UNKNOWN)
        if call in self._calls:
            self._calls[call] = now
        elif len(self._calls) < self._max_contexts:
            self._calls[call] = now
            self._registry.announce(dict(zip(("service", "agent", "model"), call, strict=True)))

    def _turn(self, entry: LedgerEntry) -> None:
        registry = self._registry
        role = _role(entry.service, entry.agent)
        call = (*role, entry.model or UNKNOWN)
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
        grown = entry.grown_tokens or 0
        if grown > 0:
            self._registry.inc("lowwater_compaction_accrued_tokens_total", role, grown)
        elif grown < 0 and entry.compacted:
            self._registry.inc("lowwater_compaction_reclaimed_tokens_total", role, -grown)
        for name, tokens in entry.gone.items():
            self._registry.inc("lowwater_evicted_tokens_total", (*role, name), tokens)

    def _compacted(self, role: Role, trigger: str | None, outcome: str) -> None:
        known = trigger if trigger in _TRIGGERS else "other"
        self._registry.inc("lowwater_compactions_total", (*role, known, outcome if outcome in _OUTCOMES else "success"))

    # --- fan-outs ----------------------------------------------------------------------------------------------------

    def _run(self, report: PoolReport, now: int) -> None:
        key = (report.trace_id, report.pool, report.run)
        known = self._runs.pop(key, None)
        run = _Run(
            now,
            known is not None and known.counted,
            report.service or UNKNOWN,
            report.width,
            report.peak_tokens,
            report.ceiling_tokens,
            report.feasible,
        )
        more = run.overrun_tokens - (known.overrun_tokens if known is not None else 0)
        if more > 0:
            self._registry.inc("lowwater_fanout_overrun_tokens_total", (run.service,), more)
        self._runs[key] = run
        if len(self._runs) > _MAX_RUNS:
            _, oldest = self._runs.popitem(last=False)
            if not oldest.counted:
                self._counted(oldest)

    def _counted(self, run: _Run) -> _Run:
        labels = (run.service,)
        self._registry.inc("lowwater_fanout_runs_total", labels)
        decision = {True: "admitted", False: "overcommitted", None: "unknown"}[run.feasible]
        self._registry.inc("lowwater_fanout_dispatches_total", (run.service, decision))
        self._registry.observe("lowwater_fanout_width", labels, run.width)
        if run.ceiling_tokens:
            self._registry.observe("lowwater_fanout_peak_ratio", labels, run.peak_tokens / run.ceiling_tokens)
        return run._replace(counted=True)

    # --- gauges ------------------------------------------------------------------------------------------------------

    def _gauges(self) -> None:
        tables: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _COMBINE}

        def put(name: str, labels: tuple[str, ...], value: float) -> None:
            table = tables[name]
            table[labels] = _COMBINE[name](table[labels], value) if labels in table else value

        for active in self._active.values():
            entry, role = active.entry, active.role
            put("lowwater_agents_active", role, 1)
            put("lowwater_agents_starved", role, int(entry.regime == _STARVED))  # no bool: OTLP has none
            put("lowwater_agent_state", role, _state(entry))
            ceiling, residual, required = entry.ceiling_tokens, entry.residual_tokens, entry.requirement_tokens
            if ceiling and residual is not None and required is not None:
                put("lowwater_context_headroom_ratio", role, (residual - required) / ceiling)
            if ceiling and entry.input_tokens is not None:
                put("lowwater_context_ceiling_tokens", role, ceiling)
                put("lowwater_context_utilization_ratio", role, entry.input_tokens / ceiling)
                if entry.trigger_ratio is not None:
                    over = max(0.0, entry.input_tokens - entry.trigger_ratio * ceiling)
                    put("lowwater_compaction_debt_tokens", role, over)
            for name, tokens in _used(entry):
                if tokens is not None:
                    put("lowwater_context_used_tokens", (*role, name), tokens)
            if entry.scratchpad_free_tokens is not None:
                put("lowwater_scratchpad_free_tokens", role, entry.scratchpad_free_tokens)
            if entry.exhaustion_seconds is not None:
                put("lowwater_scratchpad_exhaustion_seconds", role, entry.exhaustion_seconds)
        for run in self._runs.values():
            if run.counted:
                continue
            put("lowwater_fanout_committed_tokens", (run.service,), run.peak_tokens)
            if run.ceiling_tokens is not None:
                put("lowwater_fanout_budget_tokens", (run.service,), run.ceiling_tokens)
        for firing in self._firing.values():
            put("lowwater_findings_firing", firing, 1)
        for name, values in tables.items():
            self._registry.replace(name, values)


_COMBINE = {
    metric.name: metric.combine for metric in CATALOGUE if metric.type is Type.GAUGE and "service" in metric.labels
}


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
