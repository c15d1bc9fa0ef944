"""AutoGen: agents and tools in the GenAI conventions, no LLM spans of its own.

Names: ``autogen_core/_telemetry/_genai.py``. Without another instrumentation below it (of the provider's SDK, say) there is
no usage, and nothing to count.
"""

from __future__ import annotations

from lowwater.collectors.dialects.table import TableDialect

__all__ = ["DIALECT"]

DIALECT = TableDialect(name="autogen", versions="autogen-core 0.7: no LLM spans", scopes=("autogen",))
