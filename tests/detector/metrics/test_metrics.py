"""Metrics count what happened, once, within their caps, over restarts, and can be read back."""

from __future__ import annotations

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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_a_restart_changes_no_counter(path: Path) -> None:
    found = outputs(path)
    whole = Registry()
    metrics = AgentMetrics(whole)
    for output in found:
        metrics.observe(output, False, NOW_NS)
    cut = random.Random(1).randrange(len(found))
    first = Registry()
    before = AgentMetrics(first)
    for output in found[:cut]:
        before.observe(output, False, NOW_NS)
    codec = Codec({})
    second = Registry()
    second.restore(codec.decode(codec.encode(first.snapshot())))
    after = AgentMetrics(second)
    for output in found[cut:]:
        after.observe(output, False, NOW_NS)
    for name in (TURNS, "lowwater_turns_starved_total", "lowwater_tokens_input_total", "lowwater_rejections_total"):
        assert total(second, name) == total(whole, name)


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
