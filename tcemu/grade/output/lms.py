"""Grades in the columns of a website: the file that Canvas or Moodle exported, with points filled in.

    Canvas    Gradebook > Export:  Student, ID, SIS Login ID, Section, then a column for each assignment, "Name (12345)"
    Moodle    Assignment > Download grading worksheet:  Identifier, Full name, ..., Grade, Maximum Grade, ...

What was exported stays as it was, line by line; only the points of students who were graded are written. An assignment
of Canvas that is called like a notebook gets the notebook's points; if there is only one, it gets them all. Canvas may
also write LastName and FirstName and, for people whose language has a decimal comma, semicolons between the cells.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcemu.errors import CourseError, listing
from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.sheet import number
from tcemu.grade.plain import alike
from tcemu.grade.records import Grade

#: An assignment of Canvas: its name and its number.
_ASSIGNMENT = re.compile(r"(?P<name>.+) \((?P<number>[0-9]+)\)", re.DOTALL)
#: Columns that say who somebody is, the most exact first. Moodle asks for those after "Identifier" in the course.
_WHO = (
    "SIS Login ID", "SIS User ID", "ID", "Username", "ID number", "Email address", "Identifier", "Full name", "Student",
)  # fmt: skip
#: Canvas's columns in place of "Student", if somebody has set that.
_NAMES = ("LastName", "FirstName")
#: Cells of Canvas that stay: the student is excused, or does not have the assignment.
_KEPT = ("EX", "N/A")


@dataclass(frozen=True)
class Filled:
    """The file to upload, its site, and who is in one of the two only."""

    site: str
    text: str
    #: How many rows got points, students without a row, and rows without a student.
    rows: int
    students: tuple[str, ...]
    others: tuple[str, ...]
    #: What the teacher should know besides.
    says: tuple[str, ...] = ()


def filled(export: Path, grades: Sequence[Grade], names: Mapping[str, str], course: Catalogue | None = None) -> Filled:
    """The export with the points of these grades.

    `names` has what the website calls students, by learner, from a roster. Raises CourseError for a file of no website.
    """
    try:
        with export.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
        separator = ";" if text.partition("\n")[0].count(";") > text.partition("\n")[0].count(",") else ","
        head, *rows = csv.reader(io.StringIO(text), delimiter=separator)
    except (OSError, ValueError, csv.Error) as error:
        raise CourseError(f"cannot read {export}: {getattr(error, 'strerror', None) or error}") from error
    columns = [name.strip() for name in head]
    if "ID" in columns and ("Student" in columns or {*_NAMES} <= {*columns}):
        site, targets = "Canvas", _assignments(columns, grades, course or installed(), export)
    elif {"Identifier", "Grade"} <= {*columns}:
        site, targets = "Moodle", {columns.index("Grade"): _all}
    else:
        raise CourseError(
            f"{export} is an export neither of Canvas's gradebook, with the columns Student and ID, nor of Moodle's "
            "grading worksheet, with the columns Identifier and Grade"
        )
    write = (lambda value: number(value).replace(".", ",")) if separator == ";" else number
    known = _Students(grades, names)
    matched, others = set(), []
    for row in rows:
        people = list(_people(columns, row))
        person = known.of(people)
        if person is None:
            others += [value for name, value in people[-1:] if value and not _is_head(value)]
        elif person.student in matched:
            raise CourseError(f"{export}: two rows are {person.student}; a roster (--roster) tells them apart")
        else:
            matched.add(person.student)
            for column, points in targets.items():
                value = points(person)
                if value is not None and row[column].strip() not in _KEPT:
                    row[column] = write(value)
    held = io.StringIO()
    csv.writer(held, lineterminator="\n", delimiter=separator).writerows([head, *rows])
    missing = tuple(grade.student for grade in grades if grade.student not in matched)
    says = tuple(_scales(columns, rows, targets, grades))
    return Filled(site, held.getvalue(), len(matched), missing, tuple(others), says)


def _people(columns: Sequence[str], row: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a row says about who somebody is, the most exact first."""
    held = dict(zip(columns, map(str.strip, row), strict=False))
    yield from ((name, held[name]) for name in _WHO if name in held)
    if {*_NAMES} <= {*held} and any(held[name] for name in _NAMES):
        yield "Student", ", ".join(held[name] for name in _NAMES)


