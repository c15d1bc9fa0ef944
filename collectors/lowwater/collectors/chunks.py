"""Retrieved chunks inside messages: prompt templates paste documents between the question and the instructions.

The patterns are conservative: an unrecognised chunk counts as working memory, which hides a claim; a question taken
for a chunk would invent one. No character is lost: the segments concatenate to the text. The time is linear in the
text, whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["is_retrieved", "split_retrieval"]

_MIN_CHARACTERS = 120
"""Shorter texts hold no chunk worth telling apart."""

_TAGS = (
    "documents?|context|search_results?|retrieved[a-z_-]{0,40}|retrieval[a-z_-]{0,40}|sources?|passages?|chunks?|"
    "knowledge[a-z_-]{0,40}|excerpts?|references?"
)
_OPENING = re.compile(
    rf"""
    <(?P<tag>{_TAGS})(?:\s[^<>]{{0,200}})?>                               # XML-like tags, the outermost first
    | (?P<repr>\[?Document\((?:id=|page_content=|metadata=))               # LangChain's repr of documents
    | ^(?P<number>(?:Document|Passage|Chunk|Source|Excerpt|Search[ ]Result)[ ]?\#?\[?\d{{1,6}}\]?[ ]?[:.])
    | (?P<below>Context\ information\ is\ below\.\n-{{21}}\n)              # LlamaIndex's default template
    """,
    re.VERBOSE | re.MULTILINE,
)
_QUESTION = re.compile(r"^[ \t]*(?:Question|Query|User|Task|Answer|Instructions?)\b", re.MULTILINE)
"""What follows numbered documents."""

_MAX_UNCLOSED = 32
"""Each kind of opening that nothing closes costs a look through the text; after so many it is no template."""

_HINT = re.compile(r"</|Document|Passage|Chunk|Source|Excerpt|Search Result|Context information")


def split_retrieval(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is a retrieved chunk, segment) in order; the segments concatenate to the text.

    >>> list(split_retrieval("Use <context>" + "fact " * 40 + "</context> to answer."))[0]
    (False, 'Use ')
    """
    if len(text) < _MIN_CHARACTERS or _HINT.search(text) is None:
        yield False, text
        return
    position = 0
    for start, end in _chunks(text):
        if start > position:
            yield False, text[position:start]
        yield True, text[start:end]
        position = end
    if position < len(text):
        yield False, text[position:]


def is_retrieved(text: str) -> bool:
    """Whether a tool's result consists of documents: recognised chunks are at least half of it."""
    if len(text) < _MIN_CHARACTERS or _HINT.search(text) is None:
        return False
    return sum(end - start for start, end in _chunks(text)) * 2 >= len(text)


def _chunks(text: str) -> Iterator[tuple[int, int]]:
    unclosed: set[str] = set()
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        kind = opening.lastgroup or ""
        close = opening.group() if kind != "tag" else f"</{opening.group('tag')}>"
        start = opening.end() if kind == "below" else opening.start()
        end = -1 if close in unclosed else _end(text, opening.end(), kind, close)
        if end > start:
            yield start, end
            position = end
        else:
            # Nothing closes it from here on, nor a later one like it.
            unclosed.add(close)
            position = opening.end()
            if len(unclosed) > _MAX_UNCLOSED:
                return


def _end(text: str, position: int, kind: str, close: str) -> int:
    """Where the chunk that was opened before the position ends, -1 if it does not."""
    if kind == "tag":
        found = text.find(close, position)
        return -1 if found < 0 else found + len(close)
    if kind == "below":
        return text.find("\n---------------------", position)
    if kind == "repr":
        found = text.find("\n\n", position)
    else:
        question = _QUESTION.search(text, position)
        found = -1 if question is None else question.start()
    return len(text) if found < 0 else found
