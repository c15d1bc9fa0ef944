"""Errors of the agent side.

::

    LowwaterError
    └── DialectError        a dialect plug-in could not be loaded, or is not a dialect

Nothing in this package raises into an agent: the span processor swallows and counts.
These errors reach only people who configure or extend lowwater.
"""

from __future__ import annotations

from lowwater.policies.errors import LowwaterError

__all__ = ["DialectError", "LowwaterError"]


class DialectError(LowwaterError):
    """A dialect plug-in could not be loaded, or does not keep the `Dialect` interface."""
