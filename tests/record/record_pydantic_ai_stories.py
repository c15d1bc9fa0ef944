"""The common stories with pydantic-ai: a streamed run, subagents behind a tool, and a history that is summed up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, RunContext, capture_run_messages
from pydantic_ai.capabilities import Instrumentation, ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from tests.record import common, story
from tests.record.recording import Stage, record_stories
from tests.record.tools import asynchronous

__all__ = ["record"]

_SUMMARIZER = "log-summarizer"

History = list[ModelMessage]


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    return record_stories(
        "pydantic-ai",
        lambda stage: asyncio.run(_play(stage)),
        framework=f"pydantic-ai {version('pydantic-ai-slim')}",
        instrumentation="its own",
        content_switch="on by default; `InstrumentationSettings(include_content=False)`",
        scenarios=partial(common.scenarios, summarizer=_SUMMARIZER),
    )


async def _play(stage: Stage) -> None:
    for service, run in (("desk", _desk), ("survey", _survey), ("log", _log)):
        await run(stage, stage.capture.provider(service))


async def _desk(stage: Stage, provider: TracerProvider) -> None:
    agent = _agent(stage, provider, "desk", common.DESK, *map(asynchronous, story.TOOLS))
    history = await _streamed(agent, common.DESK.task, [])
    await _streamed(agent, common.DESK_FOLLOW_UP, history)


async def _streamed(agent: Agent[None, str], task: str | None, history: History) -> History:
    """Run to the end, from where it was refused for its rate again; the whole history."""
    while True:
        with capture_run_messages() as messages:
            try:
                return (await agent.run(task, message_history=history, event_stream_handler=_read)).all_messages()
            except ModelHTTPError as error:
                if common.BUDGET_REFUSAL in str(error.body):
                    return history
                task, history = None, list(messages)


async def _read(context: RunContext[None], events: AsyncIterable[Any]) -> None:
    async for _ in events:
        pass


async def _survey(stage: Stage, provider: TracerProvider) -> None:
    tools = tuple(map(asynchronous, (story.query_metrics, story.search_logs)))

    async def read_service(service: str) -> str:
        reader = _agent(stage, provider, f"survey-{service}", common.READER, *tools)
        return (await reader.run(common.READER.task.format(service=service))).output

    read_service.__doc__ = common.SURVEY_TOOL_DOC
    await _agent(stage, provider, "survey", common.SURVEY_LEAD, read_service).run(common.SURVEY_LEAD.task)


async def _log(stage: Stage, provider: TracerProvider) -> None:
    model, read = common.SMALL_MODEL, asynchronous(common.read_journal)
    summarizer = _agent(stage, provider, "log", common.LOG, model=model, name=_SUMMARIZER)

    async def compact(messages: History) -> History:
        answers = [message for message in messages if isinstance(message, ModelResponse)]
        if not answers or answers[-1].usage.input_tokens < common.LOG_TRIGGER_TOKENS:
            return messages
        summary = (await summarizer.run(common.SUMMARY_REQUEST, message_history=messages)).output
        return [ModelRequest([UserPromptPart(f"{common.LOG.task}\n\nWhat you know so far: {summary}")])]

    await _agent(stage, provider, "log", common.LOG, read, model=model, capability=ProcessHistory(compact)).run(
        common.LOG.task
    )


def _agent(
    stage: Stage,
    provider: TracerProvider,
    scenario: str,
    role: common.Role,
    *tools: Callable[..., Any],
    model: str = common.MODEL,
    name: str | None = None,
    capability: Any = None,
) -> Agent[None, str]:
    instrumentation = InstrumentationSettings(tracer_provider=provider, include_content=stage.content)
    # The application retries itself: the client's own retries have no spans.
    client = AsyncOpenAI(base_url=stage.openai_url(scenario), api_key="unused", max_retries=0)
    return Agent(
        OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client)),
        name=name or role.name,
        instructions=role.prompt,
        tools=list(tools),
        model_settings=ModelSettings(max_tokens=common.OUTPUT_TOKENS),
        capabilities=[Instrumentation(instrumentation), *([capability] if capability else [])],
    )
