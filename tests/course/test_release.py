"""The learners' exercises are made from the solutions, and reveal nothing of them."""

import json

import pytest
from places import ROOT

from tcemu.course import exercise
from tcemu.course.release import released
from tcemu.errors import CourseError

SAVE = "run `python tools/save_exercises.py`"


@pytest.fixture
def folder(tmp_path):
    """A folder with one solutions notebook: an exercise with a hidden test, and one that belongs to a notebook."""
    code = "def where_of_a(row, column):\n    ### BEGIN SOLUTION\n    lane = 4\n    return lane\n    ### END SOLUTION"
    check = "check(where_of_a)\n### BEGIN HIDDEN TESTS\nsecret = 1\n### END HIDDEN TESTS"
    cells = [cell("intro", "markdown", "# Mine"), cell("setup", "code", "from tcemu.course import check")]
    cells += [cell("where_of_a-task", "markdown", "old"), cell("where_of_a", "code", code)]
    cells += [cell("where_of_a-check", "code", check)]
    cells += [cell("aside", "markdown", "Only in the notebook.", ["notebook"])]
    (tmp_path / "solutions").mkdir()
    notebook = {"cells": cells, "metadata": {"title": "Mine"}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "solutions" / "02_mine.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return tmp_path


def cell(name, kind, source, tags=()):
    more = {"outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}], "execution_count": 3}
    return {"id": name, "cell_type": kind, "source": source, "metadata": {"tags": list(tags)} if tags else {},
            **(more if kind == "code" else {})}  # fmt: skip


def cells(text):
    return {each["id"]: each for each in json.loads(text)["cells"]}


def source(cell):
    return "".join(cell["source"])


def test_the_exercises_are_those_that_are_made_from_the_solutions():
    made = dict(released(ROOT))
    assert made
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {SAVE}"
    assert set((ROOT / "exercises").glob("*.ipynb")) <= set(made)


def test_a_solution_is_cut_out_and_three_dots_are_returned(folder):
    (_, solution), (path, learners) = released(folder)
    assert path == folder / "exercises" / "02_mine.ipynb"
    assert source(cells(learners)["where_of_a"]) == "def where_of_a(row, column):\n    return ..."
    assert "lane = 4" in source(cells(solution)["where_of_a"])


def test_hidden_tests_and_cells_of_a_notebook_are_left_out(folder):
    _, (_, learners) = released(folder)
    assert "secret" not in learners
    assert "Only in the notebook" not in learners
    assert source(cells(learners)["where_of_a-check"]) == "check(where_of_a)"


def test_the_card_is_filled_in_from_the_row(folder):
    for _, text in released(folder):
        card = source(cells(text)["where_of_a-task"])
        wanted = exercise("where_of_a")
        assert card.startswith(f"## {wanted.title}\n\n{wanted.task}\n\n**Time:** {wanted.minutes} minutes.")
        title = "*Matrix Fragments for mma.m16n8k16 with floating point type*"
        for part in ("**Before:** ", f"), 9.7.14.5.8 {title}.", "**Judged by:** every element", "1 point."):
            assert part in card


def test_nbgrader_knows_the_cells(folder):
    """Its own metadata: the learner writes one cell, and cannot delete the check, which gives the points."""
    _, (_, learners) = released(folder)
    answer, check = (cells(learners)[name]["metadata"] for name in ("where_of_a", "where_of_a-check"))
    assert (answer["nbgrader"]["solution"], answer["nbgrader"]["grade"], answer["deletable"]) == (True, False, False)
    assert (check["nbgrader"]["grade"], check["nbgrader"]["points"], check["editable"]) == (True, 1, False)
    assert len(check["nbgrader"]["checksum"]) == 32


def test_outputs_are_not_stored(folder):
    for _, text in released(folder):
        assert not any(each.get("outputs") for each in cells(text).values())


def test_making_them_again_changes_nothing(folder):
    once = dict(released(folder))
    for path, text in once.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert dict(released(folder)) == once


def test_a_solution_without_its_marks_is_refused(folder):
    path = folder / "solutions" / "02_mine.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace("### END SOLUTION", ""), encoding="utf-8")
    with pytest.raises(CourseError, match="where_of_a: the solution must be between the lines ### BEGIN SOLUTION and"):
        list(released(folder))
