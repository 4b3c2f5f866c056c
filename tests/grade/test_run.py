"""A run resumes where it stopped: nothing is lost or graded twice, and the bytes are the same.

Here engines are played; test_kills.py kills processes.
"""

import csv
import io
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from boxed import CHECK, HONEST, needs_box
from click.testing import CliRunner
from filelock import FileLock
from handed import folder, notebook

from tcemu.cli import commands
from tcemu.errors import CourseError
from tcemu.grade.box import BoxKilled, Limits
from tcemu.grade.output.sheet import sheet
from tcemu.grade.records import Grade, Mark, Submission
from tcemu.grade.run import Local, Scheduled, Store, remotely, run
from tcemu.grade.work import Task, quarantined
from tcemu.grade.worker import DEATHS, Worker, WorkerDied

STUDENTS = ("ada", "bob", "Cäcilie", "../../eve")


def task(student, content=b"{}", **more):
    return Task(Submission(student, f"handed/{student}", {"02_fragments": content}), ("02_fragments",), **more)


class Fake:
    """An engine that notes whom it grades; `until` grades, and it is killed."""

    def __init__(self, until=100):
        self.graded, self.until = [], until

    def grades(self, tasks):
        for each in reversed(tasks):
            if not self.until:
                raise KeyboardInterrupt
            self.until -= 1
            student = each.submission.student
            self.graded.append(student)
            yield each, Grade(student, each.submission.digest, (Mark("where_of_b", "02_fragments", "right", 1, 1),))


def contents(place):
    return {path.name: path.read_bytes() for path in place.glob("grades/*.json")}


def test_it_goes_on_where_it_stopped(tmp_path):
    tasks = [task(student) for student in STUDENTS]
    first, second, third, whole = Fake(2), Fake(), Fake(), Fake()
    with pytest.raises(KeyboardInterrupt):
        run(tasks, tmp_path / "one", first)
    shown = []
    grades = run(tasks, tmp_path / "one", second, progress=lambda *numbers: shown.append(numbers))
    assert sorted(first.graded + second.graded) == sorted(STUDENTS)
    assert [grade.student for grade in grades] == list(STUDENTS)
    assert shown == [(2, 4), (3, 4), (4, 4)]
    assert run(tasks, tmp_path / "one", third) == grades
    assert third.graded == []
    run(tasks, tmp_path / "two", whole)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not list(tmp_path.glob("*/grades/.*"))


def test_what_changes_the_grade_is_graded_again(tmp_path):
    engine = Fake()
    first = task("ada")
    other = replace(first, submission=replace(first.submission, student="bob"))
    longer, shorter = replace(first, asked=("01_numbers",)), replace(first, limits=Limits(cell=3))
    for each in (first, task("ada", b"[]"), longer, shorter, other):
        run([each], tmp_path, engine)
        run([each], tmp_path, engine)
    assert engine.graded == ["ada"] * 4 + ["bob"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"student": "ada"}', b"\xff", b"[]"])
def test_a_damaged_grade_is_graded_again(tmp_path, content):
    engine, store = Fake(), Store(tmp_path / "grades")
    run([task("ada")], tmp_path, engine)
    store.path(task("ada")).write_bytes(content)
    run([task("ada")], tmp_path, engine)
    assert engine.graded == ["ada", "ada"]


def test_two_graders_do_not_write_to_one_folder(tmp_path):
    with FileLock(tmp_path / ".tcemu-grade.lock"), pytest.raises(CourseError, match="another grader is writing to"):
        run([task("ada")], tmp_path, Fake())


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CourseError, match="cannot write to"):
        run([task("ada")], tmp_path / "file", Fake())


def test_a_submission_that_kills_workers_is_quarantined_once_and_for_all(tmp_path):
    class Dying(Worker):
        deaths = 0

        def _asked(self, task):
            self.deaths += 1
            raise WorkerDied

    class Alone:
        def __init__(self):
            self.worker = Dying()

        def grades(self, tasks):
            for each in tasks:
                yield each, self.worker.grade(each)

    engine, again = Alone(), Alone()
    (grade,) = run([task("eve")], tmp_path, engine)
    assert (grade.state, grade.points, engine.worker.deaths) == ("quarantined", 0, DEATHS)
    assert run([task("eve")], tmp_path, again) == [grade]
    assert again.worker.deaths == 0
    run([task("eve")], tmp_path, again, retry=True)
    assert again.worker.deaths == DEATHS


def test_a_grade_in_quarantine_says_so_for_every_exercise():
    grade = quarantined(task("eve"), "It ends workers.")
    assert {mark.says for mark in grade.marks} == {"It ends workers."}
    assert Grade.of_json(grade.to_json()) == grade


@needs_box
@pytest.mark.slow
def test_a_worker_that_is_killed_costs_a_retry_and_not_the_grade():
    content = notebook(f"import time\ntime.sleep(1.5)\n{HONEST}", CHECK)  # a cell that no check needs is not run
    worker = Worker()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(worker.grade, task("ada", content))
        for _ in range(200):
            if worker._process is not None:
                break
            time.sleep(0.05)
        time.sleep(1)
        first = worker._process
        first.kill()
        grade = coming.result()
    assert worker._process is not first
    worker.close()
    assert {mark.exercise: mark.state for mark in grade.marks}["where_of_b"] == "right"


