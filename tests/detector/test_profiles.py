"""Where frameworks compact by default."""

from __future__ import annotations

import pytest

from lowwater.detector.profiles import DEFAULT_TRIGGER_RATIO, PROFILES, TriggerProfile, profile_for


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_profile_says_one_thing_and_where_it_was_read(profile: TriggerProfile) -> None:
    stated = (profile.trigger_ratio, profile.trigger_tokens, profile.buffer_tokens)
    assert sum(value is not None for value in stated) == 1
    assert profile.source
    assert all(mark == mark.lower() for mark in profile.marks)
    trigger = profile.trigger_tokens_for(200_000)
    assert trigger is not None
    assert 0 < trigger < 200_000


@pytest.mark.parametrize(
    ("scope", "service", "window", "trigger"),
    [
        ("strands.telemetry.tracer", None, 200_000, 140_000),
        (None, "deepagents", 100_000, 85_000),
        ("com.anthropic.claude_code.tracing", "claude-code", 200_000, 167_000),
        (None, "copilot-cli", 200_000, 129_200),
        (None, "pi", 200_000, 183_616),
        (None, "Hermes-agent", 100_000, 80_000),
    ],
)
def test_triggers_in_the_wild(scope: str | None, service: str | None, window: int, trigger: int) -> None:
    profile = profile_for(scope, service)
    assert profile is not None
    assert profile.trigger_tokens_for(window) == trigger


@pytest.mark.parametrize("service", [None, "", "pipeline", "my-agent", "restrands"])
def test_who_is_not_known_has_no_profile(service: str | None) -> None:
    assert profile_for("opentelemetry.instrumentation.openai", service) is None


def test_a_profile_that_does_not_fit_the_window_says_nothing() -> None:
    absolute = profile_for(None, "langchain-context-editing")
    buffered = profile_for(None, "copilot-cli")
    assert absolute is not None
    assert buffered is not None
    assert absolute.trigger_tokens_for(32_000) is None
    assert buffered.trigger_tokens_for(32_000) is None


def test_the_default_is_no_profile() -> None:
    assert all(profile.trigger_ratio != DEFAULT_TRIGGER_RATIO for profile in PROFILES)
