"""Metrics count what happened, once, within their caps, over restarts, and can be read back."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from lowwater.detector.codec import Codec
from lowwater.detector.findings import Finding, State
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.metrics.catalogue import BY_NAME, CATALOGUE, CLOSED, OPEN_LABELS, Type
from lowwater.detector.metrics.exposition import scrape
from lowwater.detector.metrics.observe import AgentMetrics
from lowwater.detector.metrics.registry import OTHER, Exemplar, Registry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.pipeline import Output
from lowwater.detector.replay import Replay

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.otlp.jsonl"))
NOW_NS = 2_000_000_000 * 10**9
TURNS = "lowwater_turns_total"


def outputs(path: Path) -> list[Output]:
    return list(Replay().run([str(path)]))


def total(registry: Registry, name: str) -> float:
    return sum(series.value for metric, found in registry.collect() if metric.name == name for series in found)


def observed(found: list[Output], registry: Registry) -> AgentMetrics:
    metrics = AgentMetrics(registry)
    for output in found:
        metrics.observe(output, False, NOW_NS)
        if isinstance(output, Finding):
            metrics.told(output.to_json())
    metrics.tick(NOW_NS)
    return metrics


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_numbers_are_those_of_the_ledger(path: Path) -> None:
    found = outputs(path)
    registry = Registry()
    observed(found, registry)
    entries = [output for output in found if isinstance(output, LedgerEntry) and not output.rollup]
    findings = [output for output in found if isinstance(output, Finding)]
    assert total(registry, TURNS) == len(entries)
    starved = [entry for entry in entries if entry.regime == "silent_starvation"]
    assert total(registry, "lowwater_turns_starved_total") == len(starved)
    assert total(registry, "lowwater_tokens_input_total") == sum(entry.input_tokens or 0 for entry in entries)
    firing = {finding.id for finding in findings if finding.state is State.FIRING}
    firing -= {finding.id for finding in findings if finding.state is State.RESOLVED}
    assert total(registry, "lowwater_findings_firing") == len(firing)
    last = {entry.context: entry for entry in entries if entry.input_tokens is not None}
    assert total(registry, "lowwater_agents_active") == len(last)
    used = [entry.scratchpad_tokens or 0 for entry in last.values()]
    labels = [
        series
        for metric, found in registry.collect()
        if metric.name == "lowwater_context_used_tokens"
        for series in found
    ]
    assert sum(series.value for series in labels if series.labels[-1] == "scratchpad") == sum(used)


def test_what_is_provisional_moves_gauges_alone() -> None:
    registry = Registry()
    metrics = AgentMetrics(registry)
    for output in outputs(EXAMPLES[0]):
        metrics.observe(output, True, NOW_NS)
    metrics.tick(NOW_NS)
    assert total(registry, TURNS) == 0
    assert total(registry, "lowwater_agents_active") > 0


def test_silent_contexts_leave_the_gauges() -> None:
    registry = Registry()
    metrics = observed(outputs(EXAMPLES[0]), registry)
    metrics.tick(NOW_NS + 299 * 10**9)
    assert total(registry, "lowwater_agents_active") > 0
    metrics.tick(NOW_NS + 300 * 10**9)
    assert total(registry, "lowwater_agents_active") == 0


def counters(registry: Registry) -> dict[tuple[str, tuple[str, ...]], Any]:
    return {
        (metric.name, series.labels): series.histogram.counts if series.histogram is not None else series.value
        for metric, found in registry.collect()
        if metric.type is not Type.GAUGE and not metric.name.startswith("lowwater_detector_")
        for series in found
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_a_restart_changes_no_counter(path: Path, seed: int) -> None:
    found = outputs(path)
    whole = Registry()
    metrics = AgentMetrics(whole)
    for output in found:
        metrics.observe(output, False, NOW_NS)
    metrics.tick(NOW_NS + 100 * 10**9)
    first, draw = Registry(), random.Random(seed)
    before = AgentMetrics(first)
    cut = draw.randrange(len(found))
    for output in found[:cut]:
        before.observe(output, False, NOW_NS)
    codec = Codec({})
    registered, runs = codec.decode(codec.encode((first.snapshot(), before.snapshot())))
    second = Registry()
    second.restore(registered)
    after = AgentMetrics(second)
    after.restore(runs, NOW_NS)
    for output in found[cut:]:
        after.observe(output, False, NOW_NS)
    after.tick(NOW_NS + 100 * 10**9)
    assert counters(second) == counters(whole)
    assert any(
        name == "lowwater_compaction_accrued_tokens_total" and value for (name, _), value in counters(whole).items()
    )


def report(**fields: Any) -> PoolReport:
    known = PoolReport("p", 0, "s", None, "t", 2, 2, 90, (), (), None, 0, 100, None, None, feasible=True)
    return dataclasses.replace(known, **fields)


def test_a_fan_out_that_falls_silent_and_goes_on_is_one() -> None:
    registry = Registry()
    metrics = AgentMetrics(registry)
    metrics.observe(report(), False, NOW_NS)
    metrics.tick(NOW_NS + 61 * 10**9)
    assert registry.value("lowwater_fanout_runs_total", ("s",)) == 1
    assert total(registry, "lowwater_fanout_committed_tokens") == 0
    metrics.observe(report(peak_tokens=130, feasible=False), False, NOW_NS + 62 * 10**9)
    metrics.observe(report(peak_tokens=140, feasible=False), False, NOW_NS + 63 * 10**9)
    metrics.tick(NOW_NS + 200 * 10**9)
    assert registry.value("lowwater_fanout_runs_total", ("s",)) == 1
    assert registry.value("lowwater_fanout_dispatches_total", ("s", "admitted")) == 1
    assert registry.value("lowwater_fanout_overrun_tokens_total", ("s",)) == 40


def entry(context: str, turn: int, **fields: Any) -> LedgerEntry:
    return LedgerEntry("t", "s", context=context, turn=turn, service="s", agent="a", model="m", **fields)


def test_gauges_do_not_step_back_when_earlier_calls_are_confirmed() -> None:
    registry = Registry()
    metrics = AgentMetrics(registry)
    for turn in range(1, 4):
        metrics.observe(entry("c", turn, input_tokens=turn * 100, ceiling_tokens=1_000), True, NOW_NS)
    for turn in range(1, 3):
        metrics.observe(entry("c", turn, input_tokens=turn * 100, ceiling_tokens=1_000), False, NOW_NS + 60 * 10**9)
    metrics.tick(NOW_NS + 60 * 10**9)
    assert registry.value("lowwater_context_utilization_ratio", ("s", "a")) == 0.3
    assert registry.value(TURNS, ("s", "a", "m", "unknown")) == 2


def test_counters_are_zero_before_they_count() -> None:
    registry = Registry()
    metrics = AgentMetrics(registry)
    metrics.observe(entry("c", 1, input_tokens=10), True, NOW_NS)
    text = scrape(registry, "")[1].decode()
    assert 'lowwater_turns_total{agent="a",model="m",regime="healthy",service="s"} 0.0' in text
    assert 'lowwater_compactions_total{agent="a",outcome="failure",service="s",trigger="auto"} 0.0' in text


def test_folded_gauges_keep_their_meaning() -> None:
    registry = Registry(max_values={"service": 100, "agent": 1, "model": 1})
    registry.replace("lowwater_agent_state", {("s", "a"): 1, ("s", "b"): 2, ("s", "c"): 1})
    registry.replace("lowwater_context_headroom_ratio", {("s", "a"): 0.5, ("s", "b"): 0.2, ("s", "c"): -0.3})
    registry.replace("lowwater_agents_active", {("s", "a"): 1, ("s", "b"): 2, ("s", "c"): 3})
    found = {name: registry.value(name, ("s", OTHER)) for name in ("lowwater_agent_state", "lowwater_agents_active")}
    assert found == {"lowwater_agent_state": 2, "lowwater_agents_active": 5}
    assert registry.value("lowwater_context_headroom_ratio", ("s", OTHER)) == -0.3


def test_agents_that_are_gone_make_room() -> None:
    registry = Registry(max_values={"service": 1, "agent": 2, "model": 1})
    metrics = AgentMetrics(registry, forget_after_seconds=86_400)
    day_ns = 86_400 * 10**9
    for agent in ("old", "young"):
        call = LedgerEntry("t", "s", context=agent, turn=1, service="s", agent=agent, model="m", input_tokens=1)
        metrics.observe(call, False, NOW_NS)
    metrics.tick(NOW_NS)
    metrics.observe(
        LedgerEntry("t", "s", context="y", turn=2, service="s", agent="young", model="m"), False, NOW_NS + day_ns
    )
    metrics.tick(NOW_NS + day_ns)
    assert registry.value(TURNS, ("s", "young", "m", "unknown")) == 2
    assert 'agent="old"' not in scrape(registry, "")[1].decode()
    metrics.observe(
        LedgerEntry("t", "s", context="n", turn=1, service="s", agent="new", model="m"), False, NOW_NS + day_ns
    )
    assert registry.value(TURNS, ("s", "new", "m", "unknown")) == 1
    series = sum(len(found) for _, found in registry.collect())
    assert registry.count == series


def test_counters_show_what_was_published() -> None:
    registry = Registry()
    registry.inc(TURNS, ("s", "a", "m", "healthy"))
    assert registry.changed
    registry.publish(registry.snapshot())
    registry.inc(TURNS, ("s", "a", "m", "healthy"))
    registry.set("lowwater_detector_lag_seconds", (), 7)
    assert (total(registry, TURNS), total(registry, "lowwater_detector_lag_seconds")) == (1, 7)
    registry.publish(registry.snapshot())
    assert total(registry, TURNS) == 2
    assert not registry.changed


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=8), st.sampled_from(["m", "n"])), max_size=60))
def test_nothing_is_lost_by_folding(events: list[tuple[str, str, str]]) -> None:
    registry = Registry(max_series=140, max_values={"service": 3, "agent": 3, "model": 1})
    for service, agent, model in events:
        registry.inc(TURNS, (service, agent, model, "healthy"))
    assert total(registry, TURNS) == len(events)
    found = [series for metric, each in registry.collect() if metric.name == TURNS for series in each]
    assert len({series.labels[0] for series in found} - {OTHER}) <= 3
    openmetrics(scrape(registry, "application/openmetrics-text; version=1.0.0")[1].decode())
    list(plain(scrape(registry, "")[1].decode()))


def test_the_caps_are_counted_when_they_fold() -> None:
    registry = Registry(max_values={"service": 2, "agent": 200, "model": 100})
    for number in range(5):
        registry.inc(TURNS, (f"s{number}", "a", "m", "healthy"))
    assert registry.value("lowwater_detector_label_overflow_total", ("service",)) == 3
    assert registry.value(TURNS, (OTHER, "a", "m", "healthy")) == 3
    small = Registry(max_series=0)
    small.inc(TURNS, ("s", "a", "m", "healthy"))
    small.inc(TURNS, ("t", "b", "n", "healthy"))
    assert small.value("lowwater_detector_series_overflow_total") > 0
    assert small.value(TURNS, (OTHER, OTHER, OTHER, "healthy")) == 2
    again = Registry(max_series=0)
    again.restore(small.snapshot())
    name = "lowwater_detector_series_overflow_total"
    assert again.value(name) == small.value(name)  # to take up what is folded folds nothing


def test_known_label_sets_are_zero_from_the_start() -> None:
    registry = Registry()
    text = scrape(registry, "")[1].decode()
    for reason in CLOSED["reason"]:
        assert f'lowwater_detector_spans_dropped_total{{reason="{reason}"}} 0.0' in text
    registry.announce({"service": "s", "agent": "a", "model": "m"})
    text = scrape(registry, "")[1].decode()
    for name in CLOSED["class"]:
        assert f'lowwater_rejections_total{{agent="a",class="{name}",service="s"}} 0.0' in text
    assert 'lowwater_turns_starved_total{agent="a",model="m",service="s"} 0.0' in text


def test_exemplars_are_shown_where_they_can_be() -> None:
    registry = Registry()
    exemplar = Exemplar("ab" * 16, "cd" * 8, 1.0, 1_700_000_000.5)
    registry.inc("lowwater_turns_starved_total", ("s", "a", "m"), 1, exemplar)
    registry.observe("lowwater_context_free_ratio", ("s", "a", "m"), 0.1, exemplar)
    families = {
        family.name: family for family in openmetrics(scrape(registry, "application/openmetrics-text")[1].decode())
    }
    (sample,) = families["lowwater_turns_starved"].samples
    assert sample.exemplar.labels == {"trace_id": "ab" * 16, "span_id": "cd" * 8}
    buckets = [each for each in families["lowwater_context_free_ratio"].samples if each.exemplar]
    assert [each.labels["le"] for each in buckets] == ["0.1"]
    assert "# {" not in scrape(registry, "text/plain")[1].decode()


def test_the_catalogue_is_in_order() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    for metric in CATALOGUE:
        assert metric.name.startswith("lowwater_")
        assert (metric.type is Type.COUNTER) == metric.name.endswith("_total")
        assert all(label in CLOSED or label in OPEN_LABELS for label in metric.labels)
        assert bool(metric.buckets) == (metric.type is Type.HISTOGRAM)
        assert list(metric.buckets) == sorted(metric.buckets)


def test_a_later_version_leaves_out_what_it_does_not_know() -> None:
    registry = Registry()
    snapshot: dict[str, Any] = {
        "counters": {
            "lowwater_gone_total": {("a",): 3.0},
            TURNS: {("too", "few"): 2.0, ("s", "a", "m", "healthy"): 4.0},
        },
        "histograms": {"lowwater_context_free_ratio": {("s", "a", "m"): ((1, 2), 3.0)}},
    }
    registry.restore(json.loads(json.dumps(None)) or snapshot)
    assert total(registry, TURNS) == 4
