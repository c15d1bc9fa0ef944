"""The registry as text for Prometheus: OpenMetrics with exemplars where the scraper takes it, else the older format."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, cast

from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Exemplar as Shown

from lowwater.detector.metrics.catalogue import Metric, Type
from lowwater.detector.metrics.registry import Exemplar, Registry, Series

__all__ = ["scrape"]

_GZIP_LEVEL = 1


def scrape(registry: Registry, accept: str, accept_encoding: str = "") -> tuple[dict[str, str], bytes]:
    """Header fields and body of the answer to a scrape.

    Args:
        accept: what the scraper takes, as it says.
        accept_encoding: compressions that it takes.
    """
    try:
        encoder, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is none
        encoder, content_type = choose_encoder("")
    exemplars = "openmetrics" in content_type
    body: bytes = encoder(cast(CollectorRegistry, _Families(registry, exemplars)))
    headers = {"content-type": content_type}
    if "gzip" in accept_encoding:
        return {**headers, "content-encoding": "gzip"}, gzip.compress(body, _GZIP_LEVEL)
    return headers, body


class _Families:
    """What the encoders read."""

    def __init__(self, registry: Registry, exemplars: bool) -> None:
        self._registry, self._exemplars = registry, exemplars

    def collect(self, *_: Any, **__: Any) -> Iterator[Family]:
        """Yield families with their samples."""
        for metric, found in self._registry.collect():
            name = metric.name.removesuffix("_total") if metric.type is Type.COUNTER else metric.name
            family = Family(name, metric.help, metric.type.value)
            for series in found:
                labels = dict(zip(metric.labels, series.labels, strict=True))
                if series.histogram is None:
                    family.add_sample(metric.name, labels, series.value, None, self._shown(series.exemplar))
                else:
                    self._add_histogram(family, metric, series, labels)
            yield family

    def _add_histogram(self, family: Family, metric: Metric, series: Series, labels: Mapping[str, str]) -> None:
        histogram = series.histogram
        if histogram is None:
            return
        bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
        totals = list(itertools.accumulate(histogram.counts))
        for bound, total, exemplar in zip(bounds, totals, histogram.exemplars, strict=True):
            family.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, total, None, self._shown(exemplar))
        family.add_sample(f"{metric.name}_count", dict(labels), totals[-1])
        family.add_sample(f"{metric.name}_sum", dict(labels), histogram.sum)

    def _shown(self, exemplar: Exemplar | None) -> Shown | None:
        if exemplar is None or not self._exemplars:
            return None
        ids = {"trace_id": exemplar.trace_id[:32], "span_id": exemplar.span_id[:16]}
        return Shown(ids, exemplar.value, exemplar.seconds or None)
