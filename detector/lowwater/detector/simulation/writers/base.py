"""A writer: the names of one dialect, and what it has no words for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lowwater.detector.simulation.model import Agent, Compaction, LlmCall, ToolRun
from lowwater.detector.simulation.text import text_of
from lowwater.detector.simulation.writers.messages import Content

__all__ = ["Fields", "Writer"]

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the spans of one dialect. An empty name is something that the dialect does not say.

    Attributes:
        scope: instrumentation scope.
        call_name: name of the span of an LLM call, with ``{model}``.
        call: attributes that every LLM call has; likewise ``agent``, ``tool`` and ``retriever``.
        content: writes messages; None for a dialect that never does.
        nests_retriever: a retriever is a span of its own kind, not a tool.
        window: name of the window's size on a call.
    """

    name: str
    scope: str
    call_name: str
    agent_name: str
    tool_name: str
    call: Mapping[str, Any]
    agent: Mapping[str, Any]
    tool: Mapping[str, Any]
    retriever: Mapping[str, Any]
    model: str
    input_tokens: str
    output_tokens: str
    cached_tokens: str = ""
    max_output_tokens: str = ""
    parameters: str = ""
    """A JSON text of the request's parameters, where these have no attributes of their own."""
    arguments: str = ""
    """The arguments of the client's method, a JSON text of messages and limits; it takes the place of the bare messages."""
    response_id: str = ""
    conversation: str = ""
    agent_label: str = ""
    agent_id: str = ""
    agent_on_calls: bool = False
    window: str = ""
    tool_label: str = ""
    tool_call_id: str = ""
    tool_arguments: str = ""
    tool_result: str = ""
    documents: str = ""
    error_type: str = "error.type"
    status_code: str = ""
    content: Content | None = None
    quoted: frozenset[str] = field(default_factory=frozenset)
    """Attributes whose values are JSON texts even where they are plain words."""

    def llm(self, agent: Agent, call: LlmCall, *, content: bool) -> tuple[str, Fields]:
        """Name and attributes of an LLM call."""
        fields: Fields = {**self.call}
        self._put(fields, self.model, call.model)
        if call.refusal is None:
            self._put(fields, self.input_tokens, call.input_tokens)
            self._put(fields, self.output_tokens, call.output_tokens)
            if call.cached_tokens:
                self._put(fields, self.cached_tokens, call.cached_tokens)
            self._put(fields, self.response_id, call.response_id)
        else:
            self._put(fields, self.error_type, call.refusal.error_type)
            self._put(fields, self.status_code, call.refusal.status)
        if call.max_output_tokens is not None:
            self._put(fields, self.max_output_tokens, call.max_output_tokens)
            self._put(fields, self.parameters, json.dumps({"max_tokens": call.max_output_tokens}))
        if agent.reports_window:
            self._put(fields, self.window, agent.model_window_tokens)
        self._whose(fields, agent, on_call=True)
        if content and self.content is not None:
            fields |= self.content(call.prompt, call.answer)
            if self.arguments:
                limit = json.dumps(call.max_output_tokens)
                fields[self.arguments] = f'{{"messages": {fields[self.arguments]}, "max_tokens": {limit}}}'
        return self.call_name.format(model=call.model), fields

    def run_of(self, agent: Agent) -> tuple[str, Fields]:
        """Name and attributes of an agent's own span."""
        fields: Fields = {**self.agent}
        self._whose(fields, agent, on_call=False)
        return self.agent_name.format(agent=agent.name), fields

    def tool_run(self, agent: Agent, run: ToolRun, *, content: bool) -> tuple[str, Fields]:
        """Name and attributes of a tool's or retriever's span."""
        fields: Fields = {**(self.retriever if run.retriever else self.tool)}
        self._put(fields, self.tool_label, run.name)
        self._put(fields, self.tool_call_id, run.arguments.call_id)
        if content:
            self._put(fields, self.tool_arguments, json.dumps({"query": text_of(run.arguments)}))
            texts = [text_of(piece) for piece in run.result]
            self._put(fields, self.tool_result, "\n".join(texts))
            if run.retriever and self.documents:
                for index, text in enumerate(texts):
                    fields[self.documents.format(index=index)] = text
        return self.tool_name.format(tool=run.name), fields

    def compaction(self, agent: Agent, compaction: Compaction) -> tuple[str, Fields]:
        """Name and attributes of a compaction's span: lowwater's own event, which every dialect can carry."""
        return "lowwater.compaction", {
            "resident_before_tokens": compaction.before_tokens,
            "resident_after_tokens": compaction.after_tokens,
            "window_tokens": compaction.window_tokens,
            "trigger": compaction.trigger,
            "outcome": compaction.outcome,
        }

    def _whose(self, fields: Fields, agent: Agent, *, on_call: bool) -> None:
        if agent.conversation:
            self._put(fields, self.conversation, agent.conversation)
        if not on_call or self.agent_on_calls:
            self._put(fields, self.agent_label, agent.name)
            self._put(fields, self.agent_id, agent.id)

    def _put(self, fields: Fields, name: str, value: Any) -> None:
        if name and value not in (None, ""):
            fields[name] = json.dumps(value) if name in self.quoted else value
