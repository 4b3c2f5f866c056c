"""Judges an answer once more, on numbers that nobody has seen: a table of right results for one's own earns nothing.

The numbers follow from a key that the teacher keeps, from the student and from the notebook's bytes. So they are the
same whenever these bytes are graded with this key, and others as soon as a byte changes: what a submission finds out
about its numbers is of no use to the next one. Nothing about them leaves the grader.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcemu.course.checking import judged
from tcemu.course.judges import Kernel
from tcemu.course.keeping import private_folder
from tcemu.course.record import Exercise, Finding
from tcemu.course.running import Cell
from tcemu.course.verdict import Verdict
from tcemu.errors import CourseError
from tcemu.grade.facts import served
from tcemu.grade.tables import table

#: The file of the key in the folder of the grades, and its bytes.
KEY, _BYTES = "course.key", 32
#: How often a function and a kernel are judged on other numbers.
_DRAWS, _LAUNCHES = 2, 1
#: An answer that earns less than this part of its own numbers' points for unseen ones earns nothing.
_HALF = 0.5
_ONLY_ITS_OWN = (
    "Right for the numbers of its own variant, but not for others: the grader also draws numbers that nobody has seen."
)
_NEEDS_TCEMU = (
    "This needs tcemu: the answer, and every table that it looks up, has to do its work without it. The grader runs "
    "the notebook once more where there is no tcemu, and there the answer is not right."
)
_NEEDS_MORE = (
    "This needs more of tcemu than the answer may call. The grader runs the notebook once more where only that can be "
    "called, and there the answer is not right."
)
_TABLE = "The results are written in the notebook as a table. The exercise asks for a function that computes them."


def key_of(folder: Path) -> str:
    """The key in a folder, which is made the first time. Only its owner can read it. Raises CourseError."""
    path = folder / KEY
    try:
        private_folder(folder)
        with suppress(FileExistsError), open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(f"{new_key()}\n")
        key = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise CourseError(f"cannot read the key of the course in {path}: {error}") from error
    if len(key) < 2 * _BYTES:
        raise CourseError(f"{path} is not a key of a course: it has {len(key)} characters, not {2 * _BYTES}")
    return key


def new_key() -> str:
    """A key that nobody knows."""
    return secrets.token_hex(_BYTES)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def works_alone(exercise: Exercise) -> bool:
    """Whether the answer is a function that does the work without tcemu, so that it works where tcemu is not.

    >>> from tcemu import course
    >>> from tcemu.grade.unseen import works_alone
    >>> works_alone(course.exercise("where_of_b")), works_alone(course.exercise("who_answers"))
    (True, False)
    """
    return exercise.only == () and exercise.calls


def works_apart(exercise: Exercise) -> bool:
    """Whether all that the answer, a function, may call of tcemu can be called where the rest of tcemu is not.

    >>> from tcemu import course
    >>> from tcemu.grade.unseen import works_apart
    >>> works_apart(course.exercise("who_answers")), works_apart(course.exercise("wmma_tile"))
    (True, False)
    """
    return served(exercise.only) and exercise.calls and not isinstance(exercise.judge, Kernel)


def runs_again(exercise: Exercise) -> bool:
    """Whether a notebook runs once more for this exercise, where tcemu is not."""
    return works_alone(exercise) or works_apart(exercise)


def judged_first(exercise: Exercise, answer: Any, student: str, cells: Sequence[Cell] = ()) -> Verdict:
    """The verdict for the student's own numbers.

    Where there are no others, the function's results may not be written in the notebook's cells.
    """
    verdict = judged(exercise, answer, student)
    cases = getattr(exercise.judge, "cases_in_all", 0)
    written = cases and verdict.finding.share and exercise.unseen("") is None and table(cells, exercise.name, cases)
    return replace(verdict, state="wrong", finding=Finding(False, _TABLE)) if written else verdict


def judged_alone(exercise: Exercise, answer: Any, student: str, key: str = "", content: bytes = b"") -> Verdict:
    """The verdict on an answer from a box without tcemu, or with little of it, for all numbers."""
    verdict = judged(exercise, answer, student)
    if not verdict:
        says = _NEEDS_TCEMU if works_alone(exercise) else _NEEDS_MORE
        verdict = replace(verdict, finding=replace(verdict.finding, says=says))
    return _less(verdict, exercise, answer, student, key, content)


def judged_twice(
    exercise: Exercise, answer: Any, student: str, key: str = "", content: bytes = b"", cells: Sequence[Cell] = ()
) -> Verdict:
    """The verdict on an answer, for the student's own numbers and for some that nobody has seen.

    Where there are no others, the function's results may not be written in the notebook's cells.

    >>> from tcemu import course
    >>> from tcemu.grade.unseen import judged_twice
    >>> exercise = course.exercise("dot_from_popc")
    >>> table = {(k, ones): k - 2 * ones for k in (128, 200, 256) for ones in range(129)}
    >>> judged_twice(exercise, lambda k, ones: table.get((k, ones), 0), "ada", "key").points
    0.0
    """
    return _less(judged_first(exercise, answer, student, cells), exercise, answer, student, key, content)


def _less(verdict: Verdict, exercise: Exercise, answer: Any, student: str, key: str, content: bytes) -> Verdict:
    """A verdict, less what the answer lacks for numbers that nobody has seen."""
    share = verdict.finding.share
    for seed in _seeds(exercise, student, content, key):
        other = exercise.unseen(seed)
        if other is None or not share:
            break
        share = min(share, judged(other, answer, seed).finding.share)
    if share == verdict.finding.share:
        return verdict
    share = share if share >= _HALF * verdict.finding.share else 0.0
    says = _ONLY_ITS_OWN if verdict else verdict.says
    finding = Finding(False, says, "" if verdict else verdict.mistake, share, verdict.finding.pictures)
    return replace(verdict, state="wrong", finding=finding)


def _seeds(exercise: Exercise, student: str, content: bytes, key: str) -> Iterator[str]:
    count = _LAUNCHES if isinstance(exercise.judge, Kernel) else _DRAWS
    for number in range(count):
        about = f"{number}/{exercise.name}/{student}/".encode() + content
        yield hmac.new(key.encode(), about, "sha256").hexdigest()
