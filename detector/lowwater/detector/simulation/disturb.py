"""What happens to spans on their way: order, duplicates, loss, clocks, and identifiers that nobody set."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

from lowwater.collectors.records import SpanRecord

__all__ = ["DISTURBANCES", "disturb"]

SKEW_SECONDS = 37
"""Far beyond what clocks of a fleet differ by when they are synchronised; within the lateness that is allowed."""

LOSS_RATIO = 0.05

WITHIN_SECONDS, BEYOND_SECONDS = 50, 600
"""Delays within the lateness that is allowed by default (60 s), and far beyond it."""

LATE_RATIO = 0.03

KEPT_CHARACTERS = 2_048
"""What is left of a long attribute: the limit of an SDK or a collector, which cuts JSON wherever it happens to be."""

_IDS = ("conversation.id", "session.id", "session_id", "agent.id", "thread_id", "user.id")


def _nothing(spans: list[SpanRecord], _: random.Random) -> list[SpanRecord]:
    return spans


def _arriving(spans: list[SpanRecord], delays: list[float]) -> list[SpanRecord]:
    """In the order of arrival, where each comes so many seconds after its end."""
    order = sorted(
        range(len(spans)), key=lambda index: spans[index].end_time_unix_nano + int(delays[index] * 1_000_000_000)
    )
    return [spans[index] for index in order]


def _out_of_order(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return _arriving(spans, [draw.uniform(0, WITHIN_SECONDS) for _ in spans])


def _late(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return _arriving(
        spans, [draw.uniform(WITHIN_SECONDS, BEYOND_SECONDS) if draw.random() < LATE_RATIO else 0.0 for _ in spans]
    )


def _sampled(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    """Every second trace, and at least one: what a head sampler leaves."""
    traces = list(dict.fromkeys(span.trace_id for span in spans))
    kept = {trace for trace in traces if draw.random() < 0.5} or {draw.choice(traces)}
    return [span for span in spans if span.trace_id in kept]


def _truncated(spans: list[SpanRecord], _: random.Random) -> list[SpanRecord]:
    return [
        dataclasses.replace(
            span,
            attributes={
                key: value[:KEPT_CHARACTERS] if isinstance(value, str) else value
                for key, value in span.attributes.items()
            },
            _namespaces=None,
        )
        for span in spans
    ]


def _duplicates(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return [copy for span in spans for copy in ((span, span) if draw.random() < 0.2 else (span,))]


def _lost(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    return [span for span in spans if span.parent_span_id is None or draw.random() >= LOSS_RATIO]


def _skewed(spans: list[SpanRecord], draw: random.Random) -> list[SpanRecord]:
    """Each trace's process has a clock of its own."""
    offsets: dict[str, int] = {}
    moved = []
    for span in spans:
        offset = offsets.setdefault(span.trace_id, draw.randint(-SKEW_SECONDS, SKEW_SECONDS) * 1_000_000_000)
        events = [dataclasses.replace(event, time_unix_nano=event.time_unix_nano + offset) for event in span.events]
        moved.append(
            dataclasses.replace(
                span,
                start_time_unix_nano=span.start_time_unix_nano + offset,
                end_time_unix_nano=span.end_time_unix_nano + offset,
                events=events,
            )
        )
    return moved


def _without(*endings: str) -> Callable[[list[SpanRecord], random.Random], list[SpanRecord]]:
    def made(spans: list[SpanRecord], _: random.Random) -> list[SpanRecord]:
        return [
            dataclasses.replace(
                span,
                attributes={key: value for key, value in span.attributes.items() if not key.endswith(endings)},
                _namespaces=None,
            )
            for span in spans
        ]

    return made


DISTURBANCES: Mapping[str, Callable[[list[SpanRecord], random.Random], list[SpanRecord]]] = {
    "none": _nothing,
    "out_of_order": _out_of_order,
    "late": _late,
    "duplicates": _duplicates,
    "clock_skew": _skewed,
    "missing_ids": _without(*_IDS),
    "missing_agent_ids": _without("agent.id"),
    "span_loss": _lost,
    "sampled": _sampled,
    "truncated": _truncated,
}
"""By name. Spans come back in their order of arrival. ``span_loss`` drops one span in twenty, roots excepted."""


def disturb(spans: list[SpanRecord], name: str, seed: int) -> list[SpanRecord]:
    """The spans as they arrive.

    Raises:
        KeyError: there is no such disturbance.
    """
    return DISTURBANCES[name](list(spans), random.Random(f"{name}/{seed}"))
