"""nbgrader's gradebook, written through its own interface, so that its formgrader and its exports have the grades.

Each notebook is an assignment with one notebook of the same name, as `nbgrader generate_assignment` makes it from the
exercises, and each exercise is the grade cell EXERCISE-check. Writing the same grades again changes no byte; what a
teacher has entered by hand stays. All is written into a copy, which takes the file's place at the end.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tcemu.errors import CourseError
from tcemu.grade.plain import cell
from tcemu.grade.records import Grade, Mark

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

#: What nbgrader's own export to CSV, which quotes nothing, would break on.
_BREAKS = re.compile(r"""[,;"'\\/]""")


def write(grades: Sequence[Grade], path: Path) -> None:
    """Write the grades into the SQLite file at `path`, which is made if it does not exist.

    nbgrader has to be installed: it is part of the extra `grade`. Raises CourseError if the file cannot be read or
    written.
    """
    try:
        with TemporaryDirectory(dir=path.parent, prefix=".gradebook-") as folder:
            draft = Path(folder) / path.name
            _copy(path, draft)
            _fill(grades, draft)
            if not path.exists() or _held(path) != _held(draft):
                draft.chmod(0o600)
                os.replace(draft, path)  # noqa: PTH105 - Path.replace says no more
    except (OSError, sqlite3.Error) as error:
        raise CourseError(
            f"cannot write the gradebook {path}: {error}. Move the file away to start a new one"
        ) from error


def _copy(path: Path, draft: Path) -> None:
    """Copy a gradebook as it is between two changes, even if nbgrader has it open."""
    if path.exists():
        with closing(sqlite3.connect(path)) as before, closing(sqlite3.connect(draft)) as after:
            before.backup(after)


def _held(path: Path) -> list[str]:
    """All that a database holds, as SQL."""
    with closing(sqlite3.connect(path)) as base:
        return list(base.iterdump())


def _fill(grades: Sequence[Grade], path: Path) -> None:
    """Write the grades into a gradebook. Raises sqlite3.Error for a file that this version of nbgrader cannot use."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        _write(grades, path)
    except SQLAlchemyError as error:
        raise sqlite3.DatabaseError(str(error).partition("\n")[0]) from error


def _write(grades: Sequence[Grade], path: Path) -> None:
    from nbgrader.api import Gradebook
    from sqlalchemy import event

    with _scripts(), Gradebook(f"sqlite:///{path}") as book, book.db.no_autoflush:
        # nbgrader commits thousands of times; nobody else sees the copy, so none of them has to reach the disk.
        event.listen(book.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
        book.engine.dispose()
        for stem, marks in sorted(_notebooks(grades).items()):
            _assignment(book, stem, marks)
        for grade in grades:
            student = student_id(grade.student)
            book.update_or_create_student(student)
            for stem, marked in groupby(sorted(grade.marks, key=_place), key=lambda mark: mark.notebook):
                _submission(book, stem, student, {mark.exercise: mark for mark in marked})


@contextmanager
def _scripts() -> Iterator[None]:
    """Put this environment's scripts on the path: nbgrader starts `alembic`, even if the environment is not active."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), before))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def student_id(student: str) -> str:
    """The student's id in the gradebook: the name itself, if nbgrader's exports can hold it.

    >>> from tcemu.grade.output.gradebook import student_id
    >>> student_id("ada"), student_id('=1,"x"')
    ('ada', "'=1__x_~a962a1fb")
    """
    safe = _BREAKS.sub("_", student)
    if safe == student == cell(student):
        return student
    return f"{cell(safe)}~{hashlib.sha256(student.encode()).hexdigest()[:8]}"


def grade_cell(exercise: str) -> str:
    """The grade_id of the cell that checks an exercise, as in exercises/."""
    return f"{exercise}-check"


def _place(mark: Mark) -> tuple[str, str]:
    return mark.notebook, mark.exercise


def _notebooks(grades: Iterable[Grade]) -> Mapping[str, Mapping[str, int]]:
    """For each notebook its exercises and their points."""
    points: dict[str, dict[str, int]] = {}
    for grade in grades:
        for mark in grade.marks:
            points.setdefault(mark.notebook, {})[mark.exercise] = mark.of
    return points


def _assignment(book: Gradebook, stem: str, exercises: Mapping[str, int]) -> None:
    book.update_or_create_assignment(stem)
    book.update_or_create_notebook(stem, stem)
    for name, points in sorted(exercises.items()):
        book.update_or_create_grade_cell(grade_cell(name), stem, stem, max_score=points, cell_type="code")


def _submission(book: Gradebook, stem: str, student: str, marks: Mapping[str, Mark]) -> None:
    """The scores of one notebook of one student."""
    from nbgrader.api import Grade as Score

    submitted = book.update_or_create_submission(stem, student)
    notebook = next(each for each in submitted.notebooks if each.name == stem)
    scores: dict[str, Any] = {score.name: score for score in notebook.grades}
    for name, mark in marks.items():
        score = scores.get(grade_cell(name))
        if score is None:  # the exercise is newer than the submission
            score = Score(cell=book.find_grade_cell(grade_cell(name), stem, stem), notebook=notebook)
            book.db.add(score)
        score.auto_score = mark.points if mark.graded is None else mark.graded
        if mark.graded is not None:
            score.manual_score = mark.points
        score.needs_manual_grade = False
    book.db.commit()
