"""What traces tell and what they leave out: the facts behind ``lowwater doctor``, here and live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lowwater.collectors.consumers import Provenance
from lowwater.collectors.reading import Operation, Reading
from lowwater.detector.findings import Kind
from lowwater.detector.ledger import LedgerEntry

__all__ = ["Coverage", "Diagnosis", "Gap", "Possible"]


_MAX_SCOPES = 1_000
"""Scopes told apart; a detector that runs for long would collect whatever anybody sends."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that traces do not tell, how many calls lack it, and the one line that would fix it."""

    what: str
    lacking: int
    calls: int
    costs: str
    fix: str


@dataclass(frozen=True, slots=True)
class Possible:
    """Whether a kind of finding can be made of these traces, and how strong it could be."""

    kind: Kind
    possible: bool
    why: str


@dataclass(slots=True)
class Coverage:
    """Counts over the LLM calls that speak one combination of dialects."""

    calls: int = 0
    with_usage: int = 0
    with_cache_split: int = 0
    with_content: int = 0
    with_tools_shown: int = 0
    with_conversation: int = 0
    with_agent: int = 0
    with_max_output: int = 0
    with_window: int = 0


@dataclass(slots=True)
class Diagnosis:
    """Accumulates readings and ledger entries.

    Attributes:
        dialects: coverage by the dialects of the calls, in order of trust, joined by ``" + "``.
        kinds: readings by what they are.
        scopes: instrumentation scopes seen, with their versions.
    """

    dialects: dict[str, Coverage] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=dict)
    compactions: int = 0
    tools_with_arguments: int = 0
    failures: int = 0
    calls: int = 0
    rollups: int = 0
    failed: int = 0
    unknown_input: int = 0
    pageable: int = 0
    known_ceiling: int = 0
    known_split: dict[str, int] = field(default_factory=dict)
    requirement: dict[str, int] = field(default_factory=dict)
    trigger: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    pool_ceilings: int = 0
    agents: int = 0
    ticks: int = 0

    def observe(self, reading: Reading) -> None:
        """Take a reading, before anything is sorted or counted once."""
        self.kinds[reading.kind.name.lower()] = self.kinds.get(reading.kind.name.lower(), 0) + 1
        if reading.scope:
            scope = f"{reading.scope} {reading.scope_version}".strip()
            if scope in self.scopes or len(self.scopes) < _MAX_SCOPES:
                self.scopes[scope] = self.scopes.get(scope, 0) + 1
        self.compactions += reading.compaction is not None or bool(reading.compacted)
        self.tools_with_arguments += reading.tool is not None and reading.tool.arguments != 0
        self.failures += reading.failure is not None
        self.agents += reading.kind is Operation.AGENT
        self.pool_ceilings += "pool.ceiling_tokens" in reading.declared
        self.ticks += "scheduler.tick_seconds" in reading.declared
        if reading.kind is not Operation.LLM:
            return
        cover = self.dialects.setdefault(" + ".join(reading.dialects) or "none", Coverage())
        usage = reading.usage
        cover.calls += 1
        cover.with_usage += usage is not None and bool(usage.input_tokens)
        cover.with_cache_split += usage is not None and usage.cache_read_tokens is not None
        cover.with_content += reading.content is not None
        cover.with_conversation += reading.conversation is not None
        cover.with_agent += reading.agent_name is not None
        cover.with_max_output += reading.max_output_tokens is not None
        cover.with_window += reading.window_tokens is not None

    def add(self, entry: LedgerEntry) -> None:
        """Take a ledger entry."""
        self.rules[entry.input_rule] = self.rules.get(entry.input_rule, 0) + 1
        if entry.rollup:
            self.rollups += 1
            return
        self.calls += 1
        self.failed += entry.failed
        self.unknown_input += entry.input_tokens is None and not entry.failed
        levels = entry.provenance
        self.pageable += (
            entry.residual_tokens is not None
            and levels.get("requirement_tokens", Provenance.UNKNOWN) > Provenance.DEFAULT
            and levels.get("working_tokens", Provenance.UNKNOWN) > Provenance.INFERRED
        )
        self.known_ceiling += entry.ceiling_tokens is not None
        for name, table in (
            ("working_tokens", self.known_split),
            ("requirement_tokens", self.requirement),
            ("trigger_ratio", self.trigger),
        ):
            label = entry.provenance.get(name, Provenance.UNKNOWN).label
            table[label] = table.get(label, 0) + 1

    def gaps(self) -> Iterator[Gap]:
        """What is missing, most costly first."""
        calls = self.calls
        if not calls:
            return
        if self.unknown_input:
            yield Gap(
                "input tokens",
                self.unknown_input,
                calls,
                "these calls stay unknown in every number",
                "let the client report usage (streaming: stream_options={'include_usage': True})",
            )
        if calls > self.known_ceiling:
            yield Gap(
                "context window",
                calls - self.known_ceiling,
                calls,
                "no residual, so no starvation and no debt",
                "override = [{model = 'NAME', ceiling_tokens = N}] in --config, or lowwater.context.ceiling_tokens",
            )
        inferred = self.known_split.get("inferred", 0)
        if inferred:
            yield Gap(
                "message content or a breakdown",
                inferred,
                calls,
                "consumers are inferred from usage; starvation never pages",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or lowwater's span processor",
            )
        if defaults := self.requirement.get("default", 0):
            yield Gap(
                "working-set requirement",
                defaults,
                calls,
                "a default of at most 6,000 tokens is used and never pages",
                "override = [{agent = 'NAME', requirement_tokens = N}] in --config, or 50 healthy calls to learn from",
            )
        if defaults := self.trigger.get("default", 0):
            yield Gap(
                "compaction trigger",
                defaults,
                calls,
                "0.90 of the window is assumed; compaction debt never pages",
                "override = [{agent = 'NAME', trigger_ratio = 0.85}] in --config",
            )
        lacking = sum(cover.calls - cover.with_conversation for cover in self.dialects.values())
        if lacking:
            yield Gap(
                "conversation id",
                lacking,
                sum(cover.calls for cover in self.dialects.values()),
                "contexts are followed within one trace only",
                "set gen_ai.conversation.id on LLM or agent spans",
            )

    def possible(self) -> Iterator[Possible]:
        """Which kinds of finding these traces allow."""
        usable = self.calls - self.unknown_input - self.failed
        numbers = usable > 0 and self.known_ceiling > 0
        why = "needs input tokens and a known window"
        strong = f"can page on {self.pageable:,} of {usable:,} calls" if self.pageable else "at most a ticket"
        yield Possible(Kind.SILENT_STARVATION, numbers, strong if numbers else why)
        pooled = self.pool_ceilings > 0
        pool_why = "can page" if pooled else "aggregates are shown; judging needs lowwater.pool.ceiling_tokens"
        yield Possible(Kind.FANOUT_OVERRUN, pooled, pool_why)
        firm = any(level != "default" for level in self.trigger)
        yield Possible(Kind.COMPACTION_DEBT, numbers, ("can page" if firm else "at most a ticket") if numbers else why)
        yield Possible(Kind.REJECTION, True, f"{self.failures} failed spans in this input")
        tools = self.tools_with_arguments > 0
        yield Possible(
            Kind.REPETITION, tools, "as context of other findings" if tools else "needs tool spans with arguments"
        )
