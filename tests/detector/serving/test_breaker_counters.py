"""Counters do not go back over a restart, whatever the caps were when their series began."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource
from tests.detector.serving.conftest import Process, Running, eventually
from tests.detector.serving.test_exporters import EXPORTERS, starving_agent

from lowwater.detector.metrics.catalogue import CATALOGUE, Type
from lowwater.detector.metrics.exposition import scrape
from lowwater.detector.metrics.otlp import metrics_data
from lowwater.detector.metrics.registry import Registry
from lowwater.detector.runtimes.store import Checkpoint, Store


def test_a_full_registry_is_taken_up_as_it_was() -> None:
    """Gauges are gone after a restart, and ``other`` counts too: series that fitted once must not be folded now."""
    full = Registry(max_series=300)
    for number in range(40):
        call = ("shop", f"agent-{number}", "m")
        full.announce(dict(zip(("service", "agent", "model"), call, strict=True)))
        full.inc("lowwater_tokens_input_total", call, number)
        full.observe("lowwater_context_free_ratio", call, 0.5)
    assert full.value("lowwater_detector_series_overflow_total") > 0
    taken_up = Registry(max_series=300)
    taken_up.restore(full.snapshot())
    assert taken_up.snapshot() == full.snapshot()
    assert taken_up.count == full.count
    # What was folded before is folded now.
    taken_up.inc("lowwater_tokens_input_total", ("shop", "agent-39", "m"), 1)
    other = ("other", "other", "other")
    grown = taken_up.value("lowwater_tokens_input_total", other) - full.value("lowwater_tokens_input_total", other)
    assert grown == 1


def test_every_metric_can_be_exported(running: Running) -> None:
    starving_agent(EXPORTERS["grpc"](running))
    assert eventually(lambda: running.metric("lowwater_agents_starved") == 1)
    data = metrics_data(running.service.watch.registry, Resource({}), 1, 2)
    encoded = encode_metrics(data).resource_metrics[0].scope_metrics[0].metrics
    shown = {metric.name: metric for metric in encoded}
    assert shown["lowwater_agents_starved"].gauge.data_points[0].WhichOneof("value") is not None
    wanted = {metric.name.removesuffix("_total") for metric in CATALOGUE if metric.type is Type.COUNTER}
    assert wanted - set(shown) <= {"lowwater_detector_sink_failures"}  # there is no sink


def test_when_the_last_span_came_is_known_after_a_death(tmp_path: Path) -> None:
    name = "lowwater_detector_last_span_timestamp_seconds"
    process = Process(tmp_path)
    assert process.metric(name) == 0
    before = int(time.time())
    assert process.post(
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x"}]}]}]}' % (1, 2)
    )
    assert eventually(lambda: process.metric(name) >= before)
    last = process.metric(name)
    time.sleep(2)
    process.kill()
    process = Process(tmp_path)
    assert process.metric(name) == last
    process.kill()


def test_what_a_sink_lacks_is_counted_beyond_its_queue() -> None:
    store = Store(None)
    assert store.outbox_size() == store.outbox_size(after=7) == 0
    store.commit(Checkpoint(0, lines=[{"n": number} for number in range(3_000)]))
    assert (store.outbox_size(), store.outbox_size(after=1_000), store.outbox_size(after=3_000)) == (3_000, 2_000, 0)
    store.delivered({"slow": 500, "fast": 3_000})
    assert (store.outbox_size(), store.outbox_size(after=500), store.outbox_size(after=0)) == (2_500, 2_500, 2_500)
    store.delivered({"slow": 3_000, "fast": 3_000})
    assert store.outbox_size() == 0
    store.close()


@pytest.mark.parametrize("version", ["abc", "1.x", "", "1.0.0.0.0"])
def test_a_scraper_that_asks_for_no_version_there_is_gets_an_answer(version: str) -> None:
    fields, body = scrape(Registry(), f"application/openmetrics-text; version={version}")
    assert fields["content-type"].startswith(("text/plain", "application/openmetrics-text"))
    assert b"lowwater_detector_series" in body
