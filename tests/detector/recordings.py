"""Recordings of real frameworks, read as lowwater reads them, beside what the scripted server counted.

``python tests/detector/recordings.py`` writes ``docs/frameworks.md``; the test says when it is needed.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lowwater.collectors.enrich import MAX_TEXT_CHARACTERS, is_content
from lowwater.detector.findings import Finding
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.replay import Replay

__all__ = ["LIMITS", "RECORDINGS", "Heard", "Recording", "document"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "recorded"
DOCUMENT = ROOT / "docs" / "frameworks.md"
CONSUMERS = ("system", "tools", "retrieval", "scratchpad", "working")

LIMITS = {
    "tools": "schemas of tools are not recorded: system and tools are one number",
    "text": "text that stands beside calls of tools is not recorded",
    "retrieval": "retrievers are not told from other tools: retrieval counts as scratchpad",
    "retrieval_content_free": "without content, retrievers are not told from other tools",
    "claims_content_free": "without content, what tools added is not told from what people said",
    "output_tokens": "the output of streamed answers is a token off",
    "output": "the limit of output is not recorded: nothing is reserved for the answer",
    "agents": "agents have no names",
    "fanout": "subagents are no spans: the width of a fan-out is not seen unless it is declared",
    "summary": "the call that sums up a history leaves no span",
    "compaction": "a compaction is not told from the start of another context",
    "compaction_content_free": "without content, a compaction is not told from the start of another context",
    "contexts_content_free": "without content, unnamed contexts that run at once are not told apart, and not judged here",
    "summaries_content_free": "without content, a history that another agent is given to sum up is taken for that agent's head",
    "refusals": "refused calls leave no span",
    "retries": "attempts that are repeated inside a call leave no span",
    "refusal_classes": "the reason of a refusal is not recorded",
}
"""What an instrumentation may lack, and what lowwater then says. A recording's limits are those of its ``.limits.json``."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What lowwater made of a recording."""

    entries: tuple[LedgerEntry, ...]
    findings: tuple[Finding, ...]
    pools: tuple[PoolReport, ...]

    def answered(self) -> list[LedgerEntry]:
        """Calls whose usage is known."""
        return [entry for entry in self.entries if entry.input_tokens is not None]


@dataclass(frozen=True)
class Recording:
    """One framework's recording of the common stories."""

    name: str

    @cached_property
    def story(self) -> dict[str, Any]:
        """Facts that the recorder knew."""
        story: dict[str, Any] = self._truth["story"]
        return story

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        """The calls that the server was asked for, refused ones included."""
        calls: list[dict[str, Any]] = self._truth["calls"]
        return calls

    @cached_property
    def limits(self) -> dict[str, str]:
        """Key of `LIMITS` to the reason why it holds for this framework."""
        limits: dict[str, str] = json.loads((FOLDER / f"{self.name}.limits.json").read_text())
        return limits

    @cached_property
    def _truth(self) -> dict[str, Any]:
        truth: dict[str, Any] = json.loads((FOLDER / f"{self.name}.truth.json").read_text())
        return truth

    @cached_property
    def full(self) -> Heard:
        """As read with content."""
        return _heard(self._path(""))

    @cached_property
    def content_free(self) -> Heard:
        """As recorded with content switched off; where there is no switch, with content attributes removed."""
        path = self._path(".content-free")
        if path.exists():
            return _heard(path)
        with tempfile.TemporaryDirectory() as folder:
            cut = Path(folder) / "cut.otlp.jsonl"
            cut.write_text("".join(map(_without_content, _lines(self._path("")))), encoding="utf-8")
            return _heard(cut)

    def heard(self, *, content: bool) -> Heard:
        """What lowwater made of it."""
        return self.full if content else self.content_free

    def groups(self, *, content: bool, but: str = "") -> tuple[tuple[str, ...], ...]:
        """Consumers that can be told apart; or could, but for one limit."""
        limits = self.limits.keys() - {but}
        head: tuple[tuple[str, ...], ...] = (("system",), ("tools",))
        claims: tuple[tuple[str, ...], ...] = (("retrieval",), ("scratchpad",))
        if not content or "tools" in limits:
            head = (("system", "tools"),)
        if "retrieval" in limits or (not content and "retrieval_content_free" in limits):
            claims = (("retrieval", "scratchpad"),)
        if not content and "claims_content_free" in limits:
            return (*head, ("retrieval", "scratchpad", "working"))
        return (*head, *claims, ("working",))

    def pairs(self, *, content: bool) -> Iterator[tuple[LedgerEntry, dict[str, Any]]]:
        """Each entry with usage and the call that it is: of the same service and size, and the most alike."""
        groups = self.groups(content=content)
        left = [call for call in self.calls if call["status"] == 200]
        for entry in self.heard(content=content).answered():
            alike = [
                call for call in left if (service(call), call["prompt_tokens"]) == (entry.service, entry.input_tokens)
            ]
            if not alike:
                msg = f"{self.name}: {entry.service} made no call of {entry.input_tokens} tokens, or not so often"
                raise AssertionError(msg)
            best = min(alike, key=lambda call: error(entry, call, groups))
            left.remove(best)
            yield entry, best

    def tolerance(self, *, content: bool) -> float:
        """How far the share of a consumer may be from the truth, as a part of the prompt."""
        if not content:
            return 0.15
        return 0.10 if {"tools", "text"} & self.limits.keys() else 0.05

    def judged(self, *, content: bool) -> Iterator[tuple[LedgerEntry, dict[str, Any], float]]:
        """Entries that can be judged, with their calls and the largest error of a consumer."""
        groups = self.groups(content=content)
        mixed = not content and "contexts_content_free" in self.limits
        handed = not content and "summaries_content_free" in self.limits
        for entry, call in self.pairs(content=content):
            if not (mixed and service(call) == "survey") and not (handed and call.get("summary")):
                yield entry, call, error(entry, call, groups)

    def _path(self, kind: str) -> Path:
        return FOLDER / f"{self.name}{kind}.otlp.jsonl.gz"


