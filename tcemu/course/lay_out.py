"""Lay the course out in a learner's folder without ever losing the learner's work.

A record in the folder keeps the SHA-256 of each file as it was last laid out. A file that still has that digest is
unchanged and follows the course; any other file is the learner's and stays as it is, byte for byte:

    in the folder          in the course      what happens
    nothing                anything           laid out (to start a notebook afresh, delete it)
    as the course has it   the same           nothing
    as it was laid out     a newer version    replaced by the newer version
    anything else          as last laid out   nothing: it is the learner's
    anything else          anything else      stays; the course's version is put beside it as NAME.new.ipynb

Every file is written under another name and then moved into place, so that an interrupted run leaves each file either
as it was or complete, and the next run continues.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcemu.course.source import FOLDERS, files, source
from tcemu.errors import CourseError

#: The record's name in the learner's folder.
RECORD = ".tcemu-course.json"

_ADVICE = "Give an empty folder that you may write to, or the name of a new one, for example: tcemu lab my-course"


@dataclass(frozen=True)
class Laid:
    """What happened to one file of the course.

    >>> from tcemu import course
    >>> course.Laid("notebooks/a.ipynb", "laid beside", "notebooks/a.new.ipynb").at
    'notebooks/a.new.ipynb'
    """

    name: str
    """Its path in the learner's folder, with slashes."""
    action: Literal["laid out", "updated", "kept", "laid beside"]
    at: str
    """The path of the course's version: `name`, unless it was put beside the learner's own."""


def lay_out(folder: Path, material: Path | Mapping[str, Path] | None = None) -> list[Laid]:
    """Lay the course out in `folder`, which is created if needed, and return what happened to each file.

    `material` is the folder that holds the course's `FOLDERS`, by default that of the installed course; or the course's
    files by their path in `folder`. Raises CourseError, which says why the folder cannot be used; the files laid out
    until then are complete and recorded.

    >>> from tcemu import course
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     {laid.action for laid in course.lay_out(Path(folder))}
    ...     {laid.action for laid in course.lay_out(Path(folder))}  # the second time
    {'laid out'}
    {'kept'}
    """
    contents = _contents(material or source())
    _refuse_files(folder)
    place = folder
    done = []
    try:
        record = _record(folder)
        if record is None:
            _refuse_foreign(folder, list(contents))
        digests = dict(record or {})
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for name, path in contents.items():
                place = folder / name
                new = path.read_bytes()
                done.append(_lay(folder, name, new, digests.get(name)))
                digests[name] = _digest(new)
        finally:
            if digests != (record or {}):
                place = folder / RECORD
                _write(place, (json.dumps({"files": digests}, indent=1) + "\n").encode())
    except OSError as error:
        raise CourseError(
            f"cannot lay the course out in {folder}: {place}: {error.strerror or error}. {_ADVICE}"
        ) from error
    return done


def unchanged(folder: Path, name: str) -> bool:
    """Whether a file in a learner's folder is as it was laid out.

    >>> from tcemu.course.lay_out import lay_out, unchanged
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     first, *_ = lay_out(Path(folder))
    ...     unchanged(Path(folder), first.name)
    True
    """
    before = (_record(folder) or {}).get(name)
    return before is not None and (folder / name).is_file() and _digest((folder / name).read_bytes()) == before


def _contents(material: Path | Mapping[str, Path]) -> Mapping[str, Path]:
    return {name: material / name for name in files(material)} if isinstance(material, Path) else material


def _lay(folder: Path, name: str, new: bytes, before: str | None) -> Laid:
    """Bring one file up to the course's version `new`, as the table above says; `before` is its recorded digest."""
    target = folder / name
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(target, new)
        return Laid(name, "laid out", name)
    there = _digest(target.read_bytes()) if target.is_file() else None
    if _digest(new) in (there, before):
        return Laid(name, "kept", name)
    if there is not None and there == before:
        _write(target, new)
        return Laid(name, "updated", name)
    beside = _free_name(target, new)
    _write(beside, new)
    return Laid(name, "laid beside", beside.relative_to(folder).as_posix())


def _free_name(target: Path, new: bytes) -> Path:
    """Return the first of NAME.new.ipynb, NAME.new-2.ipynb, ... that does not exist or holds `new` already."""
    number = 1
    while True:
        beside = target.with_name(f"{target.stem}.new{f'-{number}' if number > 1 else ''}{target.suffix}")
        if not os.path.lexists(beside) or (beside.is_file() and beside.read_bytes() == new):
            return beside
        number += 1


def _write(target: Path, content: bytes) -> None:
    """Write a file so that it is never seen half written, even if the process is killed."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _record(folder: Path) -> dict[str, str] | None:
    """Return the digests recorded in `folder`, or None where the course was never laid out.

    A record that cannot be read counts as empty: every file that differs from the course is then the learner's.
    """
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    try:
        digests = json.loads(path.read_bytes())["files"]
        return {str(name): str(digest) for name, digest in digests.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _refuse_files(folder: Path) -> None:
    """Raise CourseError if a file is where a folder should be."""
    for place in (folder, *(folder / name for name in FOLDERS)):
        if os.path.lexists(place) and not place.is_dir():
            raise CourseError(f"{place} is a file, not a folder. {_ADVICE}")


def _refuse_foreign(folder: Path, course: list[str]) -> None:
    """Raise CourseError if the folder's `FOLDERS` belong to something else and would be mixed with the course.

    If one of the course's files is among them, it is a learner's folder that has lost its record.
    """
    there = files(folder)
    if there and not set(there) & set(course):
        shown = ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
        raise CourseError(
            f"{folder} is in use: the course goes into the folders {' and '.join(FOLDERS)}, which already hold files "
            f"that do not belong to the course ({shown}). {_ADVICE}"
        )
