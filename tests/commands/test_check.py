"""tcemu check: the exercises in a folder's notebooks, each in a separate process."""

import hashlib
import json

import pytest
from click.testing import CliRunner
from rows import rows

from tcemu.cli import commands
from tcemu.commands.check import notebooks, run
from tcemu.course import RECORD, lay_out, manifest, progress, running
from tcemu.course.running import cells, needed, results, results_of
from tcemu.course.untouched import untouched
from tcemu.errors import CourseError

RIGHT = "def where_of_a(row, column):\n    return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // 8"
WRONG = "def where_of_a(row, column):\n    return 4 * (row % 8) + column % 8 // 2, column // 8 * 2"
IMPORT = "from tcemu.course import check"
CHECK = "check(where_of_a)"
STUCK = "while True:\n    nothing = sum(range(1000))"


def write(path, *sources):
    """A notebook of code cells."""
    held = [{"cell_type": "code", "id": f"c{at}", "metadata": {}, "outputs": [], "execution_count": None,
             "source": source} for at, source in enumerate(sources)]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = {"cells": held, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A learner's folder."""
    (tmp_path / RECORD).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(path):
    return [(result.name, result.state) for result in results(path)]


def test_of_the_courses_cells_only_what_the_checks_need_is_run(tmp_path):
    given = ["import numpy as np", "import sys", "n = 8", "draw()", "m = []", "m.append(n)", "unused = np.zeros(n)"]
    every = cells(write(tmp_path / "a.ipynb", *given, RIGHT.replace("8 * 2", "m[0] * 2"), "mine()", IMPORT, CHECK))
    assert [cell.id for cell in needed(every, given=given)] == ["c2", "c4", "c5", "c7", "c8", "c9", "c10"]
    assert needed(every, given=()) == every


def test_magic_lines_and_broken_cells_do_no_harm(tmp_path):
    path = write(tmp_path / "a.ipynb", "%matplotlib inline\n!ls\n" + IMPORT, "%%bash\nls", "x = (", RIGHT, CHECK)
    assert states(path) == [("where_of_a", "right")]


@pytest.mark.parametrize(
    ("source", "state", "says"),
    [
        (RIGHT, "right", "Right in 256 cases."),
        (WRONG, "wrong", "A[8][0] is not in lane 0, register 0"),
        ("def where_of_a(row, column):\n    return ...", "open", "Replace the three dots"),
        ("where_of_a = undefined", "failed", "Cell c1 raises NameError: name 'undefined' is not defined"),
        ("def where_of_a(:", "failed", "Cell c1 is not valid Python."),
        ("raise SystemExit\nwhere_of_a = 1", "failed", "Cell c1 raises SystemExit"),
    ],
)
def test_a_check_has_a_result(tmp_path, source, state, says):
    (result,) = results(write(tmp_path / "a.ipynb", IMPORT, source, CHECK))
    assert (result.name, result.state) == ("where_of_a", state)
    assert result.says.startswith(says)


def test_a_notebook_runs_in_a_process_of_its_own(tmp_path):
    path = write(tmp_path / "a.ipynb", "import os", IMPORT, "os._exit(3)\nwhere_of_a = 1", CHECK)
    (result,) = results_of(path)
    assert (result.state, result.says) == ("failed", "The process ended before the check.")


@pytest.mark.slow
def test_a_check_that_does_not_end_is_given_up_and_the_others_go_on(tmp_path):
    path = write(tmp_path / "a.ipynb", IMPORT, STUCK, "check(nothing=nothing)", RIGHT, CHECK)
    stuck, right = results_of(path, limit=4)
    overdue = "It did not finish within 4 seconds of processor time."
    assert (stuck.name, stuck.state, stuck.says) == ("nothing", "failed", overdue)
    assert (right.name, right.state) == ("where_of_a", "right")


@pytest.mark.slow
def test_a_check_that_waits_for_ever_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_WAITS", 1)
    path = write(tmp_path / "a.ipynb", IMPORT, "import time; time.sleep(3600); where_of_a = 1", CHECK)
    (result,) = results_of(path, limit=4)
    assert (result.state, result.says) == ("failed", "It still waited for something after 4 seconds.")


def test_the_course_s_versions_and_hidden_files_are_left_out(course):
    mine = write(course / "notebooks" / "02_a.ipynb", IMPORT, RIGHT, CHECK)
    also = write(course / "exercises" / "02_a.ipynb", IMPORT, RIGHT, CHECK)
    for name in ("02_a.new.ipynb", "02_a.new-2.ipynb", ".hidden.ipynb", ".ipynb_checkpoints/02_a-checkpoint.ipynb"):
        write(course / "notebooks" / name, IMPORT, RIGHT, CHECK)
    write(course / "notebooks" / "01_none.ipynb", "1 + 1")
    assert notebooks(course) == [mine, also]


def saved(path, text="", by=""):
    """Save a notebook as JupyterLab does: with outputs, in another form; one text may be replaced."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace(text, by) if text else cell["source"]
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], 7
    path.write_text(json.dumps(notebook), encoding="utf-8")


@pytest.mark.slow
def test_what_nobody_has_touched_is_open_without_a_run(tmp_path, monkeypatch):
    lay_out(tmp_path)
    for path in notebooks(tmp_path)[::2]:
        saved(path)  # it was opened and run
    monkeypatch.setattr(running.subprocess, "run", lambda *_, **__: pytest.fail("a notebook is run"))
    held = run(notebooks(tmp_path), limit=60)
    tasks = [name for entry in manifest().notebooks for name in (*entry.tasks, *entry.exercises)]
    assert sorted(result.name for results in held.values() for result in results) == sorted(tasks)
    assert {result.state for results in held.values() for result in results} == {"open"}


@pytest.mark.parametrize(
    ("text", "by", "touched"),
    [
        ("def where_of_b(", "def where_of_b(*, ", {"where_of_b"}),
        ("check(where_of_b)", "check(where_of_b)  # mine", {"where_of_b"}),
        ("from tcemu.course import", "import tcemu.course\nfrom tcemu.course import", None),  # what all of them need
        ("## ", "### ", set()),  # text
    ],
)
def test_an_exercise_is_touched_if_what_it_needs_is_another(tmp_path, text, by, touched):
    lay_out(tmp_path)
    path = tmp_path / "exercises" / "02_fragments.ipynb"
    every = untouched(path)
    names = {name for cell in cells(path) for name in cell.checks}
    assert every == names
    before = path.read_bytes()
    saved(path, text, by)
    assert path.read_bytes() != before
    assert names - untouched(path) == (names if touched is None else touched)


def test_of_another_course_it_is_known_what_was_laid_out(tmp_path):
    path = write(tmp_path / "notebooks" / "77_own.ipynb", IMPORT, "where_of_a = ...", CHECK)
    assert untouched(path) == frozenset()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / RECORD).write_text(json.dumps({"files": {"notebooks/77_own.ipynb": digest}}), encoding="utf-8")
    assert untouched(path) == {"where_of_a"}
    assert [each.state for each in results_of(path, untouched=untouched(path))] == ["open"]
    saved(path)
    assert untouched(path) == frozenset()


@pytest.mark.slow
def test_the_table_says_what_is_done_and_what_is_next(course):
    write(course / "notebooks" / "02_a.ipynb", IMPORT, RIGHT, CHECK)
    write(course / "exercises" / "02_a.ipynb", IMPORT, WRONG, CHECK)
    done = CliRunner().invoke(commands, ["check"], env={"COLUMNS": "120"})
    assert done.exit_code == 1, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "notebooks/02_a where_of_a ✓ right 1 of 1 10" in lines
    assert "exercises/02_a where_of_a ✗ not yet 0.5 of 1 10" in lines
    assert "1 of 1 task and 0 of 1 exercise solved." in lines
    assert any(line.startswith("Next: where_of_a in") and line.endswith("exercises/02_a.ipynb") for line in lines)
    assert "The register does not depend on row // 8, but it should." in lines


@pytest.mark.slow
def test_what_is_solved_is_written_down_once(course):
    write(course / "notebooks" / "02_a.ipynb", IMPORT, RIGHT, CHECK)
    for _ in range(2):
        assert CliRunner().invoke(commands, ["check"]).exit_code == 0
    assert progress.read(course)["exercises"]["where_of_a"]["tries"] == 1


@pytest.mark.slow
def test_a_notebook_is_checked_again_when_it_is_saved(course, monkeypatch):
    """The watcher's answer is played: one notebook is saved with the solution, and another file changes."""
    path = write(course / "notebooks" / "02_a.ipynb", IMPORT, WRONG, CHECK)

    def saves(*folders, **options):
        assert folders == (course / "notebooks",)
        write(path, IMPORT, RIGHT, CHECK)
        yield {(1, str(path)), (1, str(path.with_suffix(".tmp")))}

    monkeypatch.setattr("watchfiles.watch", saves)
    done = CliRunner().invoke(commands, ["check", "--watch"])
    assert done.exit_code == 0, done.output
    assert "0 of 1 task solved." in done.output
    assert "1 of 1 task solved." in done.output


@pytest.mark.slow
def test_what_is_saved_before_the_watch_begins_is_checked_and_an_interrupt_is_quiet(course, monkeypatch):
    path = write(course / "notebooks" / "02_a.ipynb", IMPORT, WRONG, CHECK)

    def nothing_is_reported(*folders, **options):
        write(path, IMPORT, RIGHT, CHECK)
        yield set()
        raise KeyboardInterrupt

    monkeypatch.setattr("watchfiles.watch", nothing_is_reported)
    done = CliRunner().invoke(commands, ["check", "--watch"])
    assert done.exit_code == 0, done.output
    assert "1 of 1 task solved." in done.output


DAMAGED = {
    b"": "it is empty",
    b'{"cells": [\n<<<<<<< ': "line 2 is not JSON",
    b"\xff\xfe": "it is not text",
    b'{"cells": 3}': "it has no list of cells",
}


@pytest.mark.slow
def test_a_damaged_notebook_is_told_and_the_others_are_checked(course):
    held, says = next(reversed(DAMAGED.items()))
    write(course / "notebooks" / "02_a.ipynb", IMPORT, RIGHT, CHECK)
    (course / "notebooks" / "01_b.ipynb").write_bytes(held)
    done = CliRunner().invoke(commands, ["check"])
    assert done.exit_code == 1, done.output
    told = "".join(done.output.split())  # lines break anywhere
    assert f"01_b.ipynb is not a notebook: {says}. JupyterLab keeps a copy".replace(" ", "") in told
    assert "1of2taskssolved." in told


@rows("held, says", DAMAGED.items(), lambda held, says: says)
def test_what_is_wrong_with_a_notebook_is_told(held, says, tmp_path):
    (tmp_path / "a.ipynb").write_bytes(held)
    with pytest.raises(CourseError, match=rf"a\.ipynb is not a notebook: {says}\. JupyterLab keeps a copy"):
        cells(tmp_path / "a.ipynb")


def test_a_folder_without_exercises_is_refused(tmp_path):
    write(tmp_path / "a.ipynb", "1 + 1")
    done = CliRunner().invoke(commands, ["check", str(tmp_path)])
    assert isinstance(done.exception, CourseError)
    assert "there is no notebook with exercises in" in str(done.exception)


def test_what_is_no_notebook_is_refused(tmp_path):
    (tmp_path / "a.ipynb").write_text("[]", encoding="utf-8")
    with pytest.raises(CourseError, match=r"a\.ipynb is not a notebook"):
        cells(tmp_path / "a.ipynb")
