"""Grades many submissions, on all cores of this machine or on a scheduler's workers, and resumes where it stopped.

    OUT/grades/ada-0123456789abcdef.json    one file for each finished grade, written whole or not at all

A file's name has the key of its task: the submission's bytes, whose they are, and the versions of the course and of
tcemu. So the same command finds what it has done before, and a change of any of these is graded again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from tempfile import gettempdir
from threading import Event, Thread, get_ident
from typing import Any, Protocol

from filelock import FileLock, Timeout

from tcemu.course.keeping import keep, private_folder
from tcemu.errors import CourseError
from tcemu.extras import require
from tcemu.grade.box import BoxKilled, check_box
from tcemu.grade.plain import file_name
from tcemu.grade.records import Grade, Submission
from tcemu.grade.work import Task, quarantined, wanted_in
from tcemu.grade.worker import DEATHS, Worker

#: Called with the number of finished grades, and the number of all.
Progress = Callable[[int, int], None]
#: Called with a sentence for the waiting user.
Says = Callable[[str], object]
_LOCK = ".tcemu-grade.lock"


def _silent(done: int, of: int) -> None:
    """Do nothing."""


def _unheard(says: str) -> None:
    """Do nothing."""


def asked_of(submissions: Sequence[Submission], course: str | None = None) -> tuple[str, ...]:
    """The exercise notebooks that somebody handed in, by their stems, in order.

    >>> from tcemu.grade.records import Submission
    >>> from tcemu.grade.run import asked_of
    >>> asked_of([Submission("ada", "ada", {"02_fragments": b"{}", "diary": b"{}"})])
    ('02_fragments',)
    """
    stems = sorted({stem for each in submissions for stem in each.files})
    return tuple(stem for stem in stems if wanted_in(stem, course))


@dataclass(frozen=True)
class Store:
    """The finished grades in a folder."""

    folder: Path

    def path(self, task: Task) -> Path:
        """The file of a task's grade."""
        return self.folder / f"{file_name(task.submission.student)}-{task.key}.json"

    def load(self, task: Task) -> Grade | None:
        """The grade of a task, if its file exists and is complete."""
        try:
            grade = Grade.of_json(self.path(task).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        same = (grade.student, grade.digest) == (task.submission.student, task.submission.digest)
        return grade if same else None

    def save(self, task: Task, grade: Grade) -> None:
        """Write a grade to its file, so that it survives a crash of the machine. Raises CourseError."""
        path = self.path(task)
        try:
            keep(path, grade.to_json())
        except OSError as error:
            raise CourseError(f"cannot write {path}: {error.strerror or error}") from error


class Engine(Protocol):
    """Grades tasks in any order."""

    def grades(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Grade]]:
        """Each task with its grade, as soon as it is finished."""
        ...


def run(
    tasks: Sequence[Task], out: Path, engine: Engine, *, retry: bool = False, progress: Progress = _silent
) -> list[Grade]:
    """The grades of all tasks, in their order; those that are in `out` already are not graded again.

    `retry` grades again what is in quarantine. Raises CourseError if `out` cannot be written, or if another grader
    works there.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.grade.records import Submission
    >>> from tcemu.grade.run import Local, run
    >>> from tcemu.grade.work import Task
    >>> with TemporaryDirectory() as folder:
    ...     [grade.state for grade in run([Task(Submission("ada", "ada"), ())], Path(folder), Local(1))]
    ['refused']
    """
    store = Store(out / "grades")
    with _alone(out):
        graded = {number: grade for number, task in enumerate(tasks) if (grade := store.load(task))}
        if retry:
            graded = {number: grade for number, grade in graded.items() if grade.state != "quarantined"}
        left = {task.key: number for number, task in enumerate(tasks) if number not in graded}
        progress(len(graded), len(tasks))
        for task, grade in engine.grades([tasks[number] for number in left.values()]):
            store.save(task, grade)
            graded[left[task.key]] = grade
            progress(len(graded), len(tasks))
    return [graded[number] for number in range(len(tasks))]


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises CourseError if another grader holds it."""
    try:
        private_folder(out)
        with FileLock(out / _LOCK, timeout=0):
            yield
    except Timeout:
        raise CourseError(f"another grader is writing to {out}; wait until it ends, or choose another --out") from None
    except OSError as error:
        raise CourseError(f"cannot write to {out}: {error.strerror or error}") from error


# ---------------------------------------------------------------------------------------------- on this machine


def alone(task: Task, work: Callable[[Task], Grade]) -> Grade:
    """The grade of a task whose box was killed from outside, while nothing else runs.

    If it is killed again, the teacher has to look. A machine that is out of memory kills one box for what all of them
    use, so that says nothing about this one.
    """
    try:
        return work(task)
    except BoxKilled:
        return quarantined(task, "Its box was killed from outside, twice: was the machine out of memory?")


@dataclass(frozen=True)
class Local:
    """`jobs` workers of this machine."""

    jobs: int

    def grades(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Grade]]:
        """Each task with its grade. Raises BoxUnavailable before the first one if there can be no box."""
        if any(not task.trusted for task in tasks):
            check_box()
        idle: SimpleQueue[Worker] = SimpleQueue()
        workers = [Worker() for _ in range(min(self.jobs, len(tasks)))]
        for worker in workers:
            idle.put(worker)

        def work(task: Task) -> Grade:
            worker = idle.get()
            try:
                return worker.grade(task)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(max(1, len(workers)))
        try:
            waiting: dict[Future[Grade], Task] = {pool.submit(work, task): task for task in tasks}
            killed = []
            for done in as_completed(waiting):
                task = waiting.pop(done)
                try:
                    yield task, done.result()
                except BoxKilled:
                    killed.append(task)
            yield from ((task, alone(task, work)) for task in killed)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.close()


# ---------------------------------------------------------------------------------------------- on many machines

#: The worker of each process and thread that a scheduler gives work to.
_OWN: dict[tuple[int, int], Worker] = {}
#: Seconds between two looks at the workers of a scheduler, and seconds that a scheduler may take to answer.
_LOOKS, _ANSWERS = 5.0, 20


@cache
def _prepared(trusted: bool, warm: bool) -> None:
    """Prepare a machine, once per process: compiling kernels in a box would use up the students' time."""
    if not trusted:
        check_box()
    if warm:
        with FileLock(Path(gettempdir(), f"tcemu-warm-{os.getuid()}.lock")):  # the processes of a machine, in turn
            subprocess.run([sys.executable, "-m", "tcemu", "warm"], capture_output=True, check=False)


