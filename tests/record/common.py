"""The stories that every framework can play, so that one table of tests judges them all.

- ``desk``: ``oncall-desk`` works through tools and a retriever, streamed; one call is refused for its rate and done
  again, and the follow-up question is refused because the budget is spent.
- ``survey``: ``survey-lead`` calls one tool three times at once; each starts a ``service-reader`` of its own.
- ``log``: ``log-keeper`` reads until its window of 8,192 tokens is more than half full, sums up, and goes on from the
  summary.

Each story is a service of that name in the recording. Nothing but what an instrumentation writes by itself tells the
agents apart, unless the framework has names for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.record import story
from tests.record.server import Scenario, Script
from tests.record.wire import Answer, Call, Refusal, Request

__all__ = [
    "BUDGET_REFUSAL",
    "CLAUDE",
    "DESK",
    "LOG",
    "LOG_TRIGGER_TOKENS",
    "MODEL",
    "OUTPUT_TOKENS",
    "READER",
    "SMALL_MODEL",
    "SUMMARY_REQUEST",
    "SURVEYED",
    "SURVEY_LEAD",
    "Log",
    "Role",
    "desk",
    "log",
    "read_journal",
    "scenarios",
    "survey",
]

MODEL = "gpt-4.1-mini"
SMALL_MODEL = "gpt-4"
"""Public names, so that their windows come from the table of models: a million tokens and 8,192. The answers are the
script's."""

CLAUDE = "claude-haiku-4-5"
"""The same for frameworks that speak Anthropic's protocol: 200,000 tokens."""

OUTPUT_TOKENS = 700
"""The limit of output that every request states."""


@dataclass(frozen=True, slots=True)
class Role:
    """What an application tells a framework of one agent."""

    name: str
    prompt: str
    task: str


# --- desk ------------------------------------------------------------------------------------------------------------

DESK = Role("oncall-desk", story.RESEARCH_PROMPT, "p99 latency of checkout-api rose from 140 ms to 480 ms. Why?")
DESK_FOLLOW_UP = "Who has to approve the change?"

_TOO_FAST = Refusal(
    429,
    "rate_limit_exceeded",
    "Rate limit reached for requests per minute. Please try again in 20ms.",
    kind="requests",
    retry_after_seconds=0.02,
)
BUDGET_REFUSAL = "budget_exceeded"
_NO_BUDGET = Refusal(
    429, BUDGET_REFUSAL, "Budget has been exceeded! Current cost: 12.02, Max budget: 12.0", kind=BUDGET_REFUSAL
)


def desk() -> Script:
    """Five answers with a refusal in between, then no budget however often it is asked for."""
    replies = (
        Answer(
            "I begin with what the runbooks say about such a step.",
            (Call("search_runbooks", {"query": "connection pool and timeout"}),),
        ),
        Answer(
            "Waiting time in front of a fast dependency is the sign. I look at the latency and at the deploys.",
            (
                Call("query_metrics", {"service": "checkout-api", "metric": "latency_p99_ms"}),
                Call("list_deploys", {"service": "payment-gateway"}),
            ),
        ),
        _TOO_FAST,
        Answer(
            "The pool of payment-gateway went from 40 to 20 at 22:48, which fits the step. The log must show waiting.",
            (Call("search_logs", {"service": "payment-gateway", "pattern": "waiting for connection"}),),
        ),
        Answer(
            "It does: pool=20/20 on every line. Last, how to undo it and what the database allows.",
            (Call("search_runbooks", {"query": "rollback with the database in mind"}),),
        ),
        Answer(
            "Cause: the pool of payment-gateway was halved at 22:48. Evidence: the log shows pool=20/20 and waits. "
            "Proposal: pool_max back to 40 on both sides in one deploy, then restart the workers zone after zone.",
        ),
        _NO_BUDGET,
    )
    return Script("desk", DESK.name, replies, story.RETRIEVERS)


# --- survey ----------------------------------------------------------------------------------------------------------

SURVEYED = ("cart-api", "checkout-api", "stock-api")
SURVEY_LEAD = Role(
    "survey-lead",
    "You lead the survey of a web shop before a sale. Send one reader to each service, all at once, by calling the "
    "tool once for each of them in the same turn. Wait for all reports. Then say in one paragraph which services may "
    "go into the sale, which may not, and which number decided. Take over what the readers report and do not guess. "
    "When two reports contradict each other, say so and name both. Times are UTC, and zones are called a, b and c. "
    "Services that nobody read are not mentioned.",
    f"Survey {', '.join(SURVEYED)}.",
)
READER = Role(
    "service-reader",
    "You read one service of a web shop for the survey before a sale. Read its latency first and its logs after "
    "that, each of them once, then report in two sentences whether the service may go into the sale, and name the one "
    "number that decided. A service whose pool is exhausted must not go into the sale before the pool is restored. "
    "Do not guess and do not read other services. Times are UTC, and zones are called a, b and c.",
    "Read {service}.",
)
SURVEY_TOOL = "read_service"
SURVEY_TOOL_DOC = (
    "Send a reader to one service of the web shop and return its report.\n\nArgs:\n    service: name of the service."
)
"""Docstring of the lead's tool, from which frameworks make its schema."""


