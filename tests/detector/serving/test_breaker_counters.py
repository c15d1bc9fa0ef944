"""Counters do not go back over a restart, whatever the caps were when their series began."""

from __future__ import annotations

from lowwater.detector.metrics.registry import Registry


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
