"""Messages whose content was not captured, and whose frame was: roles, names and ids of calls, definitions of tools.

Instrumentations write such frames when capture of content is off. They are no measure of who holds the prompt: taken for
one, the schemas alone would hold all of it.
"""

from __future__ import annotations

from lowwater.collectors.content import BlockKind, Content

__all__ = ["is_hollow"]

_FRAME = frozenset({BlockKind.SYSTEM, BlockKind.TOOL_SCHEMA, BlockKind.TOOL_ARGUMENTS})


def is_hollow(content: Content) -> bool:
    """Whether a whole prompt shows nothing that anybody said and no result: every real prompt holds one or the other."""
    if content.compacted:
        return False
    return not any(
        characters and kind not in _FRAME for kind, characters in zip(content.kinds, content.characters, strict=True)
    )
