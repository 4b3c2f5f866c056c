"""Finds results that are written in a notebook as a table, where the exercise asks for a function that computes them.

Where a function has a few hundred values and no more, no other numbers can tell a table from a computation. The text of
the cells can: the box gives no right results, so a table of them must be written there. It is read outside the box.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from tcemu.course.running import Cell

#: A text that holds data rather than words: without blanks, and not made like an opcode.
_DATA = re.compile(r"[^\s.]{40,}")
_NUMBER = re.compile(r"\d+")
#: Bits of a whole number that is one, and characters of bytes that are some.
_LONG, _BYTES = 128, 40
#: Constants in a cell that need not be results: a cell with branches for all cases has more.
_OTHERS = 60


def table(cells: Sequence[Cell], name: str, cases: int) -> bool:
    r"""Whether the results of `name`, in so many cases, are written in the cells that make it.

    >>> from tcemu.course.running import Cell
    >>> from tcemu.grade.tables import table
    >>> cells = [Cell("1", "rows = [0, 1, 2, 3]"), Cell("2", "def row_of(lane):\n    return rows[lane]")]
    >>> table(cells, "row_of", 4), table(cells, "row_of", 8)
    (True, False)
    """
    return any(_written(cell, cases) for cell in _behind(cells, name))


def _behind(cells: Sequence[Cell], name: str) -> Iterator[Cell]:
    """The cells that make a name, and what these use, in turn."""
    wanted, left = {name}, list(cells)
    while maker := next((cell for cell in left if cell.makes & wanted), None):
        left.remove(maker)
        wanted |= maker.uses
        yield maker


def _written(cell: Cell, cases: int) -> bool:
    nodes = list(ast.walk(cell.tree)) if cell.tree else []
    if _count(nodes) >= 2 * cases + _OTHERS:
        return True
    collections = (node for node in nodes if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict))
    return any(_count(ast.walk(node)) >= cases for node in collections) or any(
        _is_data(node.value, cases) for node in nodes if isinstance(node, ast.Constant)
    )


def _count(nodes: Iterator[ast.AST] | list[ast.AST]) -> int:
    return sum(isinstance(node, ast.Constant) and isinstance(node.value, int | float) for node in nodes)


def _is_data(value: object, cases: int) -> bool:
    """Whether a constant holds many numbers."""
    match value:
        case str():
            return len(_NUMBER.findall(value)) >= cases or _DATA.fullmatch(value) is not None
        case bytes():
            return len(value) >= _BYTES
        case int():
            return value.bit_length() > _LONG
    return False
