"""Agents written by hand on OpenAI's client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import openai
from opentelemetry.trace import TracerProvider
from tests.record import common
from tests.record.by_hand import STORIES
from tests.record.recording import Stage
from tests.record.tools import at_once, described

__all__ = ["play"]

Instrumented = Callable[[str], tuple[TracerProvider, Callable[[], object]]]
"""Instruments the client for a service; gives its tracer provider, and how to undo it."""


def play(stage: Stage, instrumented: Instrumented) -> None:
    """Play all stories."""

    def make(scenario: str, role: common.Role, tools: tuple[Callable[..., str], ...], **options: Any) -> _Agent:
        model = common.SMALL_MODEL if role is common.LOG else common.MODEL
        return _Agent(_client(stage, scenario), role, tools, model=model, **options)

    for service, run in STORIES.items():
        provider, undo = instrumented(service)
        try:
            run(provider.get_tracer("shop"), make, _is_no_budget)
        finally:
            undo()


def _is_no_budget(error: Exception) -> bool:
    return isinstance(error, openai.RateLimitError) and error.code == common.BUDGET_REFUSAL


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
        model: str,
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
