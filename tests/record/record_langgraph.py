"""Record the refused patrol with LangGraph, seen by OpenInference's instrumentation of LangChain."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import openai
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy
from openinference.instrumentation.langchain import LangChainInstrumentor
from pydantic import SecretStr
from tests.record import story
from tests.record.capture import Capture, write_truth
from tests.record.recording import EXAMPLES, FIXTURES
from tests.record.server import ModelServer

__all__ = ["record"]

_RETRY = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3, retry_on=openai.RateLimitError)
"""Three attempts, as LangGraph's default; the client itself does not retry, so that each attempt has its span."""


class _Runbooks(BaseRetriever):
    """The runbooks as a retriever: its spans carry documents."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(page_content=text) for text in story.passages(query)]


def record(examples: Path = EXAMPLES, truths: Path = FIXTURES) -> list[Path]:
    """Record the patrol; the trace files that were written."""
    capture = Capture("refused")
    instrumentor = LangChainInstrumentor()
    with ModelServer([story.patrol()]) as server:
        instrumentor.instrument(tracer_provider=capture.provider("patrol"))
        try:
            _run(f"{server.url('patrol')}/v1")
        except openai.RateLimitError as error:
            if error.code != "budget_exceeded":
                raise
        finally:
            instrumentor.uninstrument()
    path = capture.write(examples)
    write_truth(
        truths / "refused.truth.json",
        server.truth(),
        framework=f"langgraph {version('langgraph')}",
        instrumentation=f"openinference {version('openinference-instrumentation-langchain')}",
        agent="queue-patrol",
    )
    return [path]


def _run(base_url: str) -> None:
    tools: list[Any] = [story.query_metrics, story.search_logs, story.list_deploys]
    model = ChatOpenAI(
        model=story.PATROL_MODEL,
        base_url=base_url,
        api_key=SecretStr("unused"),
        max_retries=0,
        max_completion_tokens=400,
        streaming=True,
    ).bind_tools(tools)

    def retrieve(state: MessagesState) -> dict[str, Any]:
        found = _Runbooks().invoke("connection pool sizing")
        text = "\n".join(document.page_content for document in found)
        return {
            "messages": [SystemMessage(f"{story.PATROL_PROMPT}\n\nRunbook:\n{text}"), HumanMessage(story.PATROL_TASK)]
        }

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("retrieve", retrieve)
    graph.add_node("think", think, retry_policy=_RETRY)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "think")
    graph.add_conditional_edges("think", tools_condition, ["tools", END])
    graph.add_edge("tools", "think")
    config: RunnableConfig = {"run_name": "queue-patrol", "configurable": {"thread_id": "patrol-2026-01-05"}}
    graph.compile(name="queue-patrol").invoke({"messages": []}, config)
