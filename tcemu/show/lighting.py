"""What lights up in a map of A, B and D: an element of D lights its row of A and its column of B, and so on.

A layer over the drawing has a target for the pointer over every cell of the map, and a band over every row and column.
CSS alone makes a cell light its bands; if scripts may run, a few lines of script move from cell to cell with the arrow
keys. A page that allows neither shows the plain drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcemu.show import svg
from tcemu.show.fragment_map import MOST, Cell, Placed, cell_target, cells
from tcemu.show.layers import LOOK

#: The names of rows and columns, by role.
_AXES = {"a": ("i", "k"), "b": ("k", "j"), "d": ("i", "j")}
#: What a cell of an operand lights: the bands of another, along an axis that both have.
_LIGHTS = (("d", "i", "a"), ("d", "j", "b"), ("a", "i", "d"), ("a", "k", "b"), ("b", "k", "a"), ("b", "j", "d"))


def layer(grids: Sequence[Placed]) -> str:
    """The layer over a map of these grids; empty if it has no product in it, or too many cells."""
    drawn = {grid.fragment.role: grid for grid in grids if grid.fragment.role in _AXES}
    found = {role: cells(grid.fragment, grid.batch) for role, grid in drawn.items()}
    if len(drawn) < len(_AXES) or sum(map(len, found.values())) > MOST:
        return ""
    bands = [band for role, grid in drawn.items() for band in _bands(role, grid)]
    order = sorted(drawn, reverse=True)  # the arrow keys start in D
    targets = [svg.group((_target(drawn[role], cell) for cell in found[role]), f"z z{role}") for role in order]
    return f"<style>{_rules(drawn)}</style>{svg.group(bands, 'y')}{''.join(targets)}"


def _bands(role: str, grid: Placed) -> Iterator[str]:
    """A rectangle over every row and every column of a matrix, and over those along k that share registers."""
    rows, columns = grid.rows, grid.columns
    down, across = _AXES[role]
    first = cells(grid.fragment, grid.batch)[0]
    high, wide = first.rows if down == "k" else 1, first.columns if across == "k" else 1
    for row in range(0, rows, high):
        names = " ".join(f"{role}{down}{each}" for each in range(row, row + high))
        yield svg.path(grid.block(row, 0, high, columns).outline(), names)
    for column in range(0, columns, wide):
        names = " ".join(f"{role}{across}{each}" for each in range(column, column + wide))
        yield svg.path(grid.block(0, column, rows, wide).outline(), names)


def _target(grid: Placed, cell: Cell) -> str:
    """A cell that can be pointed at: its rows and columns as classes, and what it holds as its title."""
    role = grid.fragment.role
    down, across = _AXES[role]
    names = [f"{down}{row}" for row in range(cell.row, cell.row + cell.rows)]
    names += [f"{across}{column}" for column in range(cell.column, cell.column + cell.columns)]
    return cell_target(grid, cell, " ".join(names))


def _rules(drawn: dict[str, Placed]) -> str:
    """The style of the layer; every picture has its own, because rows with the same number are elsewhere in others.

    `&` is the picture, whose name replaces it.
    """
    look = (
        "& .y path{opacity:0;fill:var(--tc-mark);fill-opacity:.08;stroke:var(--tc-ink);stroke-width:3;"
        f"pointer-events:none}}{LOOK}"
    )
    rules = []
    depth = {role: drawn[role].fragment.shape[-2:][_AXES[role].index("k")] for role in "ab"}
    for role, axis, other in _LIGHTS:
        if axis == "k" and len(set(depth.values())) > 1:
            continue  # a stored column of a sparse A meets a row of B that the metadata chooses
        number = drawn[role].fragment.shape[-2:][_AXES[role].index(axis)]
        rules += [f"&:has(.z{role} .{axis}{at}:is(:hover,.on)) .{other}{axis}{at}{{opacity:1}}" for at in range(number)]
    return look + "".join(rules)
