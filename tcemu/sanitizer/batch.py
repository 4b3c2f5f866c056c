"""One batch of native loads and stores: the logs of one or several warps, which a kernel notes record by record.

`Batches` (batches.py) makes them. What all batches of one sort have in common is a `Plan`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events import Accessed, Accesses, BarrierCompleted
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.global_memory import GlobalMemory
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.global_shadow import Line
from tcemu.sanitizer.plans import Logs, Plan, rows_of
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.stored_tiles import StoredTiles

if TYPE_CHECKING:
    from types import ModuleType

    from tcemu.sanitizer.batches import Batches

#: Is called with the number of a log.
Passes = Callable[[int], object]
#: The most sorts of accesses that are told apart in one go.
_SORTS = 1024
#: Arguments of `advance` where no access to shared memory can be noted.
ONE = np.zeros(1, np.int64)
NOTHING_NEAR = ONE, ONE[None], np.zeros((1, 1), bool), *[ONE] * 5, ONE[None]
#: ... and to global memory.
NOTHING_FAR = np.zeros(0, bool), np.zeros((6, 0), np.int64), ONE, np.zeros((0, 3), np.int64)
#: More than any address of global memory.
_MOST = 1 << 62


class Room:
    """Arrays that the kernels write to, large enough for any log so far."""

    def __init__(self, kernels: ModuleType) -> None:
        self.ats = self.sorts = np.zeros(0, np.int64)
        self.listed, self.runs, self.addresses = np.zeros((0, 4), np.int64), np.zeros((0, 6), np.int64), self.ats
        self.fields, self.scalars = np.zeros((_SORTS, kernels.FIELDS), np.int64), np.zeros(kernels.SCALARS, np.int64)

    def reserve(self, records: int) -> None:
        """Have room for so many records."""
        if records > len(self.ats):
            self.ats, self.sorts = np.zeros(2 * records, np.int64), np.zeros(2 * records, np.int64)
            self.listed, self.runs = np.zeros((2 * records, 4), np.int64), np.zeros((2 * records, 6), np.int64)
            self.addresses = np.zeros(64 * records, np.int64)


class Batch:
    """Logs, or a part of one: as many records as have few enough sorts."""

    def __init__(self, batches: Batches, logs: Logs) -> None:
        self._batches, self._kernels, self._block = batches, batches.kernels, batches.block
        self._logs, self._words, self._heads = logs, logs.words, logs.words.view(np.uint32)
        room, table = batches.room, logs.table
        self._warps = tuple(map(batches.label, logs.warps))
        self._ats, self._sorts, self._fields, self._scalars = room.ats, room.sorts, room.fields, room.scalars
        self._legs = tuple(logs.legs)
        self._end: int
        self._count, used, self._mixed, self._end = batches.kernels.heads(
            self._heads, logs.words, np.array(logs.begins, np.int64), table.words, *rows_of(table),
            SHARED + logs.slot * BLOCK, BLOCK, batches.place, self._ats, self._sorts, self._fields,
        )  # fmt: skip
        found = self._fields[:used, :5]  # what `heads` has found out
        key = found.tobytes()
        plan = table.kept.get(key)
        if plan is None:
            plan = table.kept[key] = Plan(table, found.tolist(), batches.kernels)
        self._plan: Plan = plan
        self._owners = plan.owners(logs.block, self._warps)
        self._bys = self._owners.bys
        #: by leg, what its warps know when it begins, and the times of all warps
        self._rows, self._times = self._now()
        #: the records of the sorts of accesses to shared memory, once they have been made, and the first of them
        self._records: Array | None = None
        self._first = 0

    @property
    def far_reads(self) -> bool:
        """Whether all accesses to global memory read."""
        return not self._plan.keeps

    @property
    def joint(self) -> bool:
        """Whether the logs of several warps can be noted together: all their accesses have sorts."""
        return not self._mixed and self._end == len(self._words) and self._block.records.fresh({*self._warps})

    def run(self, passes: Passes = int) -> int:
        """Note the records, one after the other; return how many words they have.

        `passes` is called with the number of a log before a record of it is passed on as a single event.
        """
        begin = number = 0
        kernels = self._kernels
        near = self._prepare()
        while number < self._count:
            number, why = self._advance(number, near)
            if why == kernels.UNNUMBERED:
                self._number(self._sorts.item(number))
                continue
            self._noted(begin, number)
            if why == kernels.SINGLE:
                passes(self._log(number))
                for event in self._single(number):
                    self._batches.single(event)
                begin = number = number + 1
                self._rows, self._times = self._now()
                near = self._prepare()
        return self._end

    def onwards(self, meetings: Sequence[BarrierCompleted]) -> tuple[int, int]:
        """Note the records of several legs; see Batches.onwards."""
        plan, clocks, legs, warps = self._plan, self._block.clocks, self._legs, self._warps
        loads, loaded = [*clocks.loads], np.zeros((legs[-1] + 1, clocks.warps), bool)
        for log in plan.loaded:
            loaded[legs[log], warps[log]] = True
        way = clocks.way(loaded.copy())
        self._rows, self._times = way.rows, way.times
        number, why = self._advance(0, self._prepare())
        self._noted(0, number)
        log, word = (self._log(number), self._ats.item(number) - 1) if why else (len(legs), self._end)
        self._share(log)
        clocks.loads[:] = loads  # as it was before the first leg: what has happened since follows
        leg, barriers = legs[min(log, len(legs) - 1)], self._block.section(Barriers)
        for before in range(leg):
            barriers.meet(meetings[before], way.rows[before + 1])
            self._block.flush()
        clocks.go(way, leg)
        for warp in np.flatnonzero(loaded[leg]).tolist():
            clocks.loads[warp] = True
        return log, word

    def _share(self, last: int) -> None:
        """Let warps share their records of accesses to shared memory, as far as they have come: to this log."""
        latest = {warp: log for log, warp in self._owners.logs if log <= last and self._first}
        for warp, log in latest.items():
            time = self._times.item(self._legs[log], warp)
            self._block.records.share(warp, time, self._first, self._owners.records, log)

    def _advance(self, number: int, near: tuple[Any, ...]) -> tuple[int, int]:
        """Note records from this number on; return the number of the first that is not noted, and why."""
        batches, far = self._batches, self._prepare_far() if self._plan.far else NOTHING_FAR
        warps = batches.warps(self._plan, self._warps, self._legs)
        noted: tuple[int, int] = self._kernels.advance(
            self._words, self._ats, self._sorts, number, self._count, self._fields, warps, self._scalars, *near, *far,
            batches.room.listed,
        )  # fmt: skip
        return noted

    def _after(self, number: int) -> int:
        """The word behind a record."""
        first = self._ats.item(number) - 1
        return int(first + self._logs.table.words.item(self._heads.item(2 * first)))

    def _log(self, number: int) -> int:
        """The number of a record's log."""
        return bisect_right(self._logs.begins, self._ats.item(number) - 1) - 1

    def _single(self, number: int) -> list[Accessed]:
        """The events of a record."""
        at, log = self._ats.item(number) - 1, self._log(number)
        event = self._logs.event(log)
        instruction, mask = self._heads[2 * at : 2 * at + 2].tolist()
        return event.single(instruction, mask, at - self._logs.begins[log], event.by(instruction, mask))

    # ---------------------------------------------------------------------------------------- before the kernel

    def _now(self) -> tuple[Array, Array]:
        """What the warp of the first log knows, and the times of all warps, as the only leg's."""
        clocks = self._block.clocks
        return clocks.rows[self._warps[0]][None], np.array(clocks.time, np.int64)[None]

    def _prepare(self) -> tuple[Any, ...]:
        """What the kernel needs before it begins or goes on: of shared memory, see `advance`."""
        self._batches.warps(self._plan, self._warps, self._legs)  # which may add rows of reads
        self._scalars[self._kernels.LOW :] = _MOST, 0, 0
        return self._prepare_near() if self._plan.near else NOTHING_NEAR

    def _prepare_near(self) -> tuple[Any, ...]:
        """What the kernel needs of shared memory: see `advance`."""
        kernels, scalars, block, plan = self._kernels, self._scalars, self._block, self._plan
        scalars[kernels.LOADS] = scalars[kernels.STORES] = 0
        knows, clocks = self._batches.knows, block.clocks
        if (plan.loads and not knows("shared", False)) or (plan.stores and not knows("shared", True)):
            return NOTHING_NEAR
        if not clocks.alike(self._warps):
            return NOTHING_NEAR
        records, shadow = block.records, block.shadow
        if self._records is None:
            self._records = self._made()
            self._fields[plan.which, kernels.FIRST] = 32 * self._records
        if plan.loads:
            block.section(SharedMemory).generic_reads = True
            scalars[kernels.LOADS] = 1
        if plan.stores:
            scalars[kernels.STORES] = shadow.weak is None and shadow.successive
        scalars[kernels.SHIFT] = shadow.cell.bit_length() - 1
        return (
            shadow.written, shadow.reads,
            self._known(), records.threads, records.column, records.clock, records.lanewise, records.previous,
            self._rows,
        )  # fmt: skip

    def _made(self) -> Array:
        """The record of each sort of accesses to shared memory."""
        plan, records, loads = self._plan, self._block.records, self._block.clocks.loads
        for log in plan.loads:
            loads[self._warps[log]] = True
        if records.fresh({*self._warps}):
            made, rows = self._owners.records, [self._block.clocks.rows[self._warps[0]], *self._rows[1:]]
            legs = np.array(self._legs, np.intp)[made.log]
            self._first = records.several(made, [rows[leg] for leg in legs.tolist()], self._times[legs, made.warp])
            if len(rows) == 1:
                self._share(len(self._legs))
            return self._first + plan.places
        rows = [(self._bys[sort], plan.rows[sort]) for sort in plan.near]
        found = [records.ordinary(by, row.instruction.opcode, Kind.ORDINARY, row.writes) for by, row in rows]
        return np.array(found, np.int64)

    def _prepare_far(self) -> tuple[Any, ...]:
        """What the kernel needs of global memory."""
        kernels, scalars, grid, knows = self._kernels, self._scalars, self._block.grid, self._batches.knows
        stored, loaded, sources, maps = grid.stored, grid.loaded, grid.sources, grid.maps
        scalars[kernels.STORED], scalars[kernels.STORED_END] = stored.first, stored.end
        if not knows("global", False) or (self._plan.keeps and not knows("global", True)):
            scalars[kernels.STORED], scalars[kernels.STORED_END] = 0, _MOST  # every access overlaps this
        if self._plan.keeps:
            scalars[kernels.LOADED] = min(loaded.first, sources.first)
            scalars[kernels.LOADED_END] = max(loaded.end, sources.end)
            scalars[kernels.MAPS], scalars[kernels.MAPS_END] = maps.first, maps.end
        accessed, marks, threads, scalars[kernels.FAR_SHIFT], scalars[kernels.COVERED] = grid.shadow.held
        return accessed, marks, threads, grid.shadow.arrays

    def _known(self) -> Array:
        """By leg, which records its warps know to have ended, as far as was asked."""
        known = self._block.records.known(self._block.clocks.rows[self._warps[0]])
        if len(self._rows) == 1:
            return known[None]
        knowns = np.zeros((len(self._rows), len(known)), bool)
        knowns[0], knowns[1:, 0] = known, True
        return knowns

    def _number(self, sort: int) -> None:
        """Give the accesses of a sort to global memory the number that they have now."""
        row = self._plan.rows[sort]
        number = self._block.section(GlobalRaces).number(self._bys[sort], row.instruction, row.writes)
        self._fields[sort, self._kernels.FIRST] = 32 * number

    # ---------------------------------------------------------------------------------------- after the kernel

    def _noted(self, begin: int, end: int) -> None:
        """Do what the kernel has left to be done for the records from `begin` to `end` - 1."""
        listed = self._scalars.item(self._kernels.LISTS) if self._plan.far else 0
        if listed:
            self._list(self._batches.room.listed[:listed])
        if self._plan.keeps and end > begin:
            self._keep(begin, end)
        tiles = self._batches.tiles if self._plan.follows else None
        if tiles is not None:
            self._follow(tiles, begin + np.flatnonzero(self._plan.followed[self._sorts[begin:end]]))

    def _follow(self, tiles: StoredTiles, moves: Array) -> None:
        """Let loads from global memory and stores to shared memory be followed."""
        logs, block = self._plan.log[self._sorts[moves]], self._logs
        cuts = [0, *(np.flatnonzero(logs[1:] != logs[:-1]) + 1).tolist(), len(moves)] if len(moves) else []
        for begin, end in pairwise(cuts):
            words = self._words[self._ats.item(moves.item(begin)) - 1 : self._after(moves.item(end - 1))]
            kept = words.copy().view(np.uint8)  # the log is used again
            warp = block.warps[logs.item(begin)]
            tiles.batch(Accesses(block.block, warp, block.table, kept, block.slot), end - begin)

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
        count = self._kernels.runs(self._words, self._ats, self._sorts, fields, listed, room.runs, room.addresses)
        lines, table, plan = self._batches.lines, self._logs.table, self._plan
        loads = self._block.clocks.loads
        runs = room.runs[:count].tolist()
        addresses, times = room.addresses[: runs[-1][-1]].tobytes(), self._times.tolist()
        for sort, same, low, high, begin, end in runs:
            log = plan.logs[sort]
            warp = self._warps[log]
            key = table, warp, *plan.kinds[sort], same
            line = lines.get(key)
            if line is None:
                line = lines[key] = self._line(races, sort, same)
            loads[warp] = True
            races.list(line, addresses[8 * begin : 8 * end], (low, high), times[self._legs[log]][warp])

    def _line(self, races: GlobalRaces, sort: int, same: int) -> Line:
        """What the loads of a sort have in common; of lanes that load the `same`, the last one's mark stays."""
        row, chosen, mask = self._plan.rows[sort], self._plan.lanes[sort], self._plan.masks[sort]
        if same:
            chosen = self._logs.table.lanes(1 << mask.bit_length() - 1)
        return races.line(self._bys[sort], row.instruction, row.size, chosen)

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
