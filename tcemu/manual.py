"""The PTX manual as it is cited: one version, with the titles of its sections.

Section numbers change from version to version, titles hardly do. So whoever is to look up a section gets the version
and the title with its number. Errors and reports are written with numbers alone, and get the rest when they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

#: The version whose sections are cited everywhere in the package, and its manual in NVIDIA's archive.
VERSION = "9.1"
ARCHIVE = "https://docs.nvidia.com/cuda/archive/13.1.0/parallel-thread-execution/index.html"

_NUMBER = r"(?:5|6|8|9|10)(?:\.\d+)+"
#: A citation: in parentheses or behind other words there. Versions are in a sentence: "was introduced in PTX ISA 8.0".
_CITATION = re.compile(rf"(?<=[(;, ])(?<!in )(?<!with )PTX ISA ({_NUMBER}(?:(?:, | and ){_NUMBER})*)(?=[);,])")


@cache
def titles() -> dict[str, str]:
    """The titles of all sections of this version from which the package cites."""
    _, *lines = Path(__file__).with_name("sections.txt").read_text(encoding="utf-8").splitlines()
    return {number: title for number, _, title in (line.partition("\t") for line in lines)}


def reference(sections: Iterable[str]) -> str:
    """Sections with their titles, in Markdown; a number that is not listed stands alone.

    >>> from tcemu.manual import reference
    >>> reference(["9.7.14.2"]).partition("), ")[2]
    '9.7.14.2 *Matrix Data-types*'
    """
    named = [f"{number} *{title}*" if (title := titles().get(number)) else number for number in sections]
    return ", ".join([f"[PTX ISA {VERSION}]({ARCHIVE})", *named])


def named(sections: str) -> str:
    """Sections, separated by commas, with version and titles, as plain text.

    >>> from tcemu.manual import named
    >>> named("9.7.14.2")
    'PTX ISA 9.1, 9.7.14.2 Matrix Data-types'
    """
    with_titles = [f"{each} {titles().get(each, '')}".strip() for each in sections.split(", ")]
    return ", ".join([f"PTX ISA {VERSION}", *with_titles])


def cited(text: str) -> str:
    """A text whose citations have version and titles.

    >>> from tcemu.manual import cited
    >>> cited("it was introduced in PTX ISA 8.0 (PTX ISA 9.7.15.1)")
    'it was introduced in PTX ISA 8.0 (PTX ISA 9.1, 9.7.15.1 Warpgroup)'
    >>> cited(cited("(PTX ISA 9.7.15.1)"))
    '(PTX ISA 9.1, 9.7.15.1 Warpgroup)'
    """
    return _CITATION.sub(_with_titles, text)


def _with_titles(match: re.Match[str]) -> str:
    sections = re.split(", | and ", match[1])
    return match[0] if sections[0] == VERSION else named(", ".join(sections))
