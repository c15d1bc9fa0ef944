"""Errors in the words of providers, gateways and SDKs, and what is left of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.failures import SIGNALS, read_failure, span_failure
from lowwater.collectors.records import SpanEvent, SpanRecord


@pytest.mark.parametrize(
    ("kind", "message", "status", "code", "signals"),
    [
        ("RateLimitError", "Error code: 429 - {'error': {'message': 'You exceeded your current quota, please check your "
         "plan and billing details.', 'type': 'insufficient_quota', 'code': 'insufficient_quota'}}",
         429, "insufficient_quota", ("spend_cap", "rate_limit")),
        ("RateLimitError", "Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o on tokens per min "
         "(TPM): Limit 30000, Used 29000.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}",
         429, "tokens", ("token_quota", "rate_limit")),
        ("RateLimitError", "429 Too Many Requests", 429, None, ("rate_limit",)),
        ("OverloadedError", "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': "
         "'Overloaded'}}", 529, "overloaded_error", ("overloaded",)),
        ("BadRequestError", "Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': "
         "'prompt is too long: 210000 tokens > 200000 maximum'}}", 400, None, ("context_length",)),
        ("BadRequestError", "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens\", "
         "'code': 'context_length_exceeded'}}", 400, "context_length_exceeded", ("context_length",)),
        ("ContextWindowOverflowException", "", None, None, ("context_length",)),
        ("BudgetExceededError", "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", None, None,
         ("spend_cap", "budget_exceeded")),
        ("BadRequestError", "{'error': {'message': 'ExceededBudget: User over budget', 'type': 'budget_exceeded', "
         "'code': '400'}}", None, "budget_exceeded", ("budget_exceeded",)),
        ("BadRequestError", "Error code: 400 - {'error': {'message': \"Unsupported parameter: 'max_tokens'\", 'type': "
         "'invalid_request_error', 'code': 'unsupported_parameter'}}", 400, "unsupported_parameter", ()),
        ("AuthenticationError", "HTTP 401 unauthorized", 401, None, ()),
        ("503", "", 503, None, ()),
        ("ThrottlingException", "", None, None, ("rate_limit",)),
        (None, None, None, None, ()),
    ],
)  # fmt: skip
def test_wordings(
    kind: str | None, message: str | None, status: int | None, code: str | None, signals: tuple[str, ...]
) -> None:
    failure = read_failure(kind, message)
    assert (failure.status, failure.code, failure.signals) == (status, code, signals)
    assert not failure.upstream
    assert not failure.aborted


def test_a_gateway_that_passes_on_a_refusal() -> None:
    failure = read_failure(
        "ModelHTTPError",
        "status_code: 429, body: {'message': 'Provider returned error', 'code': 429, 'metadata': {'raw': "
        "'x is temporarily rate-limited upstream. Please retry shortly'}}",
    )
    assert failure.upstream
    assert (failure.status, failure.signals) == (429, ("rate_limit",))


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 20s. Visit", 20.0),
        ("Please try again in 1m30.5s.", 90.5),
        ("try again in 6m0s", 360.0),
        ("try again in 850ms", 0.85),
        ("try again in 2 minutes", 120.0),
        ("retry in 1 hour", 3_600.0),
        ("Please retry in 34.07s.", 34.07),
        ("'retryDelay': '34s'", 34.0),
        ("Retry-After: 30", 30.0),
        ("retry-after-ms: 1500", 1.5),
        ('{"retry_after": 12}', 12.0),
        ("Please retry after 26 seconds.", 26.0),
        ("retry after 3 attempts", None),
        ("try again in a while", None),
        ("the 20s", None),
    ],
)
def test_waits(message: str, seconds: float | None) -> None:
    assert read_failure(None, message).retry_after_seconds == pytest.approx(seconds)
    assert read_failure(None, message, retry_after_seconds=5.0).retry_after_seconds == 5.0


@pytest.mark.parametrize("kind", ["CancelledError", "AbortError", "asyncio.exceptions.CancelledError"])
def test_what_the_caller_gave_up_is_no_rejection(kind: str) -> None:
    assert read_failure(kind, "").aborted
    assert read_failure(None, "Request was aborted.").aborted
    assert read_failure(None, "HTTP 499").aborted
    assert not read_failure(kind, "Error code: 429").aborted
    assert not read_failure(kind, "rate limit reached").aborted


@pytest.mark.parametrize("kind", ["a sentence with words", "x" * 81, ""])
def test_text_is_no_type(kind: str) -> None:
    assert read_failure(kind, "").type is None
    assert read_failure("openai.RateLimitError", "").type == "openai.RateLimitError"


@given(st.text(), st.text(), st.none() | st.integers(400, 599))
def test_any_words_give_known_signals_and_no_words(kind: str, message: str, status: int | None) -> None:
    said = "the secret of the message"
    failure = read_failure(kind, f"{message} {said} {message}", status)
    assert set(failure.signals) <= set(SIGNALS)
    assert said.encode() not in pickle.dumps(failure)
    assert failure.retry_after_seconds is None or failure.retry_after_seconds >= 0


def span(status_code: str = "unset", status_message: str = "", *events: SpanEvent, **attributes: object) -> SpanRecord:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return SpanRecord(
        "t", "s", status_code=status_code, status_message=status_message, attributes=named, events=events
    )  # fmt: skip


EXCEPTION = SpanEvent(
    "exception", 1, {"exception.type": "openai.RateLimitError", "exception.message": "Error code: 429 - rate limit"}
)


def test_where_a_span_tells_its_failure() -> None:
    assert span_failure(span()) is None
    assert span_failure(span(http__response__status_code=200)) is None
    for failing in (
        span("error", "Error code: 429 - rate limit"),
        span("error", "", EXCEPTION),
        span("unset", "", EXCEPTION),
        span("unset", "", http__response__status_code=429, error__type="rate_limit"),
        span("ok", "", http__status_code=429, error__type="rate_limit"),
    ):
        failure = span_failure(failing)
        assert failure is not None
        assert (failure.status, failure.signals) == (429, ("rate_limit",))


def test_an_exception_that_was_handled_is_no_failure() -> None:
    """Status "ok" is set on purpose; libraries leave it unset."""
    assert span_failure(span("ok", "", EXCEPTION)) is None


def test_a_good_status_on_a_failing_span_is_not_the_failures_status() -> None:
    failure = span_failure(span("error", "stream broke", http__response__status_code=200))
    assert failure is not None
    assert failure.status is None


def test_error_type_goes_before_the_exception() -> None:
    failure = span_failure(span("error", "", EXCEPTION, error__type="rate_limit_exceeded"))
    assert failure is not None
    assert failure.type == "rate_limit_exceeded"
