"""Grades one submission: all of its notebooks, in the course's order. This runs in a worker, beside the box."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from tcemu.course import bank
from tcemu.course.bank import exercises
from tcemu.course.manifests import MANIFEST, Manifest, manifest
from tcemu.course.record import Exercise
from tcemu.grade import hidden
from tcemu.grade.box import Limits, Seat
from tcemu.grade.marking import marks_of
from tcemu.grade.marks import failed
from tcemu.grade.records import Grade, GradeState, Mark, Submission
from tcemu.version import __version__

#: Characters of the course's digest.
_DIGEST = 16


@dataclass(frozen=True)
class Task:
    """A submission and how it is graded; to and from JSON, because it travels between processes and machines.

    >>> from tcemu.grade.records import Submission
    >>> from tcemu.grade.work import Task
    >>> task = Task(Submission("ada", "ada"), ("02_fragments",))
    >>> Task.of_json(task.to_json()) == task
    True
    """

    submission: Submission
    #: The notebooks that are graded, by their stems; one that was not handed in gets no points.
    asked: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    trusted: bool = False
    #: The folder of the course; None is the installed one.
    course: str | None = None
    #: The teacher's key, from which numbers follow that nobody has seen.
    course_key: str = field(default="", repr=False)
    #: Without a box, the user who runs it, if root grades.
    user: int = 0

    @property
    def key(self) -> str:
        """A digest, 16 hexadecimal digits, of what the grade depends on: bytes, student, limits, course, key, tcemu."""
        submission = self.submission
        whose = submission.student, submission.folder, submission.digest, submission.problems
        how = self.asked, asdict(self.limits), self.trusted, __version__, course_digest(self.course), self.course_key
        return _digest(json.dumps([whose, how]).encode())

    def to_json(self) -> str:
        """The task as JSON."""
        return json.dumps({**_plain(self), "submission": self.submission.to_json()})

    @classmethod
    def of_json(cls, text: str) -> Task:
        """The task that `to_json` wrote."""
        held = json.loads(text)
        submission, limits = Submission.of_json(held.pop("submission")), Limits(**held.pop("limits"))
        return cls(submission, tuple(held.pop("asked")), limits, **held)


def _plain(task: Task) -> dict[str, object]:
    return {"asked": task.asked, "limits": asdict(task.limits), "trusted": task.trusted, "course": task.course,
            "course_key": task.course_key, "user": task.user}  # fmt: skip


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGEST]


@cache
def course_of(folder: str | None) -> tuple[Manifest, Mapping[str, Exercise]]:
    """The manifest of a course, and its exercises."""
    place = None if folder is None else Path(folder)
    return manifest(place), exercises(place)


@cache
def course_digest(folder: str | None) -> str:
    """The digest of a course: its manifest, the rows of its exercises, their judges and their hidden tests.

    >>> from tcemu.grade.work import course_digest
    >>> len(course_digest(None))
    16
    """
    course = course_of(folder)[0]
    rows = Path(bank.__file__).parent
    places = [rows, rows.parent / "judges", course.root / bank.OWN]
    files = [course.root / MANIFEST, *(path for place in places for path in sorted(place.glob("*.py")))]
    files += hidden.files(course.root) if folder else []
    return _digest(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files))


def wanted_in(stem: str, folder: str | None = None) -> dict[str, Exercise]:
    """The exercises of an exercise notebook, by its stem; none if the course has no such notebook.

    >>> from tcemu.grade.work import wanted_in
    >>> list(wanted_in("02_fragments"))[:2]
    ['where_of_b', 'where_of_bytes']
    """
    course, known = course_of(folder)
    return {
        name: known[name]
        for entry in course.notebooks
        if Path(entry.file).stem == stem
        for name in entry.exercises
        if name in known
    }


def grade(task: Task, cache: str = "") -> Grade:
    """The grade of a submission; `cache` is the folder of compiled kernels, if they are not beside their sources."""
    begun = time.monotonic()
    submission = task.submission
    seat = Seat(task.trusted, task.limits, cache, task.user)
    marks = [mark for stem in task.asked for mark in _notebook(task, stem, seat)]
    state: GradeState = "graded" if set(submission.files) & set(task.asked) else "refused"
    return Grade(
        submission.student, submission.digest, tuple(marks), state,
        "\n".join(submission.problems), __version__, course_digest(task.course), submission.folder,
        round(time.monotonic() - begun, 3),
    )  # fmt: skip


def _notebook(task: Task, stem: str, seat: Seat) -> list[Mark]:
    wanted = wanted_in(stem, task.course)
    if stem not in task.submission.files:
        return [failed(stem, exercise, "This notebook was not handed in.") for exercise in wanted.values()]
    return marks_of(stem, task.submission.read(stem), wanted, task.submission.student, seat, task.course_key,
                    hidden.hidden_in(task.course))  # fmt: skip


def quarantined(task: Task, says: str) -> Grade:
    """The grade of a submission that kills its workers."""
    submission = task.submission
    marks = [failed(stem, each, says) for stem in task.asked for each in wanted_in(stem, task.course).values()]
    return Grade(
        submission.student, submission.digest, tuple(marks), "quarantined", "\n".join([says, *submission.problems]),
        __version__, course_digest(task.course), submission.folder,
    )  # fmt: skip
