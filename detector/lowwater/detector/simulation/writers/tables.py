"""One row per dialect. Names: https://opentelemetry.io/docs/specs/semconv/gen-ai/ and the sources of each instrumentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from lowwater.detector.simulation.writers.base import Writer
from lowwater.detector.simulation.writers.messages import (
    chat_json,
    indexed_openinference,
    indexed_prompt,
    parts_json,
)

__all__ = ["WRITERS"]

_OPERATION = "gen_ai.operation.name"

_GEN_AI = Writer(
    name="gen_ai",
    scope="opentelemetry.instrumentation.genai",
    call_name="chat {model}",
    agent_name="invoke_agent {agent}",
    tool_name="execute_tool {tool}",
    call={_OPERATION: "chat", "gen_ai.provider.name": "openai"},
    agent={_OPERATION: "invoke_agent"},
    tool={_OPERATION: "execute_tool", "gen_ai.tool.type": "function"},
    retriever={_OPERATION: "execute_tool", "gen_ai.tool.type": "datastore"},
    model="gen_ai.request.model",
    input_tokens="gen_ai.usage.input_tokens",
    output_tokens="gen_ai.usage.output_tokens",
    cached_tokens="gen_ai.usage.cache_read.input_tokens",
    max_output_tokens="gen_ai.request.max_tokens",
    response_id="gen_ai.response.id",
    conversation="gen_ai.conversation.id",
    agent_label="gen_ai.agent.name",
    agent_id="gen_ai.agent.id",
    agent_on_calls=True,
    window="gen_ai.context.window_size",
    tool_label="gen_ai.tool.name",
    tool_call_id="gen_ai.tool.call.id",
    tool_arguments="gen_ai.tool.call.arguments",
    tool_result="gen_ai.tool.call.result",
    status_code="http.response.status_code",
    content=parts_json,
)

_OPENINFERENCE = Writer(
    name="openinference",
    scope="openinference.instrumentation.openai",
    call_name="ChatCompletion",
    agent_name="{agent}",
    tool_name="{tool}",
    call={"openinference.span.kind": "LLM"},
    agent={"openinference.span.kind": "AGENT"},
    tool={"openinference.span.kind": "TOOL"},
    retriever={"openinference.span.kind": "RETRIEVER"},
    model="llm.model_name",
    input_tokens="llm.token_count.prompt",
    output_tokens="llm.token_count.completion",
    cached_tokens="llm.token_count.prompt_details.cache_read",
    parameters="llm.invocation_parameters",
    conversation="session.id",
    agent_label="agent.name",
    tool_label="tool.name",
    tool_call_id="tool_call.id",
    tool_arguments="input.value",
    tool_result="output.value",
    documents="retrieval.documents.{index}.document.content",
    content=indexed_openinference,
)

_OPENLLMETRY = Writer(
    name="openllmetry",
    scope="opentelemetry.instrumentation.openai.v1",
    call_name="openai.chat",
    agent_name="{agent}.agent",
    tool_name="{tool}.tool",
    call={"llm.request.type": "chat", "gen_ai.system": "OpenAI"},
    agent={"traceloop.span.kind": "agent"},
    tool={"traceloop.span.kind": "tool"},
    retriever={"traceloop.span.kind": "tool"},
    model="gen_ai.request.model",
    input_tokens="gen_ai.usage.input_tokens",
    output_tokens="gen_ai.usage.output_tokens",
    cached_tokens="gen_ai.usage.cache_read_input_tokens",
    max_output_tokens="gen_ai.request.max_tokens",
    response_id="gen_ai.response.id",
    conversation="traceloop.association.properties.session_id",
    agent_label="traceloop.entity.name",
    tool_label="traceloop.entity.name",
    tool_arguments="traceloop.entity.input",
    tool_result="traceloop.entity.output",
    content=indexed_prompt,
)

_VERCEL = Writer(
    name="vercel",
    scope="ai",
    call_name="ai.generateText.doGenerate",
    agent_name="ai.generateText",
    tool_name="ai.toolCall",
    call={"ai.operationId": "ai.generateText.doGenerate"},
    agent={"ai.operationId": "ai.generateText"},
    tool={"ai.operationId": "ai.toolCall"},
    retriever={"ai.operationId": "ai.toolCall"},
    model="ai.model.id",
    input_tokens="ai.usage.inputTokens",
    output_tokens="ai.usage.outputTokens",
    cached_tokens="ai.usage.cachedInputTokens",
    max_output_tokens="ai.settings.maxOutputTokens",
    response_id="ai.response.id",
    conversation="ai.telemetry.metadata.sessionId",
    agent_label="ai.telemetry.functionId",
    agent_on_calls=True,
    tool_label="ai.toolCall.name",
    tool_call_id="ai.toolCall.id",
    tool_arguments="ai.toolCall.args",
    tool_result="ai.toolCall.result",
    content=chat_json("ai.prompt.messages", "ai.response.text", "ai.prompt.tools"),
)

_LANGFUSE = Writer(
    name="langfuse",
    scope="langfuse-sdk",
    call_name="generation",
    agent_name="{agent}",
    tool_name="{tool}",
    call={"langfuse.observation.type": "generation"},
    agent={"langfuse.observation.type": "agent"},
    tool={"langfuse.observation.type": "tool"},
    retriever={"langfuse.observation.type": "retriever"},
    model="langfuse.observation.model.name",
    parameters="langfuse.observation.model.parameters",
    input_tokens="gen_ai.usage.input_tokens",
    output_tokens="gen_ai.usage.output_tokens",
    conversation="langfuse.session.id",
    agent_label="gen_ai.agent.name",
    tool_label="gen_ai.tool.name",
    tool_arguments="langfuse.observation.input",
    tool_result="langfuse.observation.output",
    content=chat_json("langfuse.observation.input", "langfuse.observation.output", ""),
)

_LANGSMITH = dataclasses.replace(
    _GEN_AI,
    name="langsmith",
    scope="langsmith",
    call_name="ChatOpenAI",
    agent_name="{agent}",
    tool_name="{tool}",
    call={"langsmith.span.kind": "llm", "gen_ai.system": "openai"},
    agent={"langsmith.span.kind": "chain"},
    tool={"langsmith.span.kind": "tool"},
    retriever={"langsmith.span.kind": "retriever"},
    cached_tokens="",
    conversation="langsmith.metadata.thread_id",
    agent_id="",
    agent_label="langsmith.metadata.lc_agent_name",
    window="",
    tool_arguments="gen_ai.prompt",
    tool_result="gen_ai.completion",
    content=chat_json("gen_ai.prompt", "gen_ai.completion", ""),
)

_MLFLOW = Writer(
    name="mlflow",
    scope="mlflow.tracing",
    call_name="Completions",
    agent_name="{agent}",
    tool_name="{tool}",
    call={"mlflow.spanType": '"CHAT_MODEL"'},
    agent={"mlflow.spanType": '"AGENT"'},
    tool={"mlflow.spanType": '"TOOL"'},
    retriever={"mlflow.spanType": '"RETRIEVER"'},
    model="mlflow.llm.model",
    input_tokens="gen_ai.usage.input_tokens",
    output_tokens="gen_ai.usage.output_tokens",
    conversation="mlflow.trace.session",
    quoted=frozenset(("mlflow.llm.model", "mlflow.trace.session")),
    arguments="mlflow.spanInputs",
    tool_arguments="mlflow.spanInputs",
    tool_result="mlflow.spanOutputs",
    content=chat_json("mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.tools"),
)

_SENTRY = dataclasses.replace(
    _GEN_AI,
    name="sentry",
    scope="sentry",
    call={"gen_ai.operation.type": "ai_client", "gen_ai.operation.name": "chat"},
    agent={"gen_ai.operation.type": "agent", "gen_ai.operation.name": "invoke_agent"},
    tool={"gen_ai.operation.type": "tool", "gen_ai.operation.name": "execute_tool"},
    retriever={
        "gen_ai.operation.type": "tool",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "datastore",
    },
    cached_tokens="gen_ai.usage.input_tokens.cached",
    tool_arguments="gen_ai.tool.input",
    tool_result="gen_ai.tool.output",
    content=chat_json("gen_ai.request.messages", "gen_ai.response.text", "gen_ai.request.available_tools"),
)

_ALIKE = tuple(
    dataclasses.replace(_GEN_AI, **changed)
    for changed in (
        {
            "name": "pydantic_ai",
            "scope": "pydantic-ai",
            "agent_name": "agent run",
            "tool_name": "running tool",
            "agent_on_calls": False,
            "agent_label": "agent_name",
            "tool": {_OPERATION: "execute_tool"},
            "retriever": {_OPERATION: "execute_tool"},
            "window": "",
        },
        {"name": "strands", "scope": "strands.telemetry.tracer", "tool": {_OPERATION: "execute_tool"}},
        {"name": "agent_framework", "scope": "agent_framework"},
        {"name": "gemini_cli", "scope": "gemini-cli", "call": {_OPERATION: "llm_call"}},
        {
            "name": "gen_ai_legacy",
            "call": {"gen_ai.system": "openai", "llm.request.type": "chat"},
            "input_tokens": "gen_ai.usage.prompt_tokens",
            "output_tokens": "gen_ai.usage.completion_tokens",
            "cached_tokens": "",
            "content": indexed_prompt,
        },
    )
)
"""Dialects that differ from the conventions in a few names."""

WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (_GEN_AI, _OPENINFERENCE, _OPENLLMETRY, *_ALIKE, _VERCEL, _LANGFUSE, _LANGSMITH, _MLFLOW, _SENTRY)
}
"""Writers by name of their dialect."""
