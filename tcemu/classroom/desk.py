"""The teacher's desk: what was handed in, and the feedback that goes back.

submitted/ada/02_fragments/02_fragments.ipynb       the latest, as nbgrader arranges it
submitted/ada/02_fragments/timestamp.txt            when, as nbgrader writes it
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tcemu.classroom.settings import course
from tcemu.course.keeping import keep

#: Bytes of the largest notebook that is accepted.
LARGEST = 8 << 20
#: How nbgrader writes times.
_FORM = "%Y-%m-%d %H:%M:%S.%f %Z"


class NotTakenError(Exception):
    """A notebook was not accepted. The text says why, and what to do."""


@dataclass(frozen=True)
class Lesson:
    """A notebook of exercises: its file, without its ending, and what the course calls it."""

    stem: str
    label: str


def lessons() -> list[Lesson]:
    """What can be handed in: the notebooks that have exercises.

    >>> from tcemu.classroom.desk import lessons
    >>> lessons()[0].stem
    '00_first_light'
    """
    return [Lesson(Path(entry.file).stem, entry.label) for entry in course().notebooks if entry.exercises]


@dataclass(frozen=True)
class Desk:
    """The folders in which a class hands in and the grader's feedback pages are."""

    submitted: Path
    grades: Path

    def take(self, learner: str, lesson: Lesson, text: str, now: datetime | None = None) -> None:
        """Keep a notebook that was handed in; an earlier one is replaced. Raises NotTakenError."""
        if len(text) > LARGEST or len(text.encode(errors="replace")) > LARGEST:
            raise NotTakenError(f"It is larger than {LARGEST >> 20} MiB. Clear its outputs, save it and try again.")
        try:
            text.encode()  # half a character of UTF-16 is in no file
            cells = json.loads(text)["cells"]
        except (ValueError, LookupError, TypeError, RecursionError):
            cells = None
        if not isinstance(cells, list):
            raise NotTakenError("The file is not a notebook.")
        place = self._place(learner, lesson)
        keep(place / f"{lesson.stem}.ipynb", text)
        keep(place / "timestamp.txt", (now or datetime.now(UTC)).strftime(_FORM) + "\n")

    def when(self, learner: str, lesson: Lesson) -> datetime | None:
        """When a learner handed a lesson in last; None if never."""
        try:
            text = (self._place(learner, lesson) / "timestamp.txt").read_text(encoding="utf-8").strip()
            return datetime.strptime(text, _FORM).replace(tzinfo=UTC)
        except (OSError, ValueError, NotTakenError):
            return None

    def feedback(self, learner: str) -> str | None:
        """The feedback page of a learner; None if there is none yet."""
        try:
            return (self.grades / "feedback" / f"{_safe(learner)}.html").read_text(encoding="utf-8")
        except (OSError, NotTakenError):
            return None

    def _place(self, learner: str, lesson: Lesson) -> Path:
        return self.submitted / _safe(learner) / lesson.stem


def _safe(name: str) -> str:
    """A user's name as the name of a folder. Raises NotTakenError for a name that leads elsewhere."""
    if not re.fullmatch(r"[\w@+-][\w.@+-]{0,63}", name):
        raise NotTakenError(f"{name!r} cannot be the name of a folder. Ask your teacher for another one.")
    return name
