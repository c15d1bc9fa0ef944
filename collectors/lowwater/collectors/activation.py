"""How lowwater gets into an agent: one call, or an environment variable and no change of code.

`opentelemetry-instrument` calls `post_instrument` by itself; ``OTEL_TRACES_EXPORTER=otlp,lowwater`` does the same
where the SDK is configured by the environment.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from lowwater.collectors.enrich import Enricher
from lowwater.collectors.exporter import enrich_exports
from lowwater.collectors.processor import LowwaterSpanProcessor

if TYPE_CHECKING:
    from lowwater.collectors.pools import OnOvercommit, PoolView

__all__ = ["ActivatingExporter", "Installed", "install", "post_instrument"]

_log = logging.getLogger(__name__)
_TRUE = frozenset({"1", "true", "yes", "on"})


class Installed:
    """What `install` put into a provider.

    Attributes:
        processor: sees spans start.
        enricher: changes them on their way out.
    """

    def __init__(self, processor: LowwaterSpanProcessor, enricher: Enricher) -> None:
        self.processor, self.enricher = processor, enricher


_installed: weakref.WeakKeyDictionary[Any, Installed] = weakref.WeakKeyDictionary()


def install(
    provider: Any = None, *, strip_content: bool | None = None, on_overcommit: OnOvercommit | None = None
) -> Installed | None:
    """Put lowwater into a tracer provider: exporters that it has, and those added later, send enriched spans.

    Calling it again changes nothing. What is not given comes from the environment: see ``docs/agent.md``.

    Args:
        provider: the SDK's `TracerProvider`; the global one by default.
        strip_content: cut messages, arguments and results from what is exported (``LOWWATER_STRIP_CONTENT``).
        on_overcommit: called when running subagents may use more than their pool's ceiling; a warning is logged where
            it is None.

    Returns:
        None where there is nothing to put it into: no SDK is configured, or ``LOWWATER_DISABLED`` is set.
    """
    provider = provider if provider is not None else trace.get_tracer_provider()
    environment = os.environ
    if _is_true(environment.get("LOWWATER_DISABLED")):
        return None
    add, existing = getattr(provider, "add_span_processor", None), getattr(provider, "_active_span_processor", None)
    if add is None or existing is None:
        _log.debug("lowwater is not active: %s is no tracer provider of the SDK", type(provider).__name__)
        return None
    known = _installed.get(provider)
    if known is not None:
        return known
    strip = _is_true(environment.get("LOWWATER_STRIP_CONTENT")) if strip_content is None else strip_content
    limits, sizes = _pool_of(environment)
    if limits is not None:
        limits["on_overcommit"] = on_overcommit or _warn
    installed = Installed(LowwaterSpanProcessor(limits, **sizes), _enricher(environment, strip))
    enrich_exports(existing, installed.enricher)

    def add_span_processor(processor: SpanProcessor) -> None:
        enrich_exports(processor, installed.enricher)
        add(processor)

    add(installed.processor)
    provider.add_span_processor = add_span_processor
    _installed[provider] = installed
    return installed


def post_instrument() -> None:
    """Entry point of ``opentelemetry_post_instrument``. Never raises: the agent comes first."""
    try:
        install()
    except Exception:
        _log.warning("lowwater is not active: it could not be installed", exc_info=True)


class ActivatingExporter(SpanExporter):
    """Entry point of ``opentelemetry_traces_exporter``: exports nothing itself, and installs lowwater for the others."""

    def __init__(self) -> None:
        post_instrument()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Nothing to do."""
        return SpanExportResult.SUCCESS


def _warn(view: PoolView) -> None:
    _log.warning(
        "fan-out of %d subagents commits %d tokens, %s over the ceiling of %s: run fewer at once, or lower their budgets",
        view.width,
        view.committed_tokens,
        view.excess_tokens,
        view.ceiling_tokens,
    )


def _enricher(environment: Mapping[str, str], strip_content: bool) -> Enricher:
    key = environment.get("LOWWATER_HASH_KEY")
    more = tuple(name.strip() for name in environment.get("LOWWATER_RETRIEVERS", "").split(",") if name.strip())
    return Enricher(strip_content=strip_content, hash_key=key.encode()[:64] if key else None, retrievers=more)


def _pool_of(environment: Mapping[str, str]) -> tuple[dict[str, Any] | None, dict[str, int]]:
    ceiling = _tokens(environment, "LOWWATER_POOL_CEILING_TOKENS")
    sizes = {
        "reserved_tokens": _tokens(environment, "LOWWATER_SUBAGENT_RESERVED_TOKENS"),
        "content_budget_tokens": _tokens(environment, "LOWWATER_SUBAGENT_CONTENT_BUDGET_TOKENS"),
    }
    if not ceiling:
        return None, sizes
    return {
        "ceiling_tokens": ceiling,
        "parent_reserve_tokens": _tokens(environment, "LOWWATER_POOL_PARENT_RESERVE_TOKENS"),
        "synthesis_reserve_tokens": _tokens(environment, "LOWWATER_POOL_SYNTHESIS_RESERVE_TOKENS"),
    }, sizes


def _tokens(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text:
        return 0
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        _log.warning("%s=%r is ignored: a number of tokens is wanted, for example %s=200000", name, text[:40], name)
        return 0
    return number


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in _TRUE
