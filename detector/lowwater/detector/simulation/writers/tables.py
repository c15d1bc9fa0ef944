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

WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        _GEN_AI,
        _OPENINFERENCE,
        _OPENLLMETRY,
        dataclasses.replace(
            _GEN_AI,
            name="pydantic_ai",
            scope="pydantic-ai",
            agent_name="agent run",
            tool_name="running tool",
            agent_on_calls=False,
            agent_label="agent_name",
            retriever={_OPERATION: "execute_tool"},
            tool={_OPERATION: "execute_tool"},
            window="",
        ),
        _VERCEL,
        _LANGFUSE,
    )
}
"""Writers by name of their dialect."""
