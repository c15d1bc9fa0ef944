"""The registry exported as OTLP metrics by the official exporters, every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from lowwater.detector.metrics import registry as own
from lowwater.detector.metrics.catalogue import Type

__all__ = ["MetricsExport", "metrics_data"]

_log = logging.getLogger(__name__)
_TIMEOUT_MILLIS = 10_000
_UNKNOWN = cast(float, None)
"""Least and largest of a histogram: optional in OTLP, and left out by the exporters when None. The SDK's type says float."""


def metrics_data(registry: own.Registry, resource: Resource, start_ns: int, now_ns: int) -> MetricsData:
    """Everything in the registry, cumulative since ``start_ns``."""
    metrics = [
        Metric(found.name.removesuffix("_total"), found.help, found.unit, _data(found, series, start_ns, now_ns))
        for found, series in registry.collect()
        if series
    ]
    scope = ScopeMetrics(InstrumentationScope("lowwater"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(metric: Any, series: list[own.Series], start_ns: int, now_ns: int) -> Sum | Gauge | Histogram:
    if metric.type is Type.HISTOGRAM:
        points = [_histogram(each, start_ns, now_ns) for each in series if each.histogram is not None]
        return Histogram(points, AggregationTemporality.CUMULATIVE)
    numbers = [
        NumberDataPoint(_attributes(each), start_ns, now_ns, each.value, _exemplars([each.exemplar])) for each in series
    ]
    if metric.type is Type.COUNTER:
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _histogram(series: own.Series, start_ns: int, now_ns: int) -> HistogramDataPoint:
    histogram = series.histogram
    assert histogram is not None  # noqa: S101 - the caller chose it
    return HistogramDataPoint(
        _attributes(series),
        start_ns,
        now_ns,
        sum(histogram.counts),
        histogram.sum,
        histogram.counts,
        series.metric.buckets,
        _UNKNOWN,
        _UNKNOWN,
        _exemplars(histogram.exemplars),
    )


def _attributes(series: own.Series) -> dict[str, str]:
    return dict(zip(series.metric.labels, series.labels, strict=True))


def _exemplars(found: list[own.Exemplar | None]) -> list[Exemplar]:
    shown = []
    for exemplar in found:
        if exemplar is not None and _is_hex(exemplar.trace_id) and _is_hex(exemplar.span_id):
            trace_id, span_id = int(exemplar.trace_id, 16), int(exemplar.span_id, 16)
            if trace_id < 1 << 128 and span_id < 1 << 64:
                shown.append(Exemplar({}, exemplar.value, int(exemplar.seconds * 1e9), span_id, trace_id))
    return shown


def _is_hex(text: str) -> bool:
    try:
        return int(text, 16) >= 0
    except ValueError:
        return False


class MetricsExport(threading.Thread):
    """Exports until stopped; what fails is counted, and cumulative numbers make up for it next time.

    Args:
        endpoint: URL of the receiver; for HTTP the base, to which ``/v1/metrics`` is added.
        protocol: ``grpc`` or ``http/protobuf``.
        failed: called with ``otlp_metrics`` when an export failed.
        start_ns: since when the counters count, in Unix nanoseconds.
    """

    def __init__(
        self,
        registry: own.Registry,
        endpoint: str,
        protocol: str,
        interval_seconds: float,
        resource: Resource,
        failed: Callable[[str], None],
        *,
        start_ns: int,
    ) -> None:
        super().__init__(name="lowwater-otlp-metrics", daemon=True)
        self._registry, self._resource = registry, resource
        self._interval_seconds, self._failed = interval_seconds, failed
        self._start_ns = start_ns
        self._over = threading.Event()
        self._exporter: MetricExporter
        if protocol == "grpc":
            self._exporter = GrpcExporter(endpoint=endpoint, insecure=not endpoint.startswith("https:"))
        else:
            self._exporter = HttpExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics")

    def run(self) -> None:
        """Until stopped; exports once more then."""
        while not self._over.wait(self._interval_seconds):
            self._export()
        self._export()
        self._exporter.shutdown()

    def _export(self) -> None:
        try:
            data = metrics_data(self._registry, self._resource, self._start_ns, time.time_ns())
            done = self._exporter.export(data, timeout_millis=_TIMEOUT_MILLIS) is MetricExportResult.SUCCESS
        except Exception as error:
            _log.warning("metrics cannot be exported: %s", error)
            done = False
        if not done:
            self._failed("otlp_metrics")

    def stop(self) -> None:
        """Export once more and end; returns at once."""
        self._over.set()
