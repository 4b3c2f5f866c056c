"""Matrices with some elements marked: those that are wrong, those that changed, those that a load reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.formats import Format
from tcemu.instructions import Instruction, parse, run
from tcemu.show import svg
from tcemu.show.inputs import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Cell, Grid, cells
from tcemu.show.svg import Drawing
from tcemu.show.words import compact, hexadecimal, value

#: The numbers of the rows, and those of the columns.
Numbers = tuple[Sequence[int], Sequence[int]]

#: Two wider grids do not fit beside each other, in pixels.
_WIDE = 480
#: How many changes are listed beside the matrix, and how many in the text alternative.
_LISTED, _IN_WORDS = 4, 16
#: The place of a change in the list, and the columns of a matrix that has room for the list beside it.
_CHANGE, _BESIDE = (300, 60), 12


@explained
def marked(
    labels: Sequence[Sequence[str]],
    wrong: npt.ArrayLike,
    what: str = "Your values",
    axes: tuple[str, str] = ("row", "column"),
    counted_by: Numbers | None = None,
    right: Sequence[Sequence[str]] | None = None,
) -> Picture:
    """A grid of strings, at most 64 by 64, with those marked that are `wrong`, and the first of them framed.

    `wrong` is an array of bool with the grid's shape. `axes` are what rows and columns count, `counted_by` the numbers
    of each, by default from 0. The strings that are `right` stand beside the grid, or below a wide one, for a result of
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
    wide = max(30, 10 + 7 * max(len(label) for each in (labels, right or []) for row in each for label in row))
    right = right if count else None
    left = max(64, 12 + 6 * max(len(axes[0]) + 2, len(axes[1])))  # both names stand on the left of narrow columns
    grid = Grid(left, 62 if right else 44, wide, 24, rows, columns)
    body = [_matrix(grid, labels, bad, axes, numbers)]
    body.append(svg.text(grid.left, grid.bottom + 20, "hatched: wrong", "s") if count else "")
    edge = grid
    if right:
        below = grid.box.wide > _WIDE
        edge = replace(grid, top=grid.bottom + 80) if below else replace(grid, left=grid.right + 64)
        body += [_matrix(edge, right, np.zeros_like(bad), axes, numbers), _name(grid, "got"), _name(edge, "expected")]
    places = [(int(row), int(column)) for row, column in np.argwhere(bad)]
    listed = "; ".join(
        f"{axes[0]} {numbers[0][row]}, {axes[1]} {numbers[1][column]}: {labels[row][column]}"
        + (f", expected {right[row][column]}" if right else "")
        for row, column in places[:12]
    )
    more = f"; and {counted(len(places) - 12, 'more value')}" if len(places) > 12 else ""
    words = f"Wrong: {listed}{more}." if places else "No value is wrong."
    return picture(title, words, edge.right + 16, edge.bottom + 32, body)


def _matrix(
    grid: Grid,
    labels: Sequence[Sequence[str]],
    marks: npt.NDArray[np.bool_],
    axes: tuple[str, str] = ("row", "column"),
    numbers: Numbers | None = None,
) -> Drawing:
    """A matrix with some elements marked, what its rows and columns count, and their numbers.

    In narrow columns there is room for the name of what they count only beside them.
    """
    shown = {at: Cell(labels[at[0]][at[1]], marked=bool(mark)) for at, mark in np.ndenumerate(marks)}
    rows, columns = numbers or (range(grid.rows), range(grid.columns))
    narrow = grid.wide < 60
    down, across = ([f"{name} {each[0]}", *each[1:]] for name, each in zip(axes, (rows, columns), strict=True))
    corner = svg.text(grid.left - 6, grid.top - 8, axes[1], "s t", "end") if narrow else ""
    return cells(grid, shown, frame=True), grid.above(columns if narrow else across), corner, grid.beside(down)


def _name(grid: Grid, name: str) -> str:
    """The name of a matrix, above it."""
    return svg.text(grid.left, grid.top - 38, name, "b")


