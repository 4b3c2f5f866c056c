"""What every exercise of the course has: a solution that passes, a stub that does not, and mistakes with a name."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from rows import rows

from tcemu.course import exercises, judged
from tcemu.course.solutions import solutions, taught, wrong_answers

FOLDER = ROOT / "solutions"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
SOLUTIONS = {each.name: each for path in NOTEBOOKS for each in solutions(path)}
SEEDS = ("", "ada", "grace")


@rows("exercise", exercises().values(), lambda exercise: exercise.name)
def test_it_says_what_to_do_and_how_long_it_takes(exercise):
    assert exercise.minutes in range(1, 61)
    assert exercise.points >= 1
    assert exercise.know
    assert exercise.how
    assert len(exercise.hints) >= 2
    assert f"`{exercise.name}" in exercise.task, "the task says what to write"
    assert re.fullmatch(r"9\.7(\.\d+)+(, 9\.7(\.\d+)+)*|", exercise.section)


@rows("exercise", exercises().values(), lambda exercise: exercise.name)
def test_it_has_a_solution(exercise):
    assert exercise.name in SOLUTIONS


def test_every_solution_has_an_exercise():
    assert set(SOLUTIONS) <= set(exercises())
    assert set(wrong_answers(FOLDER)) <= set(exercises())


@rows("solution", SOLUTIONS.values(), lambda solution: solution.name)
def test_the_unsolved_exercise_is_open(solution):
    for seed in SEEDS[:2]:
        assert solution.verdict(solution.stub, seed).state == "open"


@rows("solution", SOLUTIONS.values(), lambda solution: solution.name)
def test_the_solution_passes(solution):
    for seed in SEEDS:
        verdict = solution.verdict(seed=seed)
        assert verdict, str(verdict)
        assert verdict.finding.share == 1


@rows("exercise", exercises().values(), lambda exercise: exercise.name)
def test_wrong_answers_are_refused_and_named(exercise):
    answers = wrong_answers(FOLDER).get(exercise.name, ())
    assert len(answers) >= 3
    for seed in SEEDS[:2]:
        for wrong in answers:
            verdict = judged(exercise, wrong.of(exercise.given(seed)), seed)
            assert taught(verdict, wrong.words), f"{wrong.words!r} is not in {verdict}"
            assert verdict.finding.share < 1


@rows("exercise", exercises().values(), lambda exercise: exercise.name)
def test_a_seed_fixes_the_variant(exercise):
    once, again, other = (contents(exercise.given(seed)) for seed in ("ada", "ada", "grace"))
    assert once == again
    assert (once != other) == exercise.varies


def contents(given):
    """The numbers as bytes and types."""
    return {name: (np.asarray(value).dtype.str, np.asarray(value).tobytes()) for name, value in given.items()}


@rows("solution", SOLUTIONS.values(), lambda solution: solution.name)
def test_no_hint_and_no_task_contains_the_solution(solution):
    exercise = exercises()[solution.name]
    told = "".join(" ".join((exercise.task, *exercise.hints)).split())
    for piece in pieces(solution.code):
        assert piece not in told, piece


def pieces(code):
    """What a solution returns or assigns, without blanks; short ones say nothing."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Return | ast.Assign) and node.value is not None:
            text = "".join(ast.unparse(node.value).split())
            if len(text) >= 12:
                yield text


def test_the_files_are_named_alike():
    topics = {path.stem[3:] for path in NOTEBOOKS}
    assert topics == {path.stem for path in (FOLDER / "wrong").glob("*.py")}
    assert topics <= {path.stem for path in (ROOT / "tcemu" / "course" / "bank").glob("[a-z]*.py")}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solutions_notebook_is_stored_without_outputs(path: Path) -> None:
    import nbformat

    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
