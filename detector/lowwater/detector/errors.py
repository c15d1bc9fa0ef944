"""The error tree of the detector.

::

    LowwaterError
    ├── InputError                      something to read is missing, unreadable or of no known format
    ├── ConfigError                     configuration refused, by key
    ├── StateError                      stored state is damaged, or of a later version
    └── BudgetError                     a decision rule refuses: see `lowwater.policies.errors`

Leaves are named for what the caller can do about them. Each message names the place and the remedy.
"""

from __future__ import annotations

from lowwater.collectors.errors import LowwaterError

__all__ = ["ConfigError", "InputError", "LowwaterError", "StateError"]


class InputError(LowwaterError):
    """An input cannot be read: the message names the file, the place and the remedy."""


class StateError(LowwaterError):
    """A stored state cannot be read: damaged, or written by a later version."""


class ConfigError(LowwaterError):
    """A configuration key is unknown or its value refused: the message names the key and the remedy."""
