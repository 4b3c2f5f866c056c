"""Which elements of a matrix have changed: before and after, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.formats import Format
from tcemu.show import svg
from tcemu.show.given import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Cell, Grid, cells
from tcemu.show.words import compact, value

#: How many changes are listed beside the matrix, and how many in the text alternative.
_LISTED, _TOLD = 4, 16


@explained
def changes(
    before: npt.ArrayLike, after: npt.ArrayLike, form: Format | str = "f32", what: str = "D", cause: str = ""
) -> Picture:
    """The matrix `after`, with every element marked whose bits differ from `before`.

    The first few changes are listed beside it or, if more than half of the elements changed, all of `before` is drawn.
    Both are (rows, columns) matrices of `form`'s dtype, at most 64 by 64; the title names the `cause`.
    Raises OperandError for other shapes or dtypes.

    >>> before, after = np.zeros((2, 2), np.float32), np.eye(2, dtype=np.float32)
    >>> tcemu.show.changes(before, after, cause="the diagonal is set").title
    '2 of 4 elements of D changed: the diagonal is set'
    """
    form = format_of(form)
    old, new = form.patterns(before, f"{what} before"), form.patterns(after, f"{what} after")
    if old.ndim != 2 or old.shape != new.shape or max(old.shape) > 64:
        shapes = f"{old.shape} and {new.shape}"
        raise OperandError(f"the two matrices must have the same shape, at most 64 x 64; got {shapes}")
    moved = old != new
    count = int(moved.sum())
    told = [_change(form, old, new, (int(row), int(column))) for row, column in np.argwhere(moved)[:_TOLD]]
    most = 2 * count > old.size
    first = Grid(44, 62, 62, 24, *old.shape)
    grid = replace(first, left=first.right + 64) if most else first
    body = _matrix(grid, form.decode(new), moved, "after")
    body += [svg.text(grid.left, grid.bottom + 20, "hatched: the bits changed", "s")] if count else []
    body += (
        _matrix(first, form.decode(old), np.zeros_like(moved), "before")
        if most
        else _list(told, grid.right + 32, grid.top + 12, count)
    )
    title = f"{_how_many(count, old.size)} of {what} changed" + (f": {cause}" if cause else "")
    words = " ".join(f"{where}: {first} became {second}." for where, first, second in told)
    height = max(grid.bottom + 32, 298 if count and not most else 60)
    return picture(title, words or "No element changed.", grid.right + (16 if most else 330), height, body)


def _matrix(grid: Grid, values: npt.NDArray[Any], marks: npt.NDArray[np.bool_], name: str) -> list[str]:
    """A matrix under its name, with some elements marked."""
    shown = {at: Cell(compact(values[at].item()), marked=bool(marked)) for at, marked in np.ndenumerate(marks)}
    above, beside = (["column 0", *range(1, grid.columns)], ["row 0", *range(1, grid.rows)])
    body = [*cells(grid, shown, frame=True), *grid.above(above), *grid.beside(beside)]
    return [*body, svg.text(grid.left, 24, name, "b")]


def _how_many(changed: int, total: int) -> str:
    return f"{changed or 'None'} of {counted(total, 'element')}"


def _change(form: Format, old: npt.NDArray[Any], new: npt.NDArray[Any], place: tuple[int, int]) -> tuple[str, str, str]:
    first, second = (f"{_number(form, bits[place])} ({_hex(form, bits[place])})" for bits in (old, new))
    return f"row {place[0]}, column {place[1]}", first, second


def _number(form: Format, pattern: Any) -> str:
    return value(form.decode(pattern).item(), 9)


def _hex(form: Format, pattern: Any) -> str:
    return f"{int(pattern):#0{2 + -(-form.container // 4)}x}"


def _list(changed: list[tuple[str, str, str]], x: float, y: float, total: int) -> list[str]:
    """The first few changes in full, to the right of the matrix."""
    elements = []
    for where, first, second in changed[:_LISTED]:
        elements.append(svg.text(x, y, where, "b"))
        elements.append(svg.text(x, y + 18, f"before {first}", "n q"))
        elements.append(svg.text(x, y + 34, f"after \N{NO-BREAK SPACE}{second}", "n"))
        y += 60
    if total > _LISTED:
        elements.append(svg.text(x, y, f"and {total - _LISTED} more", "s"))
    return elements or [svg.text(x, y, "all bits are the same", "s")]