RECORDINGS = [Recording(path.name.removesuffix(".limits.json")) for path in FOLDER.glob("*.limits.json")]
RECORDINGS.sort(key=lambda recording: recording.name)


def service(call: dict[str, Any]) -> str:
    """The service of a call of the truth: the first word of its scenario."""
    return str(call["scenario"]).partition("-")[0]


def split(entry: LedgerEntry) -> dict[str, int]:
    """Tokens by consumer."""
    reserved = entry.reserved
    tokens = (reserved.system, reserved.tools, entry.retrieval_tokens, entry.scratchpad_tokens, entry.working_tokens)
    assert None not in tokens, "a known prompt has a known split"
    return {name: value or 0 for name, value in zip(CONSUMERS, tokens, strict=True)}


def error(entry: LedgerEntry, call: dict[str, Any], groups: Sequence[tuple[str, ...]]) -> float:
    """The largest error of a group of consumers, as a part of the prompt."""
    seen, known = split(entry), call["consumers"]
    off = (abs(sum(seen[name] - known[name] for name in group)) for group in groups)
    return float(max(off) / call["prompt_tokens"])


def _heard(path: Path) -> Heard:
    output = list(Replay().run([str(path)]))
    pools = {(pool.pool, pool.run): pool for pool in output if isinstance(pool, PoolReport)}
    return Heard(
        tuple(item for item in output if isinstance(item, LedgerEntry)),
        tuple(item for item in output if isinstance(item, Finding)),
        tuple(pools.values()),
    )


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from lines


def _without_content(line: str) -> str:
    """The line without attributes that hold content, and without log records."""
    request = json.loads(line)
    for resource in request.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for holder in (span, *span.get("events", ())):
                    holder["attributes"] = [each for each in holder.get("attributes", ()) if not _holds_content(each)]
    return "" if "resourceLogs" in request else json.dumps(request) + "\n"


def _holds_content(attribute: dict[str, Any]) -> bool:
    text = attribute["value"].get("stringValue", "")
    return is_content(attribute["key"]) or len(text) > MAX_TEXT_CHARACTERS


# --- the document ----------------------------------------------------------------------------------------------------

_HEAD = """# Frameworks

What was recorded from real frameworks, and how well lowwater reads it. Every recording plays the same stories against a
scripted model server that counts each prompt itself (`tests/record/README.md`): a loop over tools and a retriever, streamed,
with a refusal for rate and one for budget; a lead with three readers at once; a history that is summed up. Written by
`python tests/detector/recordings.py`, and checked by a test.

*Error* is the largest error of a consumer's share in any call, as a part of that call's prompt (the mean over calls in
brackets). With content it is at most 5 %, or 10 % where a part of the prompt is not recorded; without content it is at most
15 %, by consumers that can be told apart.
"""


def document() -> str:
    """The text of ``docs/frameworks.md``."""
    rows = [
        "| recording | framework | instrumentation | calls | error with content | error without |",
        "|---|---|---|---|---|---|",
    ]
    rows += [
        f"| `{each.name}` | {each.story['framework']} | {each.story['instrumentation']} | {len(each.calls)} | "
        f"{_percent(each, content=True)} | {_percent(each, content=False)} |"
        for each in RECORDINGS
    ]
    parts = [_HEAD, "\n".join(rows), "\n## What is not in the trace\n"]
    for each in RECORDINGS:
        switch = each.story.get("content_switch") or "no switch; measured with content attributes removed"
        parts.append(f"### {each.name}\n\nContent: {switch}.\n")
        if not each.limits:
            continue
        parts.append("\n".join(f"- {LIMITS[key]} ({reason})" for key, reason in each.limits.items()) + "\n")
    return "\n".join(parts).rstrip() + "\n"


def _percent(recording: Recording, *, content: bool) -> str:
    errors = [off for _, _, off in recording.judged(content=content)]
    return f"{100 * max(errors):.1f} % ({100 * sum(errors) / len(errors):.1f} %)"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
