"""Shadow memory: for every byte of a block's shared memory, the marks of its last write and of each reader's last read.

The marks are kept for cells, which become as small as the smallest access so far: most kernels never access fewer than
4 bytes at a time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import byte_span
from tcemu.machine.allocation import Shared
from tcemu.sanitizer.marks import fastest

Array = npt.NDArray[Any]

#: Initial size of a cell in bytes: what the widest load moves for one lane.
_WIDEST = 16
#: The number of readers that there are rows for once there is one.
_READERS = 4
#: The cells of an access are cached if it has at most this many addresses.
_FEW = 64
#: The number of tiles whose cells are cached.
_TILES = 256


#: The cells of tiles by the identity of their addresses, the size of an element and the size of a cell. The addresses
#: are kept alive, so that no other array gets their identity. All blocks of a launch share the cells.
Tiles = dict[tuple[int, int, int], tuple[Array, Array]]


def run_of(cells: Array) -> Array | slice:
    """The cells of a tile, in order, as a slice if they are a run: numpy then neither collects nor scatters them."""
    first, last = int(cells[0]), int(cells[-1])
    return slice(first, last + 1) if last - first == len(cells) - 1 else cells


def among(unknown: Array, part: Array | None) -> Array:
    """The indices of the unknown accesses among those of `part`."""
    return np.flatnonzero(unknown if part is None else unknown & part)


@lru_cache(maxsize=4096)
def _cells(addresses: bytes, size: int, cell: int) -> tuple[int, Array]:
    """The largest cells that fit an access, and its cells if they are of `cell` bytes: a loop has the same again."""
    places = np.frombuffer(addresses, np.int64)
    low = int(np.bitwise_or.reduce(places)) | size
    first = places // cell
    per = size // cell
    return low & -low, first if per <= 1 else (first[:, None] + np.arange(per, dtype=np.int64)).reshape(-1)


class Shadow:
    """The marks of one block."""

    def __init__(self, size: int, tiles: Tiles, names: Shared | None = None) -> None:
        self._tiles, self.names, self.size = tiles, names, size
        self.cell = _WIDEST
        self.tools = fastest()
        self._cells = -(-size // _WIDEST)
        #: the last write of each cell
        self.written = np.zeros(self._cells, np.int64)
        #: the last weak write of each cell, kept after the first strong write: strong writes race only with weak ones
        self.weak: Array | None = None
        #: the last read of each cell, a row for each reader so far, and the rows for further ones
        self.reads = np.zeros((0, self._cells), np.int64)
        self._room = self.reads
        self._rows: dict[object, int] = {}
        #: whether the reads of each reader end in their order: bulk copies of a warp may end in another one
        self.successive = True

    def write(self, cells: Array | slice, marks: Array | int, strong: bool) -> None:
        """Set the last write of `cells`."""
        if strong and self.weak is None:
            self.weak = self.written.copy()
        if not strong and self.weak is not None:
            self.weak[cells] = marks
        self.written[cells] = marks

    def writes(self, cells: Array, strong: bool) -> list[Array]:
        """The last writes of cells and, if the new access is strong, the last weak writes too."""
        marks = [self.written[cells]]
        if strong and self.weak is not None:
            marks.append(self.weak[cells])
        return marks

    def writer(self, address: int) -> int:
        """The record of the last write of a byte."""
        return int(self.written[address // self.cell]) >> 5

    def reads_at(self, cells: Array | slice) -> Array:
        """The last reads of cells, a row for each reader so far."""
        if isinstance(cells, slice):
            return self.reads[:, cells]
        return self.reads.take(cells.astype(np.intp, copy=False), axis=1)

    def reads_of(self, reader: object) -> Array:
        """The last read of each cell by one reader: a warp, the wgmma of a warpgroup, or the bulk copies of a warp."""
        row = self.row_of(reader)  # which may add one
        reads: Array = self.reads[row]
        return reads

    def row_of(self, reader: object) -> int:
        """The number of a reader's row."""
        row = self._rows.get(reader)
        if row is None:
            row = self._rows[reader] = len(self._rows)
            self.successive &= not (isinstance(reader, tuple) and reader[0] == "bulk")
            if row == len(self._room):
                more = np.zeros((max(row, _READERS), self._cells), np.int64)
                self._room = np.concatenate([self._room, more]) if row else more
            self.reads = self._room[: row + 1]
        return row

    def cells(self, addresses: Array, size: int) -> tuple[Array, int]:
        """The cells (n * per,) of the `size` bytes at each of `addresses` (n,), and `per`, the cells per address.

        Callers must not change them.
        """
        find = _cells if len(addresses) <= _FEW else _cells.__wrapped__
        key = addresses.tobytes(), size
        fits, cells = find(*key, self.cell)
        if fits < self.cell:
            self._split(fits)
            _, cells = find(*key, fits)
        return cells, size // self.cell

    def tile(self, addresses: Array, size: int) -> Array:
        """The cells of a matrix operand's elements, each once, in order. Whole cells are not split.

        A pipeline passes the same arrays again and again, so their cells are cached.
        """
        kept = self._tiles.get((id(addresses), size, self.cell))
        if kept is None:
            cells = self._cells_of(addresses, size)  # which may split cells
            if len(self._tiles) == _TILES:
                self._tiles.clear()
            kept = self._tiles[id(addresses), size, self.cell] = addresses, cells
        return kept[1]

    def _cells_of(self, addresses: Array, size: int) -> Array:
        if size < self.cell:
            wide = self.tools.units(addresses, self.cell.bit_length() - 1)
            if len(wide) * self.cell == len(addresses) * size:
                return np.asarray(wide)
        return np.asarray(self.tools.units(self.cells(addresses, size)[0], 0))

    def place(self, address: int, size: int) -> str:
        """``bytes 16 to 31``: the `size` bytes from an address on, as the kernel numbers them."""
        return byte_span(address, address + size - 1)

    def extent(self, cells: Array) -> str:
        """``bytes 0 to 63 of shared memory``: the bytes that cells span, with the elements if arrays have names."""
        first, last = int(cells.min()) * self.cell, (int(cells.max()) + 1) * self.cell - 1
        named = self.names.elements(cells * self.cell, self.cell) if self.names else ""
        return f"{byte_span(first, last)} of shared memory" + (f" ({named})" if named else "")

    def _split(self, cell: int) -> None:
        """Make cells smaller."""
        parts = self.cell // cell
        self.cell = cell
        self._cells *= parts
        self.written = np.repeat(self.written, parts)
        self.weak = None if self.weak is None else np.repeat(self.weak, parts)
        self._room = self.reads = np.repeat(self.reads, parts, axis=1)
