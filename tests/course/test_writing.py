"""The guide for teachers is true: its example is built, linted and solved as it says."""

import json
import re

import pytest
from boxed import LIMITS, needs_box
from click.testing import CliRunner
from handed import notebook
from places import ROOT

from tcemu.cli import commands
from tcemu.grade.hidden import FAILS, hidden_in
from tcemu.grade.records import Submission
from tcemu.grade.work import Task, course_digest, course_of, grade

GUIDE = (ROOT / "exercises" / "WRITING.md").read_text(encoding="utf-8")
ROWS, FUNCTION, VALUE, CHECK, WRONG = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
COURSE = """
title = "Lanes"

[[notebook]]
file = "02_lanes.ipynb"
title = "Lanes"
minutes = 5
exercises = ["row_of_lane", "sum_of_row"]
"""


def run(*command):
    return CliRunner().invoke(commands, [str(part) for part in command])


@pytest.fixture
def course(tmp_path, monkeypatch):
    """The folder of the guide, with its files as the guide has them."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-course"
    for name, text in (("exercises/bank/lanes.py", ROWS), ("solutions/wrong/lanes.py", WRONG)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    for command in re.findall(r"^    tcemu (exercises add .*)$", GUIDE, re.MULTILINE):
        assert run(*command.split()).exit_code == 0
    change(folder, {"row_of_lane": FUNCTION, "sum_of_row": VALUE, "sum_of_row-check": CHECK})
    return folder


def change(folder, sources):
    """Write cells of the solutions, as a teacher does in JupyterLab."""
    path = folder / "solutions" / "02_lanes.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
    path.write_text(json.dumps(notebook), encoding="utf-8")


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def lint(folder):
    assert run("exercises", "save", folder).exit_code == 0
    return run("exercises", "lint", folder)


def test_the_example_has_nothing_wrong(course):
    done = lint(course)
    assert done.output == "2 exercises, 10 minutes, 3 points: nothing is wrong.\n"
    assert done.exit_code == 0


@pytest.mark.slow
def test_the_learner_gets_the_exercises_and_solves_them(course):
    run("exercises", "save", course)
    path = course / "exercises" / "02_lanes.ipynb"
    text = path.read_text(encoding="utf-8")
    assert "lane // 4" not in text
    assert "sum_of_row = ..." in text
    assert run("check", course / "exercises").exit_code == 1
    path.write_text(text.replace("return ...", "return lane // 4"), encoding="utf-8")
    done = run("check", course / "exercises")
    assert "1 of 2 exercises solved." in done.output
    assert "0 of 2" in done.output  # points of the other one, from the row in the folder
    assert "Next: sum_of_row" in done.output


MISTAKES = {
    "minutes=5": ("minutes=90", "row_of_lane: 90 minutes; an exercise takes 1 to 60"),
    "Write `row_of_lane(lane)`": ("Write it", "row_of_lane: the task does not say what to write"),
    "rng.integers(1, 100, 16)": ("7", "sum_of_row: two learners get the same numbers"),
    "lambda lane: lane // 4,": ("lambda lane: lane // 8,", "row_of_lane: the solution does not pass"),
    ' "Four lanes share a row. Which digit of the lane counts rows?"': ("", "row_of_lane: it has fewer than two hints"),
    'section="9.7.14.5.8"': ('section="chapter 9"', "row_of_lane: the section is 'chapter 9'"),
}


@pytest.mark.parametrize("old", MISTAKES)
def test_a_mistake_in_a_row_is_found(course, old):
    new, says = MISTAKES[old]
    replace(course / "exercises" / "bank" / "lanes.py", old, new)
    done = lint(course)
    assert done.exit_code == 1
    assert any(line.startswith(says) for line in done.output.splitlines()), done.output


def test_mistakes_in_wrong_answers_are_found(course):
    path = course / "solutions" / "wrong" / "lanes.py"
    replace(path, '(lambda lane: lane % 4, "another part of lane")', '(lambda lane: lane // 4, "another part of lane")')
    replace(path, '"every row is 1 too large"', '"another thing"')
    replace(path, '        (1000.0, "which is wrong"),\n', "")
    told = lint(course).output
    assert "row_of_lane: wrong answer 1 passes\n" in told
    assert "without 'another thing'" in told
    assert "sum_of_row: it has 2 wrong answers; 3 or more are needed\n" in told


def test_mistakes_in_a_solution_are_found(course):
    easy = "def row_of_lane(lane):\n    return lane // 4"
    change(course, {"row_of_lane": f"{easy}\n### BEGIN SOLUTION\n### END SOLUTION"})
    assert "row_of_lane: unsolved, it is right instead of open" in lint(course).output


@pytest.mark.parametrize(
    ("hidden", "says"),
    [
        ("assert row_of_lane(31) == 7", ""),
        ("assert row_of_lane(0) >= 0", "row_of_lane: no wrong answer fails the hidden tests"),
        ("assert row_of_lane(31) == 8", "row_of_lane: the solution fails the hidden tests: AssertionError"),
    ],
)
def test_hidden_tests_can_be_passed_and_failed(course, hidden, says):
    tests = f"check(row_of_lane)\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
    change(course, {"row_of_lane-check": tests})
    told = lint(course).output
    assert (says in told) if says else ("nothing is wrong" in told), told


def test_what_cards_and_verdicts_speak_of_is_imported(course):
    """Saving adds what is missing; a notebook in which it finds nothing to add to is told about."""
    change(course, {"setup": "from tcemu.course import check, exercises"})
    assert "nothing is wrong" in lint(course).output
    setup = json.loads((course / "exercises" / "02_lanes.ipynb").read_text(encoding="utf-8"))["cells"][1]["source"]
    assert "".join(setup) == "from tcemu.course import check, given, hint, exercises"
    change(course, {"setup": "from tcemu.course.checking import check"})
    told = lint(course).output
    assert "row_of_lane: the verdict and the card speak of given, hint, which the notebook does not import\n" in told


def test_exercises_that_were_not_saved_are_found(course):
    run("exercises", "save", course)
    change(course, {"setup": "import numpy as np\nfrom tcemu.course import check, given, hint"})
    told = run("exercises", "lint", course).output
    assert "exercises/02_lanes.ipynb: it differs from the solutions: save the exercises\n" in told


@pytest.mark.slow
def test_a_course_of_one_s_own_takes_its_exercises_along(course, tmp_path):
    """As the guide ends: with a course.toml, `tcemu lab --course` lays it out, and the checks find the rows."""
    run("exercises", "save", course)
    (course / "notebooks").mkdir()
    (course / "notebooks" / "02_lanes.ipynb").write_text(
        (course / "exercises" / "02_lanes.ipynb").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (course / "course.toml").write_text(
        'title = "Mine"\n[[notebook]]\nfile = "02_lanes.ipynb"\ntitle = "Lanes"\nminutes = 5\n'
        'exercises = ["row_of_lane", "sum_of_row"]\n', encoding="utf-8",
    )  # fmt: skip
    assert "nothing is wrong" in run("exercises", "lint", course).output
    done = run("lab", tmp_path / "learner", "--course", course, "--lay-out-only")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "learner" / "solutions").exists()
    told = run("check", tmp_path / "learner").output
    assert "0 of 2 tasks and 0 of 2 exercises solved." in told, told
    assert "open" in told


HIDDEN = "### BEGIN HIDDEN TESTS\nassert row_of_lane(lane=31) == {last}\nassert {more}\n### END HIDDEN TESTS"
CHEAT = """
class Everything:
    __eq__ = lambda self, other: True
