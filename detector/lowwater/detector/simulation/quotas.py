"""Calls that are refused, and clients that try again: limits of rate, budgets, overload, and compaction debt."""

from __future__ import annotations

import random

from lowwater.detector.simulation.agents import SECOND_NS, AgentLoop
from lowwater.detector.simulation.model import LlmCall, Refusal

__all__ = ["REFUSALS", "refuse"]

REFUSALS: dict[str, Refusal] = {
    "rate_limit": Refusal(429, "RateLimitError", "Rate limit reached for requests per min", "rate_limit_exceeded", 2.0),
    "token_quota": Refusal(429, "RateLimitError", "You have used up your quota of tokens per day", "quota_exceeded"),
    "spend_cap": Refusal(
        400, "BudgetExceededError", "Budget has been exceeded: the key's max_budget", "budget_exceeded"
    ),
    "governor": Refusal(429, "BudgetExceededError", "Token budget of the agent exceeded", "budget_exceeded"),
    "broken": Refusal(None, "APIConnectionError", "Connection error."),
    "overload": Refusal(529, "OverloadedError", "Overloaded", "overloaded_error"),
    "context_length": Refusal(
        400, "BadRequestError", "This model's maximum context length is exceeded", "context_length_exceeded"
    ),
}
"""What client libraries raise, by what refused."""


def refuse(loop: AgentLoop, draw: random.Random, name: str, times: int, *, backoff_seconds: float = 1.0) -> list[int]:
    """Have the loop's next call refused so many times, with growing pauses; returns the refused calls' span ids."""
    refused = []
    for attempt in range(1, times + 1):
        start_ns = loop.now_ns
        loop.pause((0.05, 0.3))
        call = LlmCall(
            span_id=loop.ids.span(),
            start_ns=start_ns,
            end_ns=loop.now_ns,
            model=loop.model,
            prompt=loop.prompt(),
            max_output_tokens=loop.output_tokens,
            refusal=REFUSALS[name],
            attempt=attempt,
        )
        loop.agent.steps.append(call)
        refused.append(call.span_id)
        loop.now_ns += int(backoff_seconds * 2 ** (attempt - 1) * draw.uniform(0.8, 1.2) * SECOND_NS)
    return refused
