"""What scenarios are made of: a process with its randomness, ids and names, and what became true in it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lowwater.detector.simulation.agents import EPOCH_NS, SECOND_NS, AgentLoop, Ids, Policy, Work
from lowwater.detector.simulation.model import Agent, Expected, LlmCall, Run, Truth

__all__ = ["Scenario", "Stage", "calls_of"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Attributes:
        family: ``starvation``, ``fanout``, ``compaction``, ``rejection`` or ``healthy``.
        look_alike_of: the family that it resembles without being of it; empty otherwise.
        make: from a seed to a run.
    """

    name: str
    family: str
    summary: str
    make: Callable[[int], Run]
    look_alike_of: str = ""


_SERVICES = ("desk", "coder", "research", "support", "ops")
_ROLES = ("researcher", "writer", "planner", "triage", "reviewer")


class Stage:
    """One process: its randomness, ids, names, and what became true in it."""

    def __init__(self, name: str, seed: int) -> None:
        self.draw = random.Random(f"{name}/{seed}")
        self.ids = Ids(f"{name}/{seed}")
        self.name, self.seed = name, seed
        self.service = self.draw.choice(_SERVICES)
        self.role = self.draw.choice(_ROLES)
        self.start_ns = EPOCH_NS + self.draw.randrange(3_600) * SECOND_NS
        self.agents: list[Agent] = []
        self.truth = Truth(name)

    def loop(
        self, work: Work, policy: Policy, *, window_tokens: int, after_seconds: float = 0.0, **options: int | bool
    ) -> AgentLoop:
        """A new agent's loop; its run is part of the process."""
        start_ns = self.start_ns + int(after_seconds * SECOND_NS)
        agent = Agent(
            self.ids.span(), self.ids.trace(), self.role, f"{self.role}-{self.ids.text()}", start_ns, start_ns,
            f"conv-{self.ids.text()}", model_window_tokens=window_tokens,
        )  # fmt: skip
        self.agents.append(agent)
        return AgentLoop(self.draw, self.ids, agent, work, policy, **options)  # type: ignore[arg-type]

    def watched(self, loop: AgentLoop) -> None:
        """Take over what is true of a loop that has run, with the starvation that it shows."""
        self.truth.calls += loop.truths
        bad = 0
        for truth in loop.truths:
            bad = bad + 1 if truth.regime == "starved" else 0
            if bad == 2:
                first = loop.truths[loop.truths.index(truth) - 1]
                self.expect("silent_starvation", loop.agent, first.span_id, first.turn)
                break

    def expect(self, kind: str, agent: Agent, span_id: int, turn: int, label: str = "") -> None:
        """A right detector finds this."""
        self.truth.expected.append(Expected(kind, agent.id, agent.trace_id, span_id, turn, label))
        self.truth.healthy = False

    def run(self, look_alike: str = "") -> Run:
        """The run."""
        self.truth.look_alike = look_alike
        self.truth.agent_hours = sum(_hours(agent) for agent in self.agents)
        return Run(self.service, self.seed, self.agents, self.truth)


def _hours(agent: Agent) -> float:
    own = (agent.end_ns - agent.start_ns) / SECOND_NS / 3_600
    return own + sum(_hours(step) for step in agent.steps if isinstance(step, Agent))


def calls_of(agent: Agent) -> Iterator[LlmCall]:
    """The agent's own calls, in order; those of its subagents are not among them."""
    return (step for step in agent.steps if isinstance(step, LlmCall))
