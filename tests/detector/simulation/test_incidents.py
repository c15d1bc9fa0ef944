"""The incident experiments: figures before, predictions after, and laws that hold in every run."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from lowwater.detector.simulation.incidents import INCIDENTS, compaction, debt, fanout, starvation
from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, REPORTED_SEEDS, Summary, summarize
from lowwater.policies.compaction import CompactionScheduler

SEEDS = range(36)


def seen(name: str, rule: bool, seeds: range = SEEDS) -> dict[str, Summary]:
    incident = INCIDENTS[name]
    return summarize([incident.run(incident.parameters, seed, rule) for seed in seeds])


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.parametrize("rule", [False, True])
def test_one_seed_is_one_run_and_seeds_differ(name: str, rule: bool) -> None:
    incident = INCIDENTS[name]
    runs = [incident.run(incident.parameters, seed, rule) for seed in range(6)]
    assert runs == [incident.run(incident.parameters, seed, rule) for seed in range(6)]
    assert any(run != runs[0] for run in runs)


def test_fitting_and_reported_seeds_are_apart() -> None:
    assert set(FITTING_SEEDS).isdisjoint(REPORTED_SEEDS)
    assert len(REPORTED_SEEDS) >= 200


@pytest.mark.parametrize("name", INCIDENTS)
def test_no_parameter_says_whether_the_rule_is_asked(name: str) -> None:
    assert "rule" not in {field.name for field in fields(INCIDENTS[name].parameters)}
    assert set(INCIDENTS[name].fitted) <= {field.name for field in fields(INCIDENTS[name].parameters)}


@pytest.mark.parametrize("name", ["starvation", "fanout", "compaction"])
def test_the_committed_values_are_what_the_search_finds(name: str) -> None:
    assert INCIDENTS[name].fit() == INCIDENTS[name].parameters


def test_starved_agents_repeat_themselves_below_every_gauge_and_a_floor_cures_it() -> None:
    before, after = seen("starvation", False), seen("starvation", True)
    assert 0.58 <= before["utilization_ratio"].mean <= 0.64
    assert before["scratchpad_tokens"].mean == pytest.approx(9_000, rel=0.1)
    assert 2_000 <= before["working_tokens"].mean <= 3_000
    assert before["completed_ratio"].mean == 0
    assert before["repeated_calls"].low > 0
    assert after["completed_ratio"].mean == 1
    assert after["repeated_calls"].mean == 0
    assert after["utilization_ratio"].mean == pytest.approx(before["utilization_ratio"].mean, rel=0.2)


def test_claims_never_exceed_the_window_less_reservations() -> None:
    p = starvation.PARAMETERS
    for seed in SEEDS:
        for rule in (False, True):
            run = starvation.run(p, seed, rule)
            total = run["retrieval_tokens"] + run["scratchpad_tokens"] + run["working_tokens"]
            assert total <= p.ceiling_tokens - p.reserved_tokens
            assert total / p.ceiling_tokens == pytest.approx(run["utilization_ratio"])


def test_without_reservations_nothing_starves() -> None:
    roomy = replace(starvation.PARAMETERS, reserved_tokens=0)
    assert all(starvation.run(roomy, seed, False)["completed_ratio"] == 1 for seed in SEEDS)


def test_wide_fan_outs_overrun_while_all_are_green_and_refused_ones_do_not() -> None:
    before, after = seen("fanout", False, range(400)), seen("fanout", True, range(400))
    assert before["peak_tokens_1"].mean == pytest.approx(19_000, rel=0.1)
    assert before["peak_tokens_4"].mean == pytest.approx(96_000, rel=0.1)
    assert 168_000 <= before["peak_tokens_8"].low <= before["peak_tokens_8"].high <= 214_000
    assert before["overrun_ratio_8"].mean == pytest.approx(0.2, abs=0.06)  # two standard errors and the tolerance
    assert 2_000 <= before["over_tokens_8"].mean <= 6_000
    assert 3 <= before["over_children_8"].mean <= 5
    assert before["green_ratio_8"].mean == 1
    assert before["naive_overrun_ratio"].mean > before["overrun_ratio_8"].mean
    assert after["refused_ratio_8"].mean == 1
    assert after["refused_ratio_4"].mean == 0
    assert all(after[f"overrun_ratio_{width}"].mean == 0 for width in fanout.WIDTHS)


@pytest.mark.parametrize("deviation", [500, 8_000, 30_000])
def test_the_pool_holds_with_the_rule_whatever_subagents_need(deviation: int) -> None:
    wild = replace(fanout.PARAMETERS, deviation_tokens=deviation)
    for seed in SEEDS:
        run = fanout.run(wild, seed, True)
        assert all(run[f"peak_tokens_{width}"] <= wild.ceiling_tokens for width in fanout.WIDTHS)
        assert all(run[f"green_ratio_{width}"] == 1 for width in fanout.WIDTHS)


def test_deferred_compaction_stalls_and_an_admitted_one_keeps_its_rhythm() -> None:
    before, after = seen("compaction", False), seen("compaction", True)
    assert before["stalled_ratio"].mean == 1
    assert before["turns"].low > 40
    assert before["deferred_ratio"].mean == 1
    assert after["stalled_ratio"].mean == 0
    assert after["turns"].low == compaction.PARAMETERS.turns
    assert after["period_turns"].mean == pytest.approx(7, rel=0.2)
    assert after["start_occupancy_ratio"].mean == pytest.approx(0.70, rel=0.2)
    assert after["compaction_seconds"].mean == pytest.approx(0.360, rel=0.2)
    assert 0.55 <= after["occupancy_low_ratio"].mean <= after["occupancy_high_ratio"].mean <= 0.72


def test_the_scheduler_is_asked_with_the_rule_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(CompactionScheduler, "at_turn_end", unexpected)
    compaction.run(compaction.PARAMETERS, 0, False)
    with pytest.raises(AssertionError):
        compaction.run(compaction.PARAMETERS, 0, True)


def test_debt_storms_recover_when_a_compaction_is_requested() -> None:
    before, after = seen("debt", False, range(12)), seen("debt", True, range(12))
    assert before["recovery_seconds"].mean == pytest.approx(47, rel=0.1)
    assert before["debt_share_ratio"].mean == pytest.approx(0.71, rel=0.1)
    # The prediction is better than the incident's 6 s and 0.94: docs/incidents.md says why.
    assert after["recovery_seconds"].mean <= 6 * 1.2
    assert after["wasted_retries"].mean <= 0.06 * 1.2 * before["wasted_retries"].mean


def test_no_debt_is_recovered_before_a_compaction_could_have_run() -> None:
    for seed in range(6):
        run = debt.run(debt.PARAMETERS, seed, True)
        assert run["recovery_seconds"] >= debt.PARAMETERS.compaction_seconds
