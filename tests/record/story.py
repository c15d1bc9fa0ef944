"""What happens in the recordings, without any framework: tools, prompts and what the model says.

Night shift at a web shop: checkout is slow. ``incident-researcher`` looks for the cause with a window of 6,144 tokens.
Its prompt assembler keeps every prompt at six tenths of the window and pins all tool results, so what it drops is the
agent's own notes: no gauge moves, and after a while the agent asks for what it has already. ``handover-writer`` does
similar work, but lets old tool results go. ``audit-lead`` sends four auditors at once; each stays within its own
window, while their sum breaks the pool that they share. ``queue-patrol`` is refused again and again: twice for its
rate, then, when the budget is spent, for good.

Everything is invented. Tools return the same result for the same arguments, as a stale dashboard does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.record.server import Script
from tests.record.wire import Answer, Call, Refusal

__all__ = [
    "AUDITED",
    "AUDITOR_PROMPT",
    "AUDITOR_TASK",
    "BUDGET_TOKENS",
    "CEILING_TOKENS",
    "DECLARED",
    "HANDOVER_PROMPT",
    "HANDOVER_TASK",
    "LEAD_PROMPT",
    "LEAD_TASK",
    "MODEL",
    "OUTPUT_TOKENS",
    "PATROL_MODEL",
    "PATROL_PROMPT",
    "PATROL_TASK",
    "POOL",
    "RESEARCH_PROMPT",
    "RESEARCH_TASK",
    "RETRIEVERS",
    "TOOLS",
    "auditor",
    "handover",
    "lead",
    "passages",
    "patrol",
    "research",
]

MODEL = "oncall-6k"
"""Invented: no table of models knows it, so its window must be declared."""

CEILING_TOKENS = 6_144
BUDGET_TOKENS = 3_690
"""Six tenths of the window: where the assembler keeps the prompt."""
OUTPUT_TOKENS = 900

DECLARED: Mapping[str, int] = {
    "lowwater.context.ceiling_tokens": CEILING_TOKENS,
    "lowwater.working_set.required_tokens": 1_000,
    "lowwater.reserved.retry_tokens": 450,
    "lowwater.reserved.staging_tokens": 750,
}

AUDITED = ("cart-api", "checkout-api", "payment-gateway", "stock-api")
POOL: Mapping[str, int | str] = {
    "lowwater.pool.id": "nightly-audit",
    "lowwater.pool.ceiling_tokens": 6_000,
    "lowwater.pool.parent_reserve_tokens": 900,
    "lowwater.pool.synthesis_reserve_tokens": 600,
    "lowwater.pool.planned_width": len(AUDITED),
    "lowwater.pool.measure": "occupancy",
    "lowwater.subagent.content_budget_tokens": 1_400,
    "lowwater.context.ceiling_tokens": 4_096,
}

RETRIEVERS = frozenset({"search_runbooks"})

_RUNBOOKS = {
    "pool": "[RB-14 Connection pools, section 2] Size a pool from the peak request rate times the p95 hold time, then "
    "add one fifth. A pool that is too small shows as waiting time in front of a fast dependency: the "
    "dependency's own latency stays flat while its caller's grows. Raising the limit on the caller alone "
    "moves the queue into the database. Change both sides in one deploy and watch pool_wait_ms for ten "
    "minutes.",
    "timeout": "[RB-09 Timeouts, section 1] A caller's timeout must exceed the callee's by the cost of one retry. "
    "Nested retries multiply: three layers with three attempts each turn one slow call into 27. Before "
    "raising a timeout, read retry_total of every layer and switch off all but the outermost.",
    "rollback": "[RB-03 Rolling back, section 4] Roll back first when a deploy lies within thirty minutes of the "
    "first alert and touches the failing path. Configuration is a deploy, too: the list of deploys shows "
    "it as kind=config. A rollback of configuration needs a restart of the workers, one zone after the "
    "other.",
    "database": "[RB-21 Database saturation, section 3] Read active sessions before queries. More than two active "
    "sessions per core is saturation, and slow queries are then its effect. A lock chain shows one "
    "session with wait_event=none and many behind it; end that one, never the waiters.",
}


def search_runbooks(query: str) -> str:
    """Search the runbooks of the shop and return the passages that match best.

    Args:
        query: a few words, for example "pool sizing".
    """
    return "\n\n".join(passages(query)) or "no passage matches"


def passages(query: str) -> list[str]:
    """The passages by themselves, for frameworks that have retrievers."""
    return [text for word, text in _RUNBOOKS.items() if word in query.lower()]


def query_metrics(service: str, metric: str) -> str:
    """Read one metric of one service since 22:00, in steps of ten minutes, for each zone.

    Args:
        service: name of the service, for example "checkout-api".
        metric: name of the metric, for example "latency_p99_ms".
    """
    seed = sum(map(ord, service + metric))
    rows = [
        f"{22 + step // 6:02d}:{step % 6}0 a={(seed * (step + 3)) % 397 + 90} b={(seed * (step + 5)) % 389 + 90} "
        f"c={(seed * (step + 8)) % 401 + 90} err={(seed + step) % 7}"
        for step in range(14)
    ]
    return f"{service} {metric} by zone\n" + "\n".join(rows)


def search_logs(service: str, pattern: str) -> str:
    """Search the logs of one service for a pattern and return the newest lines.

    Args:
        service: name of the service.
        pattern: text that the lines contain.
    """
    seed = sum(map(ord, service + pattern))
    lines = [
        f"23:{11 + line:02d}:{(seed + line * 7) % 60:02d} {service}-{line % 3} WARN {pattern} "
        f"order={seed * 31 + line * 17} attempt={line % 3 + 1} wait={(seed * (line + 2)) % 900 + 100}ms pool=20/20"
        for line in range(9)
    ]
    return "\n".join(lines)


def list_deploys(service: str) -> str:
    """List the latest deploys of one service, configuration changes included.

    Args:
        service: name of the service.
    """
    seed = sum(map(ord, service))
    rows = [f"{20 - day:02d} Dec 21:{(seed + day) % 60:02d} {service} v{seed % 40}.{9 - day} ok" for day in range(3)]
    return "\n".join([f"21 Dec 22:48 {service} kind=config pool_max 40 -> 20", *rows])


TOOLS: tuple[Callable[..., str], ...] = (search_runbooks, query_metrics, search_logs, list_deploys)
"""Plain functions: every framework wraps them in its own way."""


# --- the researcher that starves -------------------------------------------------------------------------------------

RESEARCH_PROMPT = (
    "You are the on-call researcher of a web shop. Find the cause of the incident that you are given. Work in small "
    "steps: state what you believe and why, name what would prove you wrong, then call one tool. Keep a list of the "
    "hypotheses that are open and of those that are closed, with the evidence for each. Do not change anything in "
    "production; propose changes to the person on call. Times are UTC. Zones are called a, b and c. A deploy that "
    "touches the failing path within thirty minutes before the first alert is a suspect until it is cleared. Close "
    "with a summary of at most five sentences: cause, evidence, proposed change, risk, and what to watch. Say so when "
    "the evidence does not suffice."
)
RESEARCH_TASK = (
    "Incident 4471, opened 23:10. p99 latency of checkout-api rose from 140 ms to 480 ms within minutes, in all "
    "zones. Orders still go through, but one in thirty times out in the browser. The payment provider reports no "
    "incident. Constraints: the sale starts at 06:00, and after 05:00 nothing may be deployed. The database team asks "
    "not to add sessions. Find the cause and propose one change."
)

_POOL_QUESTION = Call("search_runbooks", {"query": "connection pool sizing"})
_GATEWAY_DEPLOYS = Call("list_deploys", {"service": "payment-gateway"})

_STEPS: tuple[tuple[str, Call], ...] = (
    (
        "Open hypotheses: H1 a deploy on the payment path, H2 a slow database, H3 retries that multiply, H4 a zone "
        "that is unhealthy. The alert names all zones, which speaks against H4. I start with the shape of the "
        "latency, because a step points to a deploy and a ramp points to saturation.",
        Call("query_metrics", {"service": "checkout-api", "metric": "latency_p99_ms"}),
    ),
    (
        "All zones rise together, so H4 is closed. The rise is a step near 22:50, about twenty minutes before the "
        "alert. That favours H1. Constraint to remember: nothing may be deployed after 05:00, so whatever I propose "
        "needs an owner by 04:00. Next, what was deployed on the payment path.",
        _GATEWAY_DEPLOYS,
    ),
    (
        "There is a configuration change at 22:48: the pool of payment-gateway went from 40 to 20. It touches the "
        "failing path and lies inside thirty minutes, so it is the suspect. It would be cleared if waiting time in "
        "front of the gateway had not grown. Next, what the runbook says about pools.",
        _POOL_QUESTION,
    ),
    (
        "The runbook names the sign to look for: the dependency's own latency stays flat while the caller's grows. If "
        "the gateway itself is slow, H1 in this form is wrong. It also warns that raising one side alone moves the "
        "queue into the database, which the database team asked us not to do.",
        Call("query_metrics", {"service": "payment-gateway", "metric": "latency_p99_ms"}),
    ),
    (
        "The gateway is noisy but without a step. So far H1 holds: the queue is in front of it. I keep in mind that a "
        "change must cover both sides in one deploy. To rule out H3 I need the log lines of the retries.",
        Call("search_logs", {"service": "checkout-api", "pattern": "retrying payment"}),
    ),
    (
        "Every line shows pool=20/20: the pool is full whenever a retry happens, and attempts reach three. H3 is "
        "therefore an effect at least in part. Whether nested retries make it worse depends on the layers, which the "
        "runbook on timeouts lists. I also want the number of layers for the risk section.",
        Call("search_runbooks", {"query": "timeout and retry layers"}),
    ),
    (
        "Three layers with three attempts each would be 27 calls for one order. We see at most three attempts in one "
        "layer. I keep H3 open as an amplifier, not as the cause. Now H2: sessions of the database, since they limit "
        "the change.",
        Call("query_metrics", {"service": "orders-db", "metric": "active_sessions"}),
    ),
    (
        "Sessions swing widely, and I cannot tell saturation from load without the threshold. The rule was two active "
        "sessions per core, if I recall it well; I check it before I close H2, because the proposal stands or falls "
        "with it.",
        Call("search_runbooks", {"query": "database saturation"}),
    ),
    (
        "The threshold is confirmed. With 64 cores the database is far from saturated, so H2 is closed as a cause, "
        "and there is room for about forty more sessions. That number matters: it bounds the pool that I may propose. "
        "Next, whether the gateway says why it waits.",
        Call("search_logs", {"service": "payment-gateway", "pattern": "waiting for connection"}),
    ),
    (
        "The waits lie between 100 and 1,000 ms and would explain the latency alone. Proposal so far: pool_max back "
        "to 40 on both sides, in one deploy, owner by 04:00, at most forty more sessions in the database. Missing: "
        "the rollback procedure for configuration, and the waiting time as a metric.",
        Call("search_runbooks", {"query": "rollback of configuration"}),
    ),
    (
        "A rollback of configuration needs a restart of the workers, zone after zone. That belongs into the risk. "
        "Last open point: the waiting time before and after 22:48.",
        Call("query_metrics", {"service": "checkout-api", "metric": "pool_wait_ms"}),
    ),
)
"""What the researcher thinks and does while it has room."""

_CIRCLES: tuple[tuple[str, Call], ...] = (
    ("The waiting time is high. What does the runbook say about the size of a pool?", _POOL_QUESTION),
    ("Before I propose a size: was something deployed on the payment path?", _GATEWAY_DEPLOYS),
    ("A change of the pool. How is a pool sized?", _POOL_QUESTION),
    ("When was the gateway deployed?", _GATEWAY_DEPLOYS),
    ("I need the rule for the size of the pool.", _POOL_QUESTION),
    ("Was there a deploy close to the alert?", _GATEWAY_DEPLOYS),
    ("Which size does the runbook give?", _POOL_QUESTION),
    ("Let me look at the deploys of the gateway.", _GATEWAY_DEPLOYS),
    ("The pool may be too small. I check the runbook.", _POOL_QUESTION),
    ("I look up how pools are sized.", _POOL_QUESTION),
)
"""What it does once its notes are gone: the questions of earlier turns, word for word."""

_GIVEN_UP = (
    "Latency of checkout-api is raised and the pool of payment-gateway was changed. I could not establish whether the "
    "change is the cause, and I cannot say what the database allows. Please look at the runbook on connection pools."
)


def research() -> Script:
    """The researcher: eleven good steps, ten in circles, and no result."""
    steps = [Answer(text, (call,)) for text, call in (*_STEPS, *_CIRCLES)]
    return Script("research", "incident-researcher", (*steps, Answer(_GIVEN_UP)), RETRIEVERS)


# --- the writer that stays healthy -----------------------------------------------------------------------------------

HANDOVER_PROMPT = (
    "You write the handover of the night shift. Read what the tools show, keep one line of notes for each service, "
    "and close with the handover: what happened, what is still open, who must do what before 06:00."
)
HANDOVER_TASK = (
    "Write the handover for checkout-api, payment-gateway, cart-api and stock-api. The day shift starts at 06:00."
)


def handover() -> Script:
    """The writer: seven turns, all of them with room."""
    reads = (
        Call("query_metrics", {"service": "checkout-api", "metric": "latency_p99_ms"}),
        Call("list_deploys", {"service": "checkout-api"}),
        Call("search_logs", {"service": "payment-gateway", "pattern": "waiting for connection"}),
        Call("search_runbooks", {"query": "rollback of configuration"}),
        Call("query_metrics", {"service": "cart-api", "metric": "error_ratio"}),
        Call("query_metrics", {"service": "stock-api", "metric": "queue_depth"}),
    )
    notes = (
        "I begin with checkout-api, which had the incident.",
        "checkout-api: p99 stepped up near 22:50 in all zones. Now its deploys.",
        "checkout-api: pool_max went from 40 to 20 at 22:48. Now whether the gateway waits.",
        "payment-gateway: pool full at 20 of 20, waits up to 1,000 ms. Now how such a change is undone.",
        "Rolling back needs a restart, zone after zone, before 05:00. Now cart-api.",
        "cart-api: errors at the usual level. Now stock-api.",
    )
    closing = (
        "Handover. checkout-api is slow since a pool was halved at 22:48; the payment team restores it before 05:00 "
        "and restarts zone after zone. cart-api is well. The queue of stock-api swings without a trend: the stock "
        "team looks at it after 06:00."
    )
    steps = [Answer(text, (call,)) for text, call in zip(notes, reads, strict=True)]
    return Script("handover", "handover-writer", (*steps, Answer(closing)), RETRIEVERS)


# --- the lead and its auditors ---------------------------------------------------------------------------------------

LEAD_PROMPT = "You lead the nightly audit. Send one auditor to each service, all at once, and sum up what they report."
LEAD_TASK = f"Audit {', '.join(AUDITED)} and report in one paragraph."
AUDITOR_PROMPT = (
    "You audit one service of a web shop. Read its latency, its errors, its deploys and its logs, then report in two "
    "sentences whether it may go into the sale, and name the one number that decided. Do not guess: read each source "
    "once."
)
AUDITOR_TASK = "Audit {service} for the sale that starts at 06:00."


def lead() -> Script:
    """The lead: one fan-out, one summary."""
    send = Answer("I send four auditors at once.", (Call("audit_services", {"services": list(AUDITED)}),))
    close = Answer("All four services were read. checkout-api and payment-gateway wait for the pool to be restored.")
    return Script("lead", "audit-lead", (send, close))


def auditor(service: str) -> Script:
    """One auditor. The delays differ a little, so that every recording has the same order."""
    delay = 0.3 + 0.02 * AUDITED.index(service)
    reads = (
        ("I begin with the latency.", Call("query_metrics", {"service": service, "metric": "latency_p99_ms"})),
        ("Next the errors.", Call("query_metrics", {"service": service, "metric": "error_ratio"})),
        ("Next the logs.", Call("search_logs", {"service": service, "pattern": "deadline exceeded"})),
        ("Last the deploys.", Call("list_deploys", {"service": service})),
    )
    steps = [Answer(text, (call,), delay) for text, call in reads]
    close = Answer(
        f"{service} may go into the sale once its pool is restored. The number that decided is pool=20/20.", (), delay
    )
    return Script(f"audit-{service}", "service-auditor", (*steps, close), RETRIEVERS)


# --- the patrol that is refused --------------------------------------------------------------------------------------

PATROL_MODEL = "gpt-4.1-mini"
"""A public name, so that its window comes from the table of models. The answers are the script's."""

