"""The page that a student gets: what every exercise came to, and nothing that `check` would not say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.lateness import Lateness
from tcemu.grade.output.pages import page
from tcemu.grade.output.words import about_grade
from tcemu.grade.records import Grade, Mark


@dataclass(frozen=True)
class Book:
    """The marks of one notebook, each with the exercise's title."""

    title: str
    marks: tuple[tuple[str, Mark], ...]

    @property
    def points(self) -> float:
        """Points earned."""
        return sum(mark.points for _, mark in self.marks)

    @property
    def of(self) -> int:
        """Points that could be earned."""
        return sum(mark.of for _, mark in self.marks)


def feedback(grade: Grade, course: Catalogue | None = None, late: Lateness | None = None) -> str:
    """The page of one student.

    It repeats what the marks say: the words with which `check` answers in the notebook, which a learner may read.
    Of the numbers that are right, only those are in it that the exercise itself reveals.

    >>> from tcemu.grade.output.feedback import feedback
    >>> from tcemu.grade.records import Grade, Mark
    >>> mark = Mark("where_of_a", "02_fragments", "wrong", 1.0, 2, "The lane of A[8][0] is wrong.")
    >>> "The lane of A[8][0] is wrong." in feedback(Grade("ada", "0", (mark,)))
    True
    """
    books = list(_books(grade, course or installed()))
    return page("feedback.html", grade=grade, about=[*about_grade(grade), *(late.says if late else ())], books=books)


def _books(grade: Grade, course: Catalogue) -> Iterator[Book]:
    for stem, marks in groupby(grade.marks, key=lambda mark: mark.notebook):
        yield Book(course.label(stem), tuple((course.title(mark.exercise), mark) for mark in marks))
