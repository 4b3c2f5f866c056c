"""Every exercise of the course has a solution that passes, a stub that does not, and mistakes with a name."""

from pathlib import Path

import pytest
from places import ROOT
from quick import some, spread, turn
from rows import rows

from tcemu.course import exercises, lint
from tcemu.course.lint import LEARNERS, cases, problems

FOLDER = ROOT / "solutions"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
CASES = cases(ROOT)


@rows("case", some(spread(CASES, 4, first=turn(4)), 12), lambda case: case.exercise.name)
@pytest.mark.slow
def test_nothing_is_wrong_with_it(case, monkeypatch):
    """What `tcemu exercises lint` asks; tests/course/test_writing.py shows that it finds what is wrong.

    The command asks as each of three learners. Unless everything is asked, they take turns here, an exercise each, and
    a quarter of the exercises have their turn each day.
    """
    monkeypatch.setattr(lint, "LEARNERS", spread(LEARNERS, len(LEARNERS), first=CASES.index(case)))
    assert [str(problem) for problem in problems(case)] == []


def test_every_exercise_has_a_solution():
    assert {case.exercise.name for case in CASES} == set(exercises(ROOT))


def test_the_files_are_named_alike():
    """A notebook has a module of its name; a large one has more."""
    topics = {path.stem[3:] for path in NOTEBOOKS}
    modules = {path.stem for path in (ROOT / "tcemu" / "course" / "bank").glob("[a-z]*.py")}
    assert topics <= modules
    assert modules == {path.stem for path in (FOLDER / "wrong").glob("*.py")}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solutions_notebook_is_stored_without_outputs(path: Path) -> None:
    import nbformat

    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
