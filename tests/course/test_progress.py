"""A learner's progress is saved, whatever happens to the file, and determines the learner's own numbers."""

import json
import threading
from datetime import datetime

import numpy as np
import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.course import RECORD, Exercise, check, checking, given, judges, progress
from tcemu.errors import CourseError


def costly(warp, x):
    for _ in range(3):
        warp.st_global(x.at(warp.threads), 1)


def cheap(warp, x):
    warp.st_global(x.at(warp.threads), 1)


KERNEL = judges.Kernel(
    lambda given: {"x": np.zeros(32, np.uint32)}, "x", lambda given: np.ones(32, np.uint32), {},
    counts=("instructions",),
)  # fmt: skip
ROWS = {
    "ones": Exercise("ones", "Ones", "Write `ones`.", KERNEL, 5, "nothing", hints=("a", "b"), best={"instructions": 1}),
    "number": Exercise(
        "number", "Number", "Give `number`.", judges.Values(lambda given: given.n, np.int64), 5, "nothing",
        hints=("a", "b"), draw=lambda rng: {"n": int(rng.integers(1 << 40))},
    ),
}  # fmt: skip


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A learner's folder, with two exercises."""
    (tmp_path / RECORD).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TCEMU_LEARNER", raising=False)
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    monkeypatch.setattr(checking, "exercise", ROWS.__getitem__)
    return tmp_path


def entry(course, name):
    return json.loads((course / progress.PROGRESS).read_text(encoding="utf-8"))["exercises"][name]


def test_tries_count_and_what_is_solved_stays_solved(course):
    check(number=...)
    assert not (course / progress.PROGRESS).exists()
    check(number=1)
    assert entry(course, "number") == {"tries": 1}
    check(number=given("number").n)
    check(number=1)
    assert entry(course, "number")["tries"] == 3
    assert len(entry(course, "number")["solved"]) == len("2026-01-01")


def test_scores_are_compared_with_the_learner_s_own_and_the_best_known(course):
    assert "instructions: 3 (best known: 1)" in str(check(ones=costly))
    assert "instructions: 1 (your best so far: 3, best known: 1)" in str(check(ones=cheap))
    assert "instructions: 3 (your best so far: 1, best known: 1)" in check(ones=costly)._repr_mimebundle_()["text/html"]
    assert entry(course, "ones")["scores"] == {"instructions": 1}
    assert [held["instructions"] for held in entry(course, "ones")["history"]] == [3, 1, 3]


def test_outside_a_course_nothing_is_written(course, tmp_path):
    (course / RECORD).unlink()
    assert check(ones=cheap)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ['{"exercises": {"ones": 3}}', '{"exercises": {"ones": {"tries": "many", "scores": [1], "history": 7}}}',
     '{"exercises": {"ones": {"scores": {"instructions": "few"}}}}', "{}"],
)  # fmt: skip
def test_an_edited_file_does_no_harm(course, text):
    (course / progress.PROGRESS).write_text(text, encoding="utf-8")
    assert check(ones=cheap)
    assert entry(course, "ones")["tries"] == 1
    assert entry(course, "ones")["scores"] == {"instructions": 1}


@pytest.mark.parametrize("text", ["{", "[]", '{"exercises": 3}', ""])
def test_a_damaged_file_is_kept_and_the_verdict_is_given(course, text, monkeypatch):
    (course / progress.PROGRESS).write_text(text, encoding="utf-8")
    monkeypatch.setenv("TCEMU_LEARNER", "ada")
    verdict = check(ones=cheap)
    assert verdict
    assert "Your progress was not saved: " in str(verdict)
    assert "is damaged" in verdict.aside
    assert (course / progress.PROGRESS).read_text(encoding="utf-8") == text


def test_learners_have_numbers_of_their_own(course, monkeypatch):
    anybody = given("number").n
    progress.name_learner(course, "ada")
    ada = given("number").n
    monkeypatch.setenv("TCEMU_LEARNER", "grace")
    assert len({anybody, ada, given("number").n}) == 3
    monkeypatch.setenv("TCEMU_LEARNER", "ada")
    assert given("number").n == ada


def test_on_a_hub_the_user_is_the_learner(course, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert progress.learner() == "ada"


def test_the_numbers_of_a_seed_never_change():
    """They were written down once; a grader computes them again on another machine."""
    numbers = [ROWS["number"].given(seed).n for seed in ("", "ada", "grace")]
    assert numbers == [1029931106931, 552521601543, 898537298731]


def test_the_command_writes_the_name_down(course):
    done = CliRunner().invoke(commands, ["check", "--as", "ada"])
    assert isinstance(done.exception, CourseError)  # there is no notebook
    assert progress.learner() == "ada"


def test_checks_at_the_same_time_lose_nothing(course):
    threads = [threading.Thread(target=progress.tried, args=(course, f"e{at % 3}", True, {})) for at in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry(course, f"e{at}")["tries"] for at in range(3)] == [8, 8, 8]


def test_mistakes_are_counted_and_the_latest_try_is_known(course):
    for _ in range(2):
        progress.tried(course, "number", False, {}, "one too many")
    progress.tried(course, "ones", True, {})
    assert entry(course, "number")["mistakes"] == {"one too many": 2}
    assert "mistakes" not in entry(course, "ones")
    latest = json.loads((course / progress.PROGRESS).read_text(encoding="utf-8"))["latest"]
    assert latest["exercise"] == "ones"
    assert datetime.fromisoformat(latest["at"]).tzinfo
