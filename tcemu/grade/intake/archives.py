"""The files in a zip archive, read in memory: nothing is written to disk, and no path in it is ever opened."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

from tcemu.grade.intake.file import File, Refused, refused, within
from tcemu.grade.intake.folders import belongs
from tcemu.grade.intake.limits import CLASS, CONTENTS, FILES, FOLDERS, RATIO, SMALL, amount

#: Begins an archive's last record; bytes 12 to 15 of it are the size of the list of contents.
_END, _SIZE = b"PK\5\6", slice(12, 16)
#: Where that record can be: 22 bytes and a comment of up to 64 KB before the end.
_TAIL = 22 + 0xFFFF
#: What reading a damaged archive raises.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError, KeyError)


def in_archive(path: Path) -> Iterator[File]:
    """The files in an archive of a whole class. Raises Refused if it is damaged or has too many."""
    yield from _listed(path, (), CLASS)


def in_handed_archive(held: bytes, parts: tuple[str, ...]) -> Iterator[File]:
    """The files in an archive that a student handed in, below its own path. Raises Refused.

    >>> import io, zipfile
    >>> from tcemu.grade.intake.archives import in_handed_archive
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("../../escape.ipynb", "{}")
    >>> [each.parts for each in in_handed_archive(file.getvalue(), ("ada.zip",))]
    [('ada.zip', '../../escape.ipynb')]
    """
    end = held.rfind(_END, max(0, len(held) - _TAIL))
    contents = int.from_bytes(held[end:][_SIZE], "little") if end >= 0 else 0
    if contents > CONTENTS:  # before the list is read: each of its files takes memory
        raise Refused(f"lists more than {FILES} files")
    yield from _listed(BytesIO(held), parts, FILES)


def _listed(file: Path | IO[bytes], parts: tuple[str, ...], most: int) -> Iterator[File]:
    try:
        archive = zipfile.ZipFile(file)
    except _DAMAGE as error:
        raise Refused(f"is not a zip archive, or is damaged: {error}") from None
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > most:
        raise Refused(f"holds {len(entries):,} files; at most {most:,} are read")
    for entry in entries:
        inside = tuple(part for part in entry.filename.split("/") if part)
        if not belongs(inside):
            continue
        reason = _unfit(entry, inside)
        yield refused((*parts, entry.filename), reason) if reason else _file(archive, entry, (*parts, *inside))


def _unfit(entry: zipfile.ZipInfo, inside: tuple[str, ...]) -> str:
    """Why an entry must not be read; empty if it may be."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if stat.S_ISLNK(kind):
        return "is a symbolic link"
    if kind and not stat.S_ISREG(kind):
        return "is not a plain file"
    if entry.filename.startswith("/") or "\\" in entry.filename or ":" in entry.filename.partition("/")[0][:2]:
        return "has an absolute path, or one for Windows"
    if ".." in inside:
        return "has a path that climbs out of the archive"
    if len(inside) > FOLDERS:
        return f"is more than {FOLDERS} folders deep"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.file_size > max(SMALL, RATIO * entry.compress_size):
        return f"would grow from {amount(entry.compress_size)} to {amount(entry.file_size)}"
    return ""


def _file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, parts: tuple[str, ...]) -> File:
    def read(limit: int) -> bytes:
        try:
            with archive.open(entry) as file:
                return within(file.read(limit + 1), limit)
        except _DAMAGE as error:
            raise Refused(f"is damaged: {error}") from None

    return File(parts, read)
