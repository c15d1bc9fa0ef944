"""Recordings of real frameworks: what lowwater reads is what the server that fed them counted.

One table of laws for all of them. What an instrumentation does not write is a limit with a reason, and each limit is
checked to hold: one that has gone must be taken off the list.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.detector.recordings import DOCUMENT, LIMITS, RECORDINGS, Recording, document, error, service

from lowwater.detector.findings import Kind

every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
either_way = pytest.mark.parametrize("content", [True, False], ids=["content", "content-free"])


def answered(recording: Recording) -> list[dict[str, Any]]:
    unseen = "summary" in recording.limits
    return [call for call in recording.calls if call["status"] == 200 and not (unseen and call.get("summary"))]


def test_there_are_recordings_and_their_limits_are_known() -> None:
    assert RECORDINGS
    for recording in RECORDINGS:
        assert recording.limits.keys() <= LIMITS.keys()
        assert all(recording.limits.values())


@every_recording
def test_the_stories_hold_what_they_are_for(recording: Recording) -> None:
    calls = recording.calls
    assert any(call.get("stream") for call in calls)
    assert any(call["consumers"]["retrieval"] for call in calls)
    assert any(call.get("summary") for call in calls)
    assert {call["status"] for call in calls} == {200, 429}


@every_recording
@either_way
def test_every_call_is_counted_once(recording: Recording, content: bool) -> None:
    known = answered(recording)
    seen = recording.heard(content=content).answered()
    assert Counter((entry.service, entry.input_tokens) for entry in seen) == Counter(
        (service(call), call["prompt_tokens"]) for call in known
    )
    outputs = [sum(entry.output_tokens or 0 for entry in seen), sum(call["completion_tokens"] for call in known)]
    streamed = sum(bool(call.get("stream")) for call in known)
    assert outputs[0] - outputs[1] == (streamed if "output_tokens" in recording.limits else 0)


@every_recording
@either_way
def test_each_consumer_has_its_share(recording: Recording, content: bool) -> None:
    for entry, call, off in recording.judged(content=content):
        assert off <= recording.tolerance(content=content), (call["scenario"], call["call"], call["consumers"], entry)


@every_recording
@pytest.mark.parametrize(
    "limit", ["tools", "retrieval", "retrieval_content_free", "claims_content_free", "summaries_content_free"]
)
def test_a_limit_of_the_split_is_one(recording: Recording, limit: str) -> None:
    """Without it, the consumers could not be told as well as they must."""
    content = not limit.endswith("content_free")
    if limit in recording.limits:
        groups = recording.groups(content=content, but=limit)
        errors = [error(entry, call, groups) for entry, call in recording.pairs(content=content)]
        assert max(errors) > recording.tolerance(content=content)


@every_recording
@either_way
def test_agents_and_models_have_their_names(recording: Recording, content: bool) -> None:
    for entry, call in recording.pairs(content=content):
        assert entry.model == call["model"]
        assert entry.agent == (None if "agents" in recording.limits else call["agent"])


@every_recording
@either_way
def test_the_output_that_a_request_asks_for_is_reserved(recording: Recording, content: bool) -> None:
    expected = None if "output" in recording.limits else recording.story["output_reservation_tokens"]
    assert {entry.reserved.output for entry, _ in recording.pairs(content=content)} == {expected}


@every_recording
@either_way
def test_compactions_are_found_and_none_is_invented(recording: Recording, content: bool) -> None:
    summaries = Counter(service(call) for call in recording.calls if call.get("summary"))
    limited = "compaction" in recording.limits or (not content and "compaction_content_free" in recording.limits)
    found = Counter(entry.service for entry in recording.heard(content=content).entries if entry.compacted)
    assert found == (Counter() if limited else summaries)


@every_recording
@either_way
def test_the_fan_out_is_found_and_none_is_invented(recording: Recording, content: bool) -> None:
    members = len({call["scenario"] for call in recording.calls if str(call["scenario"]).startswith("survey-")})
    widths = [(pool.service, pool.width, pool.members) for pool in recording.heard(content=content).pools]
    assert widths == ([] if "fanout" in recording.limits else [("survey", members, members)])


@every_recording
@either_way
def test_refusals_are_told_apart(recording: Recording, content: bool) -> None:
    refused = [call for call in recording.calls if call["status"] != 200]
    heard = recording.heard(content=content)
    failed = [entry for entry in heard.entries if entry.input_tokens is None]
    classes = {item.evidence["class"] for item in heard.findings if item.kind is Kind.REJECTION}
    if "refusals" in recording.limits:
        assert not failed
        assert not classes
        return
    assert len(failed) == len(refused) or "retries" in recording.limits
    known = {"spend_cap"} if "retries" in recording.limits else {"rate_limit", "spend_cap"}
    assert classes == (set() if "refusal_classes" in recording.limits else known)


@every_recording
def test_nothing_else_is_found_in_agents_that_are_well(recording: Recording) -> None:
    kinds = {item.kind for item in recording.full.findings} | {item.kind for item in recording.content_free.findings}
    assert kinds <= {Kind.REJECTION}


def test_the_document_is_what_was_measured() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: python tests/detector/recordings.py"
