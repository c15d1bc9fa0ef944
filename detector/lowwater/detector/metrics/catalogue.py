"""Every metric as data: the one list from which counting, exposition, documentation and dashboards follow.

Names are those of Prometheus; counters carry ``_total`` there and lose it in OTLP. Labels never hold an id: ids go to
exemplars and findings.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from lowwater.detector.findings import Kind, Severity

__all__ = ["BY_NAME", "CATALOGUE", "CLOSED", "OPEN_LABELS", "Combine", "Metric", "Type"]


class Type(enum.Enum):
    """What a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Combine(enum.Enum):
    """What two values of a gauge become when they belong to one label set: several contexts of a role, or folded ones."""

    SUM = "sum"
    MOST = "max"
    LEAST = "min"

    def __call__(self, one: float, other: float) -> float:
        """The one value of both."""
        if self is Combine.SUM:
            return one + other
        return max(one, other) if self is Combine.MOST else min(one, other)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: in Prometheus.
        unit: UCUM, for OTLP.
        labels: in the order of the values.
        buckets: upper bounds, for histograms; +Inf is added.
        combine: how values of a gauge come together.
        first: for labels with many values, those whose series begin at zero; `CLOSED` has the others.
        zeros: label sets that begin at zero, where they are not all combinations.
    """

    name: str
    type: Type
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    combine: Combine = Combine.SUM
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zeros: tuple[tuple[str, ...], ...] = ()


OPEN_LABELS: Mapping[str, int] = {"service": 100, "agent": 200, "model": 100}
"""Labels whose values come from traces, and how many of them are told apart; the others become ``other``."""

_REGIMES = ("healthy", "silent_starvation", "transient", "loud", "floor_enforced", "unknown")
_CLASSES = (
    "spend_cap", "token_quota", "rate_limit", "overload", "context_length", "compaction_debt", "unknown",
)  # fmt: skip
_CONSUMERS = ("system", "tools", "retrieval", "scratchpad", "working")
_RESERVATIONS = ("output", "retry", "staging")

CLOSED: Mapping[str, tuple[str, ...]] = {
    "kind": tuple(kind.value for kind in Kind),
    "severity": tuple(severity.label for severity in Severity),
    "regime": _REGIMES,
    "class": _CLASSES,
    "consumer": (*_CONSUMERS, *_RESERVATIONS),
    "outcome": ("success", "no_op", "failure", "started"),
    "trigger": ("auto", "manual", "inferred", "other"),
    "signal": ("traces", "logs"),
    "protocol": ("grpc", "http"),
    "reason": (
        "malformed", "invalid", "too_large", "busy", "state", "stopping", "unauthenticated", "content_type",
        "content_encoding", "not_found", "method", "disconnected",
    ),
    "fault": ("commit", "checkpoint", "expire", "outbox", "reading", "state", "fault"),
    "decision": ("admitted", "overcommitted", "unknown"),
    "label": tuple(OPEN_LABELS),
    "sink": (),
    "code": (),
    "version": (),
}  # fmt: skip
"""Values of the other labels as far as they are known at start: their series exist from the first scrape."""

_ROLE = ("service", "agent")
_CALL = ("service", "agent", "model")
_TOKENS = "{token}"
_RATIO_BUCKETS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_COUNTER, _GAUGE, _HISTOGRAM = Type.COUNTER, Type.GAUGE, Type.HISTOGRAM
_ANSWERS = {
    "grpc": (
        "OK", "CANCELLED", "INVALID_ARGUMENT", "UNAUTHENTICATED", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "INTERNAL",
        "UNAVAILABLE",
    ),
    "http": ("200", "400", "401", "404", "405", "413", "415", "499", "500", "503"),
}  # fmt: skip

CATALOGUE: tuple[Metric, ...] = (
    # --- agents
    Metric("lowwater_agents_active", _GAUGE, "{context}", "Contexts with a call in the last five minutes", _ROLE),
    Metric("lowwater_agents_starved", _GAUGE, "{context}", "Active contexts starved at their last call", _ROLE),
    Metric(
        "lowwater_agent_state",
        _GAUGE,
        "1",
        "Worst active context: 0 ok, 1 tight (less than a quarter of the requirement to spare), 2 starved",
        _ROLE,
        combine=Combine.MOST,
    ),
    Metric(
        "lowwater_context_headroom_ratio",
        _GAUGE,
        "1",
        "Worst active context: (residual - requirement) / ceiling; negative is less than needed",
        _ROLE,
        combine=Combine.LEAST,
    ),
    Metric(
        "lowwater_context_free_ratio",
        _HISTOGRAM,
        "1",
        "Of each call, (residual - working memory) / ceiling: what is left for working memory to grow, 0 for nothing",
        _CALL,
        _RATIO_BUCKETS,
    ),
    Metric(
        "lowwater_context_used_tokens",
        _GAUGE,
        _TOKENS,
        "Tokens that active contexts hold or reserve, at their last call",
        (*_ROLE, "consumer"),
    ),
    Metric("lowwater_context_ceiling_tokens", _GAUGE, _TOKENS, "Sum of the ceilings of active contexts", _ROLE),
    Metric(
        "lowwater_context_utilization_ratio",
        _GAUGE,
        "1",
        "Highest input / ceiling of active contexts: the gauge that does not show starvation",
        _ROLE,
        combine=Combine.MOST,
    ),
    Metric(
        "lowwater_evicted_tokens_total",
        _COUNTER,
        _TOKENS,
        "Tokens gone from a context since its previous call",
        (*_ROLE, "consumer"),
        first={"consumer": ("retrieval", "scratchpad", "working")},
    ),
    Metric("lowwater_turns_total", _COUNTER, "{call}", "Calls of models that were judged", (*_CALL, "regime")),
    Metric("lowwater_turns_starved_total", _COUNTER, "{call}", "Calls in silent starvation", _CALL),
    Metric("lowwater_tokens_input_total", _COUNTER, _TOKENS, "Input tokens of all calls, cached part included", _CALL),
    Metric(
        "lowwater_scratchpad_free_tokens",
        _GAUGE,
        _TOKENS,
        "Least of active contexts with a reservation",
        _ROLE,
        combine=Combine.LEAST,
    ),
    Metric(
        "lowwater_scratchpad_exhaustion_seconds",
        _GAUGE,
        "s",
        "Forecast of the soonest moment at which compaction can no longer have its staging buffer",
        _ROLE,
        combine=Combine.LEAST,
    ),
    Metric("lowwater_actions_total", _COUNTER, "{action}", "Tool calls", _ROLE),
    Metric(
        "lowwater_actions_repeated_total",
        _COUNTER,
        "{action}",
        "Tool calls that repeat an earlier one as a loop or because its result was lost",
        _ROLE,
    ),
    # --- fan-out
    Metric("lowwater_fanout_runs_total", _COUNTER, "{run}", "Fan-outs that are over", ("service",)),
    Metric(
        "lowwater_fanout_dispatches_total",
        _COUNTER,
        "{run}",
        "Fan-outs that are over, by whether what they committed fits; unknown without a ceiling and budgets",
        ("service", "decision"),
    ),
    Metric(
        "lowwater_fanout_width",
        _HISTOGRAM,
        "{member}",
        "Members at once, of fan-outs that are over",
        ("service",),
        (2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
    ),
    Metric(
        "lowwater_fanout_peak_ratio",
        _HISTOGRAM,
        "1",
        "Peak of the members' sum / ceiling of the pool, of fan-outs that are over",
        ("service",),
        (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0),
    ),
    Metric(
        "lowwater_fanout_committed_tokens", _GAUGE, _TOKENS, "Members' peaks, summed over running pools", ("service",)
    ),
    Metric("lowwater_fanout_budget_tokens", _GAUGE, _TOKENS, "Ceilings of running pools that have one", ("service",)),
    Metric(
        "lowwater_fanout_overrun_tokens_total", _COUNTER, _TOKENS, "Tokens held beyond a pool's ceiling", ("service",)
    ),
    # --- compaction and quota
    Metric(
        "lowwater_compaction_debt_tokens",
        _GAUGE,
        _TOKENS,
        "Tokens above the mark where compaction is due, summed over active contexts",
        _ROLE,
    ),
    Metric(
        "lowwater_compaction_accrued_tokens_total",
        _COUNTER,
        _TOKENS,
        "Growth of contexts between calls",
        _ROLE,
    ),
    Metric("lowwater_compaction_reclaimed_tokens_total", _COUNTER, _TOKENS, "Tokens that compactions gave back", _ROLE),
    Metric(
        "lowwater_compactions_total",
        _COUNTER,
        "{compaction}",
        "Compactions seen",
        (*_ROLE, "trigger", "outcome"),
        first={"trigger": ("auto", "inferred"), "outcome": ("success", "failure")},
    ),
    Metric(
        "lowwater_compaction_duration_seconds",
        _HISTOGRAM,
        "s",
        "How long announced compactions took",
        _ROLE,
        (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    ),
    Metric("lowwater_rejections_total", _COUNTER, "{call}", "Refused calls by what refused them", (*_ROLE, "class")),
    # --- findings
    Metric(
        "lowwater_findings_total",
        _COUNTER,
        "{finding}",
        "Findings that began to fire or grew worse",
        ("service", "kind", "severity"),
    ),
    Metric("lowwater_findings_firing", _GAUGE, "{finding}", "Findings that fire now", (*_ROLE, "kind", "severity")),
    # --- the detector
    Metric("lowwater_build_info", _GAUGE, "1", "Always 1", ("version",)),
    Metric(
        "lowwater_detector_requests_total",
        _COUNTER,
        "{request}",
        "Export requests by answer",
        ("protocol", "code"),
        zeros=tuple((protocol, code) for protocol, codes in _ANSWERS.items() for code in codes),
    ),
    Metric("lowwater_detector_spans_received_total", _COUNTER, "{span}", "Spans acknowledged", ("protocol",)),
    Metric("lowwater_detector_logs_received_total", _COUNTER, "{record}", "Log records acknowledged", ("protocol",)),
    Metric(
        "lowwater_detector_spans_dropped_total",
        _COUNTER,
        "{span}",
        "Spans, log records, or whole requests counted as one, that were not taken",
        ("reason",),
    ),
    Metric("lowwater_detector_late_total", _COUNTER, "{span}", "Spans that came later than the lateness allows"),
    Metric(
        "lowwater_detector_clamped_total",
        _COUNTER,
        "{span}",
        "Spans whose times are impossible, or whose clock runs ahead",
    ),
    Metric("lowwater_detector_faults_total", _COUNTER, "{fault}", "What the detector could not do", ("fault",)),
    Metric("lowwater_detector_lag_seconds", _GAUGE, "s", "How long the oldest span waits beyond the lateness"),
    Metric("lowwater_detector_waiting_readings", _GAUGE, "{span}", "Spans that wait for earlier ones"),
    Metric("lowwater_detector_last_span_timestamp_seconds", _GAUGE, "s", "When the last span came, 0 for never"),
    Metric("lowwater_detector_state_contexts", _GAUGE, "{context}", "Contexts in memory"),
    Metric(
        "lowwater_detector_state_evictions_total",
        _COUNTER,
        "{state}",
        "States that left memory for want of room, or were forgotten as idle",
        ("reason",),
        zeros=(("idle",), ("capacity",)),
    ),
    Metric(
        "lowwater_detector_commit_seconds",
        _HISTOGRAM,
        "s",
        "Commits before acknowledging",
        (),
        (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
    ),
    Metric(
        "lowwater_detector_checkpoint_seconds",
        _HISTOGRAM,
        "s",
        "Checkpoints",
        (),
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    ),
    Metric("lowwater_detector_sink_pending_lines", _GAUGE, "{line}", "Findings that a sink lacks", ("sink",)),
    Metric("lowwater_detector_sink_failures_total", _COUNTER, "{try}", "Deliveries that failed", ("sink",)),
    Metric(
        "lowwater_detector_label_overflow_total",
        _COUNTER,
        "{event}",
        "Updates folded into the label value other",
        ("label",),
    ),
    Metric("lowwater_detector_series_overflow_total", _COUNTER, "{event}", "Updates folded for want of series"),
    Metric("lowwater_detector_series", _GAUGE, "{series}", "Label sets of all metrics"),
)

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in CATALOGUE}
