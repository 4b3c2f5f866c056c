"""grades.csv: a row for each student, a column for each exercise."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tcemu.grade.plain import cell
from tcemu.grade.records import Grade

if TYPE_CHECKING:
    from tcemu.grade.output.lateness import Lateness

#: The columns before those of the exercises.
COLUMNS = ("student", "state", "points", "of", "says", "folder", "tcemu", "course", "digest")


def sheet(grades: Sequence[Grade], late: Mapping[str, Lateness] | None = None) -> str:
    r"""The grades as CSV, in the order given; the columns of the exercises are sorted by notebook.

    Text that a spreadsheet would take for a formula has an apostrophe before it: remove it from a name that really
    begins with "=", "+", "-" or "@" before you compare names. All fields are in quotes.

    `late` has the lateness of students, where there are deadlines: it adds minutes_late and points_by_late_rule, which
    nobody has subtracted from points. Where a teacher gave points, by_hand says for which exercises, and which the
    grader gave.

    >>> from tcemu.grade.output.sheet import sheet
    >>> from tcemu.grade.records import Grade
    >>> print(sheet([Grade("=ada", "d" * 4)]))
    "student","state","points","of","says","folder","tcemu","course","digest"
    "'=ada","graded","0","0","","","","","dddd"
    <BLANKLINE>
    """
    exercises = {mark.exercise: mark.notebook for grade in grades for mark in grade.marks}
    names = sorted(exercises, key=lambda name: (exercises[name], name))
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n", quoting=csv.QUOTE_ALL)
    late, hands = late or {}, any(mark.graded is not None for grade in grades for mark in grade.marks)
    more = [*(["minutes_late", "points_by_late_rule"] if late else []), *(["by_hand"] if hands else [])]
    writer.writerow([*COLUMNS, *more, *map(cell, names)])
    for grade in grades:
        points = {mark.exercise: number(mark.points) for mark in grade.marks}
        if not grade.worth:
            points = {mark.exercise: "" if mark.graded is None else number(mark.points) for mark in grade.marks}
        earned = number(grade.points) if grade.worth else ""
        about = (grade.student, grade.state, earned, number(grade.of), grade.says, grade.folder)
        extra = [*(_late(late.get(grade.student), grade.worth) if late else []), *([_by_hand(grade)] if hands else [])]
        row = (*about, grade.tcemu, grade.course, grade.digest, *extra, *(points.get(name, "") for name in names))
        writer.writerow(map(cell, row))
    return held.getvalue()


def _late(late: Lateness | None, worth: bool) -> tuple[str, str]:
    if late is None:
        return "", ""
    return "" if late.minutes is None else str(late.minutes), number(late.points) if worth else ""


def _by_hand(grade: Grade) -> str:
    graded = [mark for mark in grade.marks if mark.graded is not None]
    return " ".join(f"{mark.exercise} (grader: {number(mark.graded or 0)})" for mark in graded)


def number(points: float) -> str:
    """Points as people write them: at most two decimals, and none if they are zero.

    >>> from tcemu.grade.output.sheet import number
    >>> number(2.0), number(1 / 3)
    ('2', '0.33')
    """
    return f"{points:.2f}".rstrip("0").rstrip(".")
