"""The manifest, the overview made from it and a progress file, and what `tcemu lab` does with both."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT

from tcemu.cli import commands
from tcemu.course import RECORD, START, check, exercises, lay_out, manifest, overview, overviews, progress
from tcemu.course.overviews import overview_of
from tcemu.course.progress import PROGRESS
from tcemu.errors import CourseError
from tcemu.manual import reference

NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
GOOD = 'title = "Mine"\n[[notebook]]\nfile = "a.ipynb"\ntitle = "A"\nminutes = 5\n'


def cells(path, tag):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if tag is None or tag in cell["metadata"].get("tags", []):
            yield "".join(cell["source"])


def checked(path, tag=None):
    """The names that `check` is called with, in order."""
    found = (re.search(r"^check\((\w+)", source, re.MULTILINE) for source in cells(path, tag))
    return tuple(each.group(1) for each in found if each)


def test_it_lists_every_notebook_in_order():
    assert [entry.file for entry in manifest().notebooks] == NOTEBOOKS


@pytest.mark.parametrize("entry", manifest().notebooks, ids=lambda entry: entry.file)
def test_it_says_what_the_notebook_says(entry):
    path = ROOT / "notebooks" / entry.file
    head = next(cells(path, None))
    assert head.startswith(f"# {entry.file[:2]} {entry.title}\n")
    assert re.search(rf"\*\*Time:\*\* {entry.minutes} minutes[.;]", head)
    assert set(re.findall(r"\((\d\d_\w+\.ipynb)\)", head)) == set(entry.before)
    assert checked(path, "exercise") == entry.tasks
    listed = re.findall(r"^\*\*Manual:\*\* .*$", head, re.MULTILINE)
    assert listed == ([f"**Manual:** {reference(entry.manual)}."] if entry.manual else [])
    own = ROOT / "exercises" / entry.file
    assert (checked(own) if own.exists() else ()) == entry.exercises


def test_every_exercise_is_in_one_notebook():
    named = [name for entry in manifest().notebooks for name in (*entry.tasks, *entry.exercises)]
    assert len(named) == len(set(named))
    assert set(named) == set(exercises())


# ---------------------------------------------------------------------------------------------- bad manifests


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "title = "),
        ('title = "Mine"', r"\[\[notebook\]\] is missing"),
        (GOOD.replace("minutes = 5", "minutes = 0"), "minutes must be greater than 0"),
        (GOOD.replace("minutes = 5", 'minutes = "5"'), "minutes = '5' is not a whole number"),
        (GOOD.replace("minutes = 5", ""), "minutes is missing"),
        (GOOD + 'exercise = ["x"]', "exercise is unknown; the names are file"),
        (GOOD + 'before = ["b.ipynb"]', "before names b.ipynb, which does not come before it"),
        (GOOD + "manual = [9]", "manual must be a list of strings"),
        (GOOD + GOOD.partition("\n")[2], "it is listed twice"),
        ("title = ", "cannot read"),
    ],
)
def test_a_bad_manifest_says_what_is_wrong(tmp_path, text, says):
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(CourseError, match=says):
        manifest(tmp_path)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(CourseError, match=r"there is no course\.toml in "):
        manifest(tmp_path)


# ---------------------------------------------------------------------------------------------- a course of one's own


@pytest.fixture
def own(tmp_path):
    """A course with a new notebook, and one of the installed course."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.ipynb").write_text("{}")
    more = '[[notebook]]\nfile = "00_first_light.ipynb"\ntitle = "First light"\nminutes = 25\n'
    (folder / "course.toml").write_text(GOOD + more)
    return folder


def test_a_course_of_ones_own_is_laid_out(own, tmp_path):
    mine = tmp_path / "mine"
    told = CliRunner().invoke(commands, ["lab", "--lay-out-only", "--course", str(own), str(mine)])
    assert told.exit_code == 0, told.output
    found = {path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()}
    first = {"notebooks/a.ipynb", "notebooks/00_first_light.ipynb", "notebooks/course.toml", START, RECORD}
    assert found - {"exercises/00_first_light.ipynb"} == first
    assert overview(mine).title == "Mine"


def test_a_notebook_that_does_not_exist_is_named(own):
    path = own / "course.toml"
    path.write_text(path.read_text().replace("00_first_light", "00_first_night"))
    with pytest.raises(CourseError, match=r"00_first_night\.ipynb is neither .* did you mean 00_first_light\.ipynb"):
        manifest(own).contents()


# ---------------------------------------------------------------------------------------------- progress


@pytest.fixture
def laid(own, tmp_path):
    """The files of a course whose first notebook has two exercises, one of them solved."""
    path = own / "course.toml"
    path.write_text(path.read_text().replace("minutes = 5", 'minutes = 8\ntasks = ["where_of_a", "other"]', 1))
    folder = tmp_path / "laid"
    lay_out(folder, manifest(own).contents())
    (folder / PROGRESS).write_text(json.dumps({"exercises": {"where_of_a": {"tries": 2, "solved": "2026-01-01"}}}))
    return folder


