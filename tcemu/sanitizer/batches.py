"""Many loads and stores of a warp at once, which a front end's native code has made: Accesses.

Almost all of them break no rule, and are noted by a kernel, in the order of the log. The first one that the kernel
cannot note, because somebody must look closer, is passed on as the event that it would have been by itself. So the
reports are the same, and come in the same order. Sections that must see each access for themselves get it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tcemu.backend import backend
from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events import Accessed, Accesses, AccessTable, By
from tcemu.machine.events.batches import HEAD
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.clocks import THREAD, Array
from tcemu.sanitizer.global_memory import GlobalMemory
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.global_shadow import Line
from tcemu.sanitizer.grid import thread_of
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.rules.stores import Stores
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.stored_tiles import StoredTiles
from tcemu.sanitizer.tensor_map_reads import TensorMapReads
from tcemu.sanitizer.watch import Watch

if TYPE_CHECKING:
    from types import ModuleType

#: The sections whose work on weak accesses is done here; if others receive them, each is passed on by itself.
_KNOWN = frozenset({SharedMemory, GlobalRaces, GlobalMemory, StoredTiles, Stores, TensorMapReads})
#: The most sorts of accesses that are told apart in one go.
_SORTS = 64
_SPACES = {"shared": 0, "global": 1, "generic": 2}
#: Arguments of `advance` where no access to shared memory can be noted.
_ONE = np.zeros(1, np.int64)
_NOTHING_NEAR = _ONE, np.zeros((1, 1), np.int64), 0, np.zeros(1, bool), *[_ONE] * 5


class _Span(NamedTuple):
    """Bytes that somebody accesses."""

    first: int
    end: int


#: Every access overlaps these, so that none of them is noted.
_EVERYTHING = _Span(0, 1 << 62)


def _rows(table: AccessTable) -> Array:
    """For each instruction: the group whose accesses share a record, the space, whether it writes, its bytes, .nc."""
    found: Array | None = table.kept.get(_rows)
    if found is None:
        found = table.kept[_rows] = np.zeros((len(table.words), 5), np.int64)
        groups: dict[object, int] = {}
        for number, row in table.rows.items():
            group = groups.setdefault((row.site, row.instruction.opcode, row.space, row.writes), len(groups))
            found[number] = group, _SPACES[row.space], row.writes, row.size, "nc" in row.instruction.words
    return found


class _Room:
    """Arrays that the kernels write to, large enough for any log so far."""

    def __init__(self, kernels: ModuleType) -> None:
        self.ats = self.sorts = np.zeros(0, np.int64)
        self.listed = np.zeros((0, 3), np.int64)
        self.fields, self.scalars = np.zeros((_SORTS, kernels.FIELDS), np.int64), np.zeros(kernels.SCALARS, np.int64)

    def reserve(self, records: int) -> None:
        """Have room for so many records."""
        if records > len(self.ats):
            self.ats, self.sorts = np.zeros(2 * records, np.int64), np.zeros(2 * records, np.int64)
            self.listed = np.zeros((2 * records, 3), np.int64)


class _Kind(NamedTuple):
    """A kind of access, as watch.py tells them apart."""

    space: str
    writes: bool
    order: str = ""
    collective: bool = False
    owner: int = -1


class Batches:
    """The batches of one block.

    `single` receives an event by itself. In a cluster, `place` is where the block's shared memory begins there, and
    `label` gives a warp's number there.
    """

    def __init__(
        self, block: Block, watch: Watch, single: Callable[[Accessed], None], place: int, label: Callable[[int], int]
    ) -> None:
        from tcemu.kernels.host import batches as kernels

        self.kernels: ModuleType = kernels
        self.block, self._watch, self.single, self.place, self.label = block, watch, single, place, label
        self.room = _Room(kernels)
        self._known: dict[_Kind, bool] = {}

    def __call__(self, event: Accesses) -> None:
        """Note all accesses of a log."""
        self.room.reserve(len(event.log) // (8 * HEAD) + 1)
        start, end = 0, len(event.log) // 8
        while start < end:
            start += _Batch(self, event, start).run()

    def knows(self, space: str, writes: bool) -> bool:
        """Whether all sections that receive such accesses are known here; the first one has come."""
        kind = _Kind(space, writes)
        found = self._known.get(kind)
        if found is None:
            handlers = self._watch.of(Accessed, kind)
            found = self._known[kind] = all(type(getattr(each, "__self__", None)) in _KNOWN for each in handlers)
        return found


class _Batch:
    """A part of a log: as many records as have few enough sorts."""

    def __init__(self, batches: Batches, event: Accesses, start: int) -> None:
        self._batches, self._event, self._kernels, self._block = batches, event, batches.kernels, batches.block
        self._start, self._words = start, event.log.view(np.int64)[start:]
        self._heads = self._words.view(np.uint32)
        self._warp, room = batches.label(event.warp), batches.room
        self._ats, self._sorts, self._fields, self._scalars = room.ats, room.sorts, room.fields, room.scalars
        self._count, used = self._kernels.heads(
            self._heads, self._words, event.table.words, _rows(event.table), SHARED + event.rank * BLOCK, BLOCK,
            batches.place, self._ats, self._sorts, self._fields,
        )  # fmt: skip
        spaces = self._fields[:used, self._kernels.SPACE].tolist()
        self._near = [sort for sort in range(used) if spaces[sort] == self._kernels.SHARED]
        self._far = [sort for sort in range(used) if spaces[sort] == self._kernels.GLOBAL]
        #: of each sort: its row and its origin; of loads from global memory, what they have in common
        self._rows = [event.table.rows[number] for number in self._fields[:used, self._kernels.NUMBER].tolist()]
        masks = self._fields[:used, self._kernels.MASK].tolist()
        who = event.block, self._warp
        self._bys = [By(*who, mask, row.site) for mask, row in zip(masks, self._rows, strict=True)]
        self._lanes = [event.table.lanes(mask) for mask in masks]
        self._lines: dict[int, Line] = {}

    def run(self) -> int:
        """Note the records, one after the other; return how many words they have."""
        number, kernels = 0, self._kernels
        near = self._prepare_near()
        while number < self._count:
            after, why, listed = kernels.advance(
                self._words, self._ats, self._sorts, number, self._count, self._fields, self._scalars, *near,
                *self._prepare_far(), self._batches.room.listed,
            )  # fmt: skip
            self._noted(number, after, listed)
            number = after
            if why == kernels.UNNUMBERED:
                self._number(int(self._sorts[number]))
            elif why == kernels.SINGLE:
                for event in self._single(number):
                    self._batches.single(event)
                number += 1
                near = self._prepare_near()
        last = int(self._ats[self._count - 1]) - 1
        return last + int(self._event.table.words[self._heads[2 * last]])

    def _single(self, number: int) -> list[Accessed]:
        """The events of a record."""
        at = int(self._ats[number]) - 1
        instruction, mask = self._heads[2 * at : 2 * at + 2].tolist()
        return self._event.single(instruction, mask, self._start + at, self._event.by(instruction, mask))

    # ---------------------------------------------------------------------------------------- before the kernel

    def _prepare_near(self) -> tuple[Any, ...]:
        """What the kernel needs of shared memory: see `advance`."""
        kernels, scalars, block, warp = self._kernels, self._scalars, self._block, self._warp
        scalars[kernels.LOADS] = scalars[kernels.STORES] = 0
        if not self._near or not all(self._batches.knows("shared", self._rows[sort].writes) for sort in self._near):
            return _NOTHING_NEAR
        if block.clocks.partial[warp]:
            return _NOTHING_NEAR
        records, shadow, mine = block.records, block.shadow, 0
        for sort in self._near:
            row = self._rows[sort]
            record = records.ordinary(self._bys[sort], row.instruction.opcode, Kind.ORDINARY, row.writes)
            self._fields[sort, kernels.FIRST] = 32 * record
            self._fields[sort, kernels.BEFORE] = records.previous[record]
        if not all(self._rows[sort].writes for sort in self._near):
            block.section(SharedMemory).loads()
            mine = shadow.row_of(warp)
            scalars[kernels.LOADS] = 1
        scalars[kernels.STORES] = shadow.weak is None and shadow.successive
        scalars[kernels.SHIFT], scalars[kernels.OWN] = shadow.cell.bit_length() - 1, THREAD + 32 * warp
        now = block.clocks.rows[warp]
        return (
            shadow.written, shadow.reads, mine,
            records.known(now), records.threads, records.column, records.clock, records.lanewise, now,
        )  # fmt: skip

    def _prepare_far(self) -> tuple[Any, ...]:
        """What the kernel needs of global memory."""
        kernels, scalars, grid = self._kernels, self._scalars, self._block.grid
        spans: list[Any] = [grid.stored, grid.loaded, grid.maps]
        if not all(self._batches.knows("global", self._rows[sort].writes) for sort in self._far):
            spans[0] = _EVERYTHING
        for first, span in zip((kernels.STORED, kernels.LOADED, kernels.MAPS), spans, strict=True):
            scalars[first : first + 2] = span.first, span.end
        accessed, marks, threads, scalars[kernels.FAR_SHIFT], scalars[kernels.COVERED] = grid.shadow.held
        scalars[kernels.FAR_OWN] = thread_of(self._block.neighbour.number, self._warp)
        scalars[kernels.LOW], scalars[kernels.HIGH] = _EVERYTHING.end, 0
        return accessed, marks, threads, grid.shadow.arrays

    def _number(self, sort: int) -> None:
        """Give the accesses of a sort to global memory the number that they have now."""
        row = self._rows[sort]
        number = self._block.section(GlobalRaces).number(self._bys[sort], row.instruction, row.writes)
        self._fields[sort, self._kernels.FIRST] = 32 * number

    # ---------------------------------------------------------------------------------------- after the kernel

    def _noted(self, begin: int, end: int, listed: int) -> None:
        """Do what the kernel has left to be done for the records from `begin` to `end` - 1."""
        kernels, records = self._kernels, self._block.records
        if self._scalars[kernels.LOADS] or self._scalars[kernels.STORES]:
            for sort in self._near:
                first, before = self._fields[sort, [kernels.FIRST, kernels.BEFORE]].tolist()
                records.previous[first >> 5] = before
        if listed:
            self._list(self._batches.room.listed[:listed].tolist())
        if self._scalars[kernels.HIGH]:
            self._block.grid.shadow.noted_writes(int(self._scalars[kernels.LOW]), int(self._scalars[kernels.HIGH]))
        stored = [sort for sort in self._far if self._rows[sort].writes]
        if stored:
            self._keep(begin, end, stored)
        tiles = self._block.made.get(StoredTiles)
        if isinstance(tiles, StoredTiles) and tiles.follows:
            for number in range(begin, end):
                for event in self._single(number):
                    if event.writes == (event.space == "shared"):
                        tiles.accessed(event)

    def _addresses(self, number: int, sort: int) -> Array:
        """The addresses (n,) of a record in global memory."""
        at = int(self._ats[number])
        addresses = self._words[at : at + 32]
        return addresses if len(self._lanes[sort]) == 32 else addresses[self._lanes[sort]]

    def _list(self, listed: list[list[int]]) -> None:
        """List loads from arrays that nothing has written."""
        races = self._block.section(GlobalRaces)
        for number, low, high in listed:
            sort = int(self._sorts[number])
            line = self._lines.get(sort)
            if line is None:
                row = self._rows[sort]
                line = self._lines[sort] = races.line(self._bys[sort], row.instruction, row.size, self._lanes[sort])
            races.list(line, self._addresses(number, sort).tobytes(), (low, high))

    def _keep(self, begin: int, end: int, stored: list[int]) -> None:
        """Keep stores to global memory, for copies that may read what they wrote."""
        memory = self._block.section(GlobalMemory)
        for number in (np.flatnonzero(np.isin(self._sorts[begin:end], stored)) + begin).tolist():
            sort = int(self._sorts[number])
            row, addresses = self._rows[sort], self._addresses(number, sort).copy()
            memory.keep(self._bys[sort], row.instruction, row.size, addresses, self._lanes[sort])


def compile_all() -> None:
    """Compile the kernels, if they compute, before a launch needs them."""
    if backend(0) != "numba":
        return
    from tcemu.kernels.host import batches as kernels

    room, nothing = _Room(kernels), np.zeros(0, np.int64)
    kernels.heads(
        nothing.view(np.uint32), nothing, _ONE, np.zeros((1, 5), np.int64), 0, 1, 0, room.ats, room.sorts, room.fields
    )
    kernels.advance(
        nothing, room.ats, room.sorts, 0, 0, room.fields, room.scalars, *_NOTHING_NEAR,
        np.zeros(0, bool), np.zeros((6, 0), np.int64), _ONE, np.zeros((0, 3), np.int64), room.listed,
    )  # fmt: skip
