"""What only the application knows, said in a few lines: needs, pools, budgets, compactions.

Everything is plain OpenTelemetry underneath: attributes of the current span, and baggage, from which spans that start
later take theirs. Baggage goes along with outgoing requests, to other services of yours and to others: it holds numbers,
and the id that you give a pool. ::

    with declare.working_set(required_tokens=6_000):
        agent.run(task)

    with declare.pool("research", ceiling_tokens=200_000, synthesis_reserve_tokens=12_000) as pool:
        pool.plan(8, reserved_tokens=9_000, content_budget_tokens=24_000).require()   # raises before anything is spent
        with declare.subagent(reserved_tokens=9_000, content_budget_tokens=24_000):
            subagent.run(part)

The context managers are decorators, too, of functions and of coroutine functions.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

from opentelemetry import baggage, context, trace
from opentelemetry.context import Context

from lowwater.collectors.names import PREFIX
from lowwater.collectors.pools import OnOvercommit, Pool

__all__ = [
    "compacting",
    "compaction",
    "pool",
    "pool_in",
    "scheduler",
    "subagent",
    "turn",
    "working_set",
]

_POOL = context.create_key("lowwater-pool")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class _Declaring(Generic[T]):
    """A context manager that is a decorator of functions and coroutine functions, anew for each call."""

    def __init__(self, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._make = make
        self._entered: list[AbstractContextManager[T]] = []

    def __enter__(self) -> T:
        manager = self._make()
        value = manager.__enter__()
        self._entered.append(manager)
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace_)

    def __call__(self, function: F) -> F:
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*arguments: Any, **named: Any) -> Any:
                with self._make():
                    return await function(*arguments, **named)
        else:

            @functools.wraps(function)
            def wrapper(*arguments: Any, **named: Any) -> Any:
                with self._make():
                    return function(*arguments, **named)

        return wrapper  # type: ignore[no-any-return]


def working_set(*, required_tokens: int | None = None, floor_tokens: int | None = None) -> _Declaring[None]:
    """Declare what the task needs in working memory.

    Args:
        required_tokens: the live reasoning context that the task needs (the requirement Q).
        floor_tokens: what your context manager keeps free for it by force, where it does.
    """
    values = {"working_set.required_tokens": required_tokens, "working_set.floor_tokens": floor_tokens}
    return _Declaring(lambda: _declared(values))


def turn(*, slo_seconds: float) -> _Declaring[None]:
    """Declare how long a turn may take."""
    return _Declaring(lambda: _declared({"turn.slo_seconds": slo_seconds}))


def scheduler(*, tick_seconds: float) -> _Declaring[None]:
    """Declare how often the compaction scheduler looks: what tells quota from compaction debt."""
    return _Declaring(lambda: _declared({"scheduler.tick_seconds": tick_seconds}))


def pool(
    id: str,  # noqa: A002 - the attribute's name
    *,
    ceiling_tokens: int,
    parent_reserve_tokens: int = 0,
    synthesis_reserve_tokens: int = 0,
    planned_width: int | None = None,
    measure: str | None = None,
    on_overcommit: OnOvercommit | None = None,
) -> _Declaring[Pool]:
    """Declare the ceiling that an orchestrator and its subagents share; to be entered in the orchestrator.

    Args:
        id: a name; it travels in baggage.
        ceiling_tokens: of the pool.
        parent_reserve_tokens: what the orchestrator's own context needs.
        synthesis_reserve_tokens: what the answers need when they come back.
        planned_width: how many subagents are to run at once.
        measure: ``occupancy`` (the default) or ``spend``.
        on_overcommit: called once when running subagents have been given more than the ceiling holds.
    """
    values = {
        "pool.ceiling_tokens": ceiling_tokens,
        "pool.parent_reserve_tokens": parent_reserve_tokens or None,
        "pool.synthesis_reserve_tokens": synthesis_reserve_tokens or None,
        "pool.planned_width": planned_width,
        "pool.measure": measure,
    }

    @contextmanager
    def entered() -> Iterator[Pool]:
        made = Pool(
            id,
            ceiling_tokens=ceiling_tokens,
            parent_reserve_tokens=parent_reserve_tokens,
            synthesis_reserve_tokens=synthesis_reserve_tokens,
            on_overcommit=on_overcommit,
        )
        _write(trace.get_current_span(), values)
        token = context.attach(context.set_value(_POOL, made))
        try:
            yield made
        finally:
            context.detach(token)

    return _Declaring(entered)


def subagent(
    *, content_budget_tokens: int | None = None, reserved_tokens: int | None = None, gate: bool = False
) -> _Declaring[Pool | None]:
    """Declare a subagent of the pool around it; to be entered where the subagent starts, before its first span.

    Args:
        content_budget_tokens: what it may fill with content.
        reserved_tokens: its overhead: system prompt, schemas, output.
        gate: refuse to start where the pool would be over its ceiling.

    Raises:
        BudgetStarvationError: on entering, with ``gate``, where it does not fit.
    """

    @contextmanager
    def entered() -> Iterator[Pool | None]:
        around = pool_in(None)
        key = object()
        values: dict[str, Any] = {
            "subagent.content_budget_tokens": content_budget_tokens,
            "subagent.reserved_tokens": reserved_tokens,
            "pool.id": None if around is None else around.id,
        }
        if around is not None:
            sizes = {"reserved_tokens": reserved_tokens or 0, "content_budget_tokens": content_budget_tokens or 0}
            if gate and (plan := around.plan(1, **sizes)) is not None:
                plan.require()
            around.join(key, **sizes)
        try:
            with _baggage(values):
                yield around
        finally:
            if around is not None:
                around.leave(key)

    return _Declaring(entered)


def compaction(
    *,
    resident_before_tokens: int | None = None,
    resident_after_tokens: int | None = None,
    window_tokens: int | None = None,
    trigger: str | None = None,
    outcome: str = "success",
) -> None:
    """Announce a compaction, as an event of the current span.

    Args:
        resident_before_tokens: the context before.
        resident_after_tokens: the context after.
        window_tokens: the window it is measured against.
        trigger: one word, for example ``auto`` or ``manual``.
        outcome: ``success``, ``no_op``, ``failure``, or ``started`` for the begin of one that ends later.
    """
    values = {
        "resident_before_tokens": resident_before_tokens,
        "resident_after_tokens": resident_after_tokens,
        "window_tokens": window_tokens,
        "trigger": trigger,
        "outcome": outcome,
    }
    known = {f"lowwater.compaction.{name}": value for name, value in values.items() if value is not None}
    trace.get_current_span().add_event("lowwater.compaction", known)


class _Compacting:
    """What a compaction found; set while it runs."""

    def __init__(self, resident_before_tokens: int | None, window_tokens: int | None, trigger: str | None) -> None:
        self.resident_before_tokens, self.window_tokens = resident_before_tokens, window_tokens
        self.trigger = trigger
        self.resident_after_tokens: int | None = None
        self.started_seconds = time.monotonic()


@contextmanager
def compacting(
    *, resident_before_tokens: int | None = None, window_tokens: int | None = None, trigger: str | None = "auto"
) -> Iterator[_Compacting]:
    """Announce the compaction that runs inside: its begin, and its end as success or, by an exception, as failure.

    Set ``resident_after_tokens`` of what is yielded; as much as before is a ``no_op``.
    """
    running = _Compacting(resident_before_tokens, window_tokens, trigger)
    compaction(
        resident_before_tokens=resident_before_tokens, window_tokens=window_tokens, trigger=trigger, outcome="started"
    )
    outcome = "failure"
    try:
        yield running
        before, after = running.resident_before_tokens, running.resident_after_tokens
        outcome = "no_op" if before is not None and after is not None and after >= before else "success"
    finally:
        compaction(
            resident_before_tokens=running.resident_before_tokens,
            resident_after_tokens=running.resident_after_tokens,
            window_tokens=running.window_tokens,
            trigger=running.trigger,
            outcome=outcome,
        )


def pool_in(around: Context | None) -> Pool | None:
    """The pool declared around a place of this process."""
    found = context.get_value(_POOL, around)
    return found if isinstance(found, Pool) else None


@contextmanager
def _declared(values: Mapping[str, Any]) -> Iterator[None]:
    """On the current span, and by baggage on those that start inside."""
    _write(trace.get_current_span(), values)
    with _baggage(values):
        yield


@contextmanager
def _baggage(values: Mapping[str, Any]) -> Iterator[None]:
    around = context.get_current()
    for name, value in values.items():
        if value is not None:
            around = baggage.set_baggage(PREFIX + name, str(value), around)
    token = context.attach(around)
    try:
        yield
    finally:
        context.detach(token)


def _write(span: trace.Span, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if value is not None:
            span.set_attribute(PREFIX + name, value)