def remotely(text: str, warm: bool = False) -> tuple[float, str]:
    """Grade a task on the machine of a scheduler's worker; the seconds and the grade as JSON."""
    task = Task.of_json(text)
    _prepared(task.trusted, warm)
    worker = _OWN.setdefault((os.getpid(), get_ident()), Worker())
    graded = worker.grade(task)
    return graded.seconds, graded.to_json()


def _check_address(address: str) -> None:
    """Raise CourseError for an invalid address of a scheduler, because dask would try it for a long time."""
    from distributed.comm import addressing, registry

    try:
        scheme, place = addressing.parse_address(address)
        registry.get_backend(scheme)
        if scheme != "inproc":  # a scheduler in this process
            addressing.parse_host_port(place)
    except ValueError as error:
        raise CourseError(
            f"--scheduler {address} is not the address of a dask scheduler ({error}). `dask scheduler` prints its own, "
            "such as tcp://192.168.1.5:8786"
        ) from error


@contextmanager
def _attended(client: Any, address: str, says: Says) -> Iterator[None]:
    """Report, once each time, that the scheduler has no workers: it waits for the next one, however long that takes."""
    ended = Event()

    def look() -> None:
        missed = False
        while not ended.wait(_LOOKS):
            with suppress(Exception):  # if the scheduler has stopped, the wait for grades says so
                missing = not client.nthreads()
                if missing and not missed:
                    says(f"The dask scheduler at {address} has no workers, so nothing is graded. On each machine that "
                         f"has tcemu, start one: dask worker {address} --nthreads 1 --nworkers auto")  # fmt: skip
                missed = missing

    Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@dataclass(frozen=True)
class Scheduled:
    """The workers of a dask scheduler, which have the same version of tcemu; each takes one submission at a time."""

    address: str
    #: Whether machines compile the kernels first.
    warm: bool = False
    #: Tells the teacher that the scheduler has no workers.
    says: Says = _unheard
    #: What the workers do with a task.
    work: Callable[[str, bool], tuple[float, str]] = remotely

    def grades(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Grade]]:
        """Each task with its grade. A submission that kills a scheduler's workers too often is quarantined."""
        if not tasks:
            return
        require("grade", "--scheduler", "distributed")
        import distributed

        _check_address(self.address)
        try:
            connected: Any = distributed.Client
            client = connected(self.address, timeout=_ANSWERS, set_as_default=False)
        except (OSError, ValueError) as error:
            problem = f"no dask scheduler answers at {self.address}: {error}. Start one with `dask scheduler`"
            raise CourseError(problem) from error
        with client, _attended(client, self.address, self.says):
            try:
                yield from self._together(distributed, client, tasks)
            except CancelledError:
                problem = f"the dask scheduler at {self.address} has stopped; run the same command again"
                raise CourseError(problem) from None

    def _together(self, distributed: Any, client: Any, tasks: Sequence[Task]) -> Iterator[tuple[Task, Grade]]:
        """All tasks at once. Those whose worker died or whose box was killed are tried again, one after the other.

        The scheduler blames every task that a dead worker had, not only the one that it was grading.
        """
        futures = {self._submitted(client, task): task for task in tasks}
        suspects = []
        for future in distributed.as_completed(list(futures), loop=client.loop):
            task = futures[future]
            try:
                yield task, self._grade(future)
            except (distributed.scheduler.KilledWorker, BoxKilled):
                suspects.append(task)
            future.release()
        for task in suspects:
            try:
                yield task, alone(task, lambda task: self._grade(self._submitted(client, task, "alone")))
            except distributed.scheduler.KilledWorker:
                yield task, quarantined(task, f"Grading it crashed {DEATHS} workers, so it is not tried again.")

    def _submitted(self, client: Any, task: Task, how: str = "grade") -> Any:
        return client.submit(self.work, task.to_json(), self.warm, key=f"{how}-{task.key}", pure=False, retries=0)

    @staticmethod
    def _grade(future: Any) -> Grade:
        seconds, text = future.result()
        return replace(Grade.of_json(text), seconds=seconds)