def survey() -> list[Script]:
    """The lead and its readers. The delays differ, so that every recording has the same order of answers."""
    sent = Answer("I send three readers.", tuple(Call(SURVEY_TOOL, {"service": name}) for name in SURVEYED))
    close = Answer("All three services wait for the pool to be restored: each shows pool=20/20. The latency decided.")
    return [Script("survey", SURVEY_LEAD.name, (sent, close)), *map(_reader, range(len(SURVEYED)))]


def _reader(place: int) -> Script:
    service, delay = SURVEYED[place], 0.5 + 0.06 * place
    steps = (
        Answer("The latency first.", (Call("query_metrics", {"service": service, "metric": "latency_p99_ms"}),), delay),
        Answer("Now the logs.", (Call("search_logs", {"service": service, "pattern": "deadline exceeded"}),), delay),
        Answer(f"{service} may go into the sale once its pool is restored: pool=20/20 decided.", (), delay),
    )
    return Script(f"survey-{service}", READER.name, steps)


# --- log -------------------------------------------------------------------------------------------------------------

LOG = Role(
    "log-keeper",
    "You keep the journal of the night at a web shop. Read the journal hour by hour, one hour at a time and in order, "
    "and remember of each hour what the day shift must know: what went wrong, when it began, who was told, and what is "
    "still open. Entries that repeat each other count once. Waits below 500 ms are normal at night and are not worth a "
    "word. An order that was tried three times is worth one. When all hours are read, write the note for the day "
    "shift in three sentences and say which hours you have read. Times are UTC, and zones are called a, b and c. "
    "Never write down what you did not read.",
    "Write the note for the day shift. The hours are 20 to 26.",
)
LOG_TRIGGER_TOKENS = 4_200
"""Half of the window: after a prompt of at least so many tokens the history is summed up before the next call."""

SUMMARY_REQUEST = "Sum up all that you have read so far, so that you can go on without the entries."
SUMMARY = (
    "Hours 20 to 24 are read. Hour 20 and 21: waits grew in zone b, and orders were tried three times. Hour 22: the "
    "pool of payment-gateway was changed at 22:48, and the payment team was told at 23:10. Hours 23 and 24: the pool "
    "stayed full, and nobody had approved the rollback. Open: the rollback, and who restarts the workers."
)
HOURS = range(20, 27)


def read_journal(hour: int) -> str:
    """Read the journal of one hour of the night.

    Args:
        hour: the hour, counted on past midnight, for example 25 for one o'clock.
    """
    rows = [
        f"{hour % 24:02d}:{minute:02d} zone {'abc'[(hour + minute) % 3]} order {hour * 7919 + minute * 104_729} tried "
        f"{(hour * minute) % 3 + 1} times, waited {(hour * 37 + minute * 53) % 900 + 50} ms for the pool, note "
        f"{(hour + minute) % 17}"
        for minute in (step * 4 // 3 for step in range(45))
    ]
    return f"journal of hour {hour}\n" + "\n".join(rows)


@dataclass(slots=True)
class Log:
    """The keeper: reads hour after hour, and sums up whenever it is asked to.

    Attributes:
        marker: what the last message of a request holds that asks for a summary; a framework may word it itself.
        summarizer: the agent that asks for it.
    """

    marker: str = SUMMARY_REQUEST
    summarizer: str = LOG.name
    name: str = "log"
    agent: str = LOG.name
    retrievers: frozenset[str] = frozenset()
    documents: Sequence[str] = ()
    hours: list[int] = field(default_factory=lambda: list(HOURS))

    def reply(self, request: Request) -> Answer:
        """The next hour, the note when there is none, or a summary."""
        if self.marker in request.pieces[-1].text:
            return Answer(SUMMARY, summary=True, agent=self.summarizer)
        if not self.hours:
            return Answer(
                "All hours from 20 to 26 are read. The pool was full since 22:48. The rollback is still open."
            )
        hour = self.hours.pop(0)
        return Answer(f"Next is hour {hour}.", (Call("read_journal", {"hour": hour}),))


def log(marker: str = SUMMARY_REQUEST, summarizer: str = LOG.name) -> Log:
    """The keeper, asked for summaries by a message that holds the marker."""
    return Log(marker, summarizer)


def scenarios(marker: str = SUMMARY_REQUEST, summarizer: str = LOG.name) -> list[Scenario]:
    """All stories."""
    return [desk(), *survey(), log(marker, summarizer)]