PATROL_PROMPT = "You patrol the queues of a web shop every hour. Read one queue at a time and raise what is unusual."
PATROL_TASK = (
    "Patrol the queues of stock-api and checkout-api. Check the runbook on pool sizing before you raise anything."
)

_SLOW_DOWN = Refusal(
    429,
    "rate_limit_exceeded",
    "Rate limit reached for requests per minute. Please try again in 2s.",
    kind="requests",
    retry_after_seconds=2,
)
_NO_BUDGET = Refusal(
    429, "budget_exceeded", "Budget has been exceeded! Current cost: 12.02, Max budget: 12.0", kind="budget_exceeded"
)


def patrol() -> Script:
    """The patrol: three answers, with refusals before the second and instead of the fourth."""
    queue = Call("query_metrics", {"service": "stock-api", "metric": "queue_depth"})
    pool = Call("query_metrics", {"service": "checkout-api", "metric": "pool_wait_ms"})
    replies = (
        Answer("I begin with stock-api.", (queue,)),
        _SLOW_DOWN,
        _SLOW_DOWN,
        Answer("stock-api swings without a trend. Next checkout-api.", (pool,)),
        Answer(
            "The pool waits. I look closer.", (Call("search_logs", {"service": "checkout-api", "pattern": "pool"}),)
        ),
        _NO_BUDGET,
        _NO_BUDGET,
        _NO_BUDGET,
    )
    return Script("patrol", "queue-patrol", replies, documents=tuple(_RUNBOOKS.values()))
