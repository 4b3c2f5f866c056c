"""Untrusted code as syntax trees. It is parsed, but never compiled or run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import islice

from tcemu.course.running import Cell

#: Bytes of a cell and of a notebook's code. Python's parser takes time that grows with the square of the length for
#: some code: a second for so much, and minutes for a megabyte. The course's longest solutions have 3 and 27 KB.
CELL, BOOK = 32 << 10, 128 << 10
#: Cells of a notebook.
CELLS = 2000


def parsed(sources: Iterable[str]) -> list[Cell]:
    """The cells that are Python and not too long, with their trees; the others are left out.

    >>> from tcemu.grade.syntax import parsed
    >>> [sorted(cell.makes) for cell in parsed(["x = 1", "def broken(:", "y = 2"])]
    [['x'], ['y']]
    """
    cells, left = [], BOOK
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns about invalid escape sequences
        for source in islice(sources, CELLS):
            if (size := len(source.encode())) <= min(CELL, left):
                left -= size
                cell = Cell("", source)
                cells += [cell] if cell.tree else []
    return cells
