"""The course's manifest, course.toml: which notebooks, in which order, how long, what to know before.

    title = "Tensor-core programming"

    [[notebook]]
    file = "02_fragments.ipynb"           # beside course.toml, or a notebook of the installed course
    title = "Fragments"
    minutes = 45
    before = ["01_numbers.ipynb"]
    manual = ["9.7.14.5.8"]               # sections of the PTX manual that it covers
    tasks = ["where_of_a"]                # "Your turn": what `check` is called on in the notebook
    exercises = ["what_of_d"]             # those of exercises/02_fragments.ipynb
    due = 2026-10-12T23:59:00+02:00       # when they are to be handed in

    [late]                                # shown by `tcemu grade`, which never takes points for it
    grace = 15                            # minutes after the deadline that do not count
    per_day = 10                          # per cent of the points for each day that has begun
    most = 50                             # per cent at most

Instructors change it without Python: a course of one's own is a folder with such a file and the notebooks that it
adds; `tcemu lab --course FOLDER` lays it out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from tcemu.arguments import explained
from tcemu.course.bank import OWN
from tcemu.course.source import files, source
from tcemu.errors import CourseError, briefly, listing, nearest

#: The file's name.
MANIFEST = "course.toml"


@dataclass(frozen=True)
class Entry:
    """One notebook of the course.

    >>> from tcemu.course import manifest
    >>> entry = manifest().notebooks[0]
    >>> entry.file, entry.title, entry.label
    ('00_first_light.ipynb', 'First light', '00 First light')
    """

    file: str
    title: str
    #: Minutes that reading and doing it takes, without its exercises.
    minutes: int
    #: Notebooks to read first.
    before: tuple[str, ...] = ()
    #: Sections of the PTX manual that it covers.
    manual: tuple[str, ...] = ()
    #: Names of the exercises in the notebook itself ("Your turn"), and of those in its exercise notebook.
    tasks: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    #: When its exercises are to be handed in, with the time zone.
    due: datetime | None = None

    @property
    def label(self) -> str:
        """Its number, if its file's name has one, and its title."""
        return f"{self.file[:2]} {self.title}" if self.file[:2].isdigit() else self.title


@dataclass(frozen=True)
class Late:
    """What the course takes for lateness, in per cent of a notebook's points.

    >>> from tcemu.course.manifests import Late
    >>> Late(per_day=10).most
    100
    """

    #: Minutes after the deadline that do not count.
    grace: int = 0
    per_day: int = 0
    most: int = 100


@dataclass(frozen=True)
class Manifest:
    """A course: its title, its notebooks in order, and where its files are.

    >>> from tcemu.course import manifest
    >>> manifest().title
    'Tensor-core programming'
    """

    title: str
    notebooks: tuple[Entry, ...]
    #: The folder with the course's own files.
    root: Path
    late: Late = field(default_factory=Late)

    def contents(self) -> dict[str, Path]:
        """The course's files, by their path in a learner's folder. Raises CourseError for a notebook that is missing.

        >>> from tcemu.course import manifest
        >>> "notebooks/00_first_light.ipynb" in manifest().contents()
        True
        """
        shipped = source()
        if self.root == shipped / "notebooks":
            return {name: shipped / name for name in files(shipped)}
        paths = {f"notebooks/{MANIFEST}": self.root / MANIFEST}
        paths |= {(OWN / path.name).as_posix(): path for path in sorted((self.root / OWN).glob("*.py"))}
        for entry in self.notebooks:
            for place in ("notebooks", "exercises"):
                path = self._find(place, entry.file)
                if path is not None:
                    paths[f"{place}/{entry.file}"] = path
                elif place == "notebooks":
                    known = [name.removeprefix("notebooks/") for name in files(shipped) if name.endswith(".ipynb")]
                    near = nearest(entry.file, known)
                    meant = f"; did you mean {near[0]}?" if near else ""
                    raise CourseError(f"{self.root / MANIFEST}: {entry.file} is neither beside it nor in the installed "
                                      f"course{meant}")  # fmt: skip
        return paths

    def _find(self, place: str, name: str) -> Path | None:
        own = [self.root / place / name, *([self.root / name] if place == "notebooks" else [])]
        return next((path for path in (*own, source() / place / name) if path.is_file()), None)


