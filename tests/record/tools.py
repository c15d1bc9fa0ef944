"""Plain functions as tools, for applications that use no framework."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from inspect import signature
from typing import Any, TypeVar

from tests.record import common

T = TypeVar("T")

_STAGGER_SECONDS = 0.06
"""Threads that start in the same moment would make the order of spans a matter of luck."""

__all__ = ["asynchronous", "at_once", "described", "survey_tool"]


def described(tool: Callable[..., str]) -> dict[str, Any]:
    """A function's name, description and parameters, from its signature and its docstring."""
    summary, _, arguments = (tool.__doc__ or "").partition("Args:")
    texts = dict(line.strip().split(": ", 1) for line in arguments.strip().splitlines() if ": " in line)
    kinds = {"int": "integer", "str": "string"}
    properties = {
        name: {
            "type": kinds[getattr(parameter.annotation, "__name__", parameter.annotation)],
            "description": texts[name],
        }
        for name, parameter in signature(tool).parameters.items()
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": tool.__name__, "description": summary.strip(), "parameters": parameters}


def survey_tool(read: Callable[[str], str]) -> Callable[..., str]:
    """The lead's tool, which starts a reader."""

    def read_service(service: str) -> str:
        return read(service)

    read_service.__doc__ = common.SURVEY_TOOL_DOC
    return read_service


def asynchronous(tool: Callable[..., str]) -> Callable[..., Any]:
    """The tool as a coroutine: a framework's threads would make the order of spans a matter of luck."""

    @functools.wraps(tool)
    async def call(**arguments: Any) -> str:
        return tool(**arguments)

    return call


def at_once(runs: Sequence[Callable[[], T]]) -> list[T]:
    """Run functions in threads of their own, each in the caller's trace, and wait for all."""
    with ThreadPoolExecutor(len(runs)) as pool:
        started = []
        for run in runs:
            started.append(pool.submit(copy_context().run, run))
            time.sleep(_STAGGER_SECONDS)
        return [future.result() for future in started]
