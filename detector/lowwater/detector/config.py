"""What can be configured: thresholds, what is declared per service, agent and model, and how the detector serves."""

from __future__ import annotations

import fnmatch
import functools
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.retrievers import DEFAULT_RETRIEVERS, retriever_names

__all__ = ["DetectorConfig", "Override", "ServeConfig"]


@dataclass(frozen=True, slots=True)
class Override:
    """What the operator declares for matching contexts; ``service``, ``agent`` and ``model`` are glob patterns.

    The first override that matches and states a value wins. All token counts are positive, ratios in (0, 1].

    Attributes:
        requirement_tokens: the working set that the task needs.
        floor_tokens: a working-memory floor that the agent enforces.
        ceiling_tokens: the window; use it where an account's effective window is smaller than the model's.
        trigger_ratio: where eviction or compaction starts.
        output_tokens: reserved for the answer.
        retry_tokens: headroom kept for retries.
        staging_tokens: buffer that compaction needs.
        scratchpad_reservation_tokens: what the scratchpad may hold.
        turn_slo_seconds: how long a turn may take.
        tick_seconds: how often the compaction scheduler runs.
    """

    service: str = "*"
    agent: str = "*"
    model: str = "*"
    requirement_tokens: int | None = None
    floor_tokens: int | None = None
    ceiling_tokens: int | None = None
    trigger_ratio: float | None = None
    output_tokens: int | None = None
    retry_tokens: int | None = None
    staging_tokens: int | None = None
    scratchpad_reservation_tokens: int | None = None
    turn_slo_seconds: float | None = None
    tick_seconds: float | None = None

    def matches(self, service: str | None, agent: str | None, model: str | None) -> bool:
        """Whether a context is meant; an unknown name matches only ``*``."""
        pairs = ((self.service, service), (self.agent, agent), (self.model, model))
        return all(pattern == "*" or fnmatch.fnmatchcase(name or "", pattern) for pattern, name in pairs)


@dataclass(frozen=True, slots=True)
class DetectorConfig:
    """All settings of the detector. Turns are LLM calls of one context.

    Attributes:
        lateness_seconds: how far out of order spans may come.
        retriever_tools: glob patterns of tool names whose results are retrieval.
        trigger_ratio: where eviction starts when nothing tells (provenance default).
        fire_after_turns: consecutive starved turns before a finding fires. 1 pages on a single odd call; more than 3
            misses the short agents.
        resolve_after_turns: consecutive good turns before it resolves.
        page_after_turns: starved turns after which a finding is worth waking someone, repetition or not.
        page_deficit_ratio: part of the requirement that must be missing before a starved turn can page. A shortfall of a
            few percent is within what a learned requirement varies by; in the reference incident more than half is gone.
        eviction_window_turns: a compaction within so many turns explains a low residual.
        learn_min_calls: healthy calls of a role before its requirement is learned.
        learn_quantile: which quantile of observed working memory is taken for the requirement.
        debt_after_turns: turns above the high-water mark without an admitted compaction before debt fires.
        deadlock_turns: a forecast of at most so many turns is a risk.
        debt_share: share of a role's rejections that are compaction debt before it has a finding of its own.
        debt_share_min_rejections: rejections of a role before its share is believed.
        amplification_ratio: attempts per logical call from which retries amplify a failure.
        synchrony_callers: distinct contexts whose retries wake together before it is a herd.
        synchrony_window_seconds: what "together" means.
        loop_calls: executions of one call with the same result, while it is held, that make a loop.
        overrides: declared values, first match wins.
    """

    lateness_seconds: float = 60.0
    retriever_tools: tuple[str, ...] = DEFAULT_RETRIEVERS
    trigger_ratio: float = 0.90
    fire_after_turns: int = 2
    resolve_after_turns: int = 2
    page_after_turns: int = 4
    page_deficit_ratio: float = 0.25
    eviction_window_turns: int = 3
    learn_min_calls: int = 50
    learn_quantile: float = 0.95
    debt_after_turns: int = 3
    deadlock_turns: float = 5.0
    debt_share: float = 0.5
    debt_share_min_rejections: int = 5
    amplification_ratio: float = 3.0
    synchrony_callers: int = 5
    synchrony_window_seconds: float = 1.0
    loop_calls: int = 3
    overrides: tuple[Override, ...] = field(default=())

    def declared(self, name: str, service: str | None, agent: str | None, model: str | None) -> Any:
        """The value that the first matching override states for a field, or None."""
        for override in self.overrides:
            value = getattr(override, name)
            if value is not None and override.matches(service, agent, model):
                return value
        return None

    def is_retriever(self, tool: str) -> bool:
        """Whether a tool of this name fetches from a store."""
        return _retrievers(self.retriever_tools)(tool)


