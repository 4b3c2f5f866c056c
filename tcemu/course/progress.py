"""What a learner has done, in a file of the course's folder that a restart and an update of the course leave alone.

    .tcemu-progress.json    {"learner": "ada", "exercises": {"where_of_a": {"tries": 3, "solved": "2026-11-22", ...}},
                             "latest": {"exercise": "where_of_a", "at": "2026-11-22T09:30:00+00:00"}}

Only a folder that `tcemu lab` laid out has one: it is looked for in the current folder and those above it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from tcemu.arguments import explained
from tcemu.course.keeping import keep
from tcemu.course.lay_out import RECORD
from tcemu.course.verdict import Verdict
from tcemu.errors import CourseError
from tcemu.extras import IN_BROWSER

#: The file's name.
PROGRESS = ".tcemu-progress.json"
#: Where the files of JupyterLite are, which the browser keeps: they are one course.
_DRIVE = Path("/drive")
#: Scores of right answers that are kept for each exercise, the latest ones.
HISTORY = 20
#: Bytes of the largest file that is read; one with every exercise solved many times has less than a tenth of it.
LARGEST = 4 << 20


@explained
def folder(start: str | PathLike[str] | None = None) -> Path | None:
    """The laid-out course around `start`, by default around the current folder.

    >>> from tcemu.course import progress
    >>> from pathlib import Path
    >>> progress.folder(Path("/")) is None
    True
    """
    here = Path("" if start is None else start).absolute()
    if IN_BROWSER and start is None and _DRIVE.is_dir():
        return _DRIVE
    return next((place for place in (here, *here.parents) if (place / RECORD).is_file()), None)


def read(place: Path | None = None) -> dict[str, Any]:
    """What is recorded in the course at `place`; nothing if there is no such course, or nothing yet.

    Raises CourseError for a file that is damaged; it is not overwritten.
    """
    place = place or folder()
    if place is None or not os.path.lexists(place / PROGRESS):
        return {"exercises": {}}
    try:
        held = json.loads(_text(place / PROGRESS))
        entries = held.get("exercises", {}) if isinstance(held, dict) else None
        if not isinstance(entries, dict):
            raise TypeError("it has no exercises")
        return {**held, "exercises": {name: entry for name, entry in entries.items() if isinstance(entry, dict)}}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise CourseError(
            f"{place / PROGRESS} is damaged ({why}). Your notebooks are not affected. Rename or delete it to start "
            "afresh"
        ) from error


def _text(path: Path) -> str:
    """The text of a file of limited size; not of a pipe, a link or a device, which anybody may have put there."""
    with open(path, encoding="utf-8", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a file")
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    return text


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe, and without following a link."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def learner() -> str:
    """The seed of the learner's variants: TCEMU_LEARNER, the name in the progress file, or a JupyterHub's user."""
    named = os.environ.get("TCEMU_LEARNER")
    if named is not None:
        return named
    return str(read().get("learner") or os.environ.get("JUPYTERHUB_USER", ""))


def name_learner(place: Path, name: str) -> None:
    """Record whose variants the course at `place` gives. Raises CourseError if that cannot be written."""
    _change(place, lambda held: held.update(learner=name))


@contextmanager
def as_learner(name: str) -> Iterator[None]:
    """Give the variants of another learner for a while."""
    before = os.environ.get("TCEMU_LEARNER")
    os.environ["TCEMU_LEARNER"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["TCEMU_LEARNER"]
        else:
            os.environ["TCEMU_LEARNER"] = before


def note(verdict: Verdict) -> None:
    """Record a verdict, if the current folder is in a course; an unanswered exercise does not count as a try."""
    place = folder()
    if place is not None and verdict.state != "open":
        tried(place, verdict.exercise.name, bool(verdict), verdict.finding.scores, verdict.mistake)


def tried(place: Path, name: str, right: bool, scores: Mapping[str, int], mistake: str = "") -> None:
    """Record a try in the course at `place`. Raises CourseError if it cannot be written."""

    def after(held: dict[str, Any]) -> None:
        held["exercises"][name] = _after(held["exercises"].get(name, {}), right, scores, mistake)
        held["latest"] = {"exercise": name, "at": datetime.now(UTC).isoformat(timespec="seconds")}

    _change(place, after)


def best(name: str) -> dict[str, int]:
    """The learner's best scores in an exercise, by what they count."""
    return _whole_numbers(read()["exercises"].get(name, {}).get("scores"))


def _change(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    try:
        with _alone(place):
            held = read(place)
            change(held)
            keep(place / PROGRESS, json.dumps(held, indent=1, ensure_ascii=False) + "\n", 0o644)
    except OSError as error:
        raise CourseError(f"cannot write your progress to {place / PROGRESS}: {error.strerror or error}") from error


def _alone(place: Path) -> AbstractContextManager[object]:
    """No other process changes the file meanwhile; in a browser there is no other."""
    if IN_BROWSER:
        return nullcontext()
    from filelock import FileLock  # which warns in a browser, when it is imported

    return FileLock(place / f"{PROGRESS}.lock")


def _after(before: Mapping[str, Any], right: bool, scores: Mapping[str, int], mistake: str) -> dict[str, Any]:
    """The entry of one exercise after one more try: it stays solved, and keeps the best scores and their history.

    Mistakes that were recognised are counted, for the board of a class.
    """
    tries = before.get("tries", 0)
    entry = {**before, "tries": (tries if isinstance(tries, int) else 0) + 1}
    if right:
        entry.setdefault("solved", datetime.now(UTC).date().isoformat())
    if mistake:
        counts = _whole_numbers(before.get("mistakes"))
        entry["mistakes"] = counts | {mistake: counts.get(mistake, 0) + 1}
    if right and scores:
        held, history = _whole_numbers(before.get("scores")), before.get("history")
        entry["scores"] = held | {name: min(value, held.get(name, value)) for name, value in scores.items()}
        entry["history"] = [*(history if isinstance(history, list) else ()), dict(scores)][-HISTORY:]
    return entry


def _whole_numbers(held: object) -> dict[str, int]:
    """What a file that anybody may have edited says about scores or mistakes."""
    numbers = held.items() if isinstance(held, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int)}
