"""The characters of a piece: deterministic text of which a byte-pair tokenizer counts about as many tokens as it should.

Texts are made of fragments whose size under cl100k is known: a common word with its blank is one token, a brace or a group of
up to three digits is one, a Han character is one or two. A test counts them with a real tokenizer. Nothing here knows how
lowwater estimates.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping

from lowwater.detector.simulation.model import Piece, Style

__all__ = ["text_of"]

_SENTENCES = """
the of and to in is that for it was on are as with his they at be this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down
only way find use may water long little very after words called just where most know get through back much before go
good new write our used me man too any day same right look think also around another came come work three word must
because does part even place well such here take why things help put years different away again off went old number
"""
_WORDS = tuple(_SENTENCES.split())
_CODE = (
    "\n    return", " if", " not", " None", ":\n        ", " self", ".", "value", " =", " [", "]", "(", ")", " for",
    " in", " items", ",", " import", "\n\ndef", " count", " +", " 1", " else", " while", "\n    ", " result", "()",
    " index", " data",
)  # fmt: skip
_KEYS = (
    "id", "name", "status", "value", "type", "count", "time", "user", "path", "error", "size", "host", "code", "result",
)  # fmt: skip
_LEVELS = (" INFO", " WARN", " ERROR", " DEBUG")
_HAN = "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多"

_COST = {Style.CODE: 1.125, Style.JSON: 5.05, Style.LOG: 20.0, Style.CJK: 1.05}
"""Tokens of a fragment, counted with cl100k over long texts."""


def _prose(draw: random.Random) -> tuple[str, float]:
    word = draw.choice(_WORDS)
    return (f" {word}.", 2.0) if draw.random() < 0.07 else (f" {word}", 1.0)


def _code(draw: random.Random) -> tuple[str, float]:
    return draw.choice(_CODE), _COST[Style.CODE]


def _json(draw: random.Random) -> tuple[str, float]:
    key = draw.choice(_KEYS)
    value = str(draw.randrange(100, 1_000)) if draw.random() < 0.5 else f'"{draw.choice(_WORDS)}"'
    return f'{{"{key}": {value}}},', _COST[Style.JSON]


def _log(draw: random.Random) -> tuple[str, float]:
    date = f"2026-{draw.randrange(10, 13)}-{draw.randrange(10, 29)}"
    clock = ":".join(str(draw.randrange(10, 60)) for _ in range(3))
    words = " ".join(draw.choice(_WORDS) for _ in range(5))
    return f"\n{date}T{clock}Z{draw.choice(_LEVELS)} {words}", _COST[Style.LOG]


def _cjk(draw: random.Random) -> tuple[str, float]:
    return draw.choice(_HAN), _COST[Style.CJK]


_FRAGMENTS: Mapping[Style, Callable[[random.Random], tuple[str, float]]] = {
    Style.PROSE: _prose,
    Style.CODE: _code,
    Style.JSON: _json,
    Style.LOG: _log,
    Style.CJK: _cjk,
}


@functools.lru_cache(maxsize=20_000)
def _text(identity: int, part: str, style: Style, tokens: int) -> str:
    draw = random.Random(f"{identity}/{part}")
    make = _FRAGMENTS[style]
    parts: list[str] = []
    left = float(tokens)
    while left > 0:
        fragment, cost = make(draw)
        if cost > left and parts:
            fragment, cost = f" {draw.choice(_WORDS)}", 1.0
        parts.append(fragment)
        left -= cost
    return "".join(parts).lstrip()


def text_of(piece: Piece) -> str:
    """The characters of a piece; equal pieces have equal text."""
    return _text(piece.identity, piece.part.value, piece.style, piece.tokens)