@explained
def changes(
    before: npt.ArrayLike, after: npt.ArrayLike, form: Format | str = "f32", what: str = "D", cause: str = ""
) -> Picture:
    """The matrix `after`, with every element marked whose bits differ from `before`.

    The first few changes are listed beside it or, if more than half of the elements changed, all of `before` is drawn;
    below a wide matrix.
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
    changed = [
        (f"row {row}, column {column}", _number(form, old[row, column]), _number(form, new[row, column]))
        for row, column in np.argwhere(moved)[:_IN_WORDS].tolist()
    ]
    grid = first = Grid(44, 62, 62, 24, *old.shape)
    wide = grid.columns > _BESIDE
    if 2 * count > old.size:
        grid = replace(first, top=first.bottom + 80) if wide else replace(first, left=first.right + 64)
        rest: Drawing = _matrix(first, _compact(form, old), np.zeros_like(moved)), _name(first, "before")
        size = grid.right + 16, max(grid.bottom + 32, 60)
    else:
        across = int(grid.box.wide // _CHANGE[0]) if wide else 1
        entries = min(count, _LISTED + 1) or 1
        corner = (grid.left, grid.bottom + 52) if wide else (grid.right + 32, grid.top + 12)
        places = Grid(*corner, *_CHANGE, -(-entries // across), across)
        rest = _list(changed, places, count)
        beside = grid.right + 330, max(grid.bottom + 32, 298 if count else 60)
        size = (grid.right + 16, places.bottom) if wide else beside
    legend = svg.text(grid.left, grid.bottom + 20, "hatched: the bits changed", "s") if count else ""
    body = _matrix(grid, _compact(form, new), moved), _name(grid, "after"), legend, rest
    title = f"{count or 'None'} of {counted(old.size, 'element')} of {what} changed" + (f": {cause}" if cause else "")
    words = " ".join(f"{where}: {first} became {second}." for where, first, second in changed)
    return picture(title, words or "No element changed.", *size, body)


def _compact(form: Format, patterns: npt.NDArray[Any]) -> list[list[str]]:
    """The numbers of a matrix, as short as its cells."""
    return [[compact(number) for number in row] for row in form.decode(patterns).tolist()]


def _number(form: Format, pattern: Any) -> str:
    """A number in full, and its pattern."""
    return f"{value(form.decode(pattern).item(), 9)} ({hexadecimal(int(pattern), form.container)})"


def _list(changed: list[tuple[str, str, str]], places: Grid, total: int) -> Iterator[Drawing]:
    """The first few changes in full."""
    for number, (where, first, second) in enumerate(changed[:_LISTED]):
        x, y, *_ = places.at(*divmod(number, places.columns))
        yield svg.text(x, y, where, "b"), svg.text(x, y + 18, f"before {first}", "n q")
        yield svg.text(x, y + 34, f"after \N{NO-BREAK SPACE}{second}", "n")
    if not total or total > _LISTED:
        x, y, *_ = places.at(*divmod(min(total, _LISTED), places.columns))
        yield svg.text(x, y, f"and {total - _LISTED} more" if total else "all bits are the same", "s")


@explained
def loaded(
    instruction: str | Instruction, rows: int, columns: int, first: int = 0, ldm: int = 0, target: str = "sm_90a"
) -> Picture:
    """The elements of a row-major matrix, `rows` by `columns`, that a wmma.load of 16-bit elements reads.

    The pointer is at element `first`, and lines are `ldm` elements apart (0: `columns`). The load is executed, on
    elements that hold their own number. What it reads beyond the matrix is counted in the title, and drawn below it,
    as lines of the same length: whatever follows the matrix in memory.

    Raises OperandError for a matrix of more than 64 by 64 elements, and as the instruction does, for example if the
    pointer or the stride is not aligned.

    >>> load = "wmma.load.a.sync.aligned.row.m16n16k16.f16"
    >>> print(tcemu.show.loaded(load, 32, 48, first=16, ldm=48).title)
    wmma.load.a from element 16 with stride 48: 16 rows of 16 elements
    """
    load = parse(instruction)
    if not (0 < rows <= 64 and 0 < columns <= 64):
        raise OperandError(f"the matrix can have at most 64 rows and columns; got {rows} by {columns}")
    if first < 0:
        raise OperandError(f"the pointer's element must be 0 or more; got {first}")
    (fragment,), stride = load.fragments.values(), ldm or columns
    memory = np.arange(1 << 16, dtype="<u2").view(np.uint8)  # all numbers that an element can hold
    registers = run(load, np.uint64(2 * first), stride, memory=memory, target=target)
    numbers = np.unique(np.ascontiguousarray(registers).view("<u2"))
    inside = numbers[numbers < rows * columns]
    beyond = len(numbers) - len(inside)
    by_rows = load.words["layout"] == "row"
    lines, length = fragment.shape[-2:] if by_rows else fragment.shape[:-3:-1]
    title = f"{'.'.join(load.opcode.split('.')[:3])} from element {first} with stride {stride}: "
    title += f"{counted(lines, 'row' if by_rows else 'column')} of {counted(length, 'element')}"
    title += f", {counted(beyond, 'element')} beyond the matrix" if beyond else ""
    places = [divmod(number, columns) for number in inside.tolist()]
    behind = [divmod(number, columns) for number in numbers[len(inside) :].tolist() if number < (rows + 32) * columns]
    note = f"The matrix is {rows} × {columns}, row-major; thick lines every 16. Shaded: what the load reads"
    note += "; hatched: beyond the matrix" if beyond else ""
    grid = Grid(40, 44, 15, 11, rows, columns)
    below = grid.block(rows, 0, behind[-1][0] + 1 - rows, columns) if behind else grid.block(rows, 0, 0, columns)
    after = [_behind(grid, run) for run in _runs(behind)] + [svg.rect(*below, "l")] * bool(behind)
    across = [grid.at(0, at).above(at, "s t") for at in range(0, columns, 8)]
    down = [
        svg.text(grid.left - 6, grid.top + (at + 0.9) * grid.high, at, "s t", "end")
        for at in range(0, max([rows, *(row + 1 for row, _ in behind)]), 8)
    ]
    every = [f"M{grid.left} {grid.at(r, 0).y}h{grid.box.wide}" for r in range(0, rows + 1, 16)]
    every += [f"M{grid.at(0, c).x} {grid.top}v{grid.box.high}" for c in range(0, columns + 1, 16)]
    read = [grid.at(*place).rect("fo") for place in places]
    body = svg.text(grid.left, 16, note, "s"), grid.box.rect("p"), across, down, read, after, svg.path(every, "k")
    words = "; ".join(f"row {r}, columns {a} to {b}" for r, a, b in _runs(places)[:20])
    said = f"It reads {words}." if words else "It reads nothing of the matrix."
    return picture(title, said, max(grid.right + 16, 560), grid.bottom + below.high + 16, body)


def _behind(grid: Grid, run: tuple[int, int, int]) -> str:
    """Elements that are read although they are not in the matrix."""
    row, first, last = run
    box = grid.block(row, first, 1, last + 1 - first)
    return box.hatch(step=4) + box.rect("l")


def _runs(places: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Runs of neighbouring columns: (row, first column, last column)."""
    runs: list[tuple[int, int, int]] = []
    for r, c in places:
        if runs and runs[-1][0] == r and runs[-1][2] == c - 1:
            runs[-1] = (r, runs[-1][1], c)
        else:
            runs.append((r, c, c))
    return runs
