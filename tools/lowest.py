"""Try the lower bounds of pyproject.toml: the quick tests with the oldest version of every direct dependency.

    .venv/bin/python tools/lowest.py FOLDER

FOLDER gets an environment of its own, on the oldest Python that tcemu supports. Needs uv, which is on the path or in
this environment, and prints what it installed where that differs from requirements.lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What the emulator, the course and their tests need; the other extras only add programs of their own.
WANTED = ".[test]"


def main(folder: Path) -> int:
    """Make the environment in `folder` and run the tests there; the exit code is theirs."""
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    for command in (
        ["uv", "venv", "--allow-existing", "--python", "3.11", str(folder)],
        ["uv", "pip", "install", "--python", str(inside), "--resolution", "lowest-direct", "--editable", WANTED],
        ["uv", "pip", "list", "--python", str(inside)],
    ):
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own
    tests = [str(inside), "-m", "pytest", "-n", "auto", "-m", "not slow", "tests"]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode  # noqa: S603 - our own


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
