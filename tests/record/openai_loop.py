"""Agents written by hand on OpenAI's client: what applications do that use no framework.

The application's own spans are there, one per request and one per reader; nothing else than the client is instrumented.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import openai
from opentelemetry.trace import Tracer, TracerProvider
from tests.record import common, story
from tests.record.recording import Stage
from tests.record.tools import at_once, described, survey_tool

__all__ = ["play"]

Instrumented = Callable[[str], tuple[TracerProvider, Callable[[], object]]]
"""Instruments the client for a service; gives its tracer provider, and how to undo it."""


def play(stage: Stage, instrumented: Instrumented) -> None:
    """Play all stories."""
    for service, run in (("desk", _desk), ("survey", _survey), ("log", _log)):
        provider, undo = instrumented(service)
        try:
            run(stage, provider.get_tracer("shop"))
        finally:
            undo()


def _desk(stage: Stage, tracer: Tracer) -> None:
    client = _client(stage, "desk")
    agent = _Agent(client, common.DESK, story.TOOLS, stream=True)
    with tracer.start_as_current_span("POST /desk"):
        agent.run(common.DESK.task)
    with tracer.start_as_current_span("POST /desk"):
        try:
            agent.run(common.DESK_FOLLOW_UP)
        except openai.RateLimitError as error:
            if error.code != common.BUDGET_REFUSAL:
                raise


def _survey(stage: Stage, tracer: Tracer) -> None:
    # Made before the threads start: it takes longer than they are apart.
    clients = {service: _client(stage, f"survey-{service}") for service in common.SURVEYED}

    def read(service: str) -> str:
        with tracer.start_as_current_span(f"read {service}"):
            return _Agent(clients[service], common.READER, (story.query_metrics, story.search_logs)).run(
                common.READER.task.format(service=service)
            )

    with tracer.start_as_current_span("POST /survey"):
        _Agent(_client(stage, "survey"), common.SURVEY_LEAD, (survey_tool(read),)).run(common.SURVEY_LEAD.task)


def _log(stage: Stage, tracer: Tracer) -> None:
    agent = _Agent(
        _client(stage, "log"),
        common.LOG,
        (common.read_journal,),
        model=common.SMALL_MODEL,
        compact_from_tokens=common.LOG_TRIGGER_TOKENS,
    )
    with tracer.start_as_current_span("POST /log"):
        agent.run(common.LOG.task)


def _client(stage: Stage, scenario: str) -> openai.OpenAI:
    # The application retries itself: the client's own retries would hide a refusal from its instrumentation.
    return openai.OpenAI(base_url=stage.openai_url(scenario), api_key="unused", max_retries=0)


class _Agent:
    """A loop over tools that runs the tools of one answer at once."""

    def __init__(
        self,
        client: openai.OpenAI,
        role: common.Role,
        tools: tuple[Callable[..., str], ...],
        *,
        model: str = common.MODEL,
        stream: bool = False,
        compact_from_tokens: int | None = None,
    ) -> None:
        self._client, self._model, self._stream = client, model, stream
        self._task = ""
        self._tools = {tool.__name__: tool for tool in tools}
        self._messages: list[Any] = [{"role": "system", "content": role.prompt}]
        self._compact_from_tokens = compact_from_tokens

    def run(self, task: str) -> str:
        """Work until an answer calls no tool; that answer."""
        self._task = task
        self._messages.append({"role": "user", "content": task})
        while True:
            answer, prompt_tokens = self._ask()
            self._messages.append(answer)
            if not answer.get("tool_calls"):
                return str(answer["content"])
            self._messages += self._results(answer["tool_calls"])
            if self._compact_from_tokens is not None and prompt_tokens >= self._compact_from_tokens:
                self._compact()

    def _results(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        def result(call: Mapping[str, Any]) -> dict[str, Any]:
            function = call["function"]
            text = self._tools[function["name"]](**json.loads(function["arguments"]))
            return {"role": "tool", "tool_call_id": call["id"], "content": text}

        return at_once([partial(result, call) for call in calls])

    def _compact(self) -> None:
        """Ask for a summary and go on from it."""
        self._messages.append({"role": "user", "content": common.SUMMARY_REQUEST})
        summary, _ = self._ask()
        task = f"{self._task}\n\nWhat you know so far: {summary['content']}"
        self._messages = [self._messages[0], {"role": "user", "content": task}]

    def _ask(self) -> tuple[dict[str, Any], int]:
        """The next answer and the tokens of its prompt; a call that is refused for its rate is done again."""
        arguments = {
            "model": self._model,
            "messages": list(self._messages),
            "tools": [_schema(tool) for tool in self._tools.values()],
            "max_tokens": common.OUTPUT_TOKENS,
        }
        while True:
            try:
                return self._streamed(arguments) if self._stream else self._whole(arguments)
            except openai.RateLimitError as error:
                if error.code != "rate_limit_exceeded":
                    raise

    def _whole(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        response = self._client.chat.completions.create(**arguments)
        message = response.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        return message, response.usage.prompt_tokens if response.usage else 0

    def _streamed(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        text, calls, tokens = "", {}, 0
        for chunk in self._client.chat.completions.create(
            **arguments, stream=True, stream_options={"include_usage": True}
        ):
            tokens = chunk.usage.prompt_tokens if chunk.usage else tokens
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    calls[call.index] = {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.function.name, "arguments": call.function.arguments},
                    }
        message: dict[str, Any] = {"role": "assistant", "content": text}
        return message | ({"tool_calls": list(calls.values())} if calls else {}), tokens


def _schema(tool: Callable[..., str]) -> dict[str, Any]:
    return {"type": "function", "function": described(tool)}
