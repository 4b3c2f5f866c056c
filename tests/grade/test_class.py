"""A whole class with hostile students in it: each gets what was honestly earned, and the others all of theirs."""

import os
import re

import pytest
from attacks import AS_FILES, FAIR, IN_THE_BOX, SOLUTION, SPOILT, book
from boxed import needs_box
from handed import folder
from quick import spread, turn

from tcemu.grade.box import Limits
from tcemu.grade.intake import submissions
from tcemu.grade.output import write_all
from tcemu.grade.run import Local, run
from tcemu.grade.work import Task
from tcemu.kernels.host.threads import cores

pytestmark = [needs_box, pytest.mark.slow]

#: Enough for a busy machine; loops end with it.
LIMITS = Limits(cell=2, notebook=20, memory=1 << 30)
ASKED = ("where_of_b", "where_of_bytes")
#: A fifth of the attacks, with their numbers, every day another one.
ATTACKS = spread(enumerate(IN_THE_BOX), 5, first=turn(5))
HONEST_ONES = ("ada", "José", "zoe")


def called(number, what):
    """A student's name for an attack: those of neighbours collide when they are folded."""
    return f"{number:02} {what}" if number % 2 else f"{number:02} {what.upper()}"


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The grades of the class by student, the folder of the results, and what was handed in, before and after."""
    files = {f"{name}/02_fragments.ipynb": FAIR for name in HONEST_ONES}
    for number, (what, attack, answer, _) in ATTACKS:
        files[f"{called(number, what)}/02_fragments.ipynb"] = book(attack, answer)
    for what, held, _ in AS_FILES:
        files |= {f"{what}/{name}": content for name, content in held.items()}
    place = tmp_path_factory.mktemp("class")
    root = folder(place / "handed", files)
    (root / "a link").mkdir()
    (root / "a link" / "02_fragments.ipynb").symlink_to(SOLUTION)
    os.environ["SECRET"] = "42"  # noqa: S105 - it is none
    handed = submissions(root)
    tasks = [Task(each, ("02_fragments",), LIMITS) for each in handed]
    grades = run(tasks, place / "out", Local(cores()))
    del os.environ["SECRET"]
    write_all(grades, place / "out", handed, nbgrader=False)
    after = {name: (root / name).read_bytes() for name in files}
    return {grade.student: grade for grade in grades}, place / "out", (files, after)


def states(grade):
    return [mark.state for mark in grade.marks if mark.exercise in ASKED]


def test_the_honest_ones_keep_their_marks(graded):
    assert {name: states(graded[0][name]) for name in HONEST_ONES} == dict.fromkeys(HONEST_ONES, ["right"] * 2)


def test_what_attacks_in_the_box_earn(graded, row):
    for number, (what, _, _, earned) in ATTACKS:
        with row(what):
            grade = graded[0][called(number, what)]
            first, second = (mark for mark in grade.marks if mark.exercise in ASKED)
            assert grade.state == "graded", grade.says
            assert first.state in earned, first.says
            assert first.points == first.of if first.state == "right" else first.points < 0.1 * first.of
            assert second.state == "right" or what in SPOILT, second.says


def test_what_hostile_files_earn(graded, row):
    for what, _, earned in [*AS_FILES, ("a link", {}, {"failed"})]:
        with row(what):
            found = states(graded[0][what])
            assert found[0] in earned, graded[0][what]
            assert found[1] == "right" or found[0] != "right"


def test_nobody_s_points_are_more_than_there_are(graded):
    assert all(0 <= mark.points <= mark.of for grade in graded[0].values() for mark in grade.marks)


def test_nothing_that_was_handed_in_has_changed(graded):
    before, after = graded[2]
    assert before == after


def test_no_page_and_no_table_has_live_markup_or_an_escape(graded):
    pages = [path for path in graded[1].rglob("*") if path.suffix in (".html", ".csv", ".json")]
    assert len(pages) > len(graded[0])
    for path in pages:
        held = path.read_bytes()
        assert b"\x1b" not in held, path
        assert b"\xe2\x80\xae" not in held, path  # U+202E turns the text after it
        if path.suffix == ".html":
            assert b"<script" not in held.lower(), path
            assert not re.search(rb'<img(?![^>]*src="data:image/svg)', held.lower()), path
