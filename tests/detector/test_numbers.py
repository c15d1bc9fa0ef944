"""Ledger arithmetic, cache semantics, windows, times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.consumers import Provenance
from lowwater.collectors.dialects import GROUP, load_dialects
from lowwater.collectors.reading import Reading, Usage
from lowwater.collectors.tokens import apportion
from lowwater.collectors.usage import resolve_input
from lowwater.detector.findings import Severity, severity_cap
from lowwater.detector.ingest import sane_times
from lowwater.detector.ledger import Reserved, residual_tokens
from lowwater.detector.profiles import PROFILES, profile_for
from lowwater.detector.windows import model_limits


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_parts_sum_to_the_total_and_are_nearly_proportional(total: int, weights: list[int]) -> None:
    if not any(weights):
        return
    parts = apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert part >= 0
        assert abs(part - total * weight / sum(weights)) < 1 + 1e-6 * total
        assert weight > 0 or part <= 1


def test_nothing_can_carry_a_positive_total() -> None:
    with pytest.raises(ValueError, match="no positive weight"):
        apportion(5, [0, 0])
    with pytest.raises(ValueError, match="negative"):
        apportion(5, [-1, 2])


def test_the_worked_example_with_and_without_reservations() -> None:
    """17.5k used at utilisation 0.61; the published formula, and the one with 11.2k reserved."""
    reserved = Reserved(system=1_200, tools=2_800, output=4_000, retry=1_200, staging=2_000)
    assert reserved.total() == 11_200
    assert residual_tokens(28_700, 0, 6_000, 9_000) == 13_700
    assert residual_tokens(28_700, reserved.total(), 6_000, 9_000) == 2_500
    assert residual_tokens(None, 0, 1, 1) is None
    assert residual_tokens(10, 0, None, 1) is None


@pytest.mark.parametrize(
    ("usage", "options", "expected"),
    [
        (None, {}, (None, "absent")),
        (Usage(output_tokens=5), {}, (None, "absent")),
        (Usage(input_tokens=0), {}, (None, "zero")),
        (Usage(input_tokens=0, cache_read_tokens=70), {}, (70, "cache_exceeds_input")),
        (
            Usage(input_tokens=4, cache_read_tokens=29_447, cache_write_tokens=2_861),
            {},
            (32_312, "cache_exceeds_input"),
        ),
        (Usage(input_tokens=12_632, cache_write_tokens=12_629, uncached_tokens=3), {}, (12_632, "parts_sum")),
        (Usage(input_tokens=100, cache_read_tokens=40, cache_inclusive=True), {}, (100, "producer")),
        (Usage(input_tokens=100, cache_read_tokens=40, cache_inclusive=False), {}, (140, "producer")),
        (Usage(input_tokens=100, cache_read_tokens=0, cache_inclusive=False), {}, (100, "producer")),
        (Usage(input_tokens=5, cache_inclusive=False), {}, (None, "exclusive_without_cache")),
        (Usage(input_tokens=100, cache_read_tokens=40, output_tokens=10, total_tokens=150), {}, (140, "total")),
        (Usage(input_tokens=100, cache_read_tokens=40, output_tokens=10, total_tokens=110), {}, (100, "total")),
        (Usage(input_tokens=100, cache_read_tokens=40), {"exclusive_seen": True}, (140, "producer_observed")),
        (Usage(input_tokens=5), {"content_tokens": 4_000}, (None, "implausible_for_content")),
        (Usage(input_tokens=2_546), {"content_tokens": 9_000}, (2_546, "specification")),
        (Usage(input_tokens=100, cache_read_tokens=40), {}, (100, "specification")),
    ],
)
def test_what_input_means(usage: Usage | None, options: dict[str, Any], expected: tuple[int | None, str]) -> None:
    assert resolve_input(usage, **options) == expected


@pytest.mark.parametrize(
    ("model", "window", "shares"),
    [
        ("claude-haiku-4-5-20251001", 200_000, True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, True),
        ("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", 200_000, True),
        ("google/gemini-2.5-flash", 1_048_576, False),
        ("gpt-4o-mini-2024-07-18", 128_000, True),
    ],
)
def test_models_are_found_by_their_usual_names(model: str, window: int, shares: bool) -> None:
    limits = model_limits(model)
    assert limits is not None
    assert (limits.window_tokens, limits.output_shares_window) == (window, shares)


def test_an_unknown_model_has_no_window() -> None:
    assert model_limits("our-own-model-13b") is None
    assert model_limits(None) is None
    assert model_limits("") is None


@given(st.text(max_size=60))
def test_any_model_name_is_looked_up_without_error(name: str) -> None:
    limits = model_limits(name)
    assert limits is None or limits.window_tokens > 0


def test_profiles_say_one_thing_each_and_fit_their_windows() -> None:
    for profile in PROFILES:
        said = [profile.trigger_ratio, profile.trigger_tokens, profile.buffer_tokens]
        assert sum(value is not None for value in said) == 1
        trigger = profile.trigger_tokens_for(200_000)
        assert trigger is not None
        assert 0 < trigger < 200_000
        assert profile.source
    assert profile_for("claude-code", None) is not None
    assert profile_for("spine", "pigeon") is None


@pytest.mark.parametrize(
    ("start", "end", "wrong", "clamped"),
    [
        (
            1_750_000_000_000_000_000,
            1_750_000_001_000_000_000,
            None,
            (1_750_000_000_000_000_000, 1_750_000_001_000_000_000),
        ),
        (1_750_000_001_000_000_000, 1_750_000_000_000_000_000, "start_after_end", (1_750_000_000_000_000_000,) * 2),
        (1_750_000_000_000_000_000, 0, "end_time_missing", (1_750_000_000_000_000_000,) * 2),
        (0, 1_750_000_000_000_000_000, "start_time_missing", (1_750_000_000_000_000_000,) * 2),
        (1_750_000_000_000_000_000, 2**63, "end_time_absurd", (1_750_000_000_000_000_000,) * 2),
        (0, 0, "end_time_missing", (0, 0)),
        (-5, -1, "end_time_absurd", (0, 0)),
    ],
)
def test_impossible_times_are_clamped_and_named(
    start: int, end: int, wrong: str | None, clamped: tuple[int, int]
) -> None:
    reading = Reading("t", "s", start_ns=start, end_ns=end)
    assert sane_times(reading) == wrong
    assert (reading.start_ns, reading.end_ns) == clamped


def test_weak_numbers_earn_weak_findings() -> None:
    assert severity_cap(Provenance.UNKNOWN) is Severity.INFO
    assert severity_cap(Provenance.DEFAULT) is Severity.TICKET
    assert severity_cap(Provenance.INFERRED) is Severity.TICKET
    assert severity_cap(Provenance.LEARNED) is Severity.PAGE
    assert severity_cap(Provenance.DECLARED) is Severity.PAGE


class _Entry:
    """An entry point of somebody's package."""

    def __init__(self, name: str, loaded: Any) -> None:
        self.name, self.value, self._loaded = name, f"package:{name}", loaded

    def load(self) -> Any:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_plug_ins_are_loaded_and_broken_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ours:
        name, versions = "ours", "1"

        def matches(self, span: Any) -> bool:
            return False

        def kind_of(self, span: Any) -> None:
            return None

        def read(self, span: Any, draft: Any) -> None:
            pass

        def read_log(self, record: Any, draft: Any) -> bool:
            return False

    found = [_Entry("a", Ours()), _Entry("b", ImportError("no module")), _Entry("c", object()), _Entry("d", Ours())]
    monkeypatch.setattr("lowwater.collectors.dialects.entry_points", lambda group: found if group == GROUP else [])
    load_dialects.cache_clear()
    try:
        dialects, problems = load_dialects()
        assert dialects[-1].name == "ours"
        assert len(problems) == 3
        assert "no module" in problems[0]
        assert "lacks part" in problems[1]
        assert "taken" in problems[2]
    finally:
        load_dialects.cache_clear()