def test_the_overview_says_what_is_done_and_what_is_next(laid):
    found = overview(laid)
    assert [(step.solved, len(step.names)) for step in found.steps] == [(1, 2), (0, 0)]
    assert found.next is found.steps[0]
    assert found.steps[0].open == ("other",)
    assert found.steps[0].minutes_left == 4  # half of its tasks are left
    assert found.minutes_left == 29
    assert found.summary == "1 of 2 tasks solved; about 29 min of notebooks left. Next: A."
    row = "| → | [A](notebooks/a.ipynb) | " + BAR.format(1, 2, "title", "A") + " 1 of 2 | 4 min |  | - |"
    assert row in found.markdown().splitlines()
    assert "**Continue with [A](notebooks/a.ipynb).** 1 of 2 tasks solved;" in found.markdown()
    assert BAR.format(1, 2, "title", "A") in found._repr_html_()


#: A bar in a page.
BAR = '<progress value="{}" max="{}" {}="tasks of {}"></progress>'


def solved(*names):
    return {name: {"solved": "2026-01-01"} for name in names}


def test_exercises_are_for_practice_and_next_does_not_wait_for_them():
    course = manifest()
    first, second, *_ = course.notebooks
    done = overview_of(course, solved(*first.tasks))
    assert done.steps[0].finished
    assert done.next is done.steps[1]
    assert done.steps[0].open == first.exercises
    assert second.file in done.markdown().split("**")[1]
    tasks = [name for entry in course.notebooks for name in entry.tasks]
    end = overview_of(course, solved(*tasks))
    assert end.next is None
    assert "**You are through with the notebooks.**" in end.markdown()


def test_all_pages_and_commands_count_the_same_tasks_and_exercises(tmp_path):
    course = manifest()
    solves = [*course.notebooks[0].tasks, *course.notebooks[2].exercises[:4]]
    found = overview_of(course, solved(*solves))
    tasks, practice = (sum(len(getattr(entry, name)) for entry in course.notebooks) for name in ("tasks", "exercises"))
    words = f"{len(course.notebooks[0].tasks)} of {tasks} tasks and 4 of {practice} exercises solved"
    assert all(words in page for page in (found.summary, found.markdown(), str(found), found._repr_html_()))
    rows = [line.split("|") for line in found.markdown().splitlines() if "notebooks/" in line and line.startswith("|")]
    rows = [row for row in rows if " of " in row[3]]  # a notebook that has neither is without them
    shown = [re.findall(r"(\d+) of (\d+)", row[column]) for column in (3, 5) for row in rows]
    counts = [sum(int(number) for ((*_, number),) in half) for half in (shown[: len(rows)], shown[len(rows) :])]
    assert counts == [tasks, practice], "the columns add up"


def test_a_notebook_without_tasks_does_not_hold_up(own):
    course = manifest(own)
    assert not any(entry.tasks for entry in course.notebooks)
    with_tasks = replace(course, notebooks=(*course.notebooks, *manifest().notebooks[1:3]))
    assert overview_of(with_tasks, {}).next.entry.file == "a.ipynb"
    assert overview_of(with_tasks, solved(with_tasks.notebooks[2].tasks[0])).next.entry == with_tasks.notebooks[2]


def test_the_first_page_follows_what_is_solved_and_keeps_what_is_written_below(tmp_path, monkeypatch):
    lay_out(tmp_path)
    overviews.write_first_page(tmp_path, "## Handing in\n")
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(progress, "note", lambda verdict: progress.tried(tmp_path, verdict.exercise.name, True, {}))
    right = check(where_of_a=lambda row, column: (4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // 8))
    page = (tmp_path / START).read_text(encoding="utf-8")
    assert "1 of 38 tasks" in page
    assert page.endswith("## Handing in\n")
    assert page.count("## Handing in") == 1
    assert right.reached == "1 of 3 tasks of 02 Fragments solved. Next: what_is_in_a."
    assert "</span> <strong>Right</strong>" in right._repr_mimebundle_()["text/html"]
    assert "1 of 3 tasks of 02 Fragments solved. Next: what_is_in_a." in str(right)


def test_what_is_solved_last_leads_to_the_next_notebook_and_to_practice(tmp_path):
    lay_out(tmp_path)
    entry = manifest().notebooks[2]
    for name in entry.tasks:
        progress.tried(tmp_path, name, True, {})
    place = overviews.place_of(entry.tasks[0], tmp_path)
    assert place.reached == "3 of 3 tasks of 02 Fragments solved."
    assert place.links == (
        ("03 wmma", "notebooks/03_wmma.ipynb"), ("9 exercises for practice", "exercises/02_fragments.ipynb"),
    )  # fmt: skip
    assert all((tmp_path / path).is_file() for _, path in place.links)
    progress.tried(tmp_path, entry.exercises[-1], True, {})
    place = overviews.place_of(entry.exercises[-1], tmp_path)
    assert place.reached == f"1 of 9 exercises of 02 Fragments solved. Next: {entry.exercises[0]}."
    assert overviews.place_of("unheard_of", tmp_path) is None


def test_the_progress_survives_an_update(laid, own):
    (own / "a.ipynb").write_text('{"new": 1}')
    lay_out(laid, manifest(own).contents())
    assert overview(laid).steps[0].solved == 1


def test_a_damaged_progress_file_is_reported_and_kept(laid):
    (laid / PROGRESS).write_text("{")
    with pytest.raises(CourseError, match="is damaged"):
        overview(laid)
    assert (laid / PROGRESS).read_text() == "{"


def test_outside_a_course_nothing_is_done(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert all(step.solved == 0 for step in overview().steps)
