"""Findings are matched with truth by the written rules; disturbances change the way, not the facts."""

from __future__ import annotations

import pytest

from lowwater.detector.findings import Finding, Kind, Severity, State, finding_id
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.simulation.disturb import DISTURBANCES, KEPT_CHARACTERS, SKEW_SECONDS, WITHIN_SECONDS, disturb
from lowwater.detector.simulation.emit import records
from lowwater.detector.simulation.model import Agent, CallTruth, Expected, LlmCall, Run, Truth
from lowwater.detector.simulation.scenarios import SCENARIOS
from lowwater.detector.simulation.scoring import EARLY_TURNS, FAMILIES, Counts, score, wilson


def story(*expected: Expected, healthy: bool = False) -> Run:
    """One agent with ten calls, spans 1 to 10."""
    calls = [LlmCall(span, span * 10, span * 10 + 5, "m", ()) for span in range(1, 11)]
    agent = Agent(99, 7, "bot", "bot-1", 0, 1_000, steps=list(calls))
    truths = [CallTruth(span, span, 100, 0, 0, 0, 0, 0, 0, 0, 0, 10, 10, "healthy") for span in range(1, 11)]
    return Run("svc", 1, [agent], Truth("hand", healthy=healthy, expected=list(expected), calls=truths))


def found(kind: Kind, turn: int, severity: Severity = Severity.TICKET, cls: str = "") -> Finding:
    span = f"{turn:016x}"
    return Finding(
        finding_id(kind, "c", span), kind, State.FIRING, severity, "r", trace_id=f"{7:032x}", span_id=span,
        evidence={"class": cls} if cls else {},
    )  # fmt: skip


def starved(turn: int) -> Expected:
    return Expected("silent_starvation", "bot-1", 7, turn, turn)


def counts(made: Counts) -> tuple[int, int, int]:
    return made.found, made.false, made.missed


@pytest.mark.parametrize("turn", [5 - EARLY_TURNS, 5, 9])
def test_a_finding_from_just_before_its_onset_on_is_right_and_its_delay_is_kept(turn: int) -> None:
    made = score(story(starved(5)), [found(Kind.SILENT_STARVATION, turn)])
    assert counts(made.families["starvation"]) == (1, 0, 0)
    assert made.delays_turns == {"silent_starvation": [turn - 5]}


def test_a_finding_long_before_its_onset_is_false_and_the_episode_missed() -> None:
    made = score(story(starved(5)), [found(Kind.SILENT_STARVATION, 2)])
    assert counts(made.families["starvation"]) == (0, 1, 1)
    assert made.false_kinds == ["silent_starvation"]


def test_a_second_finding_of_the_family_is_a_companion_and_another_family_is_not() -> None:
    made = score(
        story(starved(3)),
        [found(Kind.SILENT_STARVATION, 3), found(Kind.SILENT_STARVATION, 8), found(Kind.COMPACTION_DEBT, 8)],
    )
    assert counts(made.families["starvation"]) == (1, 0, 0)
    assert counts(made.families["compaction"]) == (0, 1, 0)


def test_resolved_lines_and_growing_severity_are_one_finding() -> None:
    first, worse = found(Kind.SILENT_STARVATION, 4), found(Kind.SILENT_STARVATION, 4, Severity.PAGE)
    over = found(Kind.SILENT_STARVATION, 4)
    over.state = State.RESOLVED
    made = score(story(healthy=True), [first, worse, over])
    assert counts(made.families["starvation"]) == (0, 1, 0)
    assert made.pages == 1


def test_a_rejection_of_another_class_is_wrong() -> None:
    run = story(Expected("rejection", "bot-1", 7, 4, 4, "spend_cap"))
    run.truth.rejections = {4: "spend_cap"}
    made = score(run, [found(Kind.REJECTION, 4, cls="rate_limit")])
    assert counts(made.families["rejection"]) == (0, 1, 1)
    assert made.classes == {("spend_cap", "rate_limit"): 1}


def test_repetition_alone_is_no_false_finding() -> None:
    made = score(story(healthy=True), [found(Kind.REPETITION, 4)])
    assert made.repeated
    assert made.false_kinds == []


def test_regimes_are_counted_per_call_and_calls_that_are_lost_are_seen() -> None:
    made = score(story(), [LedgerEntry("t", f"{1:016x}", regime="loud")])
    assert made.regimes == {("healthy", "loud"): 1, ("healthy", "not_read"): 9}


