"""Record the story with pydantic-ai and its own OpenTelemetry instrumentation (content included)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation, ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.record import story
from tests.record.capture import Capture, write_truth
from tests.record.server import ModelServer, count_tokens

__all__ = ["record"]

History = list[ModelMessage]


def record(examples: Path, truths: Path) -> list[Path]:
    """Record all agents; the trace files that were written."""
    return [
        _record("incident", _incident, (story.research(), story.handover()), examples, truths),
        _record("fanout", _fanout, (story.lead(), *map(story.auditor, story.AUDITED)), examples, truths),
    ]


def _record(name: str, run: Callable[[ModelServer, Capture], Any], scenarios: Any, examples: Path, truths: Path) -> Path:
    capture, path = Capture(), examples / f"{name}.otlp.jsonl"
    with ModelServer(scenarios) as server:
        asyncio.run(run(server, capture))
    spans = capture.write(path)
    facts = {"framework": f"pydantic-ai {version('pydantic-ai-slim')}", "spans": spans, **_FACTS[name]}
    write_truth(truths / f"{name}.truth.json", server.truth(), **facts)
    return path


_FACTS: Mapping[str, dict[str, Any]] = {
    "incident": {
        "declared": dict(story.DECLARED),
        "output_reservation_tokens": story.OUTPUT_TOKENS,
        "starves": "incident-researcher",
        "healthy": "handover-writer",
    },
    "fanout": {"declared": dict(story.POOL), "members": "service-auditor", "width": len(story.AUDITED)},
}


async def _incident(server: ModelServer, capture: Capture) -> None:
    settings = ModelSettings(max_tokens=story.OUTPUT_TOKENS)
    with _declared(story.DECLARED):
        research = _agent(
            server, capture.provider("incident-desk"), "research", "incident-researcher", story.RESEARCH_PROMPT, settings,
            ProcessHistory(_drop_old_notes),
        )  # fmt: skip
        await research.run(story.RESEARCH_TASK)
        handover = _agent(
            server, capture.provider("shift-desk"), "handover", "handover-writer", story.HANDOVER_PROMPT, settings,
            ProcessHistory(_release_old_results),
        )  # fmt: skip
        await handover.run(story.HANDOVER_TASK)


async def _fanout(server: ModelServer, capture: Capture) -> None:
    provider = capture.provider("audit")
    settings = ModelSettings(max_tokens=300)
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
        tools=list(map(_asynchronous, story.TOOLS)) if tools else [],
        capabilities=[Instrumentation(instrumentation), *capabilities],
    )


def _asynchronous(tool: Callable[..., str]) -> Callable[..., Any]:
    """The tool as a coroutine: threads would make the order of spans a matter of luck."""
    import functools

    @functools.wraps(tool)
    async def call(**arguments: Any) -> str:
        return tool(**arguments)

    return call


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


# --- prompt assemblers -------------------------------------------------------------------------------------------------


async def _drop_old_notes(messages: History) -> History:
    """Keep the prompt within its budget by dropping the oldest notes. Tool results are pinned: that is the fault."""
    kept = list(messages)
    excess = sum(map(_tokens, kept)) - (story.BUDGET_TOKENS - _OVERHEAD_TOKENS)
    for index, message in enumerate(kept[:-2]):
        if excess <= 0:
            break
        if isinstance(message, ModelResponse) and any(isinstance(part, TextPart) for part in message.parts):
            shorter = dataclasses.replace(message, parts=[part for part in message.parts if not isinstance(part, TextPart)])
            excess -= _tokens(message) - _tokens(shorter)
            kept[index] = shorter
    return kept


_OVERHEAD_TOKENS = 625
"""Instructions and tool schemas of the researcher, as its assembler assumes them."""


async def _release_old_results(messages: History) -> History:
    """Keep the last three tool results and let go of the ones before: each can be had again by the same call."""
    results = [index for index, message in enumerate(messages) if isinstance(message, ModelRequest) and _has_result(message)]
    kept = list(messages)
    for index in results[:-3]:
        message = messages[index]
        parts = [
            dataclasses.replace(part, content="(released)") if isinstance(part, ToolReturnPart) else part
            for part in message.parts
        ]
        kept[index] = dataclasses.replace(message, parts=parts)
    return kept


def _has_result(message: ModelMessage) -> bool:
    return any(isinstance(part, ToolReturnPart) for part in message.parts)


def _tokens(message: ModelMessage) -> int:
    """What the assembler counts of one message."""
    total = 0
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            total += count_tokens(f"{part.tool_name} {part.args_as_json_str()}")
        elif isinstance(part, TextPart | UserPromptPart | ToolReturnPart):
            total += count_tokens(str(part.content))
    return total
