"""check, hint and given: what a learner calls.

All three come from one import:

    from tcemu.course import check, given, hint

    check(where_of_a)           a function, which has the exercise's name
    check(first_sum=0x4b00)     anything else, under the exercise's name
    hint("where_of_a")          the next hint
    given("first_sum").A        the numbers of the exercise
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tcemu.arguments import explained
from tcemu.course import progress
from tcemu.course.allowed import held_by, refused
from tcemu.course.answers import AnswerError, Unanswered, entering, named, overheard
from tcemu.course.bank import exercise, exercises
from tcemu.course.cuda_answers import is_cuda
from tcemu.course.judges import Kernel
from tcemu.course.overviews import place_of, write_first_page
from tcemu.course.record import Evidence, Exercise, Finding, Given
from tcemu.course.source import START
from tcemu.course.verdict import Verdict
from tcemu.errors import CourseError, TcemuError, briefly
from tcemu.tracebacks import described

#: Hints that were asked for in this process, by exercise.
_HINTED: Counter[str] = Counter()
_NO_FUNCTION = "These values are right, but the answer must be a function, which is called with other numbers too."
#: Where verdicts are collected instead of written down, innermost last.
_LISTENING: list[list[Verdict]] = []


def check(*function: Any, **answer: Any) -> Verdict:
    """Check the answer of one exercise: a function with the exercise's name, or anything under that name.

    Returns a Verdict, which says what is right or the first thing that is wrong, and is true if all is right. In a
    folder that `tcemu lab` laid out, progress and scores are saved. Raises CourseError if there is no such
    exercise.

    >>> from tcemu.course import check
    >>> def where_of_a(row, column):
    ...     return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // 8
    >>> check(where_of_a)
    where_of_a: right in 256 cases.
    >>> def where_of_a(row, column):
    ...     return 4 * (row % 8) + column % 8 // 2, column // 8 * 2
    >>> check(where_of_a).mistake
    'The register does not depend on row // 8, but it should.'
    """
    name, given_answer = _named(function, answer)
    wanted = exercise(name)
    verdict = judged(wanted, given_answer, progress.learner())
    if _LISTENING:
        _LISTENING[-1].append(verdict)
        return verdict
    try:
        verdict = replace(verdict, yours=progress.best(name))
        progress.note(verdict)
        return _onward(verdict)
    except CourseError as error:
        return replace(verdict, aside=f"Your progress was not saved: {error}.")


def _onward(verdict: Verdict) -> Verdict:
    """The verdict with what is solved now and what is next, if an exercise of a course is; its first page says so too.

    Raises CourseError if that cannot be read or written.
    """
    folder = progress.folder()
    if folder is None or not verdict:
        return verdict
    if (folder / START).is_file():
        write_first_page(folder)
    place = place_of(verdict.exercise.name, folder)
    if place is None:
        return verdict
    links = tuple((text, Path(os.path.relpath(folder / path)).as_posix()) for text, path in place.links)
    return replace(verdict, reached=place.reached, links=links)


def judged(wanted: Exercise, answer: Any, seed: str = "") -> Verdict:
    """The verdict on an answer to one variant of an exercise; nothing is saved.

    >>> from tcemu import course
    >>> course.judged(course.exercise("where_of_a"), lambda row, column: (row, column), seed="ada").state
    'wrong'
    """
    try:
        evidence, entered = _collected(wanted, answer, seed)
    except Unanswered as error:
        return Verdict(wanted, "open", Finding(False, str(error)))
    except AnswerError as error:
        return Verdict(wanted, "wrong", Finding(False, str(error)))
    try:
        finding = wanted.judge.mark(evidence, wanted.given(seed))  # the answer may have changed its own numbers
    except TcemuError as error:  # what the answer asks of the emulator is impossible
        finding = Finding(False, f"The emulator rejects it: {error}")
    if says := refused(wanted, entered, kernel=isinstance(wanted.judge, Kernel)) or _held(wanted, answer):
        finding = Finding(False, says) if finding.right else replace(finding, share=0.0)
    if wanted.calls and not is_cuda(answer) and (not callable(answer) or isinstance(answer, np.ndarray | np.generic)):
        finding = replace(finding, right=False, share=0.0, says=_NO_FUNCTION if finding.right else finding.says)
    return Verdict(wanted, "right" if finding.right else "wrong", finding)


def _held(wanted: Exercise, answer: Any) -> str:
    return held_by(answer) if wanted.only == () else ""


def _collected(wanted: Exercise, answer: Any, seed: str) -> tuple[Evidence, set[str]]:
    """What the answer comes to, and the functions of tcemu that it enters. Raises AnswerError, whatever it does."""
    given = wanted.given(seed)
    try:
        with overheard(), entering(answer) as entered:
            evidence = wanted.judge.collect(answer, given)
        return evidence, entered  # noqa: TRY300 - together with what it is about
    except (AnswerError, KeyboardInterrupt):
        raise
    except TcemuError as error:
        raise AnswerError(f"The emulator rejects it: {error}") from error
    except BaseException as error:
        raise AnswerError(f"The answer cannot be read. It raises {described(error)}.") from error


@contextmanager
def verdicts_of(learner: str = "") -> Iterator[list[Verdict]]:
    """Collect the verdicts of every check inside, for the variants of a learner; nothing is saved.

    >>> from tcemu.course import check
    >>> from tcemu.course.checking import verdicts_of
    >>> with verdicts_of("ada") as verdicts:
    ...     _ = check(where_of_a=...)
    >>> [verdict.state for verdict in verdicts]
    ['open']
    """
    verdicts: list[Verdict] = []
    _LISTENING.append(verdicts)
    try:
        with progress.as_learner(learner):
            yield verdicts
    finally:
        _LISTENING.remove(verdicts)


def _named(function: tuple[Any, ...], answer: dict[str, Any]) -> tuple[str, Any]:
    if len(function) + len(answer) != 1:
        raise CourseError("check one answer at a time: check(where_of_a), or check(first_sum=0x4b00)")
    if answer:
        ((name, value),) = answer.items()
        return name, value
    name = named(function[0])
    if not name.isidentifier():
        raise CourseError(f"what is {briefly(function[0])} an answer to? Name the exercise: check(first_sum=...)")
    return name, function[0]


@explained
def hint(name: Any, number: int | None = None) -> str:
    """The next hint for an exercise, or the one with that number, counted from 1. Raises CourseError.

    >>> from tcemu.course import hint
    >>> print(hint("where_of_a", 1))
    Hint 1 of 3: Print mma.fragments["a"].layout, and read which digits make up the lane.
    """
    wanted = exercise(name if isinstance(name, str) else getattr(name, "__name__", ""))
    if number is None:
        _HINTED[wanted.name] += 1
        number = min(_HINTED[wanted.name], len(wanted.hints))
    if not 1 <= number <= len(wanted.hints):
        raise CourseError(f"{wanted.name} has hints 1 to {len(wanted.hints)}")
    return Hint(f"Hint {number} of {len(wanted.hints)}: {wanted.hints[number - 1]}")


class Hint(str):
    """A hint, which a notebook shows without quotation marks.

    >>> from tcemu.course.checking import Hint
    >>> Hint("Hint 1 of 1: read.")
    Hint 1 of 1: read.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def given(name: str) -> Given:
    """The numbers of an exercise: the learner's own variant. Raises CourseError if there is no such exercise.

    >>> from tcemu.course import given
    >>> given("where_of_a")
    nothing is given
    """
    return exercise(name).given(progress.learner())


__all__ = ["Verdict", "check", "exercise", "exercises", "given", "hint", "judged"]
