"""Laying the course out: the table in tcemu/course/lay_out.py, row by row, and everything that can stand in the way."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcemu.course import RECORD, clone_around, files, lay_out, source
from tcemu.errors import CourseError

FIRST = "notebooks/00.ipynb"


def write(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def read(root):
    """Everything in a folder but the record, hidden files included."""
    paths = [path for path in root.rglob("*") if path.is_file() and path.name != RECORD]
    return {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in paths}


@pytest.fixture
def shipped(tmp_path):
    """Return a function that makes the installed course hold these texts and returns where."""

    def ship(**texts):
        root = tmp_path / f"shipped{len(list(tmp_path.iterdir()))}"
        write(root, {f"notebooks/{name[1:]}.ipynb": text for name, text in texts.items()})
        write(root, {"exercises/README.md": "soon"})
        return root

    return ship


@pytest.fixture
def here(tmp_path):
    """Return an empty folder of the learner's."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def actions(done):
    return {laid.name: (laid.action, laid.at) for laid in done if laid.name.startswith("notebooks")}


def test_an_empty_folder_gets_the_course(here, shipped):
    done = lay_out(here, shipped(_00="one", _01="two"))
    assert {laid.action for laid in done} == {"laid out"}
    assert read(here) == {FIRST: "one", "notebooks/01.ipynb": "two", "exercises/README.md": "soon"}


def test_a_folder_that_does_not_exist_is_made(here, shipped):
    lay_out(here / "a" / "b", shipped(_00="one"))
    assert read(here)["a/b/" + FIRST] == "one"


def test_running_again_changes_nothing(here, shipped):
    root = shipped(_00="one")
    lay_out(here, root)
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    assert actions(lay_out(here, root)) == {FIRST: ("kept", FIRST)}
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


def test_what_the_learner_changed_stays(here, shipped):
    root = shipped(_00="one")
    lay_out(here, root)
    write(here, {FIRST: "mine"})
    assert actions(lay_out(here, root)) == {FIRST: ("kept", FIRST)}
    assert read(here)[FIRST] == "mine"


def test_a_newer_course_updates_what_the_learner_did_not_change(here, shipped):
    lay_out(here, shipped(_00="one"))
    assert actions(lay_out(here, shipped(_00="newer"))) == {FIRST: ("updated", FIRST)}
    assert read(here)[FIRST] == "newer"


def test_a_newer_course_is_laid_beside_what_the_learner_changed_and_once_only(here, shipped):
    lay_out(here, shipped(_00="one"))
    write(here, {FIRST: "mine"})
    newer = shipped(_00="newer")
    assert actions(lay_out(here, newer)) == {FIRST: ("laid beside", "notebooks/00.new.ipynb")}
    assert actions(lay_out(here, newer)) == {FIRST: ("kept", FIRST)}
    assert read(here) == {FIRST: "mine", "notebooks/00.new.ipynb": "newer", "exercises/README.md": "soon"}


def test_the_file_beside_is_a_learners_file_too(here, shipped):
    lay_out(here, shipped(_00="one"))
    write(here, {FIRST: "mine"})
    lay_out(here, shipped(_00="newer"))
    write(here, {"notebooks/00.new.ipynb": "mine as well"})
    lay_out(here, shipped(_00="newest"))
    contents = read(here)
    assert (contents[FIRST], contents["notebooks/00.new.ipynb"]) == ("mine", "mine as well")
    assert contents["notebooks/00.new-2.ipynb"] == "newest"


def test_a_deleted_file_is_laid_out_afresh(here, shipped):
    root = shipped(_00="one")
    lay_out(here, root)
    (here / FIRST).unlink()
    assert actions(lay_out(here, root)) == {FIRST: ("laid out", FIRST)}
    assert read(here)[FIRST] == "one"


def test_files_that_a_newer_course_no_longer_has_stay(here, shipped):
    lay_out(here, shipped(_00="one", _01="two"))
    lay_out(here, shipped(_00="one"))
    assert read(here)["notebooks/01.ipynb"] == "two"


