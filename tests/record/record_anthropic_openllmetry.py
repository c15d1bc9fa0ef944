"""Record agents written by hand on Anthropic's client, with OpenLLMetry's instrumentation of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anthropic
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from tests.record import common
from tests.record.by_hand import STORIES
from tests.record.capture import Switch
from tests.record.recording import Stage, environment, record_stories
from tests.record.tools import at_once, described

__all__ = ["record"]

_SWITCH = "TRACELOOP_TRACE_CONTENT"
_SPANS = Switch()


def record() -> list[Path]:
    """Record all stories; the trace files that were written."""
    AnthropicInstrumentor().instrument(tracer_provider=_SPANS)
    return record_stories(
        "anthropic-openllmetry",
        _play,
        framework=f"anthropic {version('anthropic')}",
        instrumentation="opentelemetry-instrumentation-anthropic " + version("opentelemetry-instrumentation-anthropic"),
        content_switch=f"on by default; `{_SWITCH}=false`",
    )


def _play(stage: Stage) -> None:
    def make(scenario: str, role: common.Role, tools: tuple[Callable[..., str], ...], **options: Any) -> _Agent:
        return _Agent(_client(stage, scenario), role, tools, **options)

    with environment(**{_SWITCH: str(stage.content).lower()}):
        for service, run in STORIES.items():
            _SPANS.target = stage.capture.provider(service)
            run(_SPANS.target.get_tracer("shop"), make, _is_no_budget)


def _is_no_budget(error: Exception) -> bool:
    return isinstance(error, anthropic.RateLimitError) and common.BUDGET_REFUSAL in str(error)


def _client(stage: Stage, scenario: str) -> anthropic.Anthropic:
    # The application retries itself: the client's own retries would hide a refusal from its instrumentation.
    return anthropic.Anthropic(base_url=stage.server.url(scenario), api_key="unused", max_retries=0)


class _Agent:
    """A loop over tools that runs the tools of one answer at once."""

    def __init__(
        self,
        client: anthropic.Anthropic,
        role: common.Role,
        tools: tuple[Callable[..., str], ...],
        *,
        stream: bool = False,
        compact_from_tokens: int | None = None,
    ) -> None:
        self._client, self._role, self._stream = client, role, stream
        self._tools = {tool.__name__: tool for tool in tools}
        self._messages: list[Any] = []
        self._compact_from_tokens = compact_from_tokens

    def run(self, task: str) -> str:
        """Work until an answer calls no tool; its text."""
        self._messages.append({"role": "user", "content": task})
        while True:
            blocks, prompt_tokens = self._ask()
            self._messages.append({"role": "assistant", "content": blocks})
            calls = [block for block in blocks if block["type"] == "tool_use"]
            if not calls:
                return str(blocks[0]["text"])
            self._messages.append({"role": "user", "content": self._results(calls)})
            if self._compact_from_tokens is not None and prompt_tokens >= self._compact_from_tokens:
                self._compact(task)

    def _results(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        def result(call: dict[str, Any]) -> dict[str, Any]:
            text = self._tools[call["name"]](**call["input"])
            return {"type": "tool_result", "tool_use_id": call["id"], "content": text}

        return at_once([partial(result, call) for call in calls])

    def _compact(self, task: str) -> None:
        """Ask for a summary and go on from it."""
        self._messages[-1]["content"].append({"type": "text", "text": common.SUMMARY_REQUEST})
        blocks, _ = self._ask()
        self._messages = [{"role": "user", "content": f"{task}\n\nWhat you know so far: {blocks[0]['text']}"}]

    def _ask(self) -> tuple[list[dict[str, Any]], int]:
        """The next answer and the tokens of its prompt; a call that is refused for its rate is done again."""
        arguments = {
            "model": common.CLAUDE,
            "system": self._role.prompt,
            "messages": list(self._messages),
            "tools": [_schema(tool) for tool in self._tools.values()],
            "max_tokens": common.OUTPUT_TOKENS,
        }
        while True:
            try:
                return self._streamed(arguments) if self._stream else self._whole(arguments)
            except anthropic.RateLimitError as error:
                if "rate_limit_error" not in str(error):
                    raise

    def _whole(self, arguments: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
        message = self._client.messages.create(**arguments)
        return [block.model_dump(exclude_none=True) for block in message.content], _prompt_tokens(message.usage)

    def _streamed(self, arguments: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
        blocks: list[dict[str, Any]] = []
        tokens, arguments_json = 0, ""
        for event in self._client.messages.create(**arguments, stream=True):
            if event.type == "message_start":
                tokens = _prompt_tokens(event.message.usage)
            elif event.type == "content_block_start":
                blocks.append(event.content_block.model_dump(exclude_none=True))
                arguments_json = ""
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                blocks[-1]["text"] += event.delta.text
            elif event.type == "content_block_delta":
                arguments_json += event.delta.partial_json
            elif event.type == "content_block_stop" and blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads(arguments_json)
        return blocks, tokens


def _prompt_tokens(usage: Any) -> int:
    return int(usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0))


def _schema(tool: Callable[..., str]) -> dict[str, Any]:
    found = described(tool)
    return {"name": found["name"], "description": found["description"], "input_schema": found["parameters"]}
