"""Which exercises of a notebook nobody has touched: they are open, and need not be run to find that out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcemu.course import progress
from tcemu.course.lay_out import unchanged
from tcemu.course.running import Cell, cells, needed
from tcemu.course.source import source
from tcemu.errors import CourseError


def untouched(path: Path) -> frozenset[str]:
    """The exercises of a notebook whose cells, with those they depend on, are still those of the course.

    There are none if it is not known what the course gave. Raises CourseError if it is not a notebook.

    >>> from tcemu import course
    >>> from tcemu.course.untouched import untouched
    >>> sorted(untouched(course.source() / "notebooks" / "00_first_light.ipynb"))
    ['first_product', 'smallest_survivor']
    """
    every = cells(path)
    names = frozenset(name for cell in every for name in cell.checks)
    folder = progress.folder(path.parent)
    if folder is not None and unchanged(folder, path.absolute().relative_to(folder).as_posix()):
        return names
    given = _given(path)
    return frozenset(name for name in names if _behind(every, name) == _behind(given, name))


def _given(path: Path) -> list[Cell]:
    """The cells of the installed course's notebook with that name; none if it has no such notebook."""
    try:
        return cells(source() / path.absolute().parent.name / path.name)
    except CourseError:
        return []


def _behind(every: Sequence[Cell], name: str) -> list[str]:
    """The sources of the cells that check an exercise, and of those that they need."""
    return [cell.source for cell in needed(every, checks=[name])]
