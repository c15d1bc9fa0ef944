"""Record traces of real frameworks again: ``python tests/record/record.py [NAME ...]``. See README.md beside this file.

Each framework runs in a virtual environment of its own, ``.venv/record/NAME``, made from ``requirements/NAME.txt``.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in (FOLDER / "requirements").glob("*.txt") if path.stem != "common")


def main(arguments: list[str]) -> None:
    """Record the named frameworks, or all."""
    if arguments[:1] == ["--here"]:
        _record(arguments[1])
        return
    unknown = sorted(set(arguments) - set(NAMES))
    if unknown:
        sys.exit(f"no such framework: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in arguments or NAMES:
        subprocess.run([str(_python(name)), str(FOLDER / "record.py"), "--here", name], check=True)


def _record(name: str) -> None:
    """Run one recorder in this interpreter and say what it wrote."""
    sys.path.insert(0, str(ROOT))
    module = importlib.import_module(f"tests.record.record_{name.replace('-', '_')}")
    for path in module.record():
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


def _python(name: str) -> Path:
    """The interpreter of a framework's environment, made anew when its requirements were changed."""
    wanted = FOLDER / "requirements" / f"{name}.txt"
    text = "".join(path.read_text() for path in (FOLDER / "requirements" / "common.txt", wanted))
    folder = ROOT / ".venv" / "record" / name
    made = folder / "made-from.txt"
    python = folder / "bin" / "python"
    if not made.exists() or made.read_text() != text:
        print(f"{name}: making its environment")
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(wanted)], check=True)
        made.write_text(text)
    return python


if __name__ == "__main__":
    main(sys.argv[1:])
