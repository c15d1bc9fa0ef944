"""What must hold on real traces; the figures are facts of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Corpus

from lowwater.collectors.consumers import Provenance
from lowwater.detector.events import CompactionMark
from lowwater.detector.findings import Finding, Kind, Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.replay import Replay

HEALTHY = (
    "pi-mono", "vscode-copilot-chat", "strands-evals", "langfuse", "langwatch", "envoy-ai-gateway", "openinference",
    "pydantic-ai", "swe-agent",
)  # fmt: skip
"""Folders in which the manifest names no failure of the agent itself."""


class Result:
    """Outputs of a replay, by type."""

    def __init__(self, *paths: Path) -> None:
        self.replay = Replay()
        outputs = list(self.replay.run([str(path) for path in paths]))
        self.entries = [item for item in outputs if isinstance(item, LedgerEntry)]
        self.findings = [item for item in outputs if isinstance(item, Finding)]
        self.pools = [item for item in outputs if isinstance(item, PoolReport)]
        self.marks = [item for item in outputs if isinstance(item, CompactionMark)]

    @property
    def calls(self) -> list[LedgerEntry]:
        return [entry for entry in self.entries if not entry.rollup]

    def pairs(self) -> list[tuple[int | None, int | None]]:
        return [(entry.input_tokens, entry.output_tokens) for entry in self.calls]

    def compactions(self) -> list[tuple[int | None, int | None]]:
        """(known input before, input after) of each compaction."""
        found: list[tuple[int | None, int | None]] = []
        last: int | None = None
        for entry in self.calls:
            if entry.compacted:
                found.append((last, entry.input_tokens))
            last = entry.input_tokens if entry.input_tokens is not None else last
        return found


def test_pi_has_two_compactions_and_thirteen_unknown_calls(corpus: Corpus) -> None:
    result = Result(corpus.path("pi-mono/before-compaction.jsonl"))
    assert len(result.calls) == 484
    assert sum(entry.input_tokens is None for entry in result.calls) == 13
    assert result.compactions() == [(174_738, 25_739), (184_915, 28_617)]
    assert len({entry.context for entry in result.calls}) == 1
    assert result.findings == []


def test_adk_reports_each_call_twice_and_counts_once(corpus: Corpus) -> None:
    assert Result(corpus.path("strands-evals/adk_live_spans.json")).pairs() == [(157, 51), (222, 33)]


def test_smolagents_rollup_is_left_out(corpus: Corpus) -> None:
    result = Result(corpus.path("strands-evals/smolagents_live_spans.json"))
    assert [entry.input_tokens for entry in result.entries] == [2366, 3890]


def test_an_agent_without_llm_spans_is_kept_as_a_rollup_with_its_cache(corpus: Corpus) -> None:
    (entry,) = Result(corpus.path("strands-evals/claude_adot_spans.json")).entries
    assert entry.rollup
    assert (entry.input_tokens, entry.input_rule) == (4 + 29_447 + 2_861, "cache_exceeds_input")


def test_nested_agents_are_three_contexts_and_nothing_was_compacted(corpus: Corpus) -> None:
    result = Result(corpus.path("strands-evals/openai_agents_genai_live_spans.json"))
    assert len(result.calls) == 8
    by_agent: dict[str | None, int] = {}
    for entry in result.calls:
        by_agent[entry.agent] = by_agent.get(entry.agent, 0) + 1
    assert by_agent == {"coordinator": 3, "research_specialist": 2, "math_specialist": 3}
    assert len({entry.context for entry in result.calls}) == 3
    assert not any(entry.compacted for entry in result.calls)
    assert result.pools == []


def test_pydantic_ai_counts_leaf_usage_only(corpus: Corpus) -> None:
    assert Result(corpus.path("strands-evals/pydantic_ai_live_spans.json")).pairs() == [(588, 53), (663, 25)]


def test_orchestrate_tools_of_microsoft_extensions_is_no_call(corpus: Corpus) -> None:
    result = Result(corpus.path("langfuse/csharp-agent-with-gemini-2026-03-09.trace.json"))
    assert [entry.input_tokens for entry in result.entries] == [2546, 3004, 2497]


def test_vercel_is_one_call_with_the_producers_numbers(corpus: Corpus) -> None:
    assert Result(corpus.path("langfuse/vercel-aisdk-2025-11-17.trace.json")).pairs() == [(62, 85)]


def test_content_without_usage_stays_unknown(corpus: Corpus) -> None:
    result = Result(corpus.path("langfuse/koog-2025-08-26.trace.json"))
    assert len(result.calls) == 2
    for entry in result.calls:
        assert entry.input_tokens is None
        assert entry.working_tokens is None
        assert entry.characters


def test_langsmith_numbers_without_the_cache_leave_the_input_unknown(corpus: Corpus) -> None:
    result = Result(corpus.path("langfuse/claude-agent-2025-12-22.trace.json"))
    assert len(result.calls) == 4
    assert {entry.input_tokens for entry in result.calls} == {None}


def test_opencode_is_reserved_before_the_user_says_anything(corpus: Corpus) -> None:
    (entry,) = Result(corpus.path("langwatch/opencode-B.doStream.json")).calls
    assert entry.input_tokens == 12_632
    assert entry.input_rule == "parts_sum"
    assert entry.reserved.output == 32_000
    assert entry.reserved.system is not None
    assert entry.reserved.tools is not None
    assert (entry.reserved.system + entry.reserved.tools) / 12_632 > 0.99


def test_a_turn_of_codex_is_a_rollup(corpus: Corpus) -> None:
    (entry,) = Result(corpus.path("langwatch/codex-B.session_task_turn.json")).entries
    assert (entry.rollup, entry.input_tokens) == (True, 13_297)


def test_server_side_compaction_is_seen_and_what_is_before_it_is_not_held(corpus: Corpus) -> None:
    result = Result(corpus.path("pydantic-ai/test_anthropic_compaction_end_to_end.yaml"))
    assert [entry.input_tokens for entry in result.calls] == [220, 239]
    assert [entry.compacted for entry in result.calls] == [True, False]
    assert [mark.compaction.before_tokens for mark in result.marks] == [55_196]
    assert (result.calls[0].compaction or {})["before_tokens"] == 55_196
    assert all((entry.characters or 0) < 5_000 for entry in result.calls)


def test_a_gateways_429_is_the_upstreams_rate_limit(corpus: Corpus) -> None:
    result = Result(corpus.path("pydantic-ai/test_openrouter_errors_raised.yaml"))
    rejections = [finding for finding in result.findings if finding.kind is Kind.REJECTION]
    assert rejections
    assert {finding.evidence["class"] for finding in rejections} == {"rate_limit"}
    assert all(finding.evidence["upstream"] for finding in rejections)


def test_an_unsupported_parameter_is_no_budget_rejection(corpus: Corpus) -> None:
    result = Result(corpus.path("envoy-ai-gateway/chat-bad-request.json"))
    assert len(result.calls) == 1
    assert result.findings == []


def test_parallel_tools_of_envoy(corpus: Corpus) -> None:
    assert Result(corpus.path("envoy-ai-gateway/chat-parallel-tools.json")).pairs() == [(162, 219)]


def test_a_bedrock_agent_stream_holds_its_retrieved_references(corpus: Corpus) -> None:
    (entry,) = Result(corpus.path("openinference/test_knowledge_base_results.yaml")).calls
    assert (entry.input_tokens, entry.output_tokens) == (2_068, 385)
    assert entry.reserved.output == 2_048
    assert entry.retrieval_tokens is not None
    assert entry.retrieval_tokens > 1_000


def test_four_subagents_at_once_are_one_pool(corpus: Corpus) -> None:
    result = Result(
        corpus.path("vscode-copilot-chat/b3a7bd3c-5a10-4e7b-8ff0-7fc0cd6d1093.jsonl"),
        corpus.path("vscode-copilot-chat/b3a7bd3c-subagents"),
    )
    assert len({(pool.pool, pool.run) for pool in result.pools}) == 1
    pool = result.pools[-1]
    assert (pool.width, pool.members) == (4, 4)
    assert pool.first_input_tokens == (4_420, 4_420, 4_420, 4_420)
    assert pool.peak_tokens >= 4 * 4_420
    main = [entry.input_tokens for entry in result.calls if entry.agent == "main"]
    assert main == [15_983, 16_846]


def test_usage_repeated_on_every_block_counts_once(corpus: Corpus) -> None:
    result = Result(corpus.path("vscode-copilot-chat/30530d66-37fb-4f3b-aa5f-d92b6a8afae2.jsonl"))
    assert len(result.calls) == 15
    known = [entry.input_tokens for entry in result.calls if entry.input_tokens is not None]
    assert known[:6] == [24_869, 28_310, 28_795, 29_681, 30_125, 67_637]
    lifted = next(entry for entry in result.calls if entry.input_tokens == 67_637)
    assert lifted.scratchpad_tokens is not None
    assert lifted.scratchpad_tokens > 30_000


def test_a_manual_compaction_is_announced_with_its_size(corpus: Corpus) -> None:
    result = Result(corpus.path("vscode-copilot-chat/98b76fb9-f5d3-40c5-ab82-b970c20e3764.jsonl"))
    assert [(mark.compaction.before_tokens, mark.compaction.trigger) for mark in result.marks] == [(26_634, "manual")]
    assert len(result.calls) == 3


def test_the_no_op_sed_of_sympy_is_a_loop(corpus: Corpus) -> None:
    result = Result(corpus.path("mini-swe-agent-gemini3/sympy__sympy-15976.traj.json"))
    loops = [finding for finding in result.findings if finding.kind is Kind.REPETITION and finding.reason == "loop"]
    assert loops
    assert loops[0].evidence["consecutive_calls"] == 3
    assert {finding.severity for finding in loops} == {Severity.INFO}


def test_the_runaway_answer_of_scikit_learn_stays_in_working_memory(corpus: Corpus) -> None:
    result = Result(corpus.path("mini-swe-agent-gemini3/scikit-learn__scikit-learn-25102.traj.json"))
    assert len(result.calls) == 43
    after = next(entry for entry in result.calls if entry.input_tokens == 76_726)
    assert after.working_tokens is not None
    assert after.working_tokens > 60_000
    last = result.calls[-1]
    assert last.working_tokens is not None
    assert last.working_tokens > 60_000


def test_elision_is_rewritten_history_of_one_context(corpus: Corpus) -> None:
    result = Result(corpus.path("swe-agent/marshmallow-code__marshmallow-1867.traj"))
    assert len({entry.context for entry in result.calls}) == 1
    full, elided = result.calls[6], result.calls[7]
    assert elided.history == "rewritten"
    assert elided.characters is not None
    assert full.characters is not None
    # 8,509 characters of message text, and the arguments of eight short calls.
    assert 8_509 <= elided.characters < 9_400
    assert elided.characters < 0.7 * full.characters
    assert {entry.input_tokens for entry in result.calls} == {None}


@pytest.mark.parametrize(
    ("file", "turns"),
    [("agentrx/16d825ff-1623-4176-a5b5-42e0f5c2b0ac.json", None), ("who-and-when/hand-crafted-55.json", None)],
)
def test_instructions_in_circles_are_repetition(corpus: Corpus, file: str, turns: Any) -> None:
    repeated = [finding for finding in Result(corpus.path(file)).findings if finding.kind is Kind.REPETITION]
    assert repeated
    assert {finding.severity for finding in repeated} == {Severity.INFO}


def test_consumers_sum_to_the_providers_total(corpus: Corpus) -> None:
    entries = Result(corpus.root).calls
    summed = 0
    for entry in entries:
        parts = [
            entry.reserved.system,
            entry.reserved.tools,
            entry.retrieval_tokens,
            entry.scratchpad_tokens,
            entry.working_tokens,
        ]
        if entry.input_tokens is None:
            assert parts == [None] * 5
            continue
        assert None not in parts
        assert all(part is not None and part >= 0 for part in parts)
        assert sum(part or 0 for part in parts) == entry.input_tokens
        summed += 1
    assert summed > 600


def test_nothing_pages_on_healthy_traces(corpus: Corpus) -> None:
    for folder in HEALTHY:
        pages = [finding for finding in Result(corpus.path(folder)).findings if finding.severity is Severity.PAGE]
        assert pages == [], folder


def test_a_default_or_inferred_number_never_pages(corpus: Corpus) -> None:
    for finding in Result(corpus.root).findings:
        if finding.severity is Severity.PAGE:
            assert min(finding.provenance.values()) > Provenance.INFERRED
