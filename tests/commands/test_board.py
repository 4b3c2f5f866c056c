"""The board of a workshop: progress files of several learners, one of them damaged."""

import json

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
