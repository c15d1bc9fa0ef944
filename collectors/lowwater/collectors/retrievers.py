"""Which tools fetch from a store, by their names: their results are retrieval, not scratchpad."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterable

__all__ = ["DEFAULT_RETRIEVERS", "retriever_names"]

DEFAULT_RETRIEVERS: tuple[str, ...] = (
    "*retriev*", "*knowledge_base*", "*vector*search*", "*search_docs*", "*search_documents*", "*semantic_search*",
    "file_search", "rag_*", "*_rag", "search_runbooks", "memory_search", "search_memory",
)  # fmt: skip
"""Glob patterns of names that frameworks and people give to retrievers."""

_REMEMBERED = 4_096


def retriever_names(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A predicate of tool names, in any case.

    >>> is_retriever = retriever_names(DEFAULT_RETRIEVERS)
    >>> is_retriever("Vector_Search_v2"), is_retriever("run_tests")
    (True, False)
    """
    known = tuple(patterns)

    @functools.lru_cache(_REMEMBERED)
    def matches(tool: str) -> bool:
        name = tool.lower()
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in known)

    return matches
