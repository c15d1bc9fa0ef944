"""Why a request is refused, and how that is said in each protocol.

Source: OpenTelemetry Protocol specification 1.9, "Failures" of OTLP/gRPC and of OTLP/HTTP.
"""

from __future__ import annotations

import enum

__all__ = ["Refusal", "Why"]


class Why(enum.Enum):
    """A reason: its HTTP status, its gRPC code's name, and whether the sender should try again."""

    MALFORMED = (400, "INVALID_ARGUMENT", False)
    UNAUTHENTICATED = (401, "UNAUTHENTICATED", False)
    NOT_FOUND = (404, "UNIMPLEMENTED", False)
    METHOD = (405, "UNIMPLEMENTED", False)
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED", False)  # without RetryInfo this code is not retried
    UNSUPPORTED = (415, "UNIMPLEMENTED", False)
    INTERNAL = (500, "INTERNAL", False)
    UNAVAILABLE = (503, "UNAVAILABLE", True)

    def __init__(self, http_status: int, grpc_code: str, retryable: bool) -> None:
        self.http_status, self.grpc_code, self.retryable = http_status, grpc_code, retryable


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault of ours
    """A request is refused.

    Attributes:
        reason: a word for the metric of what was dropped.
        message: for the sender: what is wrong and what to do. Holds nothing of the request's content.
        retry_after_seconds: when to come back, where that helps.
    """

    def __init__(self, why: Why, reason: str, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.why, self.reason, self.message, self.retry_after_seconds = why, reason, message, retry_after_seconds