def test_every_kind_but_repetition_has_a_family() -> None:
    assert {kind.value for kind in Kind} - set(FAMILIES) == {"repetition"}


def test_shares_of_counts() -> None:
    some = Counts(found=8, false=2, missed=4)
    assert (some.precision, some.recall) == (0.8, 8 / 12)
    assert some.f1 == pytest.approx(2 * 0.8 * (8 / 12) / (0.8 + 8 / 12))
    assert (Counts().precision, Counts().recall, Counts().f1) == (None, None, None)


def test_intervals_of_wilson() -> None:
    low, high = wilson(50, 100)
    assert (round(low, 4), round(high, 4)) == (0.4038, 0.5962)  # Newcombe 1998
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == pytest.approx(1)
    with pytest.raises(ValueError, match="11 of 10"):
        wilson(11, 10)


@pytest.mark.parametrize("name", DISTURBANCES)
def test_a_disturbance_is_one_of_its_seed(name: str) -> None:
    spans = records(SCENARIOS["rate_limit"].make(1), "gen_ai", content=False)
    assert disturb(spans, name, 4) == disturb(spans, name, 4)


def test_what_disturbances_change() -> None:
    spans = records(SCENARIOS["starvation"].make(1), "gen_ai", content=False)
    ids = [span.span_id for span in spans]
    assert sorted(span.span_id for span in disturb(spans, "out_of_order", 1)) == sorted(ids)
    assert [span.span_id for span in disturb(spans, "out_of_order", 1)] != ids
    twice = [span.span_id for span in disturb(spans, "duplicates", 1)]
    assert len(twice) > len(ids)
    assert set(twice) == set(ids)
    kept = {span.span_id for span in disturb(spans, "span_loss", 2)}
    assert kept < set(ids)
    assert {span.span_id for span in spans if span.parent_span_id is None} <= kept
    offsets = {
        after.end_time_unix_nano - before.end_time_unix_nano
        for before, after in zip(spans, disturb(spans, "clock_skew", 1), strict=True)
    }
    assert len(offsets) == 1
    assert all(abs(offset) <= SKEW_SECONDS * 1_000_000_000 for offset in offsets)
    late = disturb(spans, "late", 1)
    assert sorted(span.span_id for span in late) == sorted(ids)
    assert late != spans
    bare = disturb(spans, "missing_ids", 1)
    assert any("gen_ai.conversation.id" in span.attributes for span in spans)
    assert not any("gen_ai.conversation.id" in span.attributes or "gen_ai.agent.id" in span.attributes for span in bare)


def test_delays_within_the_lateness_are_no_longer_than_it() -> None:
    spans = disturb(records(SCENARIOS["starvation"].make(1), "gen_ai", content=False), "out_of_order", 1)
    latest, behind = 0, 0
    for span in spans:
        latest = max(latest, span.end_time_unix_nano)
        behind = max(behind, latest - span.end_time_unix_nano)
    assert 1_000_000_000 < behind <= WITHIN_SECONDS * 1_000_000_000


def test_a_sampler_keeps_whole_traces() -> None:
    spans = records(SCENARIOS["healthy"].make(3), "gen_ai", content=False)
    traces = {span.trace_id for span in spans}
    kept = [{span.trace_id for span in disturb(spans, "sampled", seed)} for seed in range(12)]
    assert all(each and each <= traces for each in kept)
    assert any(each < traces for each in kept)
    for each, seed in zip(kept, range(12), strict=True):
        assert disturb(spans, "sampled", seed) == [span for span in spans if span.trace_id in each]


def test_truncation_cuts_text_and_nothing_else() -> None:
    spans = records(SCENARIOS["starvation"].make(1), "gen_ai")
    for before, after in zip(spans, disturb(spans, "truncated", 1), strict=True):
        for key, value in before.attributes.items():
            assert after.attributes[key] == (value[:KEPT_CHARACTERS] if isinstance(value, str) else value)
    assert any(isinstance(value, str) and len(value) > KEPT_CHARACTERS for value in spans[-2].attributes.values())


def test_the_error_of_the_residual_is_a_part_of_the_ceiling() -> None:
    # The truth of `story`: a ceiling of 100 and nothing in it.
    made = score(story(), [LedgerEntry("t", f"{1:016x}", residual_tokens=90), LedgerEntry("t", f"{2:016x}")])
    assert made.residual_errors == [pytest.approx(0.1)]
