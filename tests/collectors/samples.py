"""One realistic span per dialect, written by hand from the conventions' tables, with what must be read from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lowwater.collectors.dialects import ReadContext
from lowwater.collectors.extract import read_span
from lowwater.collectors.reading import Operation, Reading
from lowwater.collectors.records import LogRecord, SpanEvent, SpanRecord
from lowwater.collectors.tokens import Hasher

CANARY = "canary-7f3a-never-leave"


@dataclass(frozen=True)
class Sample:
    """A span of one dialect, and fields of the reading by dotted name."""

    dialect: str
    attributes: dict[str, Any]
    expected: dict[str, Any]
    name: str = "span"
    scope: str = ""
    events: tuple[SpanEvent, ...] = ()
    status: str = "unset"
    kind: Operation = Operation.LLM
    resource: dict[str, Any] = field(default_factory=dict)

    def span(self) -> SpanRecord:
        return SpanRecord(
            "a" * 32, "b" * 16, self.name, None, 10, 20, self.status, "", self.scope, "1", self.attributes, self.events,
            self.resource,
        )  # fmt: skip


def reading_of(attributes: dict[str, Any], name: str = "span", scope: str = "", **more: Any) -> Reading:
    """What is read from a span of these attributes."""
    span = SpanRecord("a" * 32, "b" * 16, name, scope_name=scope, attributes=attributes, **more)
    return read_span(span, ReadContext(hasher=Hasher(b"tests")))


MESSAGES = json.dumps(
    [
        {"role": "system", "parts": [{"type": "text", "content": f"be careful {CANARY}"}]},
        {"role": "user", "parts": [{"type": "text", "content": f"question {CANARY}"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": CANARY}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": f"result {CANARY}"}]},
    ]
)
ANSWER = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": f"answer {CANARY}"}]}])
CHAT = json.dumps(
    [
        {"role": "system", "content": f"be careful {CANARY}"},
        {"role": "user", "content": f"question {CANARY}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": json.dumps({"path": CANARY})},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": f"result {CANARY}"},
    ]
)
TOOLS = json.dumps([{"type": "function", "name": "read", "description": f"reads {CANARY}", "parameters": {}}])

CALLS: tuple[Sample, ...] = (
    Sample(
        "gen_ai",
        {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024", "gen_ai.response.id": "r1", "gen_ai.conversation.id": "conv",
            "gen_ai.agent.name": "bot", "gen_ai.request.max_tokens": 500, "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.cache_write.input_tokens": 5, "gen_ai.usage.reasoning.output_tokens": 3,
            "gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": ANSWER, "gen_ai.tool.definitions": TOOLS,
            "gen_ai.conversation.compacted": True, "gen_ai.response.finish_reasons": ["stop"],
        },
        {"usage.input_tokens": 100, "usage.output_tokens": 10, "usage.cache_read_tokens": 40,
         "usage.cache_write_tokens": 5, "usage.reasoning_tokens": 3, "model": "gpt-4o-2024", "response_id": "r1",
         "conversation": "conv", "agent_name": "bot", "max_output_tokens": 500, "compacted": True,
         "finish_reasons": ("stop",), "blocks": 5, "provider": "openai"},
    ),
    Sample(
        "gen_ai_legacy",
        {"gen_ai.system": "openai", "llm.request.type": "chat", "gen_ai.request.model": "gpt-4",
         "gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 10,
         "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": CANARY, "gen_ai.prompt.1.role": "user",
         "gen_ai.prompt.1.content": CANARY, "gen_ai.completion.0.role": "assistant",
         "gen_ai.completion.0.content": CANARY, "llm.request.functions.0.name": "read",
         "llm.request.functions.0.description": CANARY},
        {"usage.input_tokens": 100, "usage.output_tokens": 10, "model": "gpt-4", "blocks": 3},
    ),
    Sample(
        "gen_ai_legacy",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100},
        {"usage.input_tokens": 100, "blocks": 3},
        events=(
            SpanEvent("gen_ai.system.message", 1, {"content": CANARY}),
            SpanEvent("gen_ai.user.message", 2, {"content": CANARY}),
            SpanEvent("gen_ai.tool.message", 3, {"content": CANARY, "id": "c1"}),
            SpanEvent("gen_ai.choice", 4, {"message": json.dumps({"content": CANARY})}),
        ),
    ),
    Sample(
        "openinference",
        {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 100,
         "llm.token_count.completion": 10, "llm.token_count.total": 110,
         "llm.token_count.prompt_details.cache_read": 30, "llm.token_count.completion_details.reasoning": 4,
         "llm.invocation_parameters": json.dumps({"max_tokens": 700, "context_window": 128000}), "session.id": "s",
         "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": CANARY,
         "llm.input_messages.1.message.role": "user",
         "llm.input_messages.1.message.contents.0.message_content.type": "text",
         "llm.input_messages.1.message.contents.0.message_content.text": CANARY,
         "llm.input_messages.2.message.role": "assistant",
         "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
         "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "read",
         "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": CANARY,
         "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": CANARY,
         "llm.tools.0.tool.json_schema": TOOLS, "input.value": CANARY, "output.value": CANARY},
        {"usage.input_tokens": 100, "usage.output_tokens": 10, "usage.total_tokens": 110,
         "usage.cache_read_tokens": 30, "usage.reasoning_tokens": 4, "model": "m", "max_output_tokens": 700,
         "window_tokens": 128_000, "conversation": "s", "blocks": 4},
        scope="openinference.instrumentation.openai",
    ),
    Sample(
        "openinference",
        {"openinference.span.kind": "LLM", "llm.token_count.prompt": 4, "llm.token_count.prompt_details.cache_read": 29_447},
        {"usage.input_tokens": 4, "usage.cache_inclusive": False},
        scope="openinference.instrumentation.claude_agent_sdk",
    ),
    Sample(
        "openllmetry",
        {"traceloop.entity.path": "x", "llm.request.type": "chat", "gen_ai.request.model": "m",
         "gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read_input_tokens": 7, "llm.usage.total_tokens": 110,
         "traceloop.association.properties.session_id": "s"},
        {"usage.input_tokens": 100, "usage.cache_read_tokens": 7, "usage.total_tokens": 110, "conversation": "s"},
    ),
    Sample(
        "langfuse",
        {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m",
         "langfuse.observation.usage_details": json.dumps({"input": 100, "output": 10, "total": 110, "input_cached_tokens": 20}),
         "langfuse.observation.input": CHAT, "langfuse.observation.output": CANARY, "langfuse.session.id": "s"},
        {"usage.input_tokens": 100, "usage.output_tokens": 10, "usage.cache_read_tokens": 20, "model": "m",
         "conversation": "s", "blocks": 4},
    ),
    Sample(
        "vercel",
        {"ai.operationId": "ai.streamText.doStream", "ai.model.id": "m", "ai.settings.maxOutputTokens": 900,
         "ai.usage.inputTokens": 100, "ai.usage.outputTokens": 10, "ai.usage.inputTokenDetails.noCacheTokens": 60,
         "ai.usage.inputTokenDetails.cacheReadTokens": 40, "ai.usage.outputTokenDetails.reasoningTokens": 2,
         "ai.prompt.messages": CHAT, "ai.prompt.tools": [TOOLS], "ai.response.text": CANARY,
         "ai.telemetry.metadata.sessionId": "s"},
        {"usage.input_tokens": 100, "usage.uncached_tokens": 60, "usage.cache_read_tokens": 40,
         "usage.reasoning_tokens": 2, "usage.cache_inclusive": True, "max_output_tokens": 900, "conversation": "s",
         "blocks": 5},
    ),
    Sample(
        "pydantic_ai",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100, "gen_ai.agent.call.id": "run1",
         "model_request_parameters": json.dumps({"function_tools": [{"name": "read", "description": CANARY}]}),
         "events": CHAT},
        {"usage.input_tokens": 100, "agent_id": "run1", "blocks": 5},
        scope="pydantic-ai",
    ),
    Sample(
        "langsmith",
        {"langsmith.span.kind": "llm", "gen_ai.system": "anthropic", "gen_ai.operation.name": "chat",
         "gen_ai.usage.input_tokens": 5, "langsmith.trace.session_id": "the project",
         "langsmith.metadata.thread_id": "t", "gen_ai.prompt": CHAT, "gen_ai.completion": CANARY},
        {"usage.input_tokens": 5, "usage.cache_inclusive": False, "conversation": "t", "blocks": 4},
        scope="langsmith",
    ),
    Sample(
        "adk",
        {"gen_ai.request.model": "gemini", "gen_ai.usage.input_tokens": 157, "gcp.vertex.agent.session_id": "s",
         "gcp.vertex.agent.llm_request": json.dumps({"config": {"system_instruction": CANARY, "tools": [{"function_declarations": [{"name": "a", "description": CANARY}, {"name": "b"}]}]}, "contents": [{"role": "user", "parts": [{"text": CANARY}]}]}),
         "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"text": CANARY}]}})},
        {"usage.input_tokens": 157, "conversation": "s", "blocks": 4},
        name="call_llm",
        scope="gcp.vertex.agent",
    ),
    Sample(
        "strands",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.prompt_tokens": 100,
         "gen_ai.usage.cache_read_input_tokens": 20, "event_loop.cycle_id": "e"},
        {"usage.input_tokens": 100, "usage.cache_read_tokens": 20},
        scope="strands.telemetry.tracer",
    ),
    Sample(
        "claude_code",
        {"span.type": "llm_request", "model": "claude", "input_tokens": 4, "output_tokens": 10,
         "cache_read_tokens": 500, "cache_creation_tokens": 20, "session.id": "s", "new_context": f"what is new {CANARY}"},
        {"usage.input_tokens": 4, "usage.cache_read_tokens": 500, "usage.cache_write_tokens": 20,
         "usage.cache_inclusive": False, "model": "claude", "conversation": "s", "content_is_delta": True, "blocks": 1},
    ),
    Sample(
        "litellm",
        {"litellm.call_type": "acompletion", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100},
        {"usage.input_tokens": 100, "model": "m"},
    ),
    Sample(
        "mlflow",
        {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": '"m"', "mlflow.trace.session": '"s"',
         "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}),
         "mlflow.spanInputs": json.dumps({"messages": json.loads(CHAT)}), "mlflow.chat.tools": TOOLS},
        {"usage.input_tokens": 100, "usage.output_tokens": 10, "model": "m", "conversation": "s", "blocks": 5},
    ),
    Sample(
        "openai_agents",
        {"openai_agents.type": "generation", "openai_agents.model": "m", "openai_agents.group_id": "g",
         "openai_agents.usage": {"input_tokens": 100, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 60}},
         "openai_agents.model_config": {"max_tokens": 300}, "openai_agents.input": json.loads(CHAT)},
        {"usage.input_tokens": 100, "usage.cache_read_tokens": 60, "usage.cache_inclusive": True, "conversation": "g",
         "max_output_tokens": 300, "blocks": 4},
    ),
    Sample(
        "agent_framework",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "2546", "gen_ai.tool.definitions": TOOLS},
        {"usage.input_tokens": 2546, "blocks": 1},
        scope="Experimental.Microsoft.Extensions.AI",
    ),
    Sample(
        "semantic_kernel",
        {"gen_ai.operation.name": "chat.completions", "gen_ai.usage.input_tokens": 100, "sk.available_functions": TOOLS,
         "gen_ai.operation.type": "ai_client"},
        {"usage.input_tokens": 100, "blocks": 1},
        scope="semantic_kernel.utils.telemetry.model_diagnostics.decorators",
    ),
    Sample(
        "sentry",
        {"gen_ai.operation.type": "ai_client", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100,
         "gen_ai.usage.input_tokens.cached": 40, "gen_ai.usage.output_tokens": 10,
         "gen_ai.usage.output_tokens.reasoning": 3, "gen_ai.request.messages": CHAT,
         "gen_ai.request.available_tools": TOOLS, "gen_ai.response.text": CANARY,
         "gen_ai.context.window_size": 200_000, "gen_ai.context.utilization": 0.0005},
        {"usage.input_tokens": 100, "usage.cache_read_tokens": 40, "usage.reasoning_tokens": 3, "model": "m",
         "window_tokens": 200_000, "blocks": 5},
    ),
    Sample(
        "copilot_chat",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100,
         "copilot_chat.request.max_prompt_tokens": 64_000, "copilot_chat.chat_session_id": "s",
         "copilot_chat.parent_chat_session_id": "p"},
        {"window_tokens": 64_000, "conversation": "s", "parent_agent_id": "p"},
    ),
    Sample(
        "gemini_cli",
        {"gen_ai.operation.name": "llm_call", "gen_ai.usage.input_tokens": 100,
         "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"text": CANARY}, {"functionResponse": {"name": "read", "response": {"output": CANARY}}}]}])},
        {"usage.input_tokens": 100, "blocks": 2},
        scope="gemini-cli",
    ),
    Sample(
        "breakdown",
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100,
         "qwen-code.context.usage": json.dumps({"window_size_tokens": 1_000, "compaction_reserve_tokens": 200, "breakdown": {
             "system_prompt_tokens": 20, "builtin_tools_tokens": 30, "mcp_tools_tokens": 10, "memory_files_tokens": 5,
             "skills_tokens": 5, "messages_tokens": 30}})},
        {"window_tokens": 1_000, "reserved_staging_tokens": 200, "trigger_tokens": 800},
    ),
    Sample(
        "breakdown",
        {"gen_ai.operation.name": "chat", "gen_ai.context.window_size": 200_000},
        {"window_tokens": 200_000},
    ),
    Sample(
        "budget",
        {"gen_ai.operation.name": "chat", "gen_ai.agent.token_budget.limit": 9_000, "gen_ai.agent.token_budget.consumed": 70},
        {"budget_limit_tokens": 9_000, "budget_consumed_tokens": 70},
    ),
    Sample(
        "lowwater",
        {"gen_ai.operation.name": "chat", "lowwater.working_set.required_tokens": 6_000, "lowwater.pool.id": "p",
         "lowwater.turn.slo_seconds": 1.8, "lowwater.context.ceiling_tokens": "not a number"},
        {"declared": {"working_set.required_tokens": 6_000, "pool.id": "p", "turn.slo_seconds": 1.8}},
    ),
)  # fmt: skip

OTHERS: tuple[Sample, ...] = (
    Sample("gen_ai", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "c1",
           "gen_ai.tool.call.arguments": json.dumps({"path": CANARY}), "gen_ai.tool.call.result": CANARY},
           {"tool.name": "read", "tool.retriever": False}, kind=Operation.TOOL),
    Sample("gen_ai", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "kb", "gen_ai.tool.type": "datastore",
           "gen_ai.tool.call.result": CANARY}, {"tool.retriever": True}, kind=Operation.TOOL),
    Sample("gen_ai", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps([{"id": "1", "content": CANARY}, {"id": "2"}])},
           {"documents": 2, "tool.retriever": True}, kind=Operation.RETRIEVAL),
    Sample("gen_ai", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot", "gen_ai.usage.input_tokens": 9},
           {"agent_name": "bot", "usage.input_tokens": 9}, kind=Operation.AGENT),
    Sample("gen_ai", {"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 9}, {}, kind=Operation.EMBEDDING),
    Sample("openinference", {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": CANARY,
           "retrieval.documents.1.document.content": CANARY}, {"documents": 2, "tool.retriever": True},
           kind=Operation.RETRIEVAL),
    Sample("openinference", {"openinference.span.kind": "TOOL", "tool.name": "read", "input.value": CANARY,
           "output.value": CANARY}, {"tool.name": "read"}, kind=Operation.TOOL),
    Sample("openllmetry", {"traceloop.span.kind": "tool", "traceloop.entity.name": "read",
           "traceloop.entity.input": CANARY, "traceloop.entity.output": CANARY}, {"tool.name": "read"}, kind=Operation.TOOL),
    Sample("vercel", {"ai.operationId": "ai.generateText", "ai.usage.inputTokens": 62, "ai.prompt": CANARY},
           {"usage.input_tokens": 62}, kind=Operation.AGENT),
    Sample("vercel", {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "read", "ai.toolCall.args": CANARY,
           "ai.toolCall.result": CANARY}, {"tool.name": "read"}, kind=Operation.TOOL),
    Sample("pydantic_ai", {"gen_ai.operation.name": "invoke_agent", "gen_ai.aggregated_usage.input_tokens": 1251},
           {"usage.input_tokens": 1251}, kind=Operation.AGENT, scope="pydantic-ai"),
    Sample("langsmith", {"langsmith.span.kind": "chain", "langsmith.metadata.lc_agent_name": "bot"},
           {"agent_name": "bot"}, name="bot", scope="langsmith", kind=Operation.AGENT),
    Sample("langsmith", {"langsmith.span.kind": "chain", "langsmith.metadata.lc_agent_name": "bot"},
           {"agent_name": "bot"}, name="model", scope="langsmith", kind=Operation.OTHER),
    Sample("langfuse", {"langfuse.observation.type": "retriever", "langfuse.observation.output": CANARY},
           {"tool.retriever": True}, kind=Operation.RETRIEVAL),
    Sample("strands", {"memory.result.count": 3}, {"documents": 3}, name="memory.search", scope="strands.telemetry.tracer",
           kind=Operation.RETRIEVAL),
    Sample("codex", {"codex.turn.token_usage.input_tokens": 13_297, "codex.turn.token_usage.cached_input_tokens": 4_480,
           "codex.turn.token_usage.non_cached_input_tokens": 8_817, "model": "m", "thread.id": "conv"},
           {"usage.input_tokens": 13_297, "usage.uncached_tokens": 8_817, "conversation": "conv"}, kind=Operation.AGENT,
           scope="codex_cli_rs"),
    Sample("claude_code", {"span.type": "claude_code.tool", "tool_name": "Read", "tool_use_id": "c1", "tool_input": CANARY},
           {"tool.name": "Read"}, kind=Operation.TOOL),
    Sample("sentry", {"gen_ai.operation.type": "tool", "gen_ai.tool.name": "read", "gen_ai.tool.input": CANARY,
           "gen_ai.tool.output": CANARY}, {"tool.name": "read"}, kind=Operation.TOOL),
    Sample("autogen", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}, {"agent_name": "bot"},
           scope="autogen-core", kind=Operation.AGENT),
    Sample("semantic_kernel", {"sk.available_functions": "read,write"}, {}, name="AutoFunctionInvocationLoop",
           kind=Operation.WORKFLOW),
    Sample("openai_agents", {"openai_agents.type": "custom", "openai_agents.name": "turn", "openai_agents.data":
           {"sdk_span_type": "turn", "usage": {"input_tokens": 9}}}, {"usage.input_tokens": 9}, kind=Operation.OTHER),
    Sample("mlflow", {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": json.dumps([{"page_content": CANARY}] * 3)},
           {"documents": 3, "tool.retriever": True}, kind=Operation.RETRIEVAL),
    Sample("agent_framework", {"workflow.id": "w"}, {}, name="workflow.run x", scope="agent_framework",
           kind=Operation.WORKFLOW),
    Sample("compaction", {"compaction.before.tokens": 900, "compaction.after.tokens": 100, "compaction.compacted": True},
           {"compaction.before_tokens": 900, "compaction.after_tokens": 100, "compaction.outcome": "success",
            "compaction.source": "agent-framework"}, name="compaction.compact", kind=Operation.COMPACTION),
    Sample("compaction", {"compaction.strategy": "summarize", "compaction.tokens_before": 900, "compaction.tokens_after": 100},
           {"compaction.before_tokens": 900, "compaction.trigger": "summarize"}, name="compact_messages",
           kind=Operation.COMPACTION),
    Sample("compaction", {"gen_ai.operation.name": "compact_events", "gen_ai.compaction.trigger": "token_threshold"},
           {"compaction.trigger": "token_threshold", "compaction.source": "google-adk"}, name="compact_events sliding",
           kind=Operation.COMPACTION),
    Sample("compaction", {"redpanda.compaction.before.total_tokens": 900, "redpanda.compaction.after.total_tokens": 100},
           {"compaction.after_tokens": 100}, name="redpanda.compaction", kind=Operation.COMPACTION),
    Sample("compaction", {"openclaw.compaction.tokens_before": 900, "openclaw.compaction.tokens_after": 100,
           "openclaw.compaction.duration_ms": 1500}, {"compaction.duration_seconds": 1.5}, name="openclaw.compaction",
           kind=Operation.COMPACTION),
    Sample("compaction", {"coding_agent.compact.tokens_before": 900}, {"compaction.before_tokens": 900,
           "compaction.source": "openlit"}, name="coding_agent.session.compact", kind=Operation.COMPACTION),
    Sample("compaction", {"beforeTokens": 900, "maxInputTokens": 1000, "mode": "auto"},
           {"compaction.outcome": "no_op", "compaction.window_tokens": 1000}, name="task.compaction_skipped",
           kind=Operation.COMPACTION),
    Sample("compaction", {"compaction.before.tokens": 900, "compaction.after.tokens": 900},
           {"compaction.outcome": "no_op"}, name="compaction.compact", kind=Operation.COMPACTION),
    Sample("compaction", {"compaction.before.tokens": 900}, {"compaction.outcome": "failure"}, name="compaction.compact",
           status="error", kind=Operation.COMPACTION),
    Sample("compaction", {"gen_ai.operation.name": "chat", "langsmith.metadata.lc_source": "summarization"},
           {"compaction.source": "langchain"}, kind=Operation.LLM),
    Sample("anthropic", {"gen_ai.operation.name": "chat", "output.value": json.dumps({"content": CANARY, "usage": {
           "input_tokens": 220, "iterations": [{"type": "compaction", "input_tokens": 900, "output_tokens": 9},
           {"type": "message", "input_tokens": 220}]}})}, {"compaction.before_tokens": 900,
           "compaction.after_tokens": 220, "compaction.source": "usage.iterations"}, kind=Operation.LLM),
    Sample("compaction", {"gen_ai.operation.name": "chat", "pi.call_kind": "compaction", "pi.tokens_before": 900},
           {"compaction.before_tokens": 900}, kind=Operation.LLM),
)  # fmt: skip

LOGS: tuple[tuple[LogRecord, dict[str, Any]], ...] = (
    (LogRecord("a" * 32, "b" * 16, 5, "claude_code.compaction", None, attributes={"pre_tokens": 900, "post_tokens": 100,
     "trigger": "auto", "success": True, "duration_ms": 2000, "session.id": "s"}),
     {"compaction.before_tokens": 900, "compaction.after_tokens": 100, "compaction.duration_seconds": 2.0,
      "conversation": "s"}),
    (LogRecord("a" * 32, "b" * 16, 5, "claude_code.compaction", None, attributes={"trigger": "auto", "success": False}),
     {"compaction.outcome": "failure", "compaction.after_tokens": None}),
    (LogRecord("a" * 32, "b" * 16, 5, "compaction", "claude_code.compaction", attributes={"pre_tokens": 900,
     "post_tokens": 100, "error": CANARY, "success": True}), {"compaction.source": "claude-code",
     "parent_span_id": "b" * 16}),
    (LogRecord("a" * 32, "b" * 16, 5, "api_error", "claude_code.api_error", attributes={"error": f"overloaded {CANARY}",
     "status_code": "529"}), {"failure.status": 529, "joins": True}),
    (LogRecord("a" * 32, "", 5, "qwen-code.chat_compression", {"tokens_before": 900, "tokens_after": 950}),
     {"compaction.source": "qwen-code", "compaction.outcome": "no_op"}),
    (LogRecord("a" * 32, "", 5, "gemini_cli.chat_compression", None, attributes={"tokens_before": 900, "tokens_after": 100}),
     {"compaction.source": "gemini-cli"}),
    (LogRecord("a" * 32, "b" * 16, 5, "lowwater.compaction", None, attributes={"resident_before_tokens": 900,
     "resident_after_tokens": 100, "outcome": "success"}), {"compaction.before_tokens": 900}),
    (LogRecord("a" * 32, "b" * 16, 5, "gen_ai.user.message", {"content": CANARY}), {"joins": True, "blocks": 1}),
    (LogRecord("a" * 32, "b" * 16, 5, "gen_ai.client.inference.operation.details", None,
     attributes={"gen_ai.input.messages": MESSAGES}), {"joins": True, "blocks": 4}),
    (LogRecord("a" * 32, "b" * 16, 5, "claude_code.api_error", None, attributes={"error": f"429 rate limit {CANARY}",
     "status_code": 429}), {"failure.status": 429, "joins": True}),
)  # fmt: skip
