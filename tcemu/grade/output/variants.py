"""Answers that are right for another student: wrong for the student's own numbers, right for the other's.

Only answers that are written down are compared, such as `check(first_sum=0x4b00)` or `first_sum = np.uint32(0x4b00)`:
they are read as Python literals. No student's code is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcemu.course.checking import judged
from tcemu.course.record import Exercise
from tcemu.grade.output.catalogue import Catalogue, installed
from tcemu.grade.output.similarity import sources
from tcemu.grade.records import Grade, Submission
from tcemu.grade.syntax import parsed

#: Comparisons at most; a judge takes milliseconds for each.
_MOST = 2000
#: An answer that is right for more than this part of the others is a common one: 0, 1, "even".
_COMMON = 0.1
#: Names that are listed for each answer.
_SHOWN = 3


@dataclass(frozen=True)
class Answer:
    """An answer that is right for other students."""

    student: str
    exercise: str
    right_for: tuple[str, ...]


def elsewhere(
    grades: Sequence[Grade], submissions: Sequence[Submission], course: Catalogue | None = None
) -> list[Answer]:
    """The answers that are wrong here and right for others, by student.

    >>> from tcemu.grade.output.variants import elsewhere
    >>> elsewhere([], [])
    []
    """
    handed = {each.student: each for each in submissions}
    students = sorted(grade.student for grade in grades)
    left, answers = _MOST, []
    for grade in sorted(grades, key=lambda grade: grade.student):
        for row, value in _wrong_literals(grade, handed.get(grade.student), course or installed()):
            others = [other for other in students if other != grade.student][: max(left, 0)]
            left -= len(others)
            right = [other for other in others if judged(row, value, other)]
            if right and len(right) <= max(1, _COMMON * len(others)):
                answers.append(Answer(grade.student, row.name, tuple(right[:_SHOWN])))
    return answers


def _wrong_literals(grade: Grade, submission: Submission | None, course: Catalogue) -> Iterator[tuple[Exercise, Any]]:
    """The wrong answers that vary from student to student and are written down as literals."""
    if submission is None:
        return
    for stem in sorted({mark.notebook for mark in grade.marks} & {*submission.files}):
        held = literals(sources(submission.read(stem)))
        for mark in grade.marks:
            row = course.exercise(mark.exercise)
            if mark.notebook == stem and mark.state == "wrong" and row and row.varies and mark.exercise in held:
                yield row, held[mark.exercise]


def literals(cells: Sequence[str]) -> Mapping[str, Any]:
    """What names are assigned, or checked with, where that is a literal; the last one of each name.

    >>> from tcemu.grade.output.variants import literals
    >>> literals(["a = 1", "b = np.array([1, 2], np.uint32)", "check(c=(3,))", "d = f()"])
    {'a': 1, 'b': [1, 2], 'c': (3,)}
    """
    values: dict[str, Any] = {}
    trees = [cell.tree for cell in parsed(cells) if cell.tree]
    for name, value in (pair for tree in trees for node in ast.walk(tree) for pair in _named(node)):
        try:
            values[name] = ast.literal_eval(_inner(value))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
    return values


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Call(func=ast.Name(id="check"), keywords=keywords):
            yield from ((each.arg, each.value) for each in keywords if each.arg)


def _inner(value: ast.expr) -> ast.expr:
    """What a call such as np.uint32(...) or np.array(..., dtype) makes its value of."""
    match value:
        case ast.Call(func=ast.Attribute(), args=[first, *_]):
            return first
    return value
