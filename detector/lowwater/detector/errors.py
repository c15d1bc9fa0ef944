"""The error tree of the detector.

::

    LowwaterError
    ├── InputError                      something to read is missing, unreadable or of no known format
    ├── ConfigError                     configuration refused, by key
    ├── StateError                      stored state is damaged, or of a later version
    └── BudgetError                     a decision rule refuses; raised by the gates of an orchestrator
        ├── WorkingMemoryStarvationError    the working set cannot be held
        ├── BudgetStarvationError           a fan-out or a redistribution does not fit its pool
        ├── CompactionStagingDeadlock       compaction needs room that only compaction could free
        └── DebtClassificationError         a rejection cannot be told from compaction debt with this record

Leaves are named for what the caller can do about them. Each message names the place and the remedy.
"""

from __future__ import annotations

from lowwater.collectors.errors import LowwaterError

__all__ = [
    "BudgetError",
    "BudgetStarvationError",
    "CompactionStagingDeadlock",
    "ConfigError",
    "DebtClassificationError",
    "InputError",
    "LowwaterError",
    "StateError",
    "WorkingMemoryStarvationError",
]


class InputError(LowwaterError):
    """An input cannot be read: the message names the file, the place and the remedy."""


class StateError(LowwaterError):
    """A stored state cannot be read: damaged, or written by a later version."""


class ConfigError(LowwaterError):
    """A configuration key is unknown or its value refused: the message names the key and the remedy."""


class BudgetError(LowwaterError):
    """A decision rule refuses what was asked."""


class WorkingMemoryStarvationError(BudgetError):
    """The working set of a task cannot be held in what the other consumers leave."""


class BudgetStarvationError(BudgetError):
    """A fan-out or a redistribution does not fit the pool."""


class CompactionStagingDeadlock(BudgetError):  # noqa: N818 - the published name
    """Compaction needs staging room that only compaction could free."""


class DebtClassificationError(BudgetError):
    """A rejection cannot be told from compaction debt: the compaction record is missing or absurd."""