@pytest.mark.parametrize("record", ["", "{", "[]", '{"files": 3}', '{"files": {"notebooks/00.ipynb": null}}', "\xff"])
def test_without_a_readable_record_whatever_differs_is_the_learners(here, shipped, record):
    lay_out(here, shipped(_00="one"))
    write(here, {FIRST: "mine", RECORD: record})
    lay_out(here, shipped(_00="newer"))
    assert read(here)[FIRST] == "mine"
    assert read(here)["notebooks/00.new.ipynb"] == "newer"


def test_other_files_of_the_learner_are_left_alone(here, shipped):
    write(here, {"notes.txt": "mine", ".venv/pyvenv.cfg": "mine"})
    lay_out(here, shipped(_00="one"))
    write(here, {"notebooks/scratch.ipynb": "mine", "exercises/try.py": "mine"})
    before = read(here)
    lay_out(here, shipped(_00="newer"))
    assert read(here) == {**before, FIRST: "newer"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_link_in_place_of_a_notebook_is_followed_and_never_replaced_when_it_differs(here, shipped, tmp_path):
    lay_out(here, shipped(_00="one"))
    write(tmp_path, {"elsewhere.ipynb": "mine"})
    (here / FIRST).unlink()
    (here / FIRST).symlink_to(tmp_path / "elsewhere.ipynb")
    lay_out(here, shipped(_00="newer"))
    assert (here / FIRST).is_symlink()
    assert (tmp_path / "elsewhere.ipynb").read_text(encoding="utf-8") == "mine"


STATES = st.sampled_from(["nothing", "v1", "v2", "v3", "mine"])


@given(steps=st.lists(st.tuples(STATES, st.sampled_from(["v1", "v2", "v3"]), st.booleans()), max_size=6))
def test_no_sequence_of_versions_edits_and_lost_records_loses_the_learners_work(tmp_path_factory, steps):
    base = tmp_path_factory.mktemp("sequence")
    here = base / "mine"
    for number, (edit, version, lose) in enumerate(steps):
        if edit != "nothing" and number:
            write(here, {FIRST: edit})
        if lose:
            (here / RECORD).unlink(missing_ok=True)
        before = read(here) if here.is_dir() else {}
        write(base / "shipped", {FIRST: version})
        lay_out(here, base / "shipped")
        after = read(here)
        assert set(before) <= set(after)
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {FIRST}
        assert all(before[name] in {"v1", "v2", "v3"} for name in changed), "the learner's own text was replaced"


# What stands in the way -----------------------------------------------------------------------------------------------


def test_interrupted_at_any_write_nothing_is_half_written_and_the_next_run_finishes(here, shipped, monkeypatch):
    lay_out(here, shipped(_00="one", _01="two", _02="three"))
    write(here, {"notebooks/01.ipynb": "mine"})
    newer = shipped(_00="one+", _01="two+", _02="three+", _03="four+")
    texts = {"one", "two", "three", "mine", "soon", "one+", "two+", "three+", "four+"}
    whole = Path.replace
    for last in range(6):
        calls = iter(range(last))

        def stop(draft, target, calls=calls):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return whole(draft, target)

        monkeypatch.setattr(Path, "replace", stop)
        try:
            lay_out(here, newer)
        except KeyboardInterrupt:
            assert not [name for name in read(here) if name.endswith(".tmp")]
            assert set(read(here).values()) <= texts
            assert read(here)["notebooks/01.ipynb"] == "mine"
    monkeypatch.undo()
    lay_out(here, newer)
    assert read(here) == {
        FIRST: "one+",
        "notebooks/01.ipynb": "mine",
        "notebooks/01.new.ipynb": "two+",
        "notebooks/02.ipynb": "three+",
        "notebooks/03.ipynb": "four+",
        "exercises/README.md": "soon",
    }


def test_a_failed_update_is_tried_again_and_not_taken_for_the_learners_work(here, shipped, monkeypatch):
    lay_out(here, shipped(_00="one"))
    newer = shipped(_00="newer")

    def full(_draft, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CourseError, match=r"No space left on device"):
        lay_out(here, newer)
    assert read(here)[FIRST] == "one"
    monkeypatch.undo()
    assert actions(lay_out(here, newer)) == {FIRST: ("updated", FIRST)}


@pytest.mark.parametrize("name", ["taken", "taken/notebooks"])
def test_a_file_where_a_folder_is_meant(tmp_path, shipped, name):
    root = shipped(_00="one")
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine", encoding="utf-8")
    with pytest.raises(CourseError) as error:
        lay_out(tmp_path / "taken", root)
    assert str(error.value) == (
        f"{place} is a file, not a folder. "
        "Give an empty folder that you may write to, or the name of a new one, for example: tcemu lab my-course"
    )
    assert place.read_text(encoding="utf-8") == "mine"


def test_folders_of_another_project_are_refused_untouched(here, shipped):
    write(here, {f"notebooks/thesis-{n}.ipynb": "mine" for n in range(5)})
    before = read(here)
    with pytest.raises(CourseError, match=r"not belong to the course \(notebooks/thesis-0.ipynb, .* 2 more\)\. Give"):
        lay_out(here, shipped(_00="one"))
    assert read(here) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(here, shipped):
    here.chmod(0o500)
    with pytest.raises(CourseError, match="Permission denied"):
        lay_out(here, shipped(_00="one"))


def test_a_folder_that_cannot_be_made(shipped):
    place = Path(os.devnull) / "course"
    with pytest.raises(CourseError, match=r"cannot lay the course out in .*course: .*Give an empty folder"):
        lay_out(place, shipped(_00="one"))


def test_a_folder_that_lost_its_record_is_still_the_learners(here, shipped):
    root = shipped(_00="one")
    lay_out(here, root)
    (here / RECORD).unlink()
    write(here, {FIRST: "mine", "notebooks/scratch.ipynb": "mine"})
    assert actions(lay_out(here, root)) == {FIRST: ("laid beside", "notebooks/00.new.ipynb")}
    assert read(here)[FIRST] == read(here)["notebooks/scratch.ipynb"] == "mine"


# Where the course comes from ------------------------------------------------------------------------------------------


def test_the_installed_course_has_its_notebooks_and_exercises():
    names = files(source())
    assert [name for name in names if name.startswith("notebooks/00")]
    assert "exercises/README.md" in names
    assert not [name for name in names if "solution" in name.lower() or "checkpoint" in name]


def test_files_leaves_out_what_tools_leave_behind(tmp_path):
    names = [FIRST, "notebooks/.ipynb_checkpoints/00.ipynb", "exercises/__pycache__/a.pyc", "exercises/a.py", "other/x"]
    write(tmp_path, dict.fromkeys(names, ""))
    assert files(tmp_path) == [FIRST, "exercises/a.py"]


def test_a_clone_is_known_from_any_of_its_folders(tmp_path):
    write(tmp_path / "c", dict.fromkeys(["tcemu/x", "notebooks/deep/x", "exercises/x"], ""))
    write(tmp_path / "c", {"pyproject.toml": '[project]\nname="tcemu"'})
    assert clone_around(tmp_path / "c") == clone_around(tmp_path / "c/notebooks/deep") == (tmp_path / "c").resolve()
    assert clone_around(tmp_path) is None


@pytest.mark.parametrize("project", ["", "[", '[project]\nname="other"', None])
def test_another_project_is_no_clone(tmp_path, project):
    write(tmp_path, {"tcemu/x": "", "notebooks/x": "", "exercises/x": ""})
    if project is not None:
        write(tmp_path, {"pyproject.toml": project})
    assert clone_around(tmp_path) is None


def test_an_installation_without_a_course_says_how_to_mend_it(tmp_path):
    with pytest.raises(CourseError, match=r"has no course: .*--force-reinstall"):
        source(tmp_path / "tcemu")


def test_the_record_is_small_and_readable(here, shipped):
    lay_out(here, shipped(_00="one"))
    assert list(json.loads((here / RECORD).read_text(encoding="utf-8"))["files"]) == [FIRST, "exercises/README.md"]
