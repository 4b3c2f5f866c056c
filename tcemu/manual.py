"""The PTX manual as the course cites it: one version, with the titles of its sections.

Section numbers change from version to version, titles hardly do. So what cites a section for a learner to look up gives
the version, the title and the manual of that version in NVIDIA's archive.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

#: The version whose sections are cited everywhere in the package, and its manual.
VERSION = "9.1"
ARCHIVE = "https://docs.nvidia.com/cuda/archive/13.1.0/parallel-thread-execution/index.html"


@cache
def titles() -> dict[str, str]:
    """The titles of all sections of this version from which the package cites."""
    _, *lines = (files("tcemu.course") / "sections.txt").read_text(encoding="utf-8").splitlines()
    return {number: title for number, _, title in (line.partition("\t") for line in lines)}


def reference(sections: Iterable[str]) -> str:
    """Sections with their titles, in Markdown; a number that is not listed stands alone.

    >>> from tcemu.course.manual import reference
    >>> reference(["9.7.14.2"]).partition("), ")[2]
    '9.7.14.2 *Matrix Data-types*'
    """
    named = [f"{number} *{title}*" if (title := titles().get(number)) else number for number in sections]
    return ", ".join([f"[PTX ISA {VERSION}]({ARCHIVE})", *named])


def named(sections: str) -> str:
    """Sections, separated by commas, with version and titles, as plain text.

    >>> from tcemu.course.manual import named
    >>> named("9.7.14.2")
    'PTX ISA 9.1, 9.7.14.2 Matrix Data-types'
    """
    with_titles = [f"{each} {titles().get(each, '')}".strip() for each in sections.split(", ")]
    return ", ".join([f"PTX ISA {VERSION}", *with_titles])
