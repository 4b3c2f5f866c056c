"""grades.csv: a row for each student, a column for each exercise."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tcemu.grade.plain import cell
from tcemu.grade.records import Grade

#: The columns before those of the exercises.
COLUMNS = ("student", "state", "points", "of", "says", "folder", "tcemu", "course", "digest")


def sheet(grades: Sequence[Grade]) -> str:
    r"""The grades as CSV, in the order given; the columns of the exercises are sorted by notebook.

    Text that a spreadsheet would take for a formula has an apostrophe before it: remove it from a name that really
    begins with "=", "+", "-" or "@" before you compare names.

    >>> from tcemu.grade.output.sheet import sheet
    >>> from tcemu.grade.records import Grade
    >>> print(sheet([Grade("=ada", "d" * 4)]))
    student,state,points,of,says,folder,tcemu,course,digest
    '=ada,graded,0,0,,,,,dddd
    <BLANKLINE>
    """
    exercises = {mark.exercise: mark.notebook for grade in grades for mark in grade.marks}
    names = sorted(exercises, key=lambda name: (exercises[name], name))
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow([*COLUMNS, *map(cell, names)])
    for grade in grades:
        points = {mark.exercise: number(mark.points) for mark in grade.marks}
        if grade.state == "quarantined":  # nobody knows what it is worth
            points = dict.fromkeys(points, "")
        earned = "" if grade.state == "quarantined" else number(grade.points)
        about = (grade.student, grade.state, earned, number(grade.of), grade.says, grade.folder)
        row = (*about, grade.tcemu, grade.course, grade.digest, *(points.get(name, "") for name in names))
        writer.writerow(map(cell, row))
    return held.getvalue()


def number(points: float) -> str:
    """Points as people write them: at most two decimals, and none if they are zero.

    >>> from tcemu.grade.output.sheet import number
    >>> number(2.0), number(1 / 3)
    ('2', '0.33')
    """
    return f"{points:.2f}".rstrip("0").rstrip(".")
