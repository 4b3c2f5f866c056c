"""Many loads and stores of a warp at once, which a front end's native code has made: Accesses.

Almost all of them break no rule, and are noted by a kernel, in the order of the log. The first one that the kernel
cannot note, because somebody must look closer, is passed on as a single event. So the
reports are the same, and come in the same order. Sections that must see each access for themselves get it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
_SORTS = 256
_SPACES = {"shared": 0, "global": 1, "generic": 2}
#: Arguments of `advance` where no access to shared memory can be noted.
_ONE = np.zeros(1, np.int64)
_NOTHING_NEAR = _ONE, np.zeros((1, 1), np.int64), 0, np.zeros(1, bool), *[_ONE] * 5
#: ... and to global memory.
_NOTHING_FAR = np.zeros(0, bool), np.zeros((6, 0), np.int64), _ONE, np.zeros((0, 3), np.int64)
#: More than any address of global memory.
_MOST = 1 << 62
#: The most warps whose origins are kept.
_MOST_BYS = 4096


def _rows(table: AccessTable) -> tuple[Array, Array]:
    """For each instruction: the group whose accesses share a record, the space, whether it writes, its bytes, .nc.

    Then an array for a number of each group.
    """
    kept: tuple[Array, Array] | None = table.kept.get(_rows)
    if kept is None:
        rows = np.zeros((len(table.words), 5), np.int64)
        groups: dict[object, int] = {}
        for number, row in table.rows.items():
            group = groups.setdefault((row.site, row.instruction.opcode, row.space, row.writes), len(groups))
            rows[number] = group, _SPACES[row.space], row.writes, row.size, "nc" in row.instruction.words
        kept = table.kept[_rows] = rows, np.zeros(len(groups), np.int64)
    return kept


class _Room:
    """Arrays that the kernels write to, large enough for any log so far."""

    def __init__(self, kernels: ModuleType) -> None:
        self.ats = self.sorts = np.zeros(0, np.int64)
        self.listed, self.runs, self.places = np.zeros((0, 4), np.int64), np.zeros((0, 6), np.int64), self.ats
        self.fields, self.scalars = np.zeros((_SORTS, kernels.FIELDS), np.int64), np.zeros(kernels.SCALARS, np.int64)

    def reserve(self, records: int) -> None:
        """Have room for so many records."""
        if records > len(self.ats):
            self.ats, self.sorts = np.zeros(2 * records, np.int64), np.zeros(2 * records, np.int64)
            self.listed, self.runs = np.zeros((2 * records, 4), np.int64), np.zeros((2 * records, 6), np.int64)
            self.places = np.zeros(64 * records, np.int64)


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
        from tcemu.native import batches as kernels

        self.kernels: ModuleType = kernels
        self.block, self._watch, self.single, self.place, self.label = block, watch, single, place, label
        self.room = _Room(kernels)
        self._known: dict[tuple[str, bool], bool] = {}

    def __call__(self, event: Accesses) -> None:
        """Note all accesses of a log."""
        self.room.reserve(len(event.log) // (8 * HEAD) + 1)
        start, end = 0, len(event.log) // 8
        while start < end:
            start += _Batch(self, event, start).run()

    def knows(self, space: str, writes: bool) -> bool:
        """Whether all sections that receive such accesses are known here; the first one has come."""
        known = self._known.get((space, writes))
        if known is None:
            handlers = self._watch.of(Accessed, _Kind(space, writes))
            known = all(type(getattr(each, "__self__", None)) in _KNOWN for each in handlers)
            self._known[space, writes] = known
        return known


class _Plan:
    """What the logs with the same sorts of accesses have in common: of each sort its row, its mask and its lanes."""

    def __init__(self, table: AccessTable, sorts: list[list[int]], kernels: ModuleType) -> None:
        self.rows = [table.rows[number] for number, *_ in sorts]
        self._masks = [mask for _, mask, *_ in sorts]
        self.lanes = [table.lanes(mask) for mask in self._masks]
        spaces = [space for _, _, space, _ in sorts]
        #: the sorts of accesses to shared memory, and whether there are loads, and stores; likewise to global memory
        self.near = [sort for sort, space in enumerate(spaces) if space == kernels.SHARED]
        self.far = [sort for sort, space in enumerate(spaces) if space == kernels.GLOBAL]
        self.loads, self.stores = (any(self.rows[n].writes == writes for n in self.near) for writes in (False, True))
        #: by sort, and once more for the records of none: stores to global memory; stores to shared memory and loads
        #: from global memory
        self.far_stores, self.followed = np.zeros((2, len(sorts) + 2), bool)
        for sort in self.far + self.near:
            self.far_stores[sort] = (far := sort in self.far) and self.rows[sort].writes
            self.followed[sort] = self.rows[sort].writes != far
        self.keeps, self.follows = bool(self.far_stores.any()), bool(self.followed.any())
        #: by block and warp: the origins
        self._bys: dict[tuple[int, int], list[By]] = {}

    def bys(self, block: int, warp: int) -> list[By]:
        """The origin of the accesses of each sort by a warp."""
        bys = self._bys.get((block, warp))
        if bys is None:
            if len(self._bys) == _MOST_BYS:
                self._bys.clear()
            pairs = zip(self._masks, self.rows, strict=True)
            bys = self._bys[block, warp] = [By(block, warp, mask, row.site) for mask, row in pairs]
        return bys


class _Batch:
    """A part of a log: as many records as have few enough sorts."""

    def __init__(self, batches: Batches, event: Accesses, start: int) -> None:
        self._batches, self._event, self._kernels, self._block = batches, event, batches.kernels, batches.block
        words = event.log.view(np.int64)
        self._start, self._words = start, words[start:] if start else words
        self._heads = self._words.view(np.uint32)
        self._warp, room, table = batches.label(event.warp), batches.room, event.table
        self._ats, self._sorts, self._fields, self._scalars = room.ats, room.sorts, room.fields, room.scalars
        self._count, used = batches.kernels.heads(
            self._heads, self._words, table.words, *_rows(table), SHARED + event.rank * BLOCK, BLOCK,
            batches.place, self._ats, self._sorts, self._fields,
        )  # fmt: skip
        key = self._fields[:used, :4].tobytes()  # what `heads` has found out
        plan = table.kept.get(key)
        if plan is None:
            plan = table.kept[key] = _Plan(table, self._fields[:used, :4].tolist(), batches.kernels)
        self._plan: _Plan = plan
        self._bys = plan.bys(event.block, self._warp)
        #: of loads from global memory, by their sort and some of its lanes: what they have in common
        self._lines: dict[tuple[int, int], Line] = {}

    def run(self) -> int:
        """Note the records, one after the other; return how many words they have."""
        begin = number = 0
        kernels, plan, scalars = self._kernels, self._plan, self._scalars
        near = self._prepare_near() if plan.near else _NOTHING_NEAR
        scalars[kernels.LOW :] = _MOST, 0, 0
        while number < self._count:
            far = self._prepare_far() if plan.far else _NOTHING_FAR
            number, why = kernels.advance(
                self._words, self._ats, self._sorts, number, self._count, self._fields, scalars, *near, *far,
                self._batches.room.listed,
            )  # fmt: skip
            if why == kernels.UNNUMBERED:
                self._number(self._sorts.item(number))
                continue
            self._noted(begin, number)
            if why == kernels.SINGLE:
                for event in self._single(number):
                    self._batches.single(event)
                begin = number = number + 1
                near = self._prepare_near() if plan.near else _NOTHING_NEAR
                scalars[kernels.LOW :] = _MOST, 0, 0
        return self._after(self._count - 1)

    def _after(self, number: int) -> int:
        """The word behind a record."""
        first = self._ats.item(number) - 1
        return int(first + self._event.table.words.item(self._heads.item(2 * first)))

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
        knows = self._batches.knows
        if (self._plan.loads and not knows("shared", False)) or (self._plan.stores and not knows("shared", True)):
            return _NOTHING_NEAR
        if block.clocks.partial[warp]:
            return _NOTHING_NEAR
        records, shadow, fields, mine = block.records, block.shadow, self._fields, 0
        for sort in self._plan.near:
            row = self._plan.rows[sort]
            record = records.ordinary(self._bys[sort], row.instruction.opcode, Kind.ORDINARY, row.writes)
            fields[sort, kernels.FIRST], fields[sort, kernels.BEFORE] = 32 * record, records.previous[record]
        if self._plan.loads:
            block.section(SharedMemory).generic_reads = True
            mine = shadow.row_of(warp)
            scalars[kernels.LOADS] = 1
        if self._plan.stores:
            scalars[kernels.STORES] = shadow.weak is None and shadow.successive
        scalars[kernels.SHIFT], scalars[kernels.OWN] = shadow.cell.bit_length() - 1, THREAD + 32 * warp
        now = block.clocks.rows[warp]
        return (
            shadow.written, shadow.reads, mine,
            records.known(now), records.threads, records.column, records.clock, records.lanewise, now,
        )  # fmt: skip

    def _prepare_far(self) -> tuple[Any, ...]:
        """What the kernel needs of global memory."""
        kernels, scalars, grid, knows = self._kernels, self._scalars, self._block.grid, self._batches.knows
        stored, loaded, maps = grid.stored, grid.loaded, grid.maps
        scalars[kernels.STORED], scalars[kernels.STORED_END] = stored.first, stored.end
        if not knows("global", False) or (self._plan.keeps and not knows("global", True)):
            scalars[kernels.STORED], scalars[kernels.STORED_END] = 0, _MOST  # every access overlaps this
        if self._plan.keeps:
            scalars[kernels.LOADED], scalars[kernels.LOADED_END] = loaded.first, loaded.end
            scalars[kernels.MAPS], scalars[kernels.MAPS_END] = maps.first, maps.end
        accessed, marks, threads, scalars[kernels.FAR_SHIFT], scalars[kernels.COVERED] = grid.shadow.held
        scalars[kernels.FAR_OWN] = thread_of(self._block.neighbour.number, self._warp)
        return accessed, marks, threads, grid.shadow.arrays

    def _number(self, sort: int) -> None:
        """Give the accesses of a sort to global memory the number that they have now."""
        row = self._plan.rows[sort]
        number = self._block.section(GlobalRaces).number(self._bys[sort], row.instruction, row.writes)
        self._fields[sort, self._kernels.FIRST] = 32 * number

    # ---------------------------------------------------------------------------------------- after the kernel

    def _noted(self, begin: int, end: int) -> None:
        """Do what the kernel has left to be done for the records from `begin` to `end` - 1."""
        kernels, fields, block = self._kernels, self._fields, self._block
        if self._plan.near:
            previous = block.records.previous
            for sort in self._plan.near:
                before = fields.item(sort, kernels.BEFORE)
                if before:
                    previous[fields.item(sort, kernels.FIRST) >> 5] = before
        listed = self._scalars.item(kernels.LISTS) if self._plan.far else 0
        if listed:
            self._list(self._batches.room.listed[:listed])
        if self._plan.keeps and end > begin:
            self._keep(begin, end)
        tiles = block.made.get(StoredTiles)
        if isinstance(tiles, StoredTiles) and tiles.follows and self._plan.follows:
            count = int(np.count_nonzero(self._plan.followed[self._sorts[begin:end]]))
            if count:
                tiles.batch(self._part(begin, end), count)

    def _part(self, begin: int, end: int) -> Accesses:
        """The records from `begin` to `end` - 1."""
        first, after = self._start + self._ats.item(begin) - 1, self._start + self._after(end - 1)
        return replace(self._event, log=self._event.log[8 * first : 8 * after])

    def _addresses(self, number: int, sort: int) -> Array:
        """The addresses (n,) of a record in global memory."""
        at = self._ats.item(number)
        addresses = self._words[at : at + 32]
        return addresses if len(self._plan.lanes[sort]) == 32 else addresses[self._plan.lanes[sort]]

    def _list(self, listed: Array) -> None:
        """List loads from arrays that nothing has written: those of one line and array that follow each other as one.

        They leave the marks that they would leave one by one, the last of each address.
        """
        races, room, fields = self._block.section(GlobalRaces), self._batches.room, self._fields
        count = self._kernels.runs(self._words, self._ats, self._sorts, fields, listed, room.runs, room.places)
        for sort, same, low, high, begin, end in room.runs[:count].tolist():
            # of lanes that load the same, the last mark stays
            last = 1 << fields.item(sort, self._kernels.MASK).bit_length() - 1 if same else 0
            races.list(self._line(races, sort, last), room.places[begin:end].tobytes(), (low, high))

    def _line(self, races: GlobalRaces, sort: int, lanes: int = 0) -> Line:
        """What the loads of a sort have in common, or of some of its lanes."""
        line = self._lines.get((sort, lanes))
        if line is None:
            row, chosen = self._plan.rows[sort], self._plan.lanes[sort]
            if lanes:
                chosen = self._event.table.lanes(lanes)
            line = self._lines[sort, lanes] = races.line(self._bys[sort], row.instruction, row.size, chosen)
        return line

    def _keep(self, begin: int, end: int) -> None:
        """Keep stores to global memory, for copies that may read what they wrote."""
        low, high, _ = self._scalars[self._kernels.LOW :].tolist()
        if not high:
            return
        self._block.grid.shadow.noted_writes(low, high)
        memory = self._block.section(GlobalMemory)
        sorts = self._sorts[begin:end]
        for number in np.flatnonzero(self._plan.far_stores[sorts]).tolist():
            sort = sorts.item(number)
            row, addresses = self._plan.rows[sort], self._addresses(begin + number, sort).copy()
            memory.keep(self._bys[sort], row.instruction, row.size, addresses, self._plan.lanes[sort])


def compile_all() -> None:
    """Compile the kernels, if they compute, before a launch needs them."""
    if backend(0) != "numba":
        return
    from tcemu.native import batches as kernels

    room, nothing = _Room(kernels), np.zeros(0, np.int64)
    kernels.heads(
        nothing.view(np.uint32),
        nothing,
        _ONE,
        np.zeros((1, 5), np.int64),
        _ONE.copy(),
        0,
        1,
        0,
        room.ats,
        room.sorts,
        room.fields,
    )
    kernels.runs(nothing, room.ats, room.sorts, room.fields, room.listed, room.runs, room.places)
    kernels.advance(
        nothing, room.ats, room.sorts, 0, 0, room.fields, room.scalars, *_NOTHING_NEAR, *_NOTHING_FAR,
        room.listed,
    )  # fmt: skip