@explained
def manifest(folder: str | PathLike[str] | None = None) -> Manifest:
    """The manifest in `folder` or in its folder notebooks, by default that of the installed course.

    Raises CourseError, which says what is wrong with it.

    >>> from tcemu import course
    >>> len(course.manifest().notebooks) >= 2
    True
    """
    folder = source() if folder is None else Path(folder)
    root = next((place for place in (folder, folder / "notebooks") if (place / MANIFEST).is_file()), None)
    if root is None:
        raise CourseError(f"there is no {MANIFEST} in {folder} or in its folder notebooks")
    path = root / MANIFEST
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"cannot read {path}: {error}") from error
    problems = list(_problems(text))
    if problems:
        raise CourseError(f"{path}: {'; '.join(problems)}")
    entries = tuple(Entry(**{name: _value(held) for name, held in each.items()}) for each in text["notebook"])
    return Manifest(text["title"], entries, root, Late(**text.get("late", {})))


def _value(held: Any) -> Any:
    return tuple(held) if isinstance(held, list) else held


_WORDS: dict[type, str] = {str: "text", int: "a whole number", list: "a list", datetime: "a date and time"}
_KINDS: dict[str, type] = {"str": str, "int": int, "tuple[str, ...]": list, "datetime | None": datetime}


def _problems(text: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong with a manifest, each in a few words."""
    if not isinstance(text.get("title"), str):
        yield 'title = "..." is missing'
    yield from _late_problems(text.get("late", {}))
    notebooks = text.get("notebook")
    if not isinstance(notebooks, list) or not notebooks or not all(isinstance(each, dict) for each in notebooks):
        yield "[[notebook]] is missing"
        return
    before: list[str] = []
    for number, each in enumerate(notebooks, 1):
        where = f"notebook {number} ({each.get('file', 'without a file')})"
        yield from (f"{where}: {problem}" for problem in _entry_problems(each, before))
        before.append(str(each.get("file")))


def _late_problems(late: Any) -> Iterator[str]:
    known = [each.name for each in fields(Late)]
    if not isinstance(late, dict):
        yield "late is not a table: [late]"
        return
    for name, held in late.items():
        if name not in known:
            yield f"late: {name} is unknown; the names are {listing(known, 'and')}"
        elif not isinstance(held, int) or isinstance(held, bool) or held < 0 or (name != "grace" and held > 100):
            what = "of minutes" if name == "grace" else "from 0 to 100"
            yield f"late: {name} = {briefly(held)} is not a whole number {what}"


def _entry_problems(each: Mapping[str, Any], before: list[str]) -> Iterator[str]:
    known = {field.name: _KINDS[str(field.type)] for field in fields(Entry)}
    yield from (f"{name} is missing" for name in ("file", "title", "minutes") if name not in each)
    for name, held in each.items():
        if name not in known:
            yield f"{name} is unknown; the names are {listing(known, 'and')}"
        elif not isinstance(held, known[name]) or isinstance(held, bool):
            yield f"{name} = {briefly(held)} is not {_WORDS[known[name]]}"
        elif isinstance(held, list) and not all(isinstance(part, str) for part in held):
            yield f"{name} must be a list of strings"
    minutes, named = each.get("minutes"), each.get("before")
    if isinstance(minutes, int) and minutes <= 0:
        yield "minutes must be greater than 0"
    due = each.get("due")
    if isinstance(due, datetime) and due.tzinfo is None:
        yield f"due = {due.isoformat()} has no time zone, such as {due.isoformat()}+02:00"
    if each.get("file") in before:
        yield "it is listed twice"
    if isinstance(named, list):
        yield from (f"before names {name}, which does not come before it" for name in named if name not in before)
