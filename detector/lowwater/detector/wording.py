"""Numbers, moments and findings in words: the same in every report, printed or drawn."""

from __future__ import annotations

import datetime
import hashlib

from lowwater.detector.findings import Finding

__all__ = ["duration", "finding_name", "plural", "short_id", "tokens", "when"]

_NAMES = {
    "fanout_overcommitted": "fan-out overcommitted",
    "fanout_overrun": "fan-out overrun",
    "fanout_redistribution_unsafe": "unsafe redistribution",
    "compaction_debt_share": "rejections are compaction debt",
}
"""Where a kind reads better than with spaces for its underscores."""


def finding_name(finding: Finding) -> str:
    """The kind of a finding in words; of a rejection, what refused the call."""
    kind = finding.kind.value
    if kind == "rejection":
        return f"rejected: {str(finding.evidence.get('class', 'unknown')).replace('_', ' ')}"
    return _NAMES.get(kind, kind.replace("_", " "))


def tokens(value: float | None) -> str:
    """A token count for people: exact below ten thousand, then in thousands; unknown is a question mark.

    >>> tokens(None), tokens(4530), tokens(174_738), tokens(1_048_576)
    ('?', '4,530', '174.7k', '1.05M')
    """
    if value is None:
        return "?"
    if abs(value) < 10_000:
        return f"{value:,.0f}"
    if abs(value) < 1_000_000:
        return f"{value / 1_000:.1f}k"
    return f"{value / 1_000_000:.2f}M"


def when(time_ns: int | None, *, date: bool = True) -> str:
    """A moment for people, in UTC: with its date, or the time of day alone.

    >>> when(1_750_000_000_500_000_000), when(1_750_000_000_500_000_000, date=False), when(None)
    ('2025-06-15 15:06:40Z', '15:06:40', '?')
    """
    if time_ns is None:
        return "?"
    moment = datetime.datetime.fromtimestamp(time_ns // 1_000_000_000, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ" if date else "%H:%M:%S")


def duration(seconds: float) -> str:
    """A length of time for people, in its two largest units.

    >>> duration(0.4), duration(12.3), duration(754), duration(7_300), duration(200_000)
    ('0.4 s', '12 s', '12 min 34 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s".replace(" 0 s", "")
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min".replace(" 0 min", "")
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h".replace(" 0 h", "")


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "call"), plural(1_200, "call"), plural(2, "retry")
    ('1 call', '1,200 calls', '2 retries')
    """
    if count != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
    return f"{count:,} {noun}"


def short_id(context: str) -> str:
    """Six digits that tell contexts of one name apart, the same in every report.

    >>> short_id("svc/conversation/agent/model")
    'e5f5be'
    """
    return hashlib.blake2b(context.encode(), digest_size=3).hexdigest()
