"""The elements of a matrix in memory that a wmma load reads: they depend only on the pointer and the stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.instructions import Instruction, parse, run
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid


@explained
def loaded(
    instruction: str | Instruction, rows: int, columns: int, first: int = 0, ldm: int = 0, target: str = "sm_90a"
) -> Picture:
    """The elements of a row-major matrix, `rows` by `columns`, that a wmma.load of 16-bit elements reads.

    The pointer is at element `first`, and lines are `ldm` elements apart (0: `columns`). The load is executed, on
    elements that hold their own number. What it reads beyond the matrix is counted in the title.

    Raises OperandError for a matrix of more than 64 by 64 elements, and as the instruction does, for example if the
    pointer or the stride is not aligned.

    >>> load = "wmma.load.a.sync.aligned.row.m16n16k16.f16"
    >>> print(tcemu.show.loaded(load, 32, 48, first=16, ldm=48).title)
    wmma.load.a from element 16 with stride 48: 16 rows of 16 elements
    """
    found = parse(instruction)
    if not (0 < rows <= 64 and 0 < columns <= 64):
        raise OperandError(f"the matrix can have at most 64 rows and columns; got {rows} by {columns}")
    if first < 0:
        raise OperandError(f"the pointer's element must be 0 or more; got {first}")
    (fragment,) = found.fragments.values()
    stride = ldm or columns
    room = 1 << 16  # of 16-bit elements: all numbers that one can hold
    memory = np.arange(room, dtype="<u2").view(np.uint8)
    registers = run(found, np.uint64(2 * first), stride, memory=memory, target=target)
    numbers = np.unique(np.ascontiguousarray(registers).view("<u2"))
    return _drawn(found, numbers, rows, columns, first, stride, fragment.shape[-2:])


def _drawn(
    found: Instruction,
    numbers: npt.NDArray[Any],
    rows: int,
    columns: int,
    first: int,
    stride: int,
    tile: tuple[int, ...],
) -> Picture:
    inside = numbers[numbers < rows * columns]
    beyond = len(numbers) - len(inside)
    by_rows = found.words["layout"] == "row"
    lines, length = tile if by_rows else tile[::-1]
    what = "row" if by_rows else "column"
    title = f"{'.'.join(found.opcode.split('.')[:3])} from element {first} with stride {stride}: "
    title += f"{counted(lines, what)} of {counted(length, 'element')}"
    title += f", {counted(beyond, 'element')} beyond the matrix" if beyond else ""
    row, column = np.divmod(inside, columns)
    note = f"The matrix is {rows} × {columns}, row-major; thick lines every 16. Shaded: what the load reads"
    grid = Grid(40, 44, 15, 11, rows, columns)
    body = [svg.text(grid.left, 16, note, "s"), grid.box.rect("p")]
    body += [svg.text(grid.at(0, at).middle, grid.top - 6, at, "s t", "middle") for at in range(0, columns, 8)]
    body += [svg.text(grid.left - 6, grid.top + (at + 0.9) * grid.high, at, "s t", "end") for at in range(0, rows, 8)]
    body += [grid.at(*place).rect("fo") for place in zip(row.tolist(), column.tolist(), strict=True)]
    every = [f"M{grid.left} {grid.at(r, 0).y}h{grid.box.wide}" for r in range(0, rows + 1, 16)]
    every += [f"M{grid.at(0, c).x} {grid.top}v{grid.box.high}" for c in range(0, columns + 1, 16)]
    body.append(svg.path("".join(every), "k"))
    runs = _runs(row, column)
    words = "; ".join(f"row {r}, columns {a} to {b}" for r, a, b in runs[:20])
    said = f"It reads {words}." if words else "It reads nothing."
    return picture(title, said, max(grid.right + 16, 560), grid.bottom + 16, body)


def _runs(row: npt.NDArray[Any], column: npt.NDArray[Any]) -> list[tuple[int, int, int]]:
    """Runs of neighbouring columns: (row, first column, last column)."""
    runs: list[tuple[int, int, int]] = []
    for r, c in zip(row.tolist(), column.tolist(), strict=True):
        if runs and runs[-1][0] == r and runs[-1][2] == c - 1:
            runs[-1] = (r, runs[-1][1], c)
        else:
            runs.append((r, c, c))
    return runs
