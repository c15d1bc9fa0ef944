"""States survive the way to bytes and back, also into later versions; damage and foreign objects do not get in."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import pickle
import random
import zlib
from collections import deque
from pathlib import Path

import pytest

from lowwater.collectors.consumers import Provenance
from lowwater.collectors.content import Content
from lowwater.detector.codec import Codec
from lowwater.detector.errors import StateError
from lowwater.detector.events import Anchor
from lowwater.detector.findings import Advice, Kind, Severity
from lowwater.detector.operators.base import Episode
from lowwater.detector.replay import Replay

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.otlp.jsonl"))


def plain(value: object) -> object:
    """Whatever a state is made of, as something that can be compared."""
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | deque):
        return [type(value).__name__, *map(plain, value)]
    if dataclasses.is_dataclass(value):
        return [type(value).__name__, *(plain(getattr(value, field.name)) for field in dataclasses.fields(value))]
    if type(value).__module__.startswith(("lowwater.", "river.")) and not isinstance(value, enum.Enum):
        return [type(value).__name__, plain(value.__reduce_ex__(2)[2:3])]
    return value


@pytest.fixture(scope="module")
def states() -> list[object]:
    """All states of replays of the examples."""
    found: list[object] = []
    for path in EXAMPLES:
        replay = Replay()
        list(replay.run([str(path)]))
        for space in replay.pipeline.spaces.values():
            found += space.values()
    return found


def test_states_of_real_runs_come_back_equal(states: list[object]) -> None:
    codec = Codec()
    written = [codec.encode(state) for state in states]
    # The reader knows what was stored beside the data, and nothing else.
    reader = Codec(json.loads(json.dumps(codec.schema)))
    for state, data in zip(states, written, strict=True):
        again = reader.decode(data)
        assert plain(again) == plain(state)
    assert {type(state).__name__ for state in states} >= {"TraceState", "ScopeState", "TurnState", "RoleState"}


def test_content_and_enums_come_back_equal() -> None:
    content = Content(bytearray(b"\x01\x02"), messages=2)
    content.keys.extend([2**64 - 1, 7])
    episode = Episode(bad=3, first_span_id="s")
    values = (content, episode, Kind.REJECTION, Severity.PAGE, Provenance.MEASURED, Advice("release", None))
    codec = Codec()
    again = codec.decode(codec.encode(values))
    assert again == values
    assert again[2] is Kind.REJECTION


def test_a_new_field_takes_its_default_and_a_dropped_one_is_ignored() -> None:
    old = Codec()
    data = old.encode(Anchor("a", True, "name", "parent", open=True))
    (name, fields), *_ = old.schema.items()
    renamed = [field if field != "open" else "was_open" for field in fields]
    assert Codec({name: renamed}).decode(data) == Anchor("a", True, "name", "parent", open=False)


def test_a_missing_field_without_default_is_an_error_that_names_it() -> None:
    old = Codec()
    data = old.encode(Anchor("a"))
    (name, fields), *_ = old.schema.items()
    with pytest.raises(StateError, match="Anchor lacks id"):
        Codec({name: ["ident", *fields[1:]]}).decode(data)


def test_old_and_new_shapes_of_a_class_live_side_by_side() -> None:
    old = Codec()
    data = old.encode(Anchor("a", open=True))
    (name, fields), *_ = old.schema.items()
    codec = Codec({name: [field if field != "open" else "was_open" for field in fields]})
    new = codec.encode(Anchor("b", open=True))
    reader = Codec(json.loads(json.dumps(codec.schema)))
    assert (reader.decode(data), reader.decode(new)) == (Anchor("a"), Anchor("b", open=True))


def test_a_class_of_another_version_is_an_error() -> None:
    codec = Codec({"lowwater.detector.events:Gone": ["a"]})
    writer = Codec()
    data = writer.encode(Anchor("a"))
    with pytest.raises(StateError, match="another version"):
        codec.decode(data)


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "lowwaterx.detector:A"])
def test_a_schema_names_our_classes_only(name: str) -> None:
    with pytest.raises(StateError, match="no class of lowwater"):
        Codec({name: ["a"]})


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo owned",)


def test_nothing_else_is_constructed() -> None:
    payload = pickle.dumps(_Evil())
    with pytest.raises(StateError, match="no state is made of"):
        Codec().decode(zlib.crc32(payload).to_bytes(4, "big") + payload)


def test_damage_is_found(states: list[object]) -> None:
    codec = Codec()
    data = codec.encode(states)
    draw = random.Random(1)
    for _ in range(500):
        broken = bytearray(data)
        broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
        with pytest.raises(StateError, match="damaged"):
            codec.decode(bytes(broken))
    with pytest.raises(StateError):
        codec.decode(data[: len(data) // 2])
    with pytest.raises(StateError):
        codec.decode(b"")
