"""Where frameworks compact, and the buffer that they keep for it: defaults of the wild, as data.

A declared or reported trigger wins over a profile; without a profile the trigger is `DEFAULT_TRIGGER_RATIO`, which never
pages.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

__all__ = ["DEFAULT_TRIGGER_RATIO", "PROFILES", "TriggerProfile", "profile_for"]

DEFAULT_TRIGGER_RATIO = 0.90
"""Assumed where nothing is known. Most frameworks below start earlier, so it calls few of them late."""


@dataclass(frozen=True, slots=True)
class TriggerProfile:
    """One framework's way of compacting. Exactly one of ratio, tokens and buffer says where it starts.

    Attributes:
        name: the framework.
        marks: prefixes of instrumentation scopes or service names, lower case.
        trigger_ratio: part of the window.
        trigger_tokens: absolute input size, whatever the window.
        buffer_tokens: distance from the end of the window.
        staging_tokens: the buffer that the compaction itself needs, where it is known.
        source: where the value was read.
    """

    name: str
    marks: tuple[str, ...]
    source: str
    trigger_ratio: float | None = None
    trigger_tokens: int | None = None
    buffer_tokens: int | None = None
    staging_tokens: int | None = None

    def trigger_tokens_for(self, window_tokens: int) -> int | None:
        """The input size at which it compacts in a window, None where the profile does not fit it."""
        if self.trigger_ratio is not None:
            return round(self.trigger_ratio * window_tokens)
        if self.buffer_tokens is not None:
            return window_tokens - self.buffer_tokens if self.buffer_tokens < window_tokens else None
        return self.trigger_tokens if self.trigger_tokens is not None and self.trigger_tokens < window_tokens else None


PROFILES: tuple[TriggerProfile, ...] = (
    TriggerProfile("strands", ("strands",), "strands-agents conversation_manager.py: proactive compression", 0.70),
    TriggerProfile("deepagents", ("deepagents",), "deepagents wheel: summarise at 0.85, keep 0.10", 0.85),
    TriggerProfile(
        "langchain context editing", ("langchain-context-editing",), "langchain wheel", trigger_tokens=100_000
    ),
    TriggerProfile(
        "claude code", ("claude-code", "claude_code", "com.anthropic.claude_code"),
        "claude-code#20760, #86863: window less a buffer of 33k to 45k, about 0.83 of 200k", buffer_tokens=33_000,
    ),
    TriggerProfile(
        "anthropic tool clearing", ("anthropic-clear-tool-uses",), "Anthropic documentation, clear_tool_uses default",
        trigger_tokens=100_000,
    ),
    TriggerProfile("copilot cli", ("copilot-cli", "github-copilot-cli"), "copilot-cli#3539", buffer_tokens=70_800),
    TriggerProfile("hermes", ("hermes",), "hermes#2116", 0.80),
    TriggerProfile("jcode", ("jcode",), "jcode#515", 0.80),
    TriggerProfile(
        "pi", ("pi",), "pi-mono coding-agent: compaction reserve", buffer_tokens=16_384
    ),
)  # fmt: skip
"""First match wins. A mark of fewer than four letters must be the whole name."""


@functools.lru_cache(maxsize=4096)
def profile_for(scope: str | None, service: str | None) -> TriggerProfile | None:
    """The profile of the framework that a scope or service names, or None.

    >>> profile_for("strands.telemetry.tracer", None).trigger_ratio
    0.7
    >>> profile_for(None, "pipeline") is None
    True
    """
    names = [name.lower() for name in (scope, service) if name]
    for profile in PROFILES:
        for mark in profile.marks:
            if any(name == mark or (len(mark) > 3 and name.startswith(mark)) for name in names):
                return profile
    return None