def _is_head(value: str) -> bool:
    """Whether a row is none of a student's: Canvas's maximum points, and its test student."""
    return value in ("Points Possible", "Points Possible, ", "Student, Test")


Points = Callable[[Grade], float | None]


def _all(grade: Grade) -> float | None:
    return None if grade.state == "quarantined" else grade.points


def _assignments(columns: Sequence[str], grades: Sequence[Grade], course: Catalogue, export: Path) -> dict[int, Points]:
    """Canvas's columns that get points."""
    assignments = {at: match["name"] for at, name in enumerate(columns) if (match := _ASSIGNMENT.fullmatch(name))}
    stems = sorted({mark.notebook for grade in grades for mark in grade.marks})
    called = {alike(name): stem for stem in stems for name in (stem, course.label(stem), course.label(stem)[3:])}
    targets = {at: _of(called[alike(name)]) for at, name in assignments.items() if alike(name) in called}
    if not targets and len(assignments) == 1:
        return {next(iter(assignments)): _all}
    if not targets:
        raise CourseError(
            f"{export} has {listing(assignments.values(), 'and') or 'no assignment'}. Call an assignment like its "
            f"notebook, for example {course.label(stems[0]) if stems else '02 Fragments'}, or export one assignment "
            "only"
        )
    return targets


def _of(stem: str) -> Points:
    def points(grade: Grade) -> float | None:
        marks = [mark.points for mark in grade.marks if mark.notebook == stem]
        return sum(marks) if marks and grade.state != "quarantined" else None

    return points


def _scales(
    columns: Sequence[str], rows: Sequence[Sequence[str]], targets: Mapping[int, Points], grades: Sequence[Grade]
) -> Iterator[str]:
    """Where the website counts other points than the course: they are not converted."""
    most = max((grade.of for grade in grades), default=0)
    limits: set[tuple[str, str]] = set()
    for row in rows:
        maximum = next((at for at, name in enumerate(columns) if name.casefold() == "maximum grade"), None)
        if maximum is not None:
            limits.add(("Grade", row[maximum]))
        elif _is_points(row):
            limits |= {(columns[at], row[at]) for at, points in targets.items() if points is _all}
    for name, limit in sorted(limits):
        if _number(limit) not in (None, most):
            yield f"{name} has {limit} points there, and {most} here; points are written as they are."


def _is_points(row: Sequence[str]) -> bool:
    return bool(row) and row[0].strip() == "Points Possible"


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


class _Students:
    """Who is meant by what a website writes: the learner, what a roster calls the learner, or the name's letters."""

    def __init__(self, grades: Iterable[Grade], names: Mapping[str, str]) -> None:
        self._keys: dict[str, list[Grade]] = {}
        for grade in grades:
            for key in {*_keys(grade.student), *_keys(names.get(grade.student, ""))}:
                self._keys.setdefault(key, []).append(grade)

    def of(self, people: Sequence[tuple[str, str]]) -> Grade | None:
        """The grade of a row; None if nothing in it, or more than one student, fits."""
        for column, value in people:
            candidates = [grade for key in _keys(value, column) for grade in self._keys.get(key, ())]
            if len({grade.student for grade in candidates}) == 1:
                return candidates[0]
        return None


def _keys(name: str, column: str = "") -> set[str]:
    """What a name is looked up by. Canvas names files after the letters of "Byron, Ada"."""
    whole = alike(name.strip())
    keys = {whole, *([whole.partition("@")[0]] if column == "Email address" else [])}
    if column in ("", "Student", "Full name"):
        keys.add("letters " + "".join(filter(str.isalnum, whole)))
    return {key for key in keys if key not in ("", "letters ")}
