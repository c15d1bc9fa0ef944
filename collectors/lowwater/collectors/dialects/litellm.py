"""LiteLLM proxy and SDK: GenAI conventions beside ``litellm.*``. Names: ``integrations/otel/model/semconv.py`` of 1.110."""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect
from lowwater.collectors.reading import Operation

__all__ = ["DIALECT"]

DIALECT = TableDialect(
    name="litellm",
    versions="litellm 1.60 to 1.110",
    namespaces=frozenset({"litellm"}),
    scopes=("litellm",),
    kinds=(
        (
            "litellm.call_type",
            {
                "completion": Operation.LLM, "acompletion": Operation.LLM, "responses": Operation.LLM,
                "aresponses": Operation.LLM, "anthropic_messages": Operation.LLM, "text_completion": Operation.LLM,
                "atext_completion": Operation.LLM, "generate_content": Operation.LLM, "agenerate_content": Operation.LLM,
                "embedding": Operation.EMBEDDING, "aembedding": Operation.EMBEDDING,
            },
        ),
    ),
    texts={
        "model": ("litellm.provider.model",),
        "conversation": ("litellm.metadata.session_id", "litellm.metadata.conversation_id"),
    },
)  # fmt: skip
