"""A teacher's hidden tests: what stands between two lines of a check in the solutions, which learners never get.

They run here, beside the judges. Of the answer they see what judges see: a plain value, or a function whose calls are
messages to the box. So the notebook can neither read them nor decide how they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

from tcemu.course.checking import verdicts_of
from tcemu.course.solutions import HIDDEN, Solution, execute, solutions
from tcemu.errors import CourseError
from tcemu.tracebacks import described

#: What the student reads: neither the test nor what it compares.
FAILS = "Right as far as `check` can tell, but a hidden test of the teacher's does not pass."


@cache
def hidden_in(folder: str | None) -> Mapping[str, Solution]:
    """The solutions with hidden tests in a course of one's own, by exercise. Raises CourseError.

    >>> from tcemu.grade.hidden import hidden_in
    >>> dict(hidden_in(None))
    {}
    """
    if folder is None:
        return {}
    place = Path(folder)
    root = place if (place / "solutions").is_dir() else place.parent
    hidden: dict[str, Solution] = {}
    for path in files(root):
        try:
            hidden |= {each.name: each for each in solutions(path) if each.hidden.strip()}
        except (KeyError, TypeError, ValueError) as error:
            raise CourseError(f"cannot read the hidden tests in {path}: {described(error)}") from error
    return hidden


def files(root: Path) -> list[Path]:
    """The notebooks in a course's folder `solutions` that have hidden tests."""
    return [path for path in sorted((root / "solutions").glob("*.ipynb")) if HIDDEN in path.read_text(encoding="utf-8")]


def trouble(test: Solution, answer: Any, student: str) -> str:
    """What the hidden tests raise for an answer; empty if they pass. `given` gives the numbers of the student."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        with chdir(test.path.parent), verdicts_of(student):  # where `given` finds the course
            for number, source in enumerate(test.setup):
                execute(source, f"{test.path}#setup-{number}", namespace)
            namespace[test.name] = answer
            execute(test.hidden, f"{test.path}#{test.name}-hidden", namespace)
    except Exception as error:  # noqa: BLE001 - that is what tests do
        return described(error)
    return ""
