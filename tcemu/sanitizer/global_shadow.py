"""Shadow of global memory: for each cell, the marks of its last writes and reads, by whichever block.

A cell has five marks, because weak accesses race with what strong ones do not race with, and because a block that
writes what it has just read itself may still be too early for another reader. A sixth says which strong write the last
strong read has seen: that write comes before whatever follows the read (PTX ISA 8.9.5).

Weak reads of an array that nothing has written race with nothing so far, so they are only listed. They are noted
together, in their order, once something writes to the array: most kernels never write to what they read. Of many reads
at the same addresses, as when all blocks of a matrix product read the same tiles, those that leave no mark are dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tcemu.instructions import Instruction
from tcemu.machine.events import By, Site
from tcemu.machine.memory import Extent
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.marks import fastest
from tcemu.sanitizer.spans import Runs

#: The marks of a cell: weak and strong write; weak read, the last one before it by another warp, and strong read; the
#: strong write that this has seen.
WEAK, STRONG, READ, OTHER, STRONG_READ, SEEN = range(6)
#: The rows that hold writes, and those that hold accesses.
WRITES, ACCESSES = slice(0, 2), slice(0, 5)
#: The initial size of a cell, and the least and the most cells at first.
_CELL, _CELLS, _AT_FIRST = 16, 1 << 12, 1 << 20


@lru_cache(maxsize=64)
def _numbers(count: int) -> Array:
    """0 to count - 1."""
    return np.arange(count, dtype=np.int64)


class Listed(list[Any]):
    """The listed weak reads of the array that has the bytes from `low` to `end` - 1, until nothing fits any more.

    One after the other, it has the fields of each: its line; its int64 addresses as bytes; its warp's time. Each tuple
    that is kept would be one more object for the collection of garbage. Several reads on a line at one time may be
    one, with the addresses of all.
    """

    def __init__(self, low: int, end: int) -> None:
        super().__init__()
        self.low, self.end, self.room = low, end, LISTED

    def add(self, read: tuple[Line, bytes, int]) -> None:
        """Put a read on the list."""
        self += read
        self.room -= _ENTRY + len(read[1])


#: The number of fields of a read, its bytes beside those of its addresses, and the bytes of an array's listed reads.
_FIELDS, _ENTRY, LISTED = 3, 64, 10 << 20
#: The list of the reads that cannot be listed.
_CLOSED = Listed(0, 0)


class Line:
    """What the reads by one warp on one line have in common: `lanes` (n,) read `size` bytes each.

    `number` is that of their block here, `callers` are the lines that called the function of the kernel's line, which
    all reads of a line that is `alone` have. `by` is the origin of any of the reads.
    """

    __slots__ = ("active", "alone", "by", "callers", "instruction", "lanes", "listed", "number", "size")

    def __init__(
        self,
        by: By,
        instruction: Instruction,
        size: int,
        lanes: Array,
        number: int,
        callers: tuple[Site, ...] = (),
        alone: bool = True,
    ) -> None:
        self.by, self.active, self.instruction, self.size, self.lanes = by, by.active, instruction, size, lanes
        self.number, self.callers, self.alone = number, callers, alone
        #: where its latest read is listed
        self.listed = _CLOSED


#: Stands for the reader of addresses that nobody reads later.
_NOBODY = -1, -1


class GlobalShadow:
    """The marks of the accesses of a grid: 32 * record + lane, and 0 for none.

    arrays: (first byte, end, name) of each array, in ascending order. threads: gives the numbers that tell the warps
    apart that made the records, (records,). marks_of: the marks (n,) that a read on a line makes at a time of its warp.
    """

    def __init__(
        self,
        arrays: Sequence[tuple[int, int, str]],
        threads: Callable[[], Array],
        marks_of: Callable[[Line, int], Array],
    ) -> None:
        self._starts, self._ends = [first for first, _, _ in arrays], [end for _, end, _ in arrays]
        self._threads, self._marks_of = threads, marks_of
        #: the listed reads of each array, and the arrays that have been written, by their numbers
        self._listed: dict[int, Listed] = {}
        self._written: set[int] = set()
        self._flags: Array | None = None
        #: the bytes of the array that was written last
        self._latest = 0, 0
        self._tools = fastest()
        self._hold(np.zeros((6, 0), np.int64), np.zeros(0, bool), _CELL)
        #: the first byte that has been written, and the one after the last
        self._first, self._end = np.iinfo(np.int64).max, 0

    def cells(self, addresses: Array, size: int, end: int) -> tuple[Array, int]:
        """The cells (n * per,) of the `size` bytes at each of `addresses` (n,), all before `end`; and `per`."""
        if size < self.cell:
            self._resize(len(self._accessed), size)
        per = size // self.cell
        if end > self._covered:
            self._resize(max(end // self.cell, 2 * len(self._accessed) or self._at_first()), self.cell)
        cells = addresses >> self._bits
        return (cells, 1) if per == 1 else ((cells[:, None] + _numbers(per)).reshape(-1), per)

    def noted(self, runs: Runs) -> Array:
        """The cells (n,) with a byte of the runs, without those that no access has reached."""
        cells = runs.units(self.cell)
        return cells[cells < len(self._accessed)]

    def untouched(self, low: int, high: int) -> bool:
        """Whether nothing has been written from byte `low` to byte `high` - 1."""
        return high <= self._first or low >= self._end

    def marks(self, cells: Array, rows: slice = ACCESSES) -> Array:
        """The marks (rows, n) of cells. Those of weak reads need `settle` first."""
        return self._marks[rows].take(cells.astype(np.intp, copy=False), axis=1)

    def known(self, cells: Array) -> Array | None:
        """The marks (rows, n) of the accesses to cells; None if there have been none, which is the usual case."""
        return self.marks(cells) if 1 in self._accessed.take(cells.astype(np.intp, copy=False)).tobytes() else None

    def seen(self, cells: Array) -> tuple[Array, Array]:
        """The marks of the strong writes of cells that a strong read has seen, 0 for others, and of those reads."""
        marks = self.marks(cells, slice(None))
        return np.where(marks[STRONG] == marks[SEEN], marks[STRONG], 0), marks[STRONG_READ]

    def write(self, cells: Array, marks: Array, strong: bool, extent: Extent) -> None:
        """Note a write to cells that have this extent."""
        self._accessed[cells] = True
        (self._strong if strong else self._weak)[cells] = marks
        self._reached(extent)

    def claim(
        self, addresses: Array, size: int, first: int, lanes: Array, strong: bool, extent: Extent, own: int
    ) -> bool:
        """Note a write by `lanes` of the warp `own`, with marks from `first`, if nobody else has accessed the cells.

        Return whether it was noted. In any case, listed reads of the array have been noted before.
        """
        (low, high), (start, end) = extent, self._latest
        if low < start or high > end:
            self.settle(extent)
        if size < self.cell or high > self._covered:
            return False
        row, threads = STRONG if strong else WEAK, self._threads()
        if not self._tools.claim(
            self._accessed, self._marks, row, SEEN, addresses, size, self._shift, first, lanes, threads, own
        ):
            return False
        if low < self._first or high > self._end or low < start or high > end:
            self._reached(extent)
        return True

    def _reached(self, extent: Extent) -> None:
        """Note that bytes of this extent have been written."""
        low, high = extent
        self._first, self._end = min(self._first, low), max(self._end, high)
        start, end = self._latest
        if low < start or high > end:
            self._latest = self._wrote(extent)

    def read_strongly(self, cells: Array, marks: Array) -> None:
        """Note a strong read, which sees the last strong writes."""
        self._accessed[cells] = True
        self._marks[STRONG_READ][cells] = marks
        self._marks[SEEN][cells] = self._marks[STRONG][cells]

    def forget(self, low: int, high: int) -> None:
        """Forget the accesses to byte `low` to byte `high` - 1."""
        self.settle((low, high))
        cells = slice(low // self.cell, -(-high // self.cell))
        self._marks[:, cells], self._accessed[cells] = 0, False

    # ---------------------------------------------------------------------------------------- weak reads

    def reread(self, addresses: Array, size: int, first: int, lanes: Array, end: int, own: int) -> bool:
        """Note a read before byte `end` by `lanes` of the warp `own`, if nobody else has written to the cells.

        Return whether it was noted.
        """
        if size < self.cell or end > self._covered:
            return False
        shift, threads = self._shift, self._threads()
        noted: bool = self._tools.reread(
            self._accessed, self._marks, READ, READ, addresses, size, shift, first, lanes, threads, own
        )
        return noted

    def lists(self, read: tuple[Line, bytes, int], extent: Extent) -> bool:
        """Put a weak read on the list, if nothing has written to its array; return whether it did.

        The next reads of its line may be put on `line.listed` at once, if they fit and it has room.
        """
        line, listed = read[0], self._list(*extent)
        if listed is None:
            return False
        line.listed = listed
        listed.add(read)
        if listed.room <= 0:
            self._shorten(listed)
        return True

    def _list(self, low: int, high: int) -> Listed | None:
        """The list for a read from byte `low` to byte `high` - 1; None if there is none."""
        array = bisect_right(self._starts, low) - 1
        if array < 0 or array in self._written or high > self._ends[array]:
            return None
        listed = self._listed.get(array)
        if listed is None:
            listed = self._listed[array] = Listed(self._starts[array], self._ends[array])
        return listed

    def _shorten(self, listed: Listed) -> None:
        """Drop listed reads that leave no mark; if they are few, note all."""
        listed[:] = _lasting(listed)
        listed.room = LISTED - sum(_ENTRY + len(each) for each in listed[1::_FIELDS])
        if 2 * listed.room < LISTED:
            self.note(self._close(self._arrays((listed.low, listed.end))[0]))

    def _close(self, array: int) -> Listed:
        """The listed reads of an array, to which no line adds any more."""
        listed = self._listed.pop(array)
        listed.low = listed.end = listed.room = 0
        return listed

    def settle(self, extent: Extent) -> None:
        """Note the listed reads of the arrays that have a byte of an extent."""
        for array in self._arrays(extent) if self._listed else ():
            if array in self._listed:
                self.note(_lasting(self._close(array)))

    def note(self, fields: Sequence[Any]) -> None:
        """Note weak reads, in their order; `fields` are those of one after the other, as in Listed."""
        cells, marks = self._in_order(fields[::_FIELDS], fields[1::_FIELDS], fields[2::_FIELDS])
        before = self._marks[READ].take(cells.astype(np.intp, copy=False))
        self._marks[READ][cells] = marks  # numpy leaves the last mark of a cell
        self._accessed[cells] = True
        threads = self._threads()
        last = threads[self._marks[READ].take(cells.astype(np.intp, copy=False)) >> 5]
        earlier, others = (before != 0) & (threads[before >> 5] != last), threads[marks >> 5] != last
        self._marks[OTHER][cells[earlier]] = before[earlier]
        self._marks[OTHER][cells[others]] = marks[others]

    def _in_order(
        self, lines: Sequence[Line], addresses_of: Sequence[bytes], times: Sequence[int]
    ) -> tuple[Array, Array]:
        """The cells (n,) of reads and their marks (n,), in the order of the reads."""
        parts = []
        for size in sorted({line.size for line in lines}):  # for the smallest, cells may become smaller
            some = [number for number, line in enumerate(lines) if line.size == size]
            addresses = np.frombuffer(b"".join([addresses_of[number] for number in some]), np.int64)
            cells, per = self.cells(addresses, size, int(addresses.max()) + size)
            counts = [len(addresses_of[number]) // addresses.itemsize for number in some]
            marks = np.concatenate(
                [
                    np.resize(self._marks_of(lines[number], times[number]), count)
                    for number, count in zip(some, counts, strict=True)
                ]
            )
            parts.append((cells, marks.repeat(per), np.repeat(some, counts).repeat(per)))
        if len(parts) == 1:
            return parts[0][:2]
        cells, marks, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(numbers, kind="stable")
        return cells[order], marks[order]

    # ---------------------------------------------------------------------------------------- many at once

    @property
    def arrays(self) -> Array:
        """The first byte of each array, the one after the last, and whether the array has been written, (n, 3)."""
        if self._flags is None:
            written = [number in self._written for number in range(len(self._starts))]
            self._flags = np.array([self._starts, self._ends, written], np.int64).T.copy()
        return self._flags

    @property
    def held(self) -> tuple[Array, Array, Array, int, int]:
        """The cells that have been accessed, their marks, the threads of records; a cell's bits; bytes with cells."""
        return self._accessed, self._marks, self._threads(), self._shift, self._covered

    def noted_writes(self, low: int, high: int) -> None:
        """A kernel has noted weak writes from byte `low` to byte `high` - 1, in arrays that had been written."""
        self._first, self._end = min(self._first, low), max(self._end, high)

    def _wrote(self, extent: Extent) -> Extent:
        """Note that arrays are written; return the bytes of the last one."""
        arrays = self._arrays(extent)
        self._written.update(arrays)
        self._flags = None
        return (self._starts[arrays[-1]], self._ends[arrays[-1]]) if arrays else (0, 0)

    def _arrays(self, extent: Extent) -> range:
        """The numbers of the arrays that have a byte of an extent."""
        low, high = extent
        first = bisect_right(self._starts, low) - 1
        if first >= 0 and high <= self._ends[first]:
            return range(first, first + 1)
        return range(max(first, 0), bisect_right(self._starts, high - 1))

    def _at_first(self) -> int:
        """How many cells to have when the first access shows how small they are: those of all arrays, or of many."""
        return max(_CELLS, min(max(self._ends, default=0) // _CELL + 1, _AT_FIRST)) * (_CELL // self.cell)

    def _resize(self, cells: int, cell: int) -> None:
        """Have this many cells of now `cell` bytes each. The system gives memory only to those that are accessed."""
        parts = self.cell // cell
        used = np.flatnonzero(self._accessed)
        old = slice(used[0], used[-1] + 1) if len(used) else slice(0, 0)
        new = slice(old.start * parts, old.stop * parts)
        marks, accessed = np.zeros((6, cells * parts), np.int64), np.zeros(cells * parts, bool)
        marks[:, new] = np.repeat(self._marks[:, old], parts, axis=1)
        accessed[new] = np.repeat(self._accessed[old], parts)
        self._hold(marks, accessed, cell)

    def _hold(self, marks: Array, accessed: Array, cell: int) -> None:
        """Keep the marks of cells of `cell` bytes."""
        #: a row for each kind of mark
        self._marks, self._weak, self._strong = marks, marks[WEAK], marks[STRONG]
        #: the cells that have been accessed: of most accesses, this is all that must be looked at
        self._accessed = accessed
        #: bytes of a cell, and of all of them; the bits of an address within one, which numpy shifts by as an array
        self.cell, self._covered = cell, cell * len(accessed)
        self._shift = cell.bit_length() - 1
        self._bits = np.array(self._shift)


def _lasting(fields: Sequence[Any]) -> list[Any]:
    """Of weak reads, in their order: the last one at the same addresses, and the last one there by another warp."""
    readers: dict[tuple[bytes, int], tuple[int, int] | None] = {}
    starts = []
    for start in reversed(range(0, len(fields), _FIELDS)):
        line, places, _ = fields[start : start + _FIELDS]
        place, reader = (places, line.size), (line.number, line.by.warp)
        last = readers.get(place, _NOBODY)
        if last is not None and last != reader:
            readers[place] = reader if last is _NOBODY else None
            starts.append(start)
    return [field for start in reversed(starts) for field in fields[start : start + _FIELDS]]
