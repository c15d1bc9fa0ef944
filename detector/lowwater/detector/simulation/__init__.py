"""Simulated agents with known truth: what happens (`model`), how it happens, and how a framework would trace it.

::

    scenario (seed) --agents, pools, governors--> Run (what happened, with truth) --emit--> spans in a dialect
"""
