"""What "input tokens" means: cache-inclusive or cache-exclusive, and when it is not known at all.

The same prompt is reported as 12,632 by one dialect and as 3 with 12,629 written to cache by another. The
rules below decide per call and say which one decided; the ledger publishes that name.
"""

from __future__ import annotations

from lowwater.collectors.reading import Usage

__all__ = ["resolve_input"]

_IMPLAUSIBLE_FACTOR = 12
"""Content outside tool schemas that is estimated at this many times the reported input refutes it.

Estimates are off by a factor of two at worst on text, and by four where schemas count; a factor of ten and
more has only been seen where the cached part was left out of the number."""


def resolve_input(
    usage: Usage | None, *, exclusive_seen: bool = False, content_tokens: int | None = None
) -> tuple[int | None, str]:
    """The whole prompt in tokens, cached part included, and the rule that decided.

    Args:
        usage: as reported.
        exclusive_seen: an earlier call of the same producer (scope, version, provider) was certainly cache-exclusive.
        content_tokens: estimated tokens of the prompt's content without tool schemas, where content is present.

    Returns:
        The input in tokens or None, and one of ``absent``, ``zero``, ``cache_exceeds_input``, ``parts_sum``,
        ``total``, ``producer``, ``producer_observed``, ``exclusive_without_cache``, ``implausible_for_content``,
        ``specification``.

    >>> resolve_input(Usage(input_tokens=4, cache_read_tokens=29447, cache_write_tokens=2861))
    (32312, 'cache_exceeds_input')
    >>> resolve_input(Usage(input_tokens=0, output_tokens=0))
    (None, 'zero')
    """
    if usage is None or usage.input_tokens is None:
        return None, "absent"
    reported = usage.input_tokens
    cached_known = usage.cache_read_tokens is not None or usage.cache_write_tokens is not None
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    if reported == 0 and cached == 0:
        return None, "zero"
    if cached > reported:
        return reported + cached, "cache_exceeds_input"
    if usage.uncached_tokens is not None and usage.uncached_tokens + cached == reported:
        return reported, "parts_sum"
    if usage.cache_inclusive is not None:
        if usage.cache_inclusive:
            return reported, "producer"
        return (reported + cached, "producer") if cached_known else (None, "exclusive_without_cache")
    if cached and usage.total_tokens is not None and usage.output_tokens is not None:
        rest = usage.total_tokens - usage.output_tokens
        if rest == reported + cached:
            return reported + cached, "total"
        if rest == reported:
            return reported, "total"
    if exclusive_seen and cached_known:
        return reported + cached, "producer_observed"
    if not cached_known and content_tokens is not None and content_tokens > _IMPLAUSIBLE_FACTOR * max(reported, 16):
        return None, "implausible_for_content"
    return reported, "specification"
