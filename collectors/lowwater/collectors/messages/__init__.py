"""Messages in any spelling to blocks: what was said is reduced to kinds, counts and hashes.

Spellings read: OpenTelemetry message parts, OpenAI chat and Responses items, Anthropic blocks, Gemini contents, Bedrock
Converse blocks, LangChain's serialised messages, and their mixtures. What is not recognised counts as text of its role;
what is no text (images, audio, files) is left out, since its token cost does not follow from its size.
"""

from __future__ import annotations

from lowwater.collectors.messages.conversation import names_only, read_messages, read_system, read_tools
from lowwater.collectors.messages.text import flatten

__all__ = ["flatten", "names_only", "read_messages", "read_system", "read_tools"]
