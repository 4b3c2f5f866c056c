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
        #: a row for each kind of mark
        self._marks = np.zeros((6, _CELLS), np.int64)
        #: the cells that have been accessed: of most accesses, this is all that must be looked at
        self._accessed = np.zeros(_CELLS, bool)
        #: the first byte that has been written, and the one after the last
        self._first, self._end = np.iinfo(np.int64).max, 0

    def cells(self, addresses: Array, size: int, end: int) -> tuple[Array, int]:
        """The cells (n * per,) of the `size` bytes at each of `addresses` (n,), all before `end`; and `per`."""
        if size < self.cell:
            self._resize(len(self._accessed), size)
        per = size // self.cell
        if end > self.cell * len(self._accessed):
            self._resize(max(end // self.cell, 2 * len(self._accessed)), self.cell)
        found = addresses >> self.cell.bit_length() - 1
        return (found, 1) if per == 1 else ((found[:, None] + np.arange(per)).reshape(-1), per)

    def noted(self, runs: Runs) -> Array:
        """The cells (n,) with a byte of the runs, without those that no access has reached."""
        found = runs.units(self.cell)
        return found[found < len(self._accessed)]

    def untouched(self, low: int, high: int) -> bool:
        """Whether nothing has been written from byte `low` to byte `high` - 1."""
        return high <= self._first or low >= self._end

    def marks(self, cells: Array, rows: slice = ACCESSES) -> Array:
        """The marks (rows, n) of cells."""
        return self._marks[rows].take(cells, axis=1)

    def known(self, cells: Array) -> Array | None:
        """The marks (rows, n) of the accesses to cells; None if there have been none, as is usual."""
        return self.marks(cells) if np.count_nonzero(self._accessed.take(cells)) else None

    def seen(self, cells: Array) -> tuple[Array, Array]:
        """The marks of the strong writes of cells that a strong read has seen, 0 for others, and of those reads."""
        marks = self.marks(cells, slice(None))
        return np.where(marks[STRONG] == marks[SEEN], marks[STRONG], 0), marks[STRONG_READ]

    def write(self, cells: Array, marks: Array, strong: bool, extent: Extent) -> None:
        """Note a write to cells that have this extent."""
        self._accessed[cells] = True
        self._marks[STRONG if strong else WEAK][cells] = marks
        low, high = extent
        self._first, self._end = min(self._first, low), max(self._end, high)

    def read(self, cells: Array, marks: Array, strong: bool, others: Array | None) -> None:
        """Note a read; `others`, bool (n,), says which cells another warp read before; None: none of them."""
        self._accessed[cells] = True
        if strong:
            self._marks[STRONG_READ][cells] = marks
            self._marks[SEEN][cells] = self._marks[STRONG][cells]
            return
        if others is not None and np.count_nonzero(others):
            self._marks[OTHER][cells[others]] = self._marks[READ][cells[others]]
        self._marks[READ][cells] = marks

    def _resize(self, cells: int, cell: int) -> None:
        """Have this many cells of now `cell` bytes each. The system gives memory only to those that are accessed."""
        parts = self.cell // cell
        used = np.flatnonzero(self._accessed)
        old = slice(used[0], used[-1] + 1) if len(used) else slice(0, 0)
        new = slice(old.start * parts, old.stop * parts)
        marks, accessed = np.zeros((6, cells * parts), np.int64), np.zeros(cells * parts, bool)
        marks[:, new] = np.repeat(self._marks[:, old], parts, axis=1)
        accessed[new] = np.repeat(self._accessed[old], parts)
        self._marks, self._accessed, self.cell = marks, accessed, cell
