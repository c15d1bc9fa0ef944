"""Record Strands Agents with its own OpenTelemetry instrumentation. Its messages are events of the spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry import trace
from strands import Agent, ModelRetryStrategy, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.models.openai import OpenAIModel
from strands.telemetry import tracer
from strands.types.exceptions import ModelThrottledException
from tests.record import common, story
from tests.record.capture import Switch
from tests.record.recording import Stage, environment, record_stories

__all__ = ["record"]

_SWITCH = "OTEL_SEMCONV_STABILITY_OPT_IN"
_REDACTED = "gen_ai_unredacted_attributes="
"""No attribute is left as it is."""

_SUMMARY_REQUEST = "Please summarize this conversation."
_RECENT_MESSAGES = 2
_WINDOW_TOKENS = 8_192


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    switch = Switch()
    trace.set_tracer_provider(switch)

    def play(stage: Stage) -> None:
        with environment(**{_SWITCH: "" if stage.content else _REDACTED}):
            tracer._tracer_instance = None  # it reads the switch once in a process
            for service, run in (("desk", _desk), ("survey", _survey), ("log", _log)):
                switch.target = stage.capture.provider(service)
                asyncio.run(run(stage))

    return record_stories(
        "strands",
        play,
        framework=f"strands-agents {version('strands-agents')}",
        instrumentation="its own",
        content_switch=f"on by default; `{_SWITCH}={_REDACTED}`",
        scenarios=lambda: common.scenarios(_SUMMARY_REQUEST),
    )


async def _desk(stage: Stage) -> None:
    agent = _agent(stage, "desk", common.DESK, story.TOOLS)
    await agent.invoke_async(common.DESK.task)
    try:
        await agent.invoke_async(common.DESK_FOLLOW_UP)
    except ModelThrottledException as error:
        if common.BUDGET_REFUSAL not in str(error):
            raise


async def _survey(stage: Stage) -> None:
    async def read_service(service: str) -> str:
        reader = _agent(stage, f"survey-{service}", common.READER, (story.query_metrics, story.search_logs))
        return str(await reader.invoke_async(common.READER.task.format(service=service)))

    read_service.__doc__ = common.SURVEY_TOOL_DOC
    lead = _agent(stage, "survey", common.SURVEY_LEAD, (read_service,))
    await lead.invoke_async(common.SURVEY_LEAD.task)


async def _log(stage: Stage) -> None:
    manager = SummarizingConversationManager(
        summary_ratio=0.8,
        preserve_recent_messages=_RECENT_MESSAGES,
        proactive_compression={"compression_threshold": common.LOG_TRIGGER_TOKENS / _WINDOW_TOKENS},
    )
    keeper = _agent(stage, "log", common.LOG, (common.read_journal,), common.SMALL_MODEL, conversation_manager=manager)
    await keeper.invoke_async(common.LOG.task)


def _agent(
    stage: Stage,
    scenario: str,
    role: common.Role,
    tools: tuple[Callable[..., Any], ...],
    model: str = common.MODEL,
    **options: Any,
) -> Agent:
    return Agent(
        model=_model(stage, scenario, model),
        name=role.name,
        system_prompt=role.prompt,
        tools=list(map(tool, tools)),
        callback_handler=None,
        retry_strategy=ModelRetryStrategy(max_attempts=3, initial_delay=0),
        **options,
    )


def _model(stage: Stage, scenario: str, name: str) -> OpenAIModel:
    # The client's own retries would hide a refusal.
    client = {"base_url": stage.openai_url(scenario), "api_key": "unused", "max_retries": 0}
    return OpenAIModel(
        client_args=client,
        model_id=name,
        params={"max_tokens": common.OUTPUT_TOKENS},
        context_window_limit=_WINDOW_TOKENS if name == common.SMALL_MODEL else None,
    )
