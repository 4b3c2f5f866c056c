"""Write everything that comes of a class's grades into a folder. The same grades give the same bytes.

    grades.csv                    a row for each student
    feedback/STUDENT.html         what each student gets
    gradescope/STUDENT.json       Gradescope's results.json
    report.html                   what the teacher reads first
    gradebook.db                  nbgrader's gradebook

What manual.csv in the folder says, which a teacher writes, is in all of them.

STUDENT is the student's name if that is a simple one, and otherwise what is left of it, with a digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from tcemu.course.keeping import keep
from tcemu.course.manifests import Manifest
from tcemu.errors import CourseError
from tcemu.grade.output import gradebook
from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.feedback import feedback
from tcemu.grade.output.gradescope import results
from tcemu.grade.output.lateness import of_class
from tcemu.grade.output.manual import MANUAL, merged
from tcemu.grade.output.report import Report
from tcemu.grade.output.sheet import sheet
from tcemu.grade.plain import file_name
from tcemu.grade.records import Grade, Submission


def write_all(
    grades: Iterable[Grade], out: Path, submissions: Iterable[Submission] = (), *,
    course: Manifest | None = None, nbgrader: bool = True,
) -> Report:  # fmt: skip
    """Write all files into the folder `out`, and return the report, whose tables a terminal can show.

    `submissions` are compared with each other for the report. `course` is by default the installed one. The gradebook,
    which takes longer than all the rest, is written if `nbgrader` is asked for and installed. Raises CourseError if
    `out` cannot be written.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.grade.output import write_all
    >>> from tcemu.grade.records import Grade
    >>> with TemporaryDirectory() as folder:
    ...     report = write_all([Grade("ada", "0")], Path(folder), nbgrader=False)
    ...     print(*sorted(path.name for path in Path(folder).iterdir()))
    ...     print(report.summary)
    feedback grades.csv gradescope report.html
    1 submission, 1 of them graded. Points: 0 on average, median 0, from 0 to 0.
    """
    ordered = merged(sorted(grades, key=lambda grade: grade.student), out / MANUAL)
    handed = sorted(submissions, key=lambda each: each.student)
    names = Catalogue(course) if course else installed()
    late = of_class(ordered, handed, names.manifest)
    report = Report.of(ordered, handed, names, late)
    try:
        for grade in ordered:
            name, about = file_name(grade.student), (grade, names, late.get(grade.student))
            keep(out / "feedback" / f"{name}.html", feedback(*about))
            keep(out / "gradescope" / f"{name}.json", results(*about))
        keep(out / "grades.csv", sheet(ordered, late))
        keep(out / "report.html", report.html)
    except OSError as error:
        raise CourseError(f"cannot write to {out}: {error.strerror or error}") from error
    if nbgrader and find_spec("nbgrader") is not None:
        gradebook.write(ordered, out / "gradebook.db")
    return report
