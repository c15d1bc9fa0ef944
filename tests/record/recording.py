"""Records the common stories with one framework, with and without content, and writes what is true of them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.record import common
from tests.record.capture import Capture, write_truth
from tests.record.server import ModelServer, Scenario

__all__ = ["EXAMPLES", "FIXTURES", "Stage", "environment", "record_stories"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "recorded"


@dataclass(frozen=True, slots=True)
class Stage:
    """What a framework plays on.

    Attributes:
        server: answers as the stories say.
        capture: gives the providers of spans and log records.
        content: whether messages are to be captured.
    """

    server: ModelServer
    capture: Capture
    content: bool

    def openai_url(self, scenario: str) -> str:
        """Base URL for OpenAI clients."""
        return f"{self.server.url(scenario)}/v1"


def record_stories(
    name: str,
    play: Callable[[Stage], None],
    *,
    framework: str,
    instrumentation: str,
    content_switch: str | None,
    scenarios: Callable[[], list[Scenario]] = common.scenarios,
    folder: Path = FIXTURES,
    **facts: Any,
) -> list[Path]:
    """Record the stories; the files that were written.

    Args:
        name: of the recording.
        play: runs all stories once.
        framework: name and version, for people.
        instrumentation: name and version, for people.
        content_switch: how a user turns content off, None where it cannot be: then only one recording is made.
        scenarios: what the server plays.
        folder: where the files go.
        facts: anything else that a reader of the truth needs.

    Raises:
        RuntimeError: the agents did something else when content was not captured.
    """
    paths, truths = [], []
    for content in (True,) if content_switch is None else (True, False):
        capture = Capture(name if content else f"{name}.content-free")
        with ModelServer(scenarios()) as server:
            play(Stage(server, capture, content))
        truths.append(server.truth())
        paths.append(capture.write(folder, compressed=True))
    if any(truth != truths[0] for truth in truths):
        msg = "the agents did something else when content was not captured"
        raise RuntimeError(msg)
    write_truth(
        folder / f"{name}.truth.json",
        truths[0],
        framework=framework,
        instrumentation=instrumentation,
        content_switch=content_switch,
        output_reservation_tokens=common.OUTPUT_TOKENS,
        **facts,
    )
    limits = folder / f"{name}.limits.json"
    if not limits.exists():
        limits.write_text(json.dumps({}) + "\n")
    return paths


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables, as a user sets them before the agent starts."""
    before: Mapping[str, str | None] = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
