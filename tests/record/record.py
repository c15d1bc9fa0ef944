"""Record the example traces again: ``python tests/record/record.py``. See README.md beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.record import record_langgraph, record_pydantic_ai  # noqa: E402 - the path must be known first

RECORDERS = (record_pydantic_ai.record, record_langgraph.record)


def main() -> None:
    """Run every recorder and say what it wrote."""
    for recorder in RECORDERS:
        for path in recorder(ROOT / "examples", ROOT / "tests" / "fixtures" / "recorded"):
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
