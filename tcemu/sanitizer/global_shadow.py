"""Shadow of global memory: for each cell, the marks of its last writes and reads, by whichever block.

A cell has five marks, because weak accesses race with what strong ones do not race with, and because a block that
writes what it has just read itself may still be too early for another reader. A sixth says which strong write the last
strong read has seen: that write comes before whatever follows the read (PTX ISA 8.9.5).
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.memory import Extent
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.spans import Runs

#: The marks of a cell: weak and strong write; weak read, the last one before it by another warp, and strong read; the
#: strong write that this has seen.
WEAK, STRONG, READ, OTHER, STRONG_READ, SEEN = range(6)
#: The rows that hold writes, and those that hold accesses; initial size of a cell, and how many there are at first.
WRITES, ACCESSES = slice(0, 2), slice(0, 5)
_CELL, _CELLS = 16, 1 << 12


class GlobalShadow:
    """The marks of the accesses of a grid: 32 * record + lane, and 0 for none."""

    def __init__(self) -> None:
        self.cell = _CELL
        #: a row for each cell, so that its marks lie together
        self._marks = np.zeros((_CELLS, 6), np.int64)
        #: the first byte that has been written, and the one after the last
        self._first, self._end = np.iinfo(np.int64).max, 0

    def cells(self, addresses: Array, size: int, end: int) -> tuple[Array, int]:
        """The cells (n * per,) of the `size` bytes at each of `addresses` (n,), all before `end`; and `per`."""
        if size < self.cell:
            self._split(size)
        per = size // self.cell
        if end > self.cell * len(self._marks):
            self._reach(end // self.cell)
        found = addresses >> self.cell.bit_length() - 1
        return (found, 1) if per == 1 else ((found[:, None] + np.arange(per)).reshape(-1), per)

    def noted(self, runs: Runs) -> Array:
        """The cells (n,) with a byte of the runs, without those that no access has reached."""
        found = runs.units(self.cell)
        return found[found < len(self._marks)]

    def untouched(self, low: int, high: int) -> bool:
        """Whether nothing has been written from byte `low` to byte `high` - 1."""
        return high <= self._first or low >= self._end

    def marks(self, cells: Array, rows: slice = ACCESSES) -> Array:
        """The marks (rows, n) of cells."""
        return self._marks.take(cells, axis=0).T[rows]

    def known(self, cells: Array) -> Array | None:
        """The marks (rows, n) of cells; None if nothing has accessed them, as is usual, and quicker to see."""
        marks = self._marks.take(cells, axis=0)
        return marks.T[ACCESSES] if np.count_nonzero(marks) else None

    def seen(self, cells: Array) -> tuple[Array, Array]:
        """The marks of the strong writes of cells that a strong read has seen, 0 for others, and of those reads."""
        marks = self.marks(cells, slice(None))
        return np.where(marks[STRONG] == marks[SEEN], marks[STRONG], 0), marks[STRONG_READ]

    def write(self, cells: Array, marks: Array, strong: bool, extent: Extent) -> None:
        """Note a write to cells that have this extent."""
        self._marks[:, STRONG if strong else WEAK][cells] = marks
        low, high = extent
        self._first = min(self._first, low)
        self._end = max(self._end, high)

    def read(self, cells: Array, marks: Array, strong: bool, others: Array | None) -> None:
        """Note a read; `others`, bool (n,), says which cells another warp read before; None: none of them."""
        if strong:
            self._marks[cells, STRONG_READ] = marks
            self._marks[cells, SEEN] = self._marks[cells, STRONG]
            return
        if others is not None and np.count_nonzero(others):
            self._marks[cells[others], OTHER] = self._marks[cells[others], READ]
        self._marks[cells, READ] = marks

    def _split(self, cell: int) -> None:
        self._marks = np.repeat(self._marks, self.cell // cell, axis=0)
        self.cell = cell

    def _reach(self, cells: int) -> None:
        there = len(self._marks)
        more = np.zeros((max(cells, 2 * there), 6), np.int64)  # the system gives memory only to what is used
        more[:there] = self._marks
        self._marks = more
