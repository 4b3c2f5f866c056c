"""A grid of values with the wrong ones marked, alone or beside the right ones: a check's picture of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Cell, Grid, cells

#: The numbers of the rows, and those of the columns.
Numbers = tuple[Sequence[int], Sequence[int]]


#: Two wider grids do not fit beside each other, in pixels.
_WIDE = 480


@explained
def marked(
    labels: Sequence[Sequence[str]],
    wrong: npt.ArrayLike,
    what: str = "Your values",
    axes: tuple[str, str] = ("row", "column"),
    counted_by: Numbers | None = None,
    right: Sequence[Sequence[str]] | None = None,
) -> Picture:
    """A grid of texts, at most 64 by 64, with those marked that are `wrong`, and the first of them framed.

    `wrong` is an array of bool with the grid's shape. `axes` are what rows and columns count, `counted_by` the numbers
    of each, by default from 0. The texts that are `right` stand beside the grid, or below a wide one, for a result of
    which most is wrong.
    Raises OperandError if `wrong` has another shape.

    >>> tcemu.show.marked([["0 0", "0 1"], ["4 0", "9 9"]], [[False, False], [False, True]]).title
    'Your values: 1 of 4 is wrong'
    """
    bad = np.asarray(wrong, bool)
    rows, columns = len(labels), len(labels[0]) if labels else 0
    if bad.shape != (rows, columns) or not 0 < max(rows, columns) <= 64:
        raise OperandError(f"the grid is {rows} by {columns}, at most 64 by 64; `wrong` has the shape {bad.shape}")
    count = int(bad.sum())
    title = f"{what}: {count or 'none'} of {bad.size} {'is' if count == 1 else 'are'} wrong"
    numbers = counted_by or (range(rows), range(columns))
    wide = max(30, 10 + 7 * max(len(label) for texts in (labels, right or []) for row in texts for label in row))
    right = right if count else None
    grid = Grid(64, 62 if right else 44, wide, 24, rows, columns)
    shown = {place: Cell(labels[place[0]][place[1]], marked=bool(is_wrong)) for place, is_wrong in np.ndenumerate(bad)}
    body = [*cells(grid, shown, frame=True), *_axes(grid, axes, numbers)]
    body += [svg.text(grid.left, grid.bottom + 20, "hatched: wrong", "s")] if count else []
    edge = grid
    if right:
        below = grid.box.wide > _WIDE
        beside = replace(grid, top=grid.bottom + 80) if below else replace(grid, left=grid.right + 64)
        texts = {place: Cell(right[place[0]][place[1]]) for place in shown}
        body += [*cells(beside, texts, frame=True), *_axes(beside, axes, numbers)]
        body += [svg.text(each.left, each.top - 38, name, "b") for each, name in ((grid, "got"), (beside, "expected"))]
        edge = beside
    return picture(title, _words(labels, bad, axes, numbers, right), edge.right + 16, edge.bottom + 32, body)


def _words(
    labels: Sequence[Sequence[str]],
    bad: npt.NDArray[np.bool_],
    axes: tuple[str, str],
    numbers: Numbers,
    right: Sequence[Sequence[str]] | None,
) -> str:
    places = [(int(row), int(column)) for row, column in np.argwhere(bad)]
    listed = "; ".join(
        f"{axes[0]} {numbers[0][row]}, {axes[1]} {numbers[1][column]}: {labels[row][column]}"
        + (f", expected {right[row][column]}" if right else "")
        for row, column in places[:12]
    )
    more = f"; and {counted(len(places) - 12, 'more value')}" if len(places) > 12 else ""
    return f"Wrong: {listed}{more}." if places else "No value is wrong."


def _axes(grid: Grid, axes: tuple[str, str], numbers: Numbers) -> list[str]:
    """What rows and columns count, and their numbers; in narrow columns there is room for the name only beside them."""
    narrow = grid.wide < 60
    down, across = ([f"{name} {first}", *rest] for name, (first, *rest) in zip(axes, numbers, strict=True))
    corner = [svg.text(grid.left - 6, grid.top - 8, axes[1], "s t", "end")] if narrow else []
    return [*grid.above(numbers[1] if narrow else across), *corner, *grid.beside(down)]
