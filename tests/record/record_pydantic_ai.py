"""Record the story with pydantic-ai and its own OpenTelemetry instrumentation (content included)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation, ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from tests.record import record_pydantic_ai_stories, story
from tests.record.capture import Capture, write_truth
from tests.record.recording import EXAMPLES, FIXTURES
from tests.record.server import ModelServer, Scenario
from tests.record.tools import asynchronous
from tests.record.wire import count_tokens

__all__ = ["record"]

History = list[ModelMessage]

_CEILING = "lowwater.context.ceiling_tokens"
_MEMBER_OUTPUT = 300


def record(examples: Path = EXAMPLES, truths: Path = FIXTURES) -> list[Path]:
    """Record the examples and the common stories; the trace files that were written."""
    recordings = (
        ("incident", _incident, (story.research(),), {"agent": "incident-researcher", "expected": "silent_starvation"}),
        ("healthy", _healthy, (story.handover(),), {"agent": "handover-writer", "expected": None}),
        ("fanout", _fanout, (story.lead(), *map(story.auditor, story.AUDITED)), {"members": "service-auditor"}),
    )
    paths = [_record(name, run, scenarios, facts, examples, truths) for name, run, scenarios, facts in recordings]
    return paths + record_pydantic_ai_stories.record()


def _record(
    name: str,
    run: Callable[[ModelServer, Capture], Coroutine[Any, Any, None]],
    scenarios: Sequence[Scenario],
    facts: Mapping[str, Any],
    examples: Path,
    truths: Path,
) -> Path:
    capture = Capture(name)
    with ModelServer(scenarios) as server:
        asyncio.run(run(server, capture))
    path = capture.write(examples)
    declared, output = (story.POOL, _MEMBER_OUTPUT) if name == "fanout" else (story.DECLARED, story.OUTPUT_TOKENS)
    write_truth(
        truths / f"{name}.truth.json",
        server.truth(),
        framework=f"pydantic-ai {version('pydantic-ai-slim')}",
        declared=dict(declared),
        output_reservation_tokens=output,
        **facts,
    )
    return path


async def _incident(server: ModelServer, capture: Capture) -> None:
    agent = _agent(
        server,
        capture.provider("incident-desk"),
        "research",
        "incident-researcher",
        story.RESEARCH_PROMPT,
        ModelSettings(max_tokens=story.OUTPUT_TOKENS),
        ProcessHistory(_drop_old_notes),
    )
    with _declared(story.DECLARED):
        await agent.run(story.RESEARCH_TASK)


async def _healthy(server: ModelServer, capture: Capture) -> None:
    agent = _agent(
        server,
        capture.provider("shift-desk"),
        "handover",
        "handover-writer",
        story.HANDOVER_PROMPT,
        ModelSettings(max_tokens=story.OUTPUT_TOKENS),
        ProcessHistory(_release_old_results),
    )
    with _declared(story.DECLARED):
        await agent.run(story.HANDOVER_TASK)


async def _fanout(server: ModelServer, capture: Capture) -> None:
    provider = capture.provider("audit")
    settings = ModelSettings(max_tokens=_MEMBER_OUTPUT)
    lead = _agent(server, provider, "lead", "audit-lead", story.LEAD_PROMPT, settings, tools=False)

    async def audit(service: str) -> str:
        member = _agent(server, provider, f"audit-{service}", "service-auditor", story.AUDITOR_PROMPT, settings)
        result = await member.run(story.AUDITOR_TASK.format(service=service))
        return result.output

    @lead.tool_plain
    async def audit_services(services: list[str]) -> str:
        """Send one auditor to each service, all at once, and return their reports.

        Args:
            services: names of the services.
        """
        with _declared(story.POOL):
            return "\n".join(await asyncio.gather(*map(audit, services)))

    with _declared({_CEILING: story.POOL[_CEILING]}):
        await lead.run(story.LEAD_TASK)


def _agent(
    server: ModelServer,
    provider: TracerProvider,
    scenario: str,
    name: str,
    prompt: str,
    settings: ModelSettings,
    *capabilities: Any,
    tools: bool = True,
) -> Agent[None, str]:
    model = OpenAIChatModel(
        story.MODEL, provider=OpenAIProvider(base_url=f"{server.url(scenario)}/v1", api_key="unused"), settings=settings
    )
    instrumentation = InstrumentationSettings(
        tracer_provider=provider, include_content=True, include_model_request_parameters=False
    )
    return Agent(
        model,
        name=name,
        instructions=prompt,
        tools=list(map(asynchronous, story.TOOLS)) if tools else [],
        capabilities=[Instrumentation(instrumentation), *capabilities],
    )


@contextmanager
def _declared(values: Mapping[str, int | str]) -> Iterator[None]:
    """What an operator declares, carried by the baggage to every span inside."""
    current = context.get_current()
    for key, value in values.items():
        current = baggage.set_baggage(key, value, current)
    token = context.attach(current)
    try:
        yield
    finally:
        context.detach(token)


# --- prompt assemblers -----------------------------------------------------------------------------------------------


async def _drop_old_notes(messages: History) -> History:
    """Keep the prompt within its budget by dropping the oldest notes. Tool results are pinned: that is the fault."""
    kept = list(messages)
    excess = sum(map(_tokens, kept)) - (story.BUDGET_TOKENS - _OVERHEAD_TOKENS)
    for index, message in enumerate(kept[:-2]):
        if excess <= 0:
            break
        if isinstance(message, ModelResponse) and any(isinstance(part, TextPart) for part in message.parts):
            shorter = dataclasses.replace(
                message, parts=[part for part in message.parts if not isinstance(part, TextPart)]
            )
            excess -= _tokens(message) - _tokens(shorter)
            kept[index] = shorter
    return kept


_OVERHEAD_TOKENS = 625
"""Instructions and tool schemas of the researcher, as its assembler assumes them."""


async def _release_old_results(messages: History) -> History:
    """Keep the last three tool results and let go of the ones before: each can be had again by the same call."""
    kept, results = list(messages), 0
    for index, message in reversed(list(enumerate(messages))):
        if not isinstance(message, ModelRequest) or not any(isinstance(part, ToolReturnPart) for part in message.parts):
            continue
        results += 1
        if results > _KEPT_RESULTS:
            kept[index] = dataclasses.replace(message, parts=list(map(_released, message.parts)))
    return kept


_KEPT_RESULTS = 3


def _released(part: ModelRequestPart) -> ModelRequestPart:
    if isinstance(part, ToolReturnPart):
        return ToolReturnPart(part.tool_name, "(released)", part.tool_call_id)
    return part


def _tokens(message: ModelMessage) -> int:
    """What the assembler counts of one message."""
    total = 0
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            total += count_tokens(f"{part.tool_name} {part.args_as_json_str()}")
        elif isinstance(part, TextPart | UserPromptPart | ToolReturnPart):
            total += count_tokens(str(part.content))
    return total
