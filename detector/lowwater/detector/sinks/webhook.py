"""Findings posted to a URL as JSON, signed, until they are taken."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

import requests

from lowwater.detector.findings import Severity
from lowwater.detector.sinks.base import RefusedError, UnavailableError

__all__ = ["Webhook"]

_TIMEOUT_SECONDS = 10.0
_RETRYABLE = frozenset((408, 425, 429))


class Webhook:
    """Posts ``{"schema": "lowwater.findings/1", "findings": [...]}``; any 2xx answer takes them.

    A post may come twice, after a crash or an answer that was lost; the ids of findings are the same then.

    Args:
        url: where to.
        min_severity: findings below it are not posted.
        secret: key of the signature ``X-Lowwater-Signature: sha256=<HMAC of the body>``; None for no signature.
        token: bearer token; None for none.
    """

    name = "webhook"

    def __init__(
        self, url: str, *, min_severity: Severity = Severity.INFO, secret: str | None = None, token: str | None = None
    ) -> None:
        self._url, self._min_severity, self._secret = url, min_severity, secret
        self._session = requests.Session()
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def deliver(self, lines: Sequence[dict[str, Any]]) -> None:
        """Post lines."""
        wanted = [line for line in lines if Severity[line["severity"].upper()] >= self._min_severity]
        if not wanted:
            return
        body = json.dumps({"schema": "lowwater.findings/1", "findings": wanted}, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Lowwater-Signature"] = f"sha256={digest}"
        try:
            answer = self._session.post(
                self._url, data=body, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False
            )
        except requests.RequestException as error:
            raise UnavailableError(f"cannot be reached ({type(error).__name__})") from error
        status = answer.status_code
        if 200 <= status < 300:
            return
        if status in _RETRYABLE or status >= 500:
            after = answer.headers.get("Retry-After", "")
            raise UnavailableError(f"answered {status}", float(after) if after.isdecimal() else None)
        raise RefusedError(f"answered {status}")

    def close(self) -> None:
        """Close connections."""
        self._session.close()
