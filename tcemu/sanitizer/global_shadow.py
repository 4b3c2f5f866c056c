"""Shadow of global memory: for each cell, the marks of its last writes and reads, by whichever block.

A cell has five marks, because weak accesses race with what strong ones do not race with, and because a block that
writes what it has just read itself may still be too early for another reader.
"""

from __future__ import annotations

import numpy as np

from tcemu.sanitizer.clocks import Array

#: The marks of a cell: weak and strong write; weak read, the last one before it by another warp, and strong read.
WEAK, STRONG, READ, OTHER, STRONG_READ = range(5)
#: The rows that hold writes; initial size of a cell, and how many there are at first.
WRITES = slice(0, 2)
_CELL, _CELLS = 4, 1 << 12


class GlobalShadow:
    """The marks of the accesses of a grid: 32 * record + lane, and 0 for none."""

    def __init__(self) -> None:
        self.cell = _CELL
        self._marks = np.zeros((5, _CELLS), np.int64)
        #: the first byte that has been written, and the one after the last
        self._first, self._end = np.iinfo(np.int64).max, 0

    def cells(self, addresses: Array, size: int) -> tuple[Array, int]:
        """The cells (n * per,) of the `size` bytes at each of `addresses` (n,), and `per`."""
        if size < self.cell:
            self._split(size)
        per = size // self.cell
        found = addresses // self.cell
        if per > 1:
            found = (found[:, None] + np.arange(per)).reshape(-1)
        self._reach(int(found.max()) + 1)
        return found, per

    def untouched(self, low: int, high: int) -> bool:
        """Whether nothing has been written from byte `low` to byte `high` - 1."""
        return high <= self._first or low >= self._end

    def marks(self, cells: Array, rows: slice = slice(None)) -> Array:
        """The marks (rows, n) of cells."""
        return np.asarray(self._marks[rows, cells])

    def write(self, cells: Array, marks: Array, strong: bool) -> None:
        """Note a write."""
        self._marks[STRONG if strong else WEAK, cells] = marks
        self._first = min(self._first, int(cells.min()) * self.cell)
        self._end = max(self._end, (int(cells.max()) + 1) * self.cell)

    def read(self, cells: Array, marks: Array, strong: bool, others: Array) -> None:
        """Note a read; `others`, bool (n,), says which cells another warp read before."""
        if strong:
            self._marks[STRONG_READ, cells] = marks
            return
        if others.any():
            self._marks[OTHER, cells[others]] = self._marks[READ, cells[others]]
        self._marks[READ, cells] = marks

    def _split(self, cell: int) -> None:
        self._marks = np.repeat(self._marks, self.cell // cell, axis=1)
        self.cell = cell

    def _reach(self, cells: int) -> None:
        there = self._marks.shape[1]
        if cells > there:
            more = np.zeros((5, max(cells, 2 * there)), np.int64)  # the system gives memory only to what is used
            more[:, :there] = self._marks
            self._marks = more