_retrievers = functools.lru_cache(64)(retriever_names)


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """How ``lowwater serve`` listens, keeps state and tells.

    Addresses are ``host:port``; an empty one listens to nothing.

    Attributes:
        grpc: OTLP over gRPC.
        http: OTLP over HTTP.
        admin: metrics, health, findings that fire, and what ``doctor --live`` reads.
        insecure: listen on a routable address without TLS and without a token.
        token: bearer token that senders and readers must present; health checks need none.
        tls_cert: file of the certificate chain, for all three addresses.
        tls_key: file of its private key.
        tls_client_ca: file of the authorities whose client certificates are accepted; others are then refused.
        state: file of the state, or ``memory``.
        sync: wait for the disk before acknowledging, so that a power loss takes nothing, either.
        max_request_bytes: what a request may be, compressed and inflated.
        max_inflight_bytes: request bodies in memory at once.
        max_waiting_readings: spans that may wait in memory before senders are asked to come back.
        max_contexts: contexts in memory; the others are in the state file.
        max_stored_states: states in the file.
        max_series: series of metrics; what is beyond folds into ``other``.
        checkpoint_seconds: how often changed states are written.
        look_seconds: how often findings are looked for among spans that still wait for earlier ones.
        resolve_idle_seconds: a finding whose agent has been silent for so long is resolved.
        forget_after_seconds: states that nothing has touched for so long are forgotten.
        drain_seconds: how long a stop may take to deliver what is on its way.
        findings: file of findings as JSON lines, ``-`` for standard output.
        otlp_endpoint: where findings and metrics are exported to.
        otlp_protocol: ``grpc`` or ``http/protobuf``. Headers come from OTEL_EXPORTER_OTLP_HEADERS.
        otlp_logs: export findings as log records.
        otlp_metrics: export metrics.
        otlp_metrics_seconds: how often.
        webhook_url: where findings are posted to.
        webhook_min_severity: ``info``, ``ticket`` or ``page``.
        webhook_secret: key of the signature of posts.
        webhook_token: bearer token of posts.
    """

    grpc: str = "127.0.0.1:4317"
    http: str = "127.0.0.1:4318"
    admin: str = "127.0.0.1:9464"
    insecure: bool = False
    token: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    state: str = "lowwater.db"
    sync: bool = True
    max_request_bytes: int = 20 << 20
    max_inflight_bytes: int = 64 << 20
    max_waiting_readings: int = 100_000
    max_contexts: int = 20_000
    max_stored_states: int = 2_000_000
    max_series: int = 10_000
    checkpoint_seconds: float = 1.0
    look_seconds: float = 2.0
    resolve_idle_seconds: float = 900.0
    forget_after_seconds: float = 86_400.0
    drain_seconds: float = 10.0
    findings: str = ""
    otlp_endpoint: str = ""
    otlp_protocol: str = "grpc"
    otlp_logs: bool = True
    otlp_metrics: bool = False
    otlp_metrics_seconds: float = 15.0
    webhook_url: str = ""
    webhook_min_severity: str = "ticket"
    webhook_secret: str = ""
    webhook_token: str = ""
