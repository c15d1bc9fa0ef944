"""Why a call failed, reduced to a status, a code and named phrases. The message itself is dropped.

Providers, gateways and SDKs put the decisive word in different places: a budget error comes as 400, 403 or 429, with
a type, a code, or only a sentence. The phrases are matched here, once, while the text is at hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lowwater.collectors.reading import Failure
from lowwater.collectors.records import SpanRecord
from lowwater.collectors.values import count, first, text_of

__all__ = ["SIGNALS", "read_failure", "span_failure"]

SIGNALS: Mapping[str, re.Pattern[str]] = {
    # Money: OpenAI insufficient_quota, Anthropic credit balance, LiteLLM's spend budgets, AI gateways' hard limits.
    "spend_cap": re.compile(
        r"insufficient_quota|exceeded your current quota|credit balance is too low|billing|hard limit|payment required|"
        r"spend(?:ing)? (?:limit|cap)|max[_ ]budget|current cost",
        re.IGNORECASE,
    ),
    # Tokens per minute or day: the TPM wording of OpenAI and Azure, Anthropic's input-token rate limits.
    "token_quota": re.compile(
        r"tokens per (?:min|day)|\bTPM\b|\bTPD\b|token[_ ]quota|input tokens per minute|usage limit|session limit",
        re.IGNORECASE,
    ),
    # A governor's own word, which does not say which budget: LiteLLM's and agent governors' budget_exceeded.
    "budget_exceeded": re.compile(r"budget[_ ]?(?:has been )?exceeded|exceeded[_ ]?budget|over budget", re.IGNORECASE),
    "rate_limit": re.compile(
        r"rate[_ -]?limit|too many requests|requests per (?:min|day|second)|\bRPM\b|throttl", re.IGNORECASE
    ),
    "overloaded": re.compile(
        r"overloaded|server is busy|capacity|temporarily unavailable|service unavailable", re.IGNORECASE
    ),
    # The prompt is too long for the window: OpenAI, Anthropic, Bedrock, vLLM and Gemini wordings.
    "context_length": re.compile(
        r"context[_ ]?length|context window|maximum context|prompt is too long|input is too long|too many (?:input )?tokens|"
        r"exceed(?:s|ed)? the (?:maximum|max|model)[a-z' ]* (?:tokens|length)|request too large|ContextWindowOverflow",
        re.IGNORECASE,
    ),
    # A gateway reports what the provider behind it said: OpenRouter, LiteLLM, Envoy AI gateway.
    "upstream": re.compile(r"provider returned error|rate-limited upstream|upstream (?:error|provider)", re.IGNORECASE),
}
"""Named phrases. The names are public vocabulary: `classify_rejection` decides by them."""

_STATUS = re.compile(
    r"(?:error code|status(?:[ _]code)?|http(?:/\d(?:\.\d)?)?)\D{0,4}([45]\d\d)\b|^\s*([45]\d\d)\b", re.IGNORECASE
)
_CODE = re.compile(r"""['"](?:code|type)['"]\s*:\s*['"]([A-Za-z][\w.-]{2,60})['"]""")
_NUMBER = r"\d{1,9}(?:\.\d{1,12})?"
_RETRY = re.compile(
    r"(?:retry[-_ ]?after(?:[-_ ]?(?P<named>ms|seconds))?|retry[-_]?delay|try again in|retry in)\W{0,4}(?P<wait>"
    rf"(?:{_NUMBER}(?:h|ms|m|s)){{2,4}}|"
    rf"{_NUMBER}\s{{0,2}}(?:milliseconds?|ms|hours?|minutes?|min|seconds?|secs?|h|m|s)(?![a-z])|"
    rf"{_NUMBER}(?!\s?[a-z]|\.?\d))",
    re.IGNORECASE,
)
_WAIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_CLIENT_CLOSED = 499
"""nginx's status for a request that the caller gave up."""
_ABORTED = re.compile(r"\babort(?:ed)?\b|cancell?ed|CancelledError|KeyboardInterrupt|AbortError", re.IGNORECASE)
_GENERIC_CODES = frozenset({"error", "object", "invalid_request_error", "api_error", "server_error"})

_MAX_SCANNED = 16_384
"""Characters of a message that are searched: stack traces and echoed prompts follow after the decisive words."""


def read_failure(
    kind: str | None,
    message: str | None,
    status: int | None = None,
    *,
    code: str | None = None,
    retry_after_seconds: float | None = None,
) -> Failure:
    """Reduce an error to what classification needs.

    Args:
        kind: ``error.type`` or the exception's class.
        message: the error's text; searched and dropped.
        status: HTTP status, where something states it.
        code: the provider's code, where something states it.
        retry_after_seconds: from a header, where there was one.

    >>> read_failure("RateLimitError", "Error code: 429 - Provider returned error").upstream
    True
    """
    text = (message or "")[:_MAX_SCANNED]
    if status is None and (found := _STATUS.search(text)):
        status = int(found.group(1) or found.group(2))
    if status is None and kind and kind.isdigit() and len(kind) == 3:
        status = int(kind)
    codes = [name for name in _CODE.findall(text) if name.lower() not in _GENERIC_CODES]
    code = code or (codes[0] if codes else None)
    searched = f"{kind or ''} {code or ''} {text}"
    signals = tuple(name for name, pattern in SIGNALS.items() if name != "upstream" and pattern.search(searched))
    if retry_after_seconds is None:
        retry_after_seconds = _wait_seconds(text)
    return Failure(
        type=_name(kind),
        status=status,
        code=_name(code),
        signals=signals,
        retry_after_seconds=retry_after_seconds,
        upstream=bool(SIGNALS["upstream"].search(text)),
        aborted=status == _CLIENT_CLOSED or (status is None and not signals and bool(_ABORTED.search(searched))),
    )


def _wait_seconds(text: str) -> float | None:
    """The wait that a message asks for: ``20s``, ``850ms``, ``1m30.5s``, ``2 minutes``, or a bare number of seconds."""
    found = _RETRY.search(text)
    if found is None:
        return None
    named = "ms" if (found.group("named") or "").lower() == "ms" else ""
    units = [(float(number), unit.lower() or named) for number, unit in _WAIT.findall(found.group("wait"))]
    return sum(number * (0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[:1]]) for number, unit in units)


def span_failure(span: SpanRecord) -> Failure | None:
    """The failure that a span tells: its exception event, ``error.type``, status and HTTP status; None if it is fine."""
    attributes = span.attributes
    kind = text_of(attributes.get("error.type"))
    message = span.status_message
    for event in span.events:
        if event.name in ("exception", "gen_ai.client.operation.exception"):
            kind = kind or text_of(event.attributes.get("exception.type"))
            message = f"{message} {text_of(event.attributes.get('exception.message')) or ''}"
    status = count(first(attributes, "http.response.status_code", "http.status_code", "error.status_code"))
    refused = status is not None and status >= 400
    if not refused and (span.status_code == "ok" or (span.status_code != "error" and kind is None)):
        return None
    status = status if refused else None
    code = text_of(first(attributes, "error.code", "litellm.provider.error.code"))
    return read_failure(kind, message, status, code=code)


def _name(value: Any) -> str | None:
    """A class name or code, cut to the length that names have; longer text is no name and might be content."""
    text = text_of(value)
    if text is None or len(text) > 80 or any(character.isspace() for character in text):
        return None
    return text
