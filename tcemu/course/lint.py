"""What is wrong with the exercises of a folder, before a learner finds out: `tcemu exercises lint`.

Each rule is a function that yields problems. It gets one exercise with its solution and wrong answers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tcemu.cells import python_of
from tcemu.course import progress
from tcemu.course.bank import exercises
from tcemu.course.checking import judged
from tcemu.course.record import Exercise, Given
from tcemu.course.release import SPOKEN_OF, released
from tcemu.course.solutions import Solution, Wrong, execute, solutions, taught, wrong_answers
from tcemu.errors import CourseError
from tcemu.tracebacks import described

#: The learners whose variants are tried; the first has no name.
LEARNERS = ("", "ada", "grace")
#: Wrong answers that each exercise has at least.
WRONG = 3
#: Minutes that an exercise may take.
MINUTES = range(1, 61)


@dataclass(frozen=True)
class Case:
    """One exercise with its solution and its wrong answers."""

    exercise: Exercise
    solution: Solution
    wrong: Sequence[Wrong]


@dataclass(frozen=True)
class Problem:
    """What is wrong, and with what: the name of an exercise or of a file.

    >>> from tcemu.course.lint import Problem
    >>> print(Problem("where_of_a", "it has no hints"))
    where_of_a: it has no hints
    """

    where: str
    says: str

    def __str__(self) -> str:
        return f"{self.where}: {self.says}"


def lint(folder: Path) -> Iterator[Problem]:
    """Everything that is wrong with the exercises whose solutions are in `folder`/solutions. Raises CourseError."""
    held = cases(folder)
    for case in held:
        yield from problems(case)
    yield from _files(folder)
    yield from _manifest(folder, held)


def cases(folder: Path) -> list[Case]:
    """The exercises that have a solution in the folder. Raises CourseError for a solution of no exercise."""
    paths = sorted((folder / "solutions").glob("*.ipynb"))
    if not paths:
        raise CourseError(f"{folder / 'solutions'} has no notebooks")
    known, wrong = exercises(folder), wrong_answers(folder / "solutions")
    solved = [solution for path in paths for solution in solutions(path)]
    unknown = [solution.name for solution in solved if solution.name not in known]
    unknown += [name for name in wrong if name not in known]
    if unknown:
        raise CourseError(f"{folder / 'solutions'} solves {unknown[0]}, but there is no such exercise")
    return [Case(known[solution.name], solution, wrong.get(solution.name, ())) for solution in solved]


def problems(case: Case) -> Iterator[Problem]:
    """What is wrong with one exercise; an error in it is a problem too."""
    for rule in RULES:
        try:
            yield from (Problem(case.exercise.name, says) for says in rule(case))
        except Exception as error:  # noqa: BLE001 - a teacher's code may raise anything
            name = rule.__name__.removeprefix("_").replace("_", " ")
            yield Problem(case.exercise.name, f"{name}: {described(error)}")


# ---------------------------------------------------------------------------------------------- rules


def _it_says_what_to_do(case: Case) -> Iterator[str]:
    exercise = case.exercise
    if exercise.minutes not in MINUTES:
        yield f"{exercise.minutes} minutes; an exercise takes {MINUTES[0]} to {MINUTES[-1]}"
    if f"`{exercise.name}" not in exercise.task:
        yield f"the task does not say what to write: `{exercise.name}` is not in it"
    if len(exercise.hints) < 2:
        yield "it has fewer than two hints"
    if exercise.section and not all(part.replace(".", "").isdigit() for part in exercise.section.split(", ")):
        yield f"the section is {exercise.section!r}, not a section number of the PTX manual such as 9.7.14.5.8"


def _what_it_speaks_of_is_imported(case: Case) -> Iterator[str]:
    names = {alias.asname or alias.name.partition(".")[0] for source in case.solution.setup
             for node in ast.walk(ast.parse(python_of(source))) if isinstance(node, ast.Import | ast.ImportFrom)
             for alias in node.names}  # fmt: skip
    missing = [name for name in SPOKEN_OF if name not in names]
    if missing:
        yield f"the verdict and the card speak of {', '.join(missing)}, which the notebook does not import"


def _unsolved_it_is_open(case: Case) -> Iterator[str]:
    for learner in LEARNERS[:2]:
        state = case.solution.verdict(case.solution.stub, learner).state
        if state != "open":
            yield f"unsolved, it is {state} instead of open{_for(learner)}"


def _the_solution_passes(case: Case) -> Iterator[str]:
    for learner in LEARNERS:
        verdict = case.solution.verdict(seed=learner)
        if not verdict or verdict.finding.share != 1:
            yield f"the solution does not pass{_for(learner)}: {verdict.says} {verdict.mistake}".strip()


def _wrong_answers_are_named(case: Case) -> Iterator[str]:
    if len(case.wrong) < WRONG:
        yield f"it has {len(case.wrong)} wrong answers; {WRONG} or more are needed"
    for learner in LEARNERS[:2]:
        for number, wrong in enumerate(case.wrong, 1):
            answer = wrong.of(case.exercise.given(learner))
            verdict = judged(case.exercise, answer, learner)
            if not taught(verdict, wrong.words):  # it may compute its numbers with what a learner may not call
                verdict = judged(replace(case.exercise, only=None), answer, learner)
            if verdict:
                yield f"wrong answer {number} passes{_for(learner)}"
            elif not taught(verdict, wrong.words):
                said = f"{verdict.says} {verdict.mistake}".strip()
                yield f"the diagnosis of wrong answer {number} is {said!r}{_for(learner)}, without {wrong.words!r}"


def _a_learner_has_a_variant(case: Case) -> Iterator[str]:
    given = [_contents(case.exercise.given(learner)) for learner in ("ada", "ada", "grace")]
    if given[0] != given[1]:
        yield "the same learner gets different numbers the second time: draw uses more than its random generator"
    if case.exercise.varies and given[0] == given[2]:
        yield "two learners get the same numbers: draw does not use its random generator"


def _nothing_gives_the_solution_away(case: Case) -> Iterator[str]:
    text = "".join(" ".join((case.exercise.task, *case.exercise.hints)).split())
    for piece in _pieces(case.solution.code):
        if piece in text:
            yield f"the task or a hint contains {piece}, which is in the solution"


def _points_add_up(case: Case) -> Iterator[str]:
    if case.solution.points not in (None, case.exercise.points):
        yield f"its check gives {case.solution.points} points, but the exercise {case.exercise.points}"


def _hidden_tests_can_be_failed(case: Case) -> Iterator[str]:
    hidden = case.solution.hidden
    if not hidden:
        return
    if error := _trouble(case, hidden, case.solution.code):
        yield f"the solution fails the hidden tests: {error}"
    answers = [wrong.of(case.exercise.given()) for wrong in case.wrong]
    if not any(_trouble(case, hidden, None, answer) for answer in answers):
        yield "no wrong answer fails the hidden tests"


#: The rules, cheap ones first.
RULES: tuple[Callable[[Case], Iterator[str]], ...] = (
    _it_says_what_to_do,
    _what_it_speaks_of_is_imported,
    _points_add_up,
    _a_learner_has_a_variant,
    _nothing_gives_the_solution_away,
    _unsolved_it_is_open,
    _the_solution_passes,
    _wrong_answers_are_named,
    _hidden_tests_can_be_failed,
)


def _for(learner: str) -> str:
    return f" (variant of {learner})" if learner else ""


def _contents(given: Given) -> dict[str, tuple[str, bytes]]:
    """The numbers as bytes."""
    return {name: (np.asarray(value).dtype.str, np.asarray(value).tobytes()) for name, value in given.items()}


def _pieces(code: str) -> Iterator[str]:
    """What a solution returns or assigns, without blanks; short pieces say nothing."""
    for node in ast.walk(ast.parse(python_of(code))):
        if isinstance(node, ast.Return | ast.Assign) and node.value is not None:
            text = "".join(ast.unparse(node.value).split())
            if len(text) >= 12:
                yield text


def _trouble(case: Case, hidden: str, code: str | None, answer: object = None) -> str:
    """What hidden tests raise for a solution, or for another answer."""
    namespace = {"__name__": "__main__"}
    try:
        with chdir(case.solution.path.parent), progress.as_learner(""):
            for source in (*case.solution.setup, code or ""):
                execute(source, str(case.solution.path), namespace)
            if code is None:
                namespace[case.exercise.name] = answer  # type: ignore[assignment]
            exec(compile(hidden, str(case.solution.path), "exec"), namespace)  # noqa: S102 - the teacher's code
    except Exception as error:  # noqa: BLE001 - that is what tests do
        return described(error)
    return ""


def _files(folder: Path) -> Iterator[Problem]:
    """Whether exercises/ is what follows from the solutions."""
    for path, text in released(folder):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield Problem(str(path.relative_to(folder)), "it differs from the solutions: save the exercises")


def _manifest(folder: Path, held: Sequence[Case]) -> Iterator[Problem]:
    """Whether the manifest lists the exercises, if there is one: a folder of exercises need not be a course."""
    from tcemu.course.manifests import MANIFEST, manifest

    if not any((place / MANIFEST).is_file() for place in (folder, folder / "notebooks")):
        return
    listed = {name for entry in manifest(folder).notebooks for name in (*entry.tasks, *entry.exercises)}
    for case in held:
        if case.exercise.name not in listed:
            yield Problem(case.exercise.name, "course.toml does not list it")
