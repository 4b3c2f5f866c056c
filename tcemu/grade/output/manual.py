"""Points and comments that a teacher gives by hand: manual.csv in the folder of the grades.

    student,exercise,points,comment
    ada,where_of_b,2,"Right: the lanes were counted from 1, as agreed."
    bob,,,"Come and see me about notebook 02."

A row without points is only a comment; one without an exercise is about the whole submission. The file is read each
time grades are written, so its rows survive a regrade.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tcemu.errors import CourseError, did_you_mean
from tcemu.grade.plain import visible
from tcemu.grade.records import Grade, Mark

#: The file's name, and its columns.
MANUAL, _COLUMNS = "manual.csv", ("student", "exercise", "points", "comment")


@dataclass(frozen=True)
class Row:
    """What a teacher says about one exercise of one student, or about the whole."""

    line: int
    points: float | None
    comment: str


def merged(grades: Sequence[Grade], path: Path) -> list[Grade]:
    """The grades with what the file says, if there is one. Raises CourseError, which names the line."""
    if not path.is_file():
        return list(grades)
    rows = _read(path)
    left = dict(rows)
    done = [_merged(grade, left, path) for grade in grades]
    for (student, exercise), row in left.items():
        names = [grade.student for grade in grades]
        if student in names:
            known = [mark.exercise for grade in grades if grade.student == student for mark in grade.marks]
            raise CourseError(
                f"{path}, line {row.line}: {student} has no exercise {exercise!r}.{did_you_mean(exercise, known)}"
            )
        raise CourseError(f"{path}, line {row.line}: there is no student {student!r}.{did_you_mean(student, names)}")
    return done


def _read(path: Path) -> dict[tuple[str, str], Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
        first = text.partition("\n")[0]
        held = list(csv.DictReader(text.splitlines(keepends=True), delimiter=";" if ";" in first else ","))
    except (OSError, ValueError, csv.Error) as error:
        raise CourseError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    rows: dict[tuple[str, str], Row] = {}
    for line, each in enumerate(held, 2):
        student, exercise, points, comment = ((each.get(column) or "").strip() for column in _COLUMNS)
        if not student and not exercise and not points and not comment:
            continue
        if not student or not (points or comment) or (points and not exercise):
            raise CourseError(f"{path}, line {line}: a row has {', '.join(_COLUMNS)}; points need an exercise")
        if (student, exercise) in rows:
            raise CourseError(f"{path}, line {line}: {student} {exercise} is listed twice")
        rows[student, exercise] = Row(line, _points(points, path, line), visible(comment, lines=True))
    return rows


def _points(text: str, path: Path, line: int) -> float | None:
    if not text:
        return None
    try:
        points = float(text.replace(",", "."))
    except ValueError:
        points = -1.0
    if not 0 <= points <= 1000:
        raise CourseError(f"{path}, line {line}: {text} is not a number of points") from None
    return points


def _merged(grade: Grade, rows: dict[tuple[str, str], Row], path: Path) -> Grade:
    about = rows.pop((grade.student, ""), None)
    marks = tuple(_mark(mark, rows.pop((grade.student, mark.exercise), None), path) for mark in grade.marks)
    said = [line for line in (grade.says, f"The teacher says: {about.comment}" if about else "") if line]
    return replace(grade, marks=marks, says="\n".join(said))


def _mark(mark: Mark, row: Row | None, path: Path) -> Mark:
    if row is None:
        return mark
    if row.points is None:
        return replace(mark, comment=row.comment)
    if row.points > mark.of:
        raise CourseError(f"{path}, line {row.line}: {mark.exercise} gives at most {mark.of} points")
    return replace(mark, comment=row.comment, points=row.points, graded=mark.points)


def by_hand(grade: Grade) -> Mapping[str, float]:
    """The points that the teacher gave, by exercise."""
    return {mark.exercise: mark.points for mark in grade.marks if mark.graded is not None}
