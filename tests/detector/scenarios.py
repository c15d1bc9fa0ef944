"""Stories told in readings: what the operators must see, and what they must not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.detector.builders import call, content

from lowwater.collectors.content import BlockKind
from lowwater.collectors.reading import Reading
from lowwater.detector.config import DetectorConfig
from lowwater.detector.findings import Finding
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.pipeline import Output, Pipeline

S, T, U, A = BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA, BlockKind.USER, BlockKind.ASSISTANT
ARGS, RESULT, CHUNK = BlockKind.TOOL_ARGUMENTS, BlockKind.TOOL_RESULT, BlockKind.RETRIEVAL


def run(readings: Iterable[Reading], config: DetectorConfig | None = None) -> list[Output]:
    return list(Pipeline(config).run(sorted(readings, key=Reading.order)))


def findings(readings: Iterable[Reading], config: DetectorConfig | None = None) -> list[Finding]:
    return [output for output in run(readings, config) if isinstance(output, Finding)]


def entries(readings: Iterable[Reading], config: DetectorConfig | None = None) -> list[LedgerEntry]:
    return [output for output in run(readings, config) if isinstance(output, LedgerEntry)]


def words(tokens: int, seed: str) -> str:
    """Text of about so many tokens, different for every seed."""
    letters = "".join(chr(ord("k") + int(character)) if character.isdigit() else character for character in seed)
    return " ".join(f"{letters[:4]}{letters[4:][-3:]}{'abcdefghij'[index % 10]}" for index in range(tokens))


def turn(
    number: int,
    *,
    retrieval: Sequence[str] = (),
    scratchpad: Sequence[str] = (),
    working: Sequence[str] = ("plan", "goal", "idea", "note", "list"),
    ceiling: int = 28_700,
    outside: int = 10_590,
    need: int | None = 6_000,
    sizes: tuple[int, int, int] = (400, 1_000, 500),
    system: int = 600,
    **fields: Any,
) -> Reading:
    """One call whose prompt holds the named chunks, tool results and messages at the given sizes."""
    blocks: list[tuple[BlockKind, str] | tuple[BlockKind, str, str]] = [
        (S, words(system, "sys")),
        (T, words(10, "tool")),
    ]
    blocks += [(CHUNK, words(sizes[0], name)) for name in retrieval]
    blocks += [(RESULT, words(sizes[1], name), name) for name in scratchpad]
    blocks += [(U, words(sizes[2], name)) for name in working]
    total = system + 10 + sizes[0] * len(retrieval) + sizes[1] * len(scratchpad) + sizes[2] * len(working)
    declared: dict[str, object] = {"context.ceiling_tokens": ceiling, "reserved.output_tokens": outside}
    if need is not None:
        declared["working_set.required_tokens"] = need
    return call(
        f"c{number}",
        number * 10.0,
        input_tokens=total,
        output_tokens=100,
        conversation="c",
        agent_name="researcher",
        content=content(*blocks),
        declared=declared,
        **fields,
    )


CHUNKS = [f"chunk{number}" for number in range(15)]
RESULTS = [f"result{number}" for number in range(9)]
