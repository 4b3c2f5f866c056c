"""A file that was handed in, wherever it lies: in a folder, in an archive, in an archive inside an archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcemu.errors import CourseError
from tcemu.grade.intake.limits import amount
from tcemu.grade.plain import visible


class Refused(CourseError):  # noqa: N818 - that is what happened to the file
    """A file is not read; the message is the reason, as the end of a sentence: "is a symbolic link"."""


@dataclass(frozen=True)
class File:
    """One file: the parts of its path below what was handed in, and how to read it.

    >>> from tcemu.grade.intake.file import File
    >>> File(("ada", "02.ipynb"), lambda limit: b"{}").read(10)
    b'{}'
    """

    parts: tuple[str, ...]
    #: Reads at most that many bytes. Raises Refused for a longer file, and for one that must not be read.
    read: Callable[[int], bytes]
    #: Why it must not be read, if that is known without trying.
    refused: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.parts[-1] if self.parts else ""

    @property
    def where(self) -> str:
        """The path, for people."""
        return shown(self.parts)


def shown(parts: tuple[str, ...]) -> str:
    """A path for people: visible, and not longer than a line."""
    whole = visible("/".join(parts))
    return whole if len(whole) <= 100 else f"…{whole[-99:]}"


def refused(parts: tuple[str, ...], reason: str) -> File:
    """A file that is there, and that reading refuses for a reason."""

    def read(limit: int) -> bytes:
        raise Refused(reason)

    return File(parts, read, reason)


def within(held: bytes, limit: int) -> bytes:
    """The bytes, which were read up to one more than the limit. Raises Refused if there are more."""
    if len(held) > limit:
        raise Refused(f"is larger than {amount(limit)}")
    return held
