"""The reference incident through the whole pipeline, and the neighbours that must stay silent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.detector.builders import span, tool
from tests.detector.scenarios import CHUNKS, RESULTS, entries, findings, turn

from lowwater.collectors.consumers import Provenance
from lowwater.collectors.reading import Compaction, Operation, Reading
from lowwater.detector.findings import Finding, Kind, Severity, State


def starving(turns: int, **fields: Any) -> list[Reading]:
    return [turn(number, retrieval=CHUNKS, scratchpad=RESULTS, **fields) for number in range(1, turns + 1)]


def starvation(readings: list[Reading]) -> list[Finding]:
    return [finding for finding in findings(readings) if finding.kind is Kind.SILENT_STARVATION]


def test_the_reference_incident_starves_while_the_gauge_is_calm() -> None:
    """15 chunks of 400, 9 tool results of 1,000 and reservations of 11.2k leave 2.5k where 6k are needed."""
    fired = starvation(starving(3))
    assert [finding.state for finding in fired] == [State.FIRING]
    evidence = fired[0].evidence
    assert evidence["residual_tokens"] == pytest.approx(2_500, abs=900)  # shares are estimated
    assert 0.58 < evidence["utilization_ratio"] < 0.64
    assert set(evidence["sticky_claimants"]) == {"reserved", "retrieval", "scratchpad"}
    assert [step.action.split(":")[0] for step in fired[0].advice][:2] == [
        "release scratchpad",
        "deduplicate and release retrieval",
    ]


def test_it_fires_at_the_third_call_the_first_that_holds_over_twice() -> None:
    """On the first call nothing is held over yet; two starved turns in a row make a finding."""
    (fired,) = starvation(starving(3))
    assert fired.turn == 3


def test_without_the_reservations_the_same_claims_are_healthy() -> None:
    assert starvation(starving(4, outside=1, system=100)) == []


def test_it_pages_when_it_lasts_and_only_once() -> None:
    fired = starvation(starving(12))
    assert [finding.severity for finding in fired] == [Severity.TICKET, Severity.PAGE]
    assert len({finding.id for finding in fired}) == 1


def test_it_resolves_after_two_good_turns() -> None:
    story = starving(4) + [turn(number, working=("plan", "next")) for number in (5, 6, 7)]
    assert [finding.state for finding in starvation(story)] == [
        *[State.FIRING, State.FIRING, State.RESOLVED][:1],
        State.RESOLVED,
    ]


def test_a_default_requirement_never_pages() -> None:
    fired = starvation(starving(12, need=None))
    assert fired
    assert {finding.severity for finding in fired} == {Severity.TICKET}


def test_claims_that_change_every_turn_are_transient() -> None:
    story = [
        turn(n, retrieval=[f"{n}-{c}" for c in CHUNKS], scratchpad=[f"{n}-{r}" for r in RESULTS]) for n in range(1, 8)
    ]
    assert starvation(story) == []
    assert {entry.regime for entry in entries(story)} == {"transient"}


def test_at_the_trigger_it_is_loud_not_silent() -> None:
    story = [turn(n, retrieval=CHUNKS, scratchpad=RESULTS, working=[f"w{w}" for w in range(21)]) for n in range(1, 6)]
    assert {entry.regime for entry in entries(story)} == {"loud"}
    assert starvation(story) == []


def test_an_enforced_floor_is_told_apart() -> None:
    story = starving(5)
    for reading in story:
        reading.declared["working_set.floor_tokens"] = 6_000
    assert starvation(story) == []
    assert entries(story)[-1].regime == "floor_enforced"


def test_a_recent_compaction_explains_a_low_residual() -> None:
    mark = span(
        "m",
        Operation.COMPACTION,
        14,
        15,
        conversation="c",
        agent_name="researcher",
        compaction=Compaction(before_tokens=25_000),
    )
    assert starvation([*starving(3), mark]) == []


def test_healthy_but_full_is_healthy() -> None:
    """Working memory that fills the window is what the window is for."""
    story = [turn(n, working=[f"w{w}" for w in range(n + 14)], outside=1, system=100) for n in range(1, 12)]
    assert starvation(story) == []


def test_repetition_makes_starvation_page_at_once() -> None:
    story: list[Reading] = []
    for number in range(1, 6):
        story.append(turn(number, retrieval=CHUNKS, scratchpad=RESULTS))
        story.append(tool(f"t{number}", number * 10 + 5, conversation="c", agent_name="researcher"))
    fired = starvation(story)
    assert fired[-1].severity is Severity.PAGE
    assert fired[-1].evidence["repetition"] == "loop"
    assert fired[-1].evidence["starved_turns"] < 4


def test_an_unknown_window_gives_no_verdict() -> None:
    story = starving(5)
    for reading in story:
        del reading.declared["context.ceiling_tokens"]
    assert starvation(story) == []
    assert {entry.regime for entry in entries(story)} == {"unknown"}


def test_a_starved_role_does_not_learn_that_little_is_enough() -> None:
    healthy = [turn(n, working=[f"w{w}" for w in range(12)], outside=1, system=100, need=None) for n in range(1, 60)]
    story = healthy + [turn(n, retrieval=CHUNKS, scratchpad=RESULTS, need=None) for n in range(60, 130)]
    last = entries(story)[-1]
    assert last.provenance["requirement_tokens"] is Provenance.LEARNED
    assert last.requirement_tokens is not None
    assert last.requirement_tokens > 5_000


def test_a_small_task_does_not_need_what_long_chats_of_its_role_held() -> None:
    chats = [turn(n, working=[f"w{w}" for w in range(12)], outside=1, system=100, need=None) for n in range(1, 60)]
    task = [
        turn(n, working=["w"], retrieval=CHUNKS, scratchpad=RESULTS, outside=1, system=100, need=None)
        for n in range(60, 70)
    ]
    for reading in task:
        reading.conversation = "short"
    needs = {entry.conversation: entry.requirement_tokens or 0 for entry in entries(chats + task)}
    assert needs["short"] < needs["c"]


@pytest.mark.parametrize("cut", [1, 3, 7])
def test_splitting_the_input_changes_nothing(cut: int) -> None:
    """Findings do not depend on how the input arrives, only on what it says."""
    story = starving(8)
    expected = [finding.to_json() for finding in starvation(story)]
    shuffled = story[cut:] + story[:cut]
    assert [finding.to_json() for finding in starvation([dataclasses.replace(item) for item in shuffled])] == expected
