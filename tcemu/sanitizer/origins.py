"""Where the bytes of shared memory come from: which byte of which array a thread has copied there.

cp.async and cp.async.bulk name their source. A store does not: its values come from a load if a load of the same lanes
gave exactly these bytes and no load of other places did. Whatever is not certain has no origin.

Only arrays of several axes count, with lines (along the last axis) of more than 16 bytes: their shape says what a line
is. So does a bulk copy only within one line: an array that was packed in advance as wgmma reads it is copied whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np

from tcemu.machine.events import Accessed, Accesses, Copy
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.grid import Grid

#: The most loads, stores and copies that are followed, and the fewest bytes of values that show where they come from.
MOST, _ENOUGH = 4096, 16


class Source(NamedTuple):
    """An array of several axes in global memory: its first byte, the one after the last, and the bytes of a line."""

    first: int
    end: int
    line: int
    name: str
    shape: tuple[int, ...]
    itemsize: int

    def element(self, at: int) -> str:
        """``element [1, 8] of argument 0``: the element that this byte belongs to."""
        number, byte = divmod(at - self.first, self.itemsize)
        index = ", ".join(str(each) for each in np.unravel_index(number, self.shape))
        return (f"byte {byte} of " if byte else "") + f"element [{index}] of {self.name}"


class _Moved(NamedTuple):
    """An access, until it is looked at: its addresses, where copies read, and the lanes and values of a store."""

    writes: bool
    addresses: Array
    size: int
    start: Array | None = None
    #: the warp and the lanes; what a store writes, uint8 (n, size)
    who: tuple[int, bytes] | None = None
    data: Array | None = None


class Origins:
    """The origin of each byte of one block's shared memory, as far as it is known."""

    def __init__(self, grid: Grid, shared: int) -> None:
        self._grid, self._shared = grid, shared
        self._sources = _sources(grid) if shared else []
        #: what has come since it was last looked at; batches of accesses are not even taken apart before
        self._moved: list[_Moved | Accesses] = []
        self._left = MOST if self._sources and shared else 0
        #: by warp, lanes and values: the addresses that they were loaded from; None if there are several
        self._loaded: dict[tuple[int, bytes, bytes], Array | None] = {}
        self._of = np.zeros(0, np.int64)

    @property
    def open(self) -> bool:
        """Whether it still follows accesses."""
        return self._left > 0

    def accessed(self, event: Accessed) -> None:
        """A load from global memory, or a write to shared memory."""
        self._note(_moved(event))

    def batch(self, event: Accesses, count: int) -> None:
        """A batch with so many loads from global memory and stores to shared memory, whose log stays as it is."""
        self._note(event, count)

    def copied(self, copy: Copy) -> None:
        """A copy into shared memory."""
        (space, start, read), (_, addresses, size) = copy.reads, copy.writes
        plain = space == "global" and copy.tensor_map is None and read == size and len(start) == len(addresses)
        if plain and copy.kind == "bulk":
            source = self.source(int(start[0])) if len(start) else None
            last = int(start[-1]) + size - 1 if len(start) else 0
            plain = source is not None and _line(source, int(start[0])) == _line(source, last)
        self._note(_Moved(True, addresses.copy(), size, start.copy() if plain else None))

    def _note(self, moved: _Moved | Accesses, count: int = 1) -> None:
        self._moved.append(moved)
        self._left -= count
        if not self.open:
            self._moved.clear()
            self._loaded.clear()

    def source(self, at: int) -> Source | None:
        """The array that a byte of global memory belongs to, if its shape says what a line is."""
        return next((each for each in self._sources if each.first <= at < each.end), None)

    def now(self) -> Array:
        """The byte of global memory that each byte of shared memory comes from; -1: unknown; empty: none is known."""
        moved = list(chain.from_iterable(map(_apart, self._moved)))
        sizes = sorted({each.size for each in moved if each.data is not None})
        for each in moved:
            if not each.writes:
                self._load(each, sizes)
                continue
            start = self._stored(each) if each.data is not None else each.start
            if start is not None and not len(self._of):
                self._of = np.full(self._shared, -1, np.int64)
            if len(self._of):
                inside = np.arange(each.size, dtype=np.int64)
                where = each.addresses[:, None] + inside
                whole = start is None or start.shape == where.shape
                self._of[where] = -1 if start is None else start if whole else start[:, None] + inside
        self._moved.clear()
        return self._of

    def at(self, address: int) -> Source | None:
        """The array that a byte of shared memory comes from, if that is known."""
        now = self.now()
        return self.source(int(now[address])) if len(now) else None

    def _load(self, load: _Moved, sizes: list[int]) -> None:
        """Note the values of a load, whole and in parts as small as the stores'."""
        if load.who is None or self.source(int(load.addresses[0])) is None:
            return
        content = self._grid.memory[load.addresses[:, None] + np.arange(load.size, dtype=np.int64)]
        for size in {min(size, load.size) for size in sizes}:
            for first in range(0, load.size, size):
                key = *load.who, content[:, first : first + size].tobytes()
                start = load.addresses + first
                before = self._loaded.get(key, start)
                self._loaded[key] = start if before is not None and np.array_equal(before, start) else None

    def _stored(self, store: _Moved) -> Array | None:
        """The byte of global memory that each byte (n, size) of a store comes from; None if that is not certain."""
        data, who = store.data, store.who
        if data is None or who is None or data.size < _ENOUGH or (data == data[0, 0]).all():
            return None
        for part in (16, 8, 4, 2, 1):
            if part > store.size:
                continue
            origins = [
                self._loaded.get((*who, data[:, first : first + part].tobytes()))
                for first in range(0, store.size, part)
            ]
            starts = [each for each in origins if each is not None]
            if len(starts) == len(origins):
                return np.concatenate([each[:, None] + np.arange(part, dtype=np.int64) for each in starts], axis=1)
        return None


def _moved(event: Accessed) -> _Moved:
    data = event.data if event.writes and not event.collective and event.space == "shared" else None
    # registers and arrays of the kernel may change before the access is looked at
    who, addresses = (event.by.warp, event.lanes.tobytes()), event.addresses.copy()
    return _Moved(event.writes, addresses, event.size, None, who, None if data is None else data.copy())


def _apart(moved: _Moved | Accesses) -> Iterable[_Moved]:
    """The accesses of a batch."""
    if isinstance(moved, _Moved):
        return (moved,)
    return (_moved(each) for each in moved.singles() if each.writes == (each.space == "shared"))


def _line(source: Source, at: int) -> int:
    return (at - source.first) // source.line


def _sources(grid: Grid) -> list[Source]:
    """The arrays of the launch whose shape says what a line is."""
    names = {first: name for first, _, name in grid.arrays}
    sources = {}
    for pointer in grid.pointers:
        first, line = int(pointer), pointer.shape[-1] * pointer.dtype.itemsize if pointer.shape else 0
        if len(pointer.shape) > 1 and 16 < line < pointer.nbytes and first in names:
            array = names[first], pointer.shape, pointer.dtype.itemsize
            sources[first] = Source(first, first + pointer.nbytes, line, *array)
    return list(sources.values())
