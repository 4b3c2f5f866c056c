"""The teacher's report: a page, and its most important tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median
from typing import TYPE_CHECKING

from tcemu.errors import counted
from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.lateness import Lateness, span
from tcemu.grade.output.pages import page
from tcemu.grade.output.sheet import number
from tcemu.grade.output.similarity import Group, groups
from tcemu.grade.output.statistics import Row, mistakes, rows, spread, unsolved
from tcemu.grade.output.variants import Answer, elsewhere
from tcemu.grade.output.words import about_grade
from tcemu.grade.plain import file_name, visible
from tcemu.grade.records import Grade, Submission

if TYPE_CHECKING:
    from rich.table import Table

#: Lines of a table in a terminal, and in the page.
_SHORT, _LONG = 12, 200


@dataclass(frozen=True)
class Report:
    """What a teacher wants to know about a class.

    >>> from tcemu.grade.output.report import Report
    >>> from tcemu.grade.records import Grade, Mark
    >>> mark = Mark("where_of_a", "02_fragments", "wrong", 0.5, 2, mistake="The row's half is forgotten.")
    >>> report = Report.of([Grade("ada", "0", (mark,))], [])
    >>> report.mistakes, report.unsolved[0].exercise
    ([(1, 'where_of_a', "The row's half is forgotten.")], 'where_of_a')
    """

    grades: Sequence[Grade]
    rows: Sequence[Row]
    mistakes: Sequence[tuple[int, str, str]]
    alike: Sequence[Group] = ()
    elsewhere: Sequence[Answer] = ()
    #: Whether the submissions were compared.
    compared: bool = False
    #: How late students were, where there are deadlines.
    late: Mapping[str, Lateness] = field(default_factory=dict)
    course: Catalogue = field(default_factory=installed)

    @classmethod
    def of(
        cls, grades: Sequence[Grade], submissions: Sequence[Submission], course: Catalogue | None = None,
        late: Mapping[str, Lateness] | None = None,
    ) -> Report:  # fmt: skip
        """The report on a class; without the submissions, nothing is said about who is alike."""
        course = course or installed()
        graded = [grade for grade in grades if grade.state == "graded"]  # the others' marks say nothing about exercises
        report = cls(grades, rows(graded), mistakes(graded), course=course, late=late or {})
        if not submissions:
            return report
        alike, others = groups(submissions, course), elsewhere(grades, submissions, course)
        return replace(report, alike=alike, elsewhere=others, compared=True)

    @property
    def unsolved(self) -> list[Row]:
        """The exercises that no student solved."""
        return unsolved(self.rows)

    @property
    def summary(self) -> str:
        """The class in a sentence or two."""
        graded = [grade for grade in self.grades if grade.state == "graded"]
        said = f"{counted(len(self.grades), 'submission')}, {len(graded)} of them graded."
        if graded:
            points = [grade.points for grade in graded]
            said += f" Points: {number(mean(points))} on average, median {number(median(points))},"
            said += f" from {number(min(points))} to {number(max(points))}."
        return said

    @property
    def html(self) -> str:
        """The report as a page."""
        graded = ((grade, [*about_grade(grade), *self._late(grade)]) for grade in self.grades)
        special = [(grade, about) for grade, about in graded if about]
        students = [(grade, f"feedback/{file_name(grade.student)}.html") for grade in self.grades]
        alike = {name for group in self.alike for name in group.students}
        parts = spread(self.grades)
        versions = sorted({(grade.tcemu, grade.course) for grade in self.grades})
        most = max((count for _, count in parts), default=0) or 1
        return page(
            "report.html", report=self, spread=parts, most=most, special=special, long=_LONG, students=students,
            alike=alike, span=span, label=self.course.label, title=self.course.title, versions=versions,
        )  # fmt: skip

    def _late(self, grade: Grade) -> list[str]:
        return list(self.late[grade.student].says) if grade.student in self.late else []


def tables(report: Report) -> Iterator[Table]:
    """The most important tables, for `rich.print`: what stops people, mistakes, who is alike.

    >>> from tcemu.grade.output.report import Report, tables
    >>> from tcemu.grade.records import Grade, Mark
    >>> mark = Mark("where_of_a", "02_fragments", "wrong", 0.5, 2)
    >>> [table.title for table in tables(Report.of([Grade("ada", "0", (mark,))], []))]
    ['Exercises where learners get stuck']
    """
    kinds: tuple[tuple[str, tuple[str, ...], list[tuple[object, ...]]], ...] = (
        ("Exercises where learners get stuck", ("exercise", "notebook", "tried", "right"),
         [(row.exercise, row.notebook, row.tried, row.right) for row in report.rows if row.stopped]),
        ("Mistakes", ("students", "exercise", "mistake"), list(report.mistakes)),
        ("Similar submissions", ("students", "notebook", "alike"),
         [(", ".join(each.students), each.notebook, f"{each.part:.0%}") for each in report.alike]),
        ("Right for another student's numbers", ("student", "exercise", "right for"),
         [(each.student, each.exercise, ", ".join(each.right_for)) for each in report.elsewhere]),
    )  # fmt: skip
    return (_table(name, columns, held) for name, columns, held in kinds if held)


def _table(name: str, columns: tuple[str, ...], held: list[tuple[object, ...]]) -> Table:
    """A table whose cells are text, whatever markup or escapes a name contains."""
    from rich.table import Table
    from rich.text import Text

    more = len(held) - _SHORT
    made = Table(*columns, title=name, caption=f"and {more} more in report.html" if more > 0 else None)
    for row in held[:_SHORT]:
        made.add_row(*(Text(visible(str(value))) for value in row))
    return made