@needs_box
@pytest.mark.slow
def test_the_workers_of_a_scheduler_grade_and_one_that_dies_costs_nothing(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra grade is not installed")
    content = notebook(f"import time\ntime.sleep(1)\n{HONEST}", CHECK)
    tasks = [task(student, content) for student in ("ada", "bob", "carl")]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        killer = threading.Timer(3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        grades = run(tasks, tmp_path, Scheduled(cluster.scheduler_address))
        killer.cancel()
    assert [grade.student for grade in grades] == ["ada", "bob", "carl"]
    assert {mark.state for grade in grades for mark in grade.marks if mark.exercise == "where_of_b"} == {"right"}


def at_once(text, warm):
    """Grades without a box."""
    held = Task.of_json(text)
    time.sleep(0.2)
    return 0.0, quarantined(held, "It was not looked at.").to_json()


@pytest.fixture
def cluster():
    """A scheduler without workers, in this process."""
    distributed = pytest.importorskip("distributed", reason="the extra grade is not installed")
    options = {"n_workers": 0, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=50) as made:
        yield made


def test_a_scheduler_without_workers_says_so_once_and_goes_on_when_one_comes(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr("tcemu.grade.run._LOOKS", 0.1)
    said = []

    def says(text):
        said.append(text)
        threading.Timer(0.5, cluster.scale, (1,)).start()

    tasks = [task(student) for student in ("ada", "bob", "carl")]
    grades = run(tasks, tmp_path, Scheduled(cluster.scheduler_address, says=says, work=at_once))
    assert [grade.student for grade in grades] == ["ada", "bob", "carl"]
    (told,) = said
    assert f"The dask scheduler at {cluster.scheduler_address} has no workers" in told
    assert f"dask worker {cluster.scheduler_address} --nthreads 1" in told


def test_threads_of_a_dask_worker_do_not_share_a_grader(monkeypatch):
    used = []

    class Noting(Worker):
        def grade(self, task):
            used.append(self)
            both.wait(10)
            return quarantined(task, "It was not looked at.")

    both = threading.Barrier(2)
    monkeypatch.setattr("tcemu.grade.run.Worker", Noting)
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(remotely, [task(student, trusted=True).to_json() for student in ("ada", "bob")]):
            pass
    assert len({id(each) for each in used}) == 2


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nonsense", "--scheduler nonsense is not the address of a dask scheduler (missing port"),
        ("http://host:80", "unknown address scheme"),
        ("tcp://", "such as tcp://192.168.1.5:8786"),
        ("tcp://127.0.0.1:9", "no dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_a_scheduler_that_is_not_there_is_told(tmp_path, monkeypatch, address, says):
    pytest.importorskip("distributed", reason="the extra grade is not installed")
    monkeypatch.setattr("tcemu.grade.run._ANSWERS", 1)
    handed = folder(tmp_path / "handed", {"ada/02_fragments.ipynb": notebook(HONEST)})
    options = ["grade", str(handed), "--out", str(tmp_path / "out"), "--no-warm", "--scheduler", address]
    result = CliRunner().invoke(commands, options)
    assert isinstance(result.exception, CourseError)
    assert says in str(result.exception)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--only", "adda"], "has nothing from adda. Did you mean 'ada'?"),
        (["--notebook", "02_fragment"], "the course has no exercise notebook 02_fragment.ipynb"),
        (["--limit-memory", "3X"], "give bytes such as 3G or 800M"),
    ],
)
def test_a_wrong_option_is_told(tmp_path, more, says):
    handed = folder(tmp_path / "handed", {"ada/02_fragments.ipynb": notebook(HONEST)})
    options = ["grade", str(handed), "--out", str(tmp_path / "out"), "--no-warm", *more]
    result = CliRunner().invoke(commands, options, catch_exceptions=True)
    assert result.exit_code != 0
    assert says.lower() in f"{result.output} {result.exception}".lower()


def test_where_there_is_no_box_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    handed = folder(tmp_path / "handed", {"ada/02_fragments.ipynb": notebook("open('ran', 'w')")})
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(commands, ["grade", str(handed), "--out", "out", "--no-warm"])
    assert "apt-get install bubblewrap" in str(result.exception)
    assert not (tmp_path / "ran").exists()


class Killing:
    """A worker whose boxes are killed from outside, so many times."""

    def __init__(self, times, says):
        self.times, self.says = times, says

    def grade(self, task):
        name = task.submission.student
        self.says.append(name)
        if self.says.count(name) <= self.times.get(name, 0):
            raise BoxKilled
        return Grade(name, task.submission.digest, tcemu="1", course="c")

    def close(self):
        pass


def test_what_was_killed_from_outside_is_run_again_alone_and_is_never_a_zero(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("tcemu.grade.run.Worker", lambda: Killing({"ada": 1, "eve": 2}, said))
    monkeypatch.setattr("tcemu.grade.run.check_box", lambda: None)
    tasks = [task(name) for name in ("ada", "bob", "eve")]
    ada, bob, eve = run(tasks, tmp_path, Local(2))
    assert (ada.state, bob.state, eve.state) == ("graded", "graded", "quarantined")
    assert "killed from outside, twice" in eve.says
    assert sorted(said[3:]) == ["ada", "eve"]
    assert next(csv.DictReader(io.StringIO(sheet([eve]))))["points"] == ""
