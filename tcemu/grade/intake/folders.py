"""The files in a folder. Links are never followed, and only plain files with one name are read.

The folder belongs to the grader: no other process may write to it while it is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tcemu.grade.intake.file import File, Refused, refused, within
from tcemu.grade.intake.limits import FOLDERS

#: Folders that tools leave behind.
_LEFT_BEHIND = frozenset({"__MACOSX", "__pycache__", ".ipynb_checkpoints", ".git"})
#: Neither waits for the other end of a pipe, nor follows a link; Windows has neither.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_KINDS = (
    (stat.S_ISLNK, "is a symbolic link"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def in_folder(root: Path, parts: tuple[str, ...] = ()) -> Iterator[File]:
    """The files below `root`, in the order of their names; what must not be read is there as well, and says why.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.grade.intake.folders import in_folder
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "ada.ipynb").write_text("{}")
    ...     [found.parts for found in in_folder(Path(folder))]
    [('ada.ipynb',)]
    """
    try:
        with os.scandir(root) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        yield refused(parts, f"cannot be opened: {error.strerror}")
        return
    for entry in entries:
        if belongs((entry.name,)):
            yield from _entry(entry, (*parts, entry.name))


def belongs(parts: tuple[str, ...]) -> bool:
    """Whether a student handed it in; other files are left behind by tools."""
    return not any(part in _LEFT_BEHIND or part == ".DS_Store" or part.startswith("._") for part in parts)


def _entry(entry: os.DirEntry[str], parts: tuple[str, ...]) -> Iterator[File]:
    try:
        status = entry.stat(follow_symlinks=False)
        junction = getattr(entry, "is_junction", lambda: False)()  # Windows' links between folders; Python 3.12
    except OSError as error:
        yield refused(parts, f"cannot be read: {error.strerror}")
        return
    if stat.S_ISDIR(status.st_mode) and not junction:
        if len(parts) > FOLDERS:
            yield refused(parts, f"is more than {FOLDERS} folders deep")
        else:
            yield from in_folder(Path(entry.path), parts)
    elif reason := unfit(status):
        yield refused(parts, reason)
    else:
        yield file_at(Path(entry.path), parts)


def unfit(status: os.stat_result) -> str:
    """Why a file must not be read; empty if it may be."""
    for is_kind, reason in _KINDS:
        if is_kind(status.st_mode):
            return reason
    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    # A second name may stand in another student's folder, or among the solutions.
    return "is a hard link: the same file has another name" if status.st_nlink > 1 else ""


def file_at(path: Path, parts: tuple[str, ...]) -> File:
    """A plain file. It is looked at again when it is read, because it may have changed since it was listed."""

    def read(limit: int) -> bytes:
        try:
            with os.fdopen(os.open(path, _FLAGS), "rb") as file:
                if reason := unfit(os.fstat(file.fileno())):
                    raise Refused(reason)
                return within(file.read(limit + 1), limit)
        except (OSError, ValueError) as error:
            raise Refused(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None

    return File(parts, read)
