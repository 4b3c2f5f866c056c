"""What Gradescope runs for a submission: `python -m tcemu.grade.autograde /autograder`.

    /autograder/submission/                   what the student handed in
    /autograder/submission_metadata.json      who that is, and when
    /autograder/source/private/               course.key, settings.json and so on, which only root can read
    /autograder/results/results.json          what Gradescope shows

Where the container allows no box, the notebook runs as a user of its own, who can read neither the key nor a course's
hidden tests, nor write results. That is less: it has the container's network and its files. If nothing can be marked,
there are no results, which Gradescope reports to the teacher; it is never a zero.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcemu.course import manifest
from tcemu.errors import CourseError, TcemuError
from tcemu.grade.box import Limits, check_box
from tcemu.grade.intake import Roster, submissions, unlisted
from tcemu.grade.output.catalogue import Catalogue
from tcemu.grade.output.gradescope import results
from tcemu.grade.output.lateness import lateness
from tcemu.grade.records import Submission
from tcemu.grade.room import BoxUnavailable
from tcemu.grade.run import asked_of
from tcemu.grade.unseen import key_of
from tcemu.grade.work import Task, grade

#: The user who runs notebooks where there is no box.
USER = 60_999
#: What identifies a student, the best first.
_WHO = ("sid", "email", "name")


def autograde(root: Path) -> str:
    """Grade the submission below `root`; the text of results.json. Raises CourseError if that is not possible."""
    private = root / "source" / "private"
    settings = json.loads((private / "settings.json").read_text(encoding="utf-8"))
    own = private / "course" if settings["own"] else None
    course = manifest(own)
    work = _submission(root, private, own)
    folder = None if own is None else str(own)
    asked = tuple(settings["notebooks"]) or asked_of([work], folder)
    task = Task(work, asked, Limits(**settings["limits"]), course=folder, course_key=key_of(private))
    graded = grade(_boxed(task))
    if graded.state == "quarantined":
        raise CourseError(graded.says)
    return results(graded, Catalogue(course), lateness(graded, work, course))


def _submission(root: Path, private: Path, own: Path | None) -> Submission:
    """What was handed in, by the learner's name."""
    metadata = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    names = [user[name] for user in metadata.get("users", ()) for name in _WHO if user.get(name)]
    roster = Roster.read(private / "roster.csv") if (private / "roster.csv").is_file() else Roster({})
    known = [name for name in names if name in roster]
    learner = roster[known[0]] if known else _first(names)
    (work,) = submissions(root / "submission", manifest(own), alone=learner)
    problems = work.problems if known else (*work.problems, unlisted(learner))
    return replace(work, problems=problems, handed_in=dict.fromkeys(work.files, str(metadata.get("created_at", ""))))


def _first(names: list[Any]) -> str:
    if not names:
        raise CourseError("submission_metadata.json names no student")
    return str(names[0])


def _boxed(task: Task) -> Task:
    """The task as this container can run it."""
    try:
        check_box()
    except BoxUnavailable as error:
        if os.geteuid():
            raise
        print(f"There is no box here: {error}.\nThe notebook runs as user {USER} instead.")  # noqa: T201 - its log
        return replace(task, trusted=True, user=USER)
    return task


def main(root: Path) -> None:
    """Write results.json, or say why there is none."""
    for place in ("source/private", "results"):
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place).chmod(0o700)
    try:
        text = autograde(root)
    except TcemuError as error:
        sys.exit(f"tcemu: {error}")
    (root / "results" / "results.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
