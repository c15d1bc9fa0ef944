"""The text of values: what a model is shown of a tool's result, a text part or a piece of data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lowwater.collectors.values import unwrap

__all__ = ["MEDIA_KEYS", "MEDIA_TYPES", "dump", "flatten", "part_text", "part_type"]

MEDIA_TYPES = frozenset(
    {"image", "image_url", "input_image", "computer_screenshot", "audio", "input_audio", "blob", "file", "input_file",
     "uri", "video", "media", "image-data", "file-data", "redacted_thinking", "inline_data", "file_data",
     "datacontent", "uricontent", "hostedfilecontent"}
)  # fmt: skip
"""Parts that are no text, by their type."""

MEDIA_KEYS = frozenset(
    {"image", "video", "audio", "inlineData", "inline_data", "fileData", "file_data", "image_url", "cachePoint"}
)
"""Parts that are no text, by the key that names them where they have no type: Gemini, Bedrock Converse."""

_TEXT_TYPES = frozenset(
    {"text", "input_text", "output_text", "summary_text", "reasoning_text", "textcontent", "refusal"}
)
_TEXT_KEYS = ("text", "content", "output_text", "value", "refusal")
_ABOUT_KEYS = frozenset(
    {"type", "kind", "part_kind", "id", "index", "role", "annotations", "citations", "cache_control", "logprobs",
     "finish_reason", "signature", "thoughtSignature", "thought_signature", "providerOptions", "extras", "thought"}
)  # fmt: skip
"""Keys beside a part's text that say something about it and are not shown to the model."""

_WRAPPERS = frozenset({"json", "content", "error-json", "error-text"})
"""Vercel's tool outputs: ``{"type": "json", "value": ..}``."""
_RESULT_KEYS = frozenset({"content", "isError", "is_error", "structuredContent", "_meta", "meta", "role", "status"})
"""An MCP tool's result: its content is what the model is shown."""

_MAX_DEPTH = 8

_BLOB = re.compile(r'"(?:data:[^",]{0,100},)?[A-Za-z0-9+/_-]{1000,}={0,2}"')
"""A thousand characters of base64 and nothing else in a string: a file, whatever the key is called."""


def flatten(value: Any, depth: int = 0) -> str:
    """The text of a tool's result in any spelling: text parts joined, media left out, everything else as JSON."""
    value = unwrap(value)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if depth > _MAX_DEPTH:
        return dump(value)
    if isinstance(value, list):
        texts = [part_text(part, depth) for part in value]
        if any(text is not None for text in texts):
            joined = [dump(part) if text is None else text for part, text in zip(value, texts, strict=True)]
            return "\n".join(text for text in joined if text)
    text = part_text(value, depth)
    return dump(value) if text is None else text


def part_text(part: Any, depth: int = 0) -> str | None:
    """The text of a text part, empty for media; None if it is data or something else.

    Data that happens to have a text among its fields (a search hit with title, address and content) is no text part.
    """
    part = unwrap(part)
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    kind = part_type(part)
    if kind in MEDIA_TYPES or (not kind and len(part) == 1 and not MEDIA_KEYS.isdisjoint(part)):
        return ""
    if kind in _WRAPPERS and "value" in part:
        return flatten(part["value"], depth + 1)
    if not kind and len(part) == 1 and "json" in part:
        return dump(part["json"])
    said = part.keys() - _ABOUT_KEYS
    for key in _TEXT_KEYS:
        text = part.get(key)
        if isinstance(text, str) and (kind in _TEXT_TYPES or said == {key}):
            return text
    if kind in _TEXT_TYPES and part.keys().isdisjoint(_TEXT_KEYS):
        return ""  # its text was not captured
    if isinstance(part.get("content"), list) and not kind and part.keys() <= _RESULT_KEYS:
        return flatten(part["content"], depth + 1)
    return None


def part_type(part: Mapping[str, Any]) -> str:
    """A part's type in lower case, a namespace (``Microsoft.Extensions.AI.``) left out; empty where it has none."""
    kind = part.get("type")
    return kind.lower().rpartition(".")[2] if isinstance(kind, str) else ""


def dump(value: Any, *, whole: bool = False) -> str:
    """A value as compact JSON, empty if it cannot be written.

    Args:
        value: what to write.
        whole: keep strings that are files in base64: in arguments the model has spelled them out.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        return ""
    return text if whole or len(text) < 1000 else _BLOB.sub('""', text)
