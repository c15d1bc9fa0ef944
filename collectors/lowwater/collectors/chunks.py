"""Retrieved chunks inside messages: prompt templates paste documents between the question and the instructions.

The patterns are conservative: an unrecognised chunk counts as working memory, which hides a claim; a question taken
for a chunk would invent one. No character is lost: the segments concatenate to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["split_retrieval"]

_MIN_CHARACTERS = 120
"""Shorter texts hold no chunk worth telling apart."""

_TAGS = (
    "documents?|context|search_results?|retrieved[a-z_-]*|retrieval[a-z_-]*|sources?|passages?|chunks?|knowledge[a-z_-]*|"
    "excerpts?|references?"
)

_PATTERNS = re.compile(
    rf"""
    <(?P<tag>{_TAGS})(?:\s[^<>]{{0,200}})?>.+?</(?P=tag)>              # XML-like tags, the outermost first
    | \[?Document\((?:id=|page_content=|metadata=).+?(?=\n\n|\Z)        # LangChain's repr of documents
    | ^(?:Document|Passage|Chunk|Source|Excerpt)\ ?\#?\[?\d+\]?\ ?[:.]  # numbered documents, up to the question
      .+?(?=^\s*(?:Question|Query|User|Task|Answer|Instructions?)\b|\Z)
    | (?<=Context\ information\ is\ below\.\n---------------------\n)    # LlamaIndex's default template
      .+?(?=\n---------------------)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

_HINT = re.compile(r"</|Document|Passage|Chunk|Source|Excerpt|Context information")


def split_retrieval(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is a retrieved chunk, segment) in order; the segments concatenate to the text.

    >>> list(split_retrieval("Use <context>" + "fact " * 40 + "</context> to answer."))[0]
    (False, 'Use ')
    """
    if len(text) < _MIN_CHARACTERS or _HINT.search(text) is None:
        yield False, text
        return
    position = 0
    for match in _PATTERNS.finditer(text):
        if match.start() > position:
            yield False, text[position : match.start()]
        yield True, match.group()
        position = match.end()
    if position < len(text):
        yield False, text[position:]
