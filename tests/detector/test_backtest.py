"""What a backtest says of stories whose pages can be counted by hand, and what a sweep makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.detector.builders import call
from tests.detector.scenarios import CHUNKS, RESULTS, turn

from lowwater.collectors.reading import Failure, Reading
from lowwater.detector.backtest import Backtest
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.errors import ConfigError
from lowwater.detector.findings import Kind
from lowwater.detector.pipeline import Pipeline
from lowwater.detector.replay import Replay
from lowwater.detector.settings import numeric_settings, with_setting
from lowwater.detector.sorting import storing
from lowwater.detector.sweep import MAX_SETTINGS, Sweep, SweepRow, grid, parse_sweep, run_setting

EXAMPLES = Path(__file__).parents[2] / "examples"
START_NS = 1_750_000_000 * 10**9  # 2025-06-15 15:06:40 UTC


def starved(number: int) -> Reading:
    return turn(number, retrieval=CHUNKS, scratchpad=RESULTS)


def well(number: int) -> Reading:
    return turn(number, working=("plan", "next"))


def backtest(readings: Iterable[Reading], config: DetectorConfig | None = None, short_turns: int = 5) -> Backtest:
    result = Backtest(short_turns)
    for output in Pipeline(config).run(sorted(readings, key=Reading.order)):
        result.add(output)
    return result


def test_an_episode_from_its_first_starved_turn_to_its_end() -> None:
    """Calls every 10 s. Starved from turn 2 on (nothing is held over before); fires at 3, pages at 5, over at 8."""
    told = backtest([*map(starved, range(1, 7)), *map(well, range(7, 10))])
    (episode,) = told.to_json()["episodes"]
    assert {name: episode[name] for name in ("kind", "severity", "agent", "resolved")} == {
        "kind": "silent_starvation", "severity": "page", "agent": "researcher", "resolved": True,
    }  # fmt: skip
    turns = {name: episode[f"{name}_turn"] for name in ("onset", "fired", "paged", "last")}
    seconds = {name: (episode[f"{name}_time"] - START_NS) / 1e9 for name in ("onset", "fired", "paged", "last")}
    assert turns == {"onset": 2, "fired": 3, "paged": 5, "last": 8}
    assert seconds == {"onset": 20, "fired": 30, "paged": 50, "last": 80}
    assert (episode["lasted_turns"], episode["lasted_seconds"]) == (5, 50)


def test_what_still_fires_lasts_until_the_end_of_its_context() -> None:
    told = backtest(
        [*map(starved, range(1, 9)), call("other", 500.0, input_tokens=5, conversation="o", agent_name="b")]
    )
    (episode,) = told.to_json()["episodes"]
    assert episode["resolved"] is False
    assert (episode["last_turn"], episode["lasted_turns"], episode["lasted_seconds"]) == (8, 5, 50)


def test_totals_of_two_agents_by_hand() -> None:
    """One context pages over 80 s, another has three calls over one hour and nothing: 1 page in 3,680 s."""
    quiet = [call(f"q{n}", n * 1800.0, input_tokens=500, conversation="q", agent_name="quiet") for n in range(3)]
    document = backtest([*map(starved, range(1, 7)), *map(well, range(7, 10)), *quiet]).to_json()
    assert document["counts"] == {
        "calls": 12, "unjudged": 3, "contexts": 2, "agents": 2, "quiet_contexts": 1, "quiet_agents": 1,
    }  # fmt: skip
    assert document["agent_hours"] == pytest.approx(3_680 / 3600, abs=1e-6)
    assert document["findings"] == {"page": 1, "ticket": 0, "info": 0}
    assert document["pages"] == {
        "total": 1,
        "contexts": 1,
        "per_agent_hour": pytest.approx(3600 / 3_680, abs=1e-6),
        "per_day": {"2025-06-15": 1},
        "short_lived": 1,
        "short_lived_turns": 5,
    }


@pytest.mark.parametrize(("turns", "short"), [(2, 0), (3, 1), (5, 1)])
def test_a_page_is_short_lived_if_it_is_over_within_so_many_turns(turns: int, short: int) -> None:
    """Paged at turn 5, over at turn 8."""
    told = backtest([*map(starved, range(1, 7)), *map(well, range(7, 10))], short_turns=turns)
    assert told.to_json()["pages"]["short_lived"] == short


def test_what_pages_for_good_is_not_short_lived() -> None:
    """Paged at turn 5, the last turn: nobody knows how long it would have lasted."""
    assert backtest(map(starved, range(1, 6)), short_turns=99).to_json()["pages"]["short_lived"] == 0


def test_days_without_a_page_count() -> None:
    day = 86_400.0
    quiet = [call(f"q{n}", n * day, input_tokens=500, conversation="q", agent_name="quiet") for n in range(3)]
    told = backtest([*map(starved, range(1, 9)), *quiet])
    assert told.pages_per_day() == {"2025-06-15": 1, "2025-06-16": 0, "2025-06-17": 0}


def test_a_rejection_begins_when_it_fires_and_a_single_call_has_no_hours() -> None:
    refused = call("r", 1.0, conversation="c", agent_name="a", failure=Failure(status=429, code="rate_limit_exceeded"))
    told = backtest([refused])
    (episode,) = told.to_json()["episodes"]
    assert (episode["kind"], episode["class"]) == (Kind.REJECTION.value, "rate_limit")
    assert (episode["onset_turn"], episode["fired_turn"], episode["last_turn"]) == (1, 1, 1)
    assert told.agent_hours() == 0
    assert told.pages_per_agent_hour() is None


def test_a_pool_has_no_turns_and_its_page_counts_for_one_context() -> None:
    told = Backtest()
    for output in Replay().run([str(EXAMPLES / "fanout.otlp.jsonl")]):
        told.add(output)
    document = told.to_json()
    assert [(item["kind"], item["fired_turn"], item["lasted_turns"]) for item in document["episodes"]] == [
        ("fanout_overcommitted", None, None),
        ("fanout_overrun", None, None),
    ]
    assert (document["pages"]["total"], document["pages"]["contexts"]) == (2, 1)


# --- sweeps ----------------------------------------------------------------------------------------------------------


def swept(readings: list[Reading], *texts: str, processes: int = 1) -> list[SweepRow]:
    """The rows of a sweep over readings, as a replay makes them."""
    with Sweep(DetectorConfig(), parse_sweep(texts), 5) as sweep:
        told = backtest(sweep.keep(iter(sorted(readings, key=Reading.order))))
        return sweep.rows(told, Directory(), processes=processes)


def test_rows_by_hand() -> None:
    """Seven starved turns from 2 to 8: fires at 1 + n, pages at 5 if four starved turns page, never if eight do."""
    rows = swept([*map(starved, range(1, 9))], "fire_after_turns=1,2,3", "page_after_turns=4,8")
    assert [(dict(row.setting), row.current, row.pages, row.median_turns_to_fire) for row in rows] == [
        ({"fire_after_turns": 1, "page_after_turns": 4}, False, 1, 2),
        ({"fire_after_turns": 1, "page_after_turns": 8}, False, 0, 2),
        ({"fire_after_turns": 2, "page_after_turns": 4}, True, 1, 3),
        ({"fire_after_turns": 2, "page_after_turns": 8}, False, 0, 3),
        ({"fire_after_turns": 3, "page_after_turns": 4}, False, 1, 4),
        ({"fire_after_turns": 3, "page_after_turns": 8}, False, 0, 4),
    ]
    assert rows[0].findings == {"page": 1, "ticket": 0, "info": 0}
    assert rows[1].findings == {"page": 0, "ticket": 1, "info": 0}
    assert rows[0].contexts_paged == 1
    assert rows[0].pages_per_agent_hour == pytest.approx(3600 / 70)


def test_the_configuration_as_it_is_comes_first_where_it_is_no_setting() -> None:
    rows = swept([*map(starved, range(1, 9))], "fire_after_turns=1")
    assert [(dict(row.setting), row.current) for row in rows] == [
        ({"fire_after_turns": 2}, True),
        ({"fire_after_turns": 1}, False),
    ]


def test_a_value_of_overrides_can_be_swept() -> None:
    """What the trace declares wins; where it declares nothing the swept value decides."""
    story = [turn(number, retrieval=CHUNKS, scratchpad=RESULTS, need=None) for number in range(1, 9)]
    rows = swept(story, "requirement_tokens=1000,6000")
    assert [(dict(row.setting), row.current, row.pages) for row in rows] == [
        ({"requirement_tokens": None}, True, 0),  # a default never pages
        ({"requirement_tokens": 1000}, False, 0),
        ({"requirement_tokens": 6000}, False, 1),
    ]


def test_processes_change_nothing() -> None:
    story = [*map(starved, range(1, 7)), *map(well, range(7, 10))]
    texts = ("fire_after_turns=1,2,3", "resolve_after_turns=1,2")
    assert swept(story, *texts) == swept(story, *texts, processes=2)


@pytest.mark.parametrize("name", ["incident", "fanout", "refused", "healthy"])
def test_a_run_over_stored_readings_is_a_plain_replay(name: str, tmp_path: Path) -> None:
    replay, plain, kept = Replay(), Backtest(), tmp_path / "readings"
    path = str(EXAMPLES / f"{name}.otlp.jsonl")
    for output in replay.run([path], through=lambda readings: storing(kept, readings)):
        plain.add(output)
    assert run_setting(kept, replay.directory, 5, DetectorConfig()).to_json() == plain.to_json()


STORIES = st.lists(st.booleans(), min_size=1, max_size=16)


@settings(deadline=None, max_examples=20)
@given(STORIES, st.integers(1, 4), st.integers(1, 6))
def test_every_row_is_what_its_configuration_finds(story: list[bool], fire: int, page: int) -> None:
    readings = [(starved if bad else well)(number) for number, bad in enumerate(story, 1)]
    config = DetectorConfig(fire_after_turns=fire, page_after_turns=page)
    with Sweep(config, {"fire_after_turns": (1, 2, 3, 4)}, 5) as sweep:
        own = backtest(sweep.keep(iter(readings)), config)
        rows = sweep.rows(own, Directory())
    for row in rows:
        value = int(row.setting["fire_after_turns"] or 0)
        expected = backtest(readings, dataclasses.replace(config, fire_after_turns=value))
        assert (row.findings, row.pages) == (expected.by_severity(), len(expected.pages()))
    assert [row.setting["fire_after_turns"] for row in rows if row.current] == [fire]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", numeric_settings())
def test_every_number_of_the_configuration_can_be_swept(key: str) -> None:
    value = 1
    ((setting, config),) = grid(DetectorConfig(), {key: (value,)})
    assert setting == {key: value}
    assert config.declared(key, "s", "a", "m") == value if not hasattr(config, key) else getattr(config, key) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fire_after_turn=1", "did you mean fire_after_turns"),
        ("fire_after_turns=1.5", "must be a whole number"),
        ("page_deficit_ratio=1.5", "ratio"),
        ("fire_after_turns=0", "positive"),
        ("fire_after_turns=nan", "positive"),
        ("fire_after_turns=", "KEY=NUMBER,NUMBER"),
        ("fire_after_turns", "KEY=NUMBER,NUMBER"),
        ("retriever_tools=1", "no such number"),
        ("fire_after_turns=" + ",".join(map(str, range(1, MAX_SETTINGS + 2))), "at most"),
    ],
)
def test_a_wrong_sweep_is_refused_with_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        grid(DetectorConfig(), parse_sweep([text]))


def test_a_key_is_swept_once() -> None:
    with pytest.raises(ConfigError, match="swept twice"):
        parse_sweep(["loop_calls=1", "loop_calls=2"])


def test_a_number_is_set_before_other_overrides() -> None:
    config = with_setting(with_setting(DetectorConfig(), "requirement_tokens", 10), "requirement_tokens", 20)
    assert config.declared("requirement_tokens", None, None, None) == 20
