"""The common stories as an application plays them that uses no framework: with a client and loops of its own.

The application's own spans are there, one per request and one per reader; nothing else than the client is instrumented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from opentelemetry.trace import Tracer
from tests.record import common, story
from tests.record.tools import survey_tool

__all__ = ["STORIES", "Agent", "MakeAgent"]


class Agent(Protocol):
    """A loop over tools that runs the tools of one answer at once."""

    def run(self, task: str) -> str:
        """Work until an answer calls no tool; its text."""


class MakeAgent(Protocol):
    """Makes an agent with a client of its own."""

    def __call__(
        self, scenario: str, role: common.Role, tools: tuple[Callable[..., str], ...], **options: Any
    ) -> Agent:
        """An agent of a scenario of the server.

        Args:
            scenario: whom the client asks.
            role: of the agent.
            tools: plain functions.
            options: ``stream``; ``compact_from_tokens``, the prompt from which it asks for a summary and goes on from it.
        """


IsNoBudget = Callable[[Exception], bool]
"""Whether a client's error is a refusal because the budget is spent."""


def _desk(tracer: Tracer, make: MakeAgent, is_no_budget: IsNoBudget) -> None:
    agent = make("desk", common.DESK, story.TOOLS, stream=True)
    with tracer.start_as_current_span("POST /desk"):
        agent.run(common.DESK.task)
    with tracer.start_as_current_span("POST /desk"):
        try:
            agent.run(common.DESK_FOLLOW_UP)
        except Exception as error:
            if not is_no_budget(error):
                raise


def _survey(tracer: Tracer, make: MakeAgent, is_no_budget: IsNoBudget) -> None:
    # Made before the threads start: a client takes longer than they are apart.
    tools = (story.query_metrics, story.search_logs)
    readers = {service: make(f"survey-{service}", common.READER, tools) for service in common.SURVEYED}

    def read(service: str) -> str:
        with tracer.start_as_current_span(f"read {service}"):
            return readers[service].run(common.READER.task.format(service=service))

    with tracer.start_as_current_span("POST /survey"):
        make("survey", common.SURVEY_LEAD, (survey_tool(read),)).run(common.SURVEY_LEAD.task)


def _log(tracer: Tracer, make: MakeAgent, is_no_budget: IsNoBudget) -> None:
    agent = make("log", common.LOG, (common.read_journal,), compact_from_tokens=common.LOG_TRIGGER_TOKENS)
    with tracer.start_as_current_span("POST /log"):
        agent.run(common.LOG.task)


STORIES: dict[str, Callable[[Tracer, MakeAgent, IsNoBudget], None]] = {"desk": _desk, "survey": _survey, "log": _log}
"""By service."""
