"""The command's settings, the view of a class, and the desk: untrusted files and texts."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.classroom import learner, seen, settings
from tcemu.classroom.desk import LARGEST, Desk, Lesson, NotTakenError, lessons
from tcemu.classroom.settings import COURSE, Limits, load
from tcemu.cli import commands
from tcemu.commands import classroom as command
from tcemu.course import exercises, manifest
from tcemu.course.progress import PROGRESS
from tcemu.errors import CourseError, MissingPackage

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


# ---- settings


def test_a_classroom_goes_on_as_it_was(tmp_path):
    first = command._settings(tmp_path / "class", {"password": "tensor-core", "memory": 1024}, None)
    first.save()
    again = command._settings(tmp_path / "class", {"port": 8001}, None)
    assert (again.password, again.teacher_password) == ("tensor-core", first.teacher_password)
    assert (again.limits, again.port) == (Limits(memory=1024), 8001)
    assert oct((tmp_path / "class" / "hub").stat().st_mode)[-3:] == "700"
    assert oct((tmp_path / "class" / "hub" / "settings.json").stat().st_mode)[-3:] == "600"


def test_named_learners_have_passwords_of_their_own_and_keep_them(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("ada\nbob\n\n")
    first = command._settings(tmp_path / "class", {}, names)
    first.save()
    names.write_text("bob\ncid\n")
    again = command._settings(tmp_path / "class", {}, names)
    assert set(again.own) == {"bob", "cid"}
    assert again.own["bob"] == first.own["bob"]
    assert len({*first.own.values(), *again.own.values()}) == 3


@pytest.mark.parametrize(
    ("given_options", "says"),
    [
        ({"password": "short"}, "the password has 5 characters; it needs at least 8"),
        ({"certificate": "cert.pem"}, "a certificate and its key belong together"),
    ],
)
def test_settings_that_cannot_be(tmp_path, given_options, says):
    with pytest.raises(CourseError, match=says):
        command._settings(tmp_path / "class", given_options, None)


@pytest.mark.parametrize("name", ["Ada", "../bob", "bob-", "a" * 33, "1a", "über", ".kernels"])
def test_names_that_cannot_log_in(tmp_path, name):
    (tmp_path / "names.txt").write_text(name, encoding="utf-8")
    with pytest.raises(CourseError, match="nobody can log in as"):
        command._settings(tmp_path / "class", {}, tmp_path / "names.txt")


def test_a_damaged_file_says_what_to_do(tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "settings.json").write_text("{")
    with pytest.raises(CourseError, match="Delete it to start the classroom with new passwords"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("lacks", "says"),
    [({"commands.classroom.box.missing": lambda: ["bwrap"]}, "lacks bwrap.*apt-get install bubblewrap"),
     ({"extras.find_spec": lambda name: None}, r"a classroom needs jupyterhub and .*\[classroom\]"),
     ({"commands.classroom.box.missing": list, "commands.classroom.box.trouble": lambda: "No permissions"},
      r"cannot make boxes \(No permissions\)"),
     ({"commands.classroom.sys.platform": "win32"}, "needs Linux")],
)  # fmt: skip
def test_a_machine_that_cannot_hold_a_classroom(tmp_path, monkeypatch, lacks, says):
    for name, value in ({"extras.find_spec": lambda name: True} | lacks).items():
        monkeypatch.setattr(f"tcemu.{name}", value)
    done = CliRunner().invoke(commands, ["classroom", str(tmp_path / "class")])
    with pytest.raises((CourseError, MissingPackage), match=says):
        raise done.exception


def test_a_folder_that_all_learners_read_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("tcemu.commands.classroom.box.installed", lambda: [tmp_path])
    monkeypatch.setattr("tcemu.commands.classroom.box.missing", list)
    monkeypatch.setattr("tcemu.commands.classroom.box.trouble", str)
    monkeypatch.setattr("tcemu.extras.find_spec", lambda name: True)
    with pytest.raises(CourseError, match="which all learners can read; choose another folder"):
        command._check_machine(tmp_path / "class")


def test_a_class_may_have_a_course_of_its_own(tmp_path, monkeypatch):
    notebook = 'file = "01_numbers.ipynb"\ntitle = "Numbers"\nminutes = 50\nexercises = ["e4m3_patterns"]\n'
    (tmp_path / "course.toml").write_text(f'title = "Week 1"\n[[notebook]]\n{notebook}')
    monkeypatch.setenv(COURSE, str(tmp_path))
    assert settings.course().title == "Week 1"
    assert [each.stem for each in lessons()] == ["01_numbers"]


# ---- what is seen of a class


def progress(**entries):
    return json.dumps({"exercises": entries, "latest": {"exercise": next(iter(entries)), "at": NOW.isoformat()}})


@pytest.fixture
def group():
    solved = {"tries": 2, "solved": "2026-03-01"}
    swap = {"rows and columns are swapped": 2}
    return [
        seen.read("ada", progress(where_of_a=solved), [
            {"path": "notebooks/02_fragments.ipynb", "kernel": {"last_activity": "2026-03-01T09:20"}},
            {"path": "exercises/00_first_light.ipynb", "kernel": {"last_activity": "2026-03-01T09:10"}},
        ]),
        seen.read("bob", progress(where_of_a={"tries": 3, "mistakes": swap}, e5m2_value=solved)),
        seen.read("cid", progress(where_of_a={"tries": 4, "mistakes": swap}, e5m2_value={"tries": 1})),
    ]  # fmt: skip


def test_who_is_where(group):
    ada, bob, cid = group
    assert (ada.notebook, ada.latest, ada.at, ada.stuck) == (manifest().notebooks[2].label, "where_of_a", NOW, ())
    assert (bob.stuck, bob.solved) == (("where_of_a",), {"e5m2_value"})
    assert cid.notebook == ""


def test_what_stops_people_and_which_mistakes(group):
    first, second = seen.hurdles(group)
    assert (first.name, first.tried, first.solved, first.stuck, first.tries) == ("where_of_a", 3, 1, ("bob", "cid"), 9)
    assert (second.name, second.stuck) == ("e5m2_value", ())
    (slip,) = seen.slips(group)
    assert (slip.exercise, slip.learners, slip.times) == ("where_of_a", 2, 4)


KEYS = ("exercises", "where_of_a", "tries", "solved", "mistakes", "latest", "at", "kernel", "path")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@examples(200)
@given(ANYTHING, ANYTHING)
def test_a_file_that_somebody_edited_does_no_harm(held, sessions):
    found = seen.read("eve", json.dumps(held), sessions if isinstance(sessions, list) else [])
    seen.hurdles([found])
    seen.slips([found])
    assert found.solved <= set(exercises())


def test_long_words_and_many_mistakes_are_cut():
    many = {f"{number} {'x' * 1000}": 10**30 for number in range(1000)}
    found = seen.read("eve", progress(where_of_a={"tries": 10**30, "mistakes": many}))
    assert len(found.mistakes["where_of_a"]) == seen.MISTAKES
    assert max(map(len, found.mistakes["where_of_a"])) == seen.LETTERS
    assert seen.read("eve", "[" * 100_000).tries == {}


# ---- the desk


def test_what_is_handed_in_is_where_nbgrader_looks_for_it(tmp_path):
    desk, lesson = Desk(tmp_path / "submitted", tmp_path / "grades"), lessons()[0]
    assert desk.when("ada", lesson) is None
    desk.take("ada", lesson, NOTEBOOK, NOW)
    folder = tmp_path / "submitted" / "ada" / "00_first_light"
    assert (folder / "00_first_light.ipynb").read_text() == NOTEBOOK
    assert (folder / "timestamp.txt").read_text() == "2026-03-01 09:30:00.000000 UTC\n"
    assert desk.when("ada", lesson) == NOW
    assert desk.feedback("ada") is None


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not a notebook"), ("[]", "not a notebook"), ('{"cells": 3}', "not a notebook"),
                       ("[" * 100_000, "not a notebook"), ("x" * (LARGEST + 1), "Clear its outputs")],
    ids=["half", "list", "number", "nested", "large"],
)  # fmt: skip
def test_what_is_no_notebook_is_not_taken(tmp_path, text, says):
    with pytest.raises(NotTakenError, match=says):
        Desk(tmp_path, tmp_path).take("ada", lessons()[0], text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "", "a\0b", "x" * 65])
def test_a_name_leads_nowhere_else(tmp_path, name):
    with pytest.raises(NotTakenError, match="cannot be the name of a folder"):
        Desk(tmp_path, tmp_path).take(name, Lesson("00_first_light", "00"), NOTEBOOK)


# ---- what a learner's server starts with


def test_a_home_has_the_course_and_the_way_to_hand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_BASE_URL", "/school/")
    learner.prepare(tmp_path)
    assert "(/school/services/classroom/)" in (tmp_path / "START.md").read_text(encoding="utf-8")
    assert len(list((tmp_path / "notebooks").glob("*.ipynb"))) == len(manifest().notebooks) + 1  # and the glossary
    assert not list(tmp_path.glob("solutions*"))
    (tmp_path / "exercises" / "01_numbers.ipynb").write_text("mine")
    (tmp_path / PROGRESS).write_text(progress(where_of_a={"tries": 1}))
    learner.prepare(tmp_path)
    assert (tmp_path / "exercises" / "01_numbers.ipynb").read_text() == "mine"
    assert seen.read("ada", (tmp_path / PROGRESS).read_text()).tries == {"where_of_a": 1}