import builtins, sys
builtins.AssertionError = type("Never", (BaseException,), {})
sys.modules["tcemu.course"].HIDDEN = ""
def row_of_lane(lane):
    return %s
"""


@needs_box
@pytest.mark.parametrize(
    ("more", "answer", "state"),
    [
        ("given('sum_of_row').A.shape == (16, 16)", "return lane // 4", "right"),
        ("False", "return lane // 4", "wrong"),
        ("row_of_lane(lane=32) == 8", "return min(lane // 4, 7)", "wrong"),
        ("row_of_lane(lane=32) == 8", "return lane // 4 if lane < 32 else Everything()", "wrong"),
    ],
)
@pytest.mark.slow
def test_hidden_tests_decide_in_the_grader_and_nothing_in_the_notebook_does(course, more, answer, state):
    change(course, {"row_of_lane-check": "check(row_of_lane)\n" + HIDDEN.format(last=7, more=more)})
    assert run("exercises", "save", course).exit_code == 0
    (course / "course.toml").write_text(COURSE, encoding="utf-8")
    for cached in (hidden_in, course_digest, course_of):
        cached.cache_clear()
    cells = CHEAT.replace("return %s", answer), "from tcemu.course import check\ncheck(row_of_lane)"
    work = Submission("ada", "ada", {"02_lanes": notebook(*cells)})
    found = {mark.exercise: mark for mark in grade(Task(work, ("02_lanes",), LIMITS, course=str(course))).marks}
    mark = found["row_of_lane"]
    assert (mark.state, mark.points) == (state, 1.0 if state == "right" else 0.0)
    assert (mark.says == FAILS) is (state == "wrong")


def test_a_change_of_hidden_tests_grades_again(course):
    (course / "course.toml").write_text(COURSE, encoding="utf-8")
    digests = []
    for last in (7, 8):
        change(course, {"row_of_lane-check": "check(row_of_lane)\n" + HIDDEN.format(last=last, more=True)})
        course_digest.cache_clear()
        digests.append(course_digest(str(course)))
    assert digests[0] != digests[1]
