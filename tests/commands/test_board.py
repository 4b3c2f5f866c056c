"""The board of a workshop: progress files of several learners, one of them damaged."""

import json
import os

import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.course import exercises
from tcemu.course.progress import PROGRESS
from tcemu.errors import CourseError

FAST = next(each for each in exercises().values() if each.best)
WHAT = next(iter(FAST.best))


@pytest.fixture
def workshop(tmp_path):
    """Three learners: ada has solved many exercises, bob has tried one, and cid's file is damaged."""

    def write(folder, text):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / PROGRESS).write_text(text)

    solved = {"tries": 1, "solved": "2026-01-01"}
    fast = {**solved, "scores": {WHAT: 7}}
    write("a", json.dumps({"learner": "ada", "exercises": {"where_of_a": solved, FAST.name: fast}}))
    write("bob", json.dumps({"exercises": {"where_of_a": {"tries": 3}, FAST.name: {**fast, "scores": {WHAT: 1234}}}}))
    write("cid", "{")
    return tmp_path


def test_who_has_solved_most_comes_first_and_scores_are_ranked(workshop):
    done = CliRunner().invoke(commands, ["board", str(workshop)], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    of = len(exercises())
    ada, bob = (next(at for at, line in enumerate(lines) if name in line) for name in ("ada", "bob"))
    assert ada < bob
    assert f"2 of {of}" in lines[ada]
    assert f"1 of {of}" in lines[bob]
    assert f"best known: {FAST.best[WHAT]:,}" in done.output
    assert "1,234" in done.output
    assert "is damaged" in done.output + done.stderr


def test_without_progress_it_says_so(tmp_path):
    done = CliRunner().invoke(commands, ["board", str(tmp_path)])
    assert isinstance(done.exception, CourseError)
    assert "no learner has tried an exercise" in str(done.exception)


def pipe(path):
    os.mkfifo(path)


def sparse(path):
    with path.open("wb") as file:
        file.truncate(20 << 30)


def other(path):
    path.symlink_to(path.parent.parent / "a" / PROGRESS)


#: What a learner may make of the file, and the word for it.
HOSTILE = {
    "pipe": (pipe, "it is not a file"),
    "gigabytes": (sparse, "it is larger than 4 MiB"),
    "link": (other, "is damaged"),
    "loop": (lambda path: path.symlink_to(path), "is damaged"),
    "folder": (lambda path: path.mkdir(), "is damaged"),
    "deep": (lambda path: path.write_text("[" * 100_000), "is damaged"),
    "bytes": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is damaged"),
    "nothing": (lambda path: path.touch(), "is damaged"),
    "a name": (lambda path: path.write_text('{"learner": "[/x]\\ud800' + "n" * 1000 + '"}'), "[/x]?nnn"),
    "no name": (lambda path: path.write_text('{"learner": [[]], "exercises": {"where_of_a": {"tries": []}}}'), "eve"),
    "scores": (lambda path: path.write_text(json.dumps({"exercises": {FAST.name: {"scores": [1]}}})), "eve"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have names")
@pytest.mark.parametrize("what", HOSTILE)
def test_one_learner_s_file_does_not_hide_the_others(workshop, what):
    make, word = HOSTILE[what]
    (workshop / "eve").mkdir()
    make(workshop / "eve" / PROGRESS)
    done = CliRunner().invoke(commands, ["board", str(workshop)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "ada" in done.output
    assert word in done.output + done.stderr
