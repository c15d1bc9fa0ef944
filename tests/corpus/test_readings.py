"""What the dialects must read from real spans, before anything is counted or assigned; the figures are facts of the files."""

from __future__ import annotations

import pytest
from tests.conftest import Corpus

from lowwater.collectors.consumers import CONSUMERS, Consumer
from lowwater.collectors.reading import Operation, Reading
from lowwater.collectors.tokens import estimate_tokens
from lowwater.detector.replay import Replay


def readings(corpus: Corpus, name: str) -> list[Reading]:
    replay = Replay()
    found = list(replay.readings([str(corpus.path(name))]))
    assert not replay.problems.total
    assert not replay.ingest.context.rejected
    return found


def pairs(found: list[Reading], kind: Operation) -> list[tuple[int | None, int | None]]:
    return [
        (reading.usage.input_tokens, reading.usage.output_tokens)
        for reading in found
        if reading.kind is kind and reading.usage is not None
    ]


def weights(reading: Reading) -> dict[Consumer, int]:
    assert reading.content is not None
    return dict(zip(CONSUMERS, reading.content.consumer_weights(), strict=True))


def test_adk_writes_its_numbers_on_the_call_and_around_it(corpus: Corpus) -> None:
    found = readings(corpus, "strands-evals/adk_live_spans.json")
    assert pairs(found, Operation.LLM) == [(157, 51), (157, 51), (222, 33), (222, 33)]
    inner, outer = (reading for reading in found if reading.usage and reading.usage.input_tokens == 157)
    assert (inner.name.split()[0], inner.content) == ("generate_content", None)
    assert (outer.name, weights(outer)[Consumer.TOOLS] > 0) == ("call_llm", True)


def test_smolagents_calls_and_the_agent_that_sums_them(corpus: Corpus) -> None:
    found = readings(corpus, "strands-evals/smolagents_live_spans.json")
    assert [pair[0] for pair in pairs(found, Operation.LLM)] == [2366, 3890]
    assert [pair[0] for pair in pairs(found, Operation.AGENT)] == [6256]


def test_a_query_of_claude_agent_sdk_leaves_out_the_cache(corpus: Corpus) -> None:
    found = readings(corpus, "strands-evals/claude_adot_spans.json")
    (query,) = [reading for reading in found if reading.usage is not None]
    assert query.kind is Operation.AGENT
    assert query.usage is not None
    assert (query.usage.input_tokens, query.usage.cache_read_tokens, query.usage.cache_write_tokens) == (
        4,
        29_447,
        2_861,
    )
    assert query.usage.cache_inclusive is False
    delegations = [reading.tool for reading in found if reading.tool is not None and reading.tool.name == "Agent"]
    assert any(tool.sketch for tool in delegations)


def test_nested_agents_of_openai_are_told_by_name(corpus: Corpus) -> None:
    found = readings(corpus, "strands-evals/openai_agents_genai_live_spans.json")
    calls = [reading for reading in found if reading.kind is Operation.LLM]
    assert len(calls) == 8
    assert all(reading.content is not None for reading in calls)
    names = {reading.agent_name for reading in found if reading.kind is Operation.AGENT}
    assert names == {"coordinator", "research_specialist", "math_specialist"}


def test_the_sum_of_pydantic_ai_stands_on_the_agent(corpus: Corpus) -> None:
    found = readings(corpus, "strands-evals/pydantic_ai_live_spans.json")
    assert pairs(found, Operation.LLM) == [(588, 53), (663, 25)]
    assert pairs(found, Operation.AGENT) == [(588 + 663, 53 + 25)]


def test_opencode_reserves_almost_all_of_its_input(corpus: Corpus) -> None:
    (call,) = readings(corpus, "langwatch/opencode-B.doStream.json")
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.cache_write_tokens, call.usage.uncached_tokens) == (12_632, 12_629, 3)
    assert call.usage.cache_inclusive is True
    assert call.max_output_tokens == 32_000
    held = weights(call)
    assert (held[Consumer.SYSTEM] + held[Consumer.TOOLS]) / sum(held.values()) > 0.99
    # The estimate is for shares; still it is of the size of what the provider counted.
    assert sum(held.values()) == pytest.approx(12_632, rel=0.35)


def test_koog_tells_content_and_no_usage(corpus: Corpus) -> None:
    found = readings(corpus, "langfuse/koog-2025-08-26.trace.json")
    calls = [reading for reading in found if reading.kind is Operation.LLM]
    assert len(calls) == 2
    for call in calls:
        assert call.usage is None
        assert call.content is not None
    first, second = sorted(calls, key=lambda reading: reading.end_ns)
    assert weights(first)[Consumer.SCRATCHPAD] == 0
    assert weights(second)[Consumer.SCRATCHPAD] > 0
    assert first.output is not None
    assert first.output.consumer_weights()[CONSUMERS.index(Consumer.SCRATCHPAD)] > 0


def test_counts_written_as_text_are_counts(corpus: Corpus) -> None:
    found = readings(corpus, "langfuse/csharp-agent-with-gemini-2026-03-09.trace.json")
    assert sorted(pairs(found, Operation.LLM)) == [(2497, 200), (2546, 47), (3004, 167)]
    assert (5550, 214) in pairs(found, Operation.OTHER)


def test_an_opaque_signature_of_reasoning_is_no_answer(corpus: Corpus) -> None:
    """Microsoft.Extensions.AI puts Gemini's encrypted thoughts among the parts: 1.7 kB that nobody said."""
    found = readings(corpus, "langfuse/csharp-agent-with-gemini-2026-03-09.trace.json")
    first = min((reading for reading in found if reading.kind is Operation.LLM), key=lambda reading: reading.end_ns)
    assert first.output is not None
    assert sum(first.output.characters) < 300


def test_envoys_parallel_tools(corpus: Corpus) -> None:
    (call,) = readings(corpus, "envoy-ai-gateway/chat-parallel-tools.json")
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.output_tokens, call.usage.reasoning_tokens) == (162, 219, 192)
    assert call.output is not None


def test_an_unsupported_parameter_tells_of_no_budget(corpus: Corpus) -> None:
    (call,) = readings(corpus, "envoy-ai-gateway/chat-bad-request.json")
    assert call.failure is not None
    assert (call.failure.status, call.failure.code, call.failure.signals) == (400, "unsupported_parameter", ())
    assert not call.failure.upstream


def test_vercels_outer_span_keeps_its_sum_and_is_no_call(corpus: Corpus) -> None:
    found = readings(corpus, "langfuse/vercel-aisdk-2025-11-17.trace.json")
    assert pairs(found, Operation.LLM) == pairs(found, Operation.AGENT) == [(62, 85)]
    (call,) = [reading for reading in found if reading.kind is Operation.LLM]
    assert call.output is not None
    assert call.output.consumer_weights()[CONSUMERS.index(Consumer.SCRATCHPAD)] > estimate_tokens("getWeather")
