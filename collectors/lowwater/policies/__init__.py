"""Decision rules: numbers in, decision out. No clock, no state, no input or output.

The same functions decide in the detector and in an orchestrator that asks before it acts::

    plan_fanout(...).require()        before subagents are started
    arbitrate(...).require()          before a turn
    redistribute(...).require()       before budget moves
    admit_compaction(...).require()   at a turn boundary
    classify_rejection(...)           after a refusal
    enforce_retry_policy(...)         before a retry
"""

from lowwater.policies.compaction import CompactionScheduler, admit_compaction
from lowwater.policies.fanout import plan_fanout, redistribute
from lowwater.policies.rejection import classify_rejection
from lowwater.policies.retry import enforce_retry_policy
from lowwater.policies.starvation import arbitrate

__all__ = [
    "CompactionScheduler",
    "admit_compaction",
    "arbitrate",
    "classify_rejection",
    "enforce_retry_policy",
    "plan_fanout",
    "redistribute",
]
