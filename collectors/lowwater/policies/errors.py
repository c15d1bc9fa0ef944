"""What decision rules refuse, and the base of all of lowwater's errors.

::

    LowwaterError
    └── BudgetError                         a decision rule refuses; raised by the gates of an orchestrator
        ├── WorkingMemoryStarvationError    the working set cannot be held
        ├── BudgetStarvationError           a fan-out or a redistribution does not fit its pool
        ├── CompactionStagingDeadlock       compaction needs room that only compaction could free
        └── DebtClassificationError         a rejection cannot be told from compaction debt with this record
"""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "BudgetStarvationError",
    "CompactionStagingDeadlock",
    "DebtClassificationError",
    "LowwaterError",
    "WorkingMemoryStarvationError",
]


class LowwaterError(Exception):
    """Base of every error that lowwater raises on purpose."""


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
