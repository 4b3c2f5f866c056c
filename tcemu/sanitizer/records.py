"""Records of accesses: the warp, the kernel's line, and the column and clock that show whether the access has ended.

Shadow memory holds marks, 32 * record + lane, so that one number identifies the last access to a byte and its lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.machine.events import By, Site
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.clocks import ALWAYS, NEVER, THREAD, Clocks
from tcemu.sanitizer.fences import WEAK, Strength
from tcemu.sanitizer.marks import fastest
from tcemu.sanitizer.tiles import Boxes

Array = npt.NDArray[Any]


class Kind(IntEnum):
    """The kind of instruction that made an access."""

    NOTHING = 0
    #: ld and st
    ORDINARY = 1
    #: ldmatrix, stmatrix, wmma: lanes exchange the bytes
    COLLECTIVE = 2
    CP_ASYNC = 3
    #: a bulk copy, into shared memory (writes) or out of it (reads)
    BULK = 4
    WGMMA = 5
    #: the bytes of an mbarrier
    OBJECT = 6
    #: tcgen05.mma and tcgen05.cp read their operands
    TCGEN05 = 7


class Ordinary(NamedTuple):
    """Records of ordinary accesses that are made together: their fields, and what tells them apart (see `key_of`).

    `log` (records,) are the numbers of the logs that the accesses come from: what a warp does at one time.
    """

    by: list[By]
    opcode: list[str]
    callers: list[tuple[Site, ...]]
    warps: list[tuple[int, ...]]
    warp: Array
    keys: list[tuple[object, ...]]
    log: Array


def key_of(by: By, opcode: str, writes: bool) -> tuple[object, ...]:
    """What tells the records of a warp apart that it makes by ordinary accesses at one time."""
    site = by.site
    return site.line, site.file, site.inlined, opcode, writes, by.active


#: The origin of record 0, which stands for no access.
NOBODY = By(-1, -1, 0, Site("", 0, ""))
#: Stands for the threads of no record.
NOT_ONE = -2
#: More marks than this may well be those of one record.
_FEW = 64
#: What a warp has made at no time.
_NONE = (-1,)
#: The number of rows for which ended records are remembered.
_ROWS = 64
#: Accesses through the async proxy.
ASYNC = (Kind.BULK, Kind.WGMMA, Kind.TCGEN05)


@lru_cache(maxsize=64)
def _numbers(count: int) -> Array:
    """0 to count - 1."""
    return np.arange(count, dtype=np.int64)


class Records:
    """All records of a block. Record 0 stands for no access, and every warp knows that it has ended."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._room = 256
        self.by: list[By] = []
        #: the lines that called the function of the access, innermost first
        self.callers: list[tuple[Site, ...]] = []
        #: the same without repetitions, which the garbage collector would traverse again and again
        self._chains: dict[tuple[Site, ...], tuple[Site, ...]] = {}
        self.opcode: list[str] = []
        #: the warps that made the access
        self.warps: list[tuple[int, ...]] = []
        #: what its warp knew when the access began
        self.row: list[Array] = []
        #: its warps' times when it began; of ordinary accesses that is the clock
        self._began: dict[int, dict[int, int]] = {}
        #: the record of the previous access of the same sort (write or read) to these bytes
        self.previous = np.zeros(self._room, np.int64)
        #: whether any cp.async completes with a phase of an mbarrier
        self.attachments = False
        #: the strength of the accesses that are not weak
        self.strong: dict[int, Strength] = {}
        #: the boxes that tensor copies have written
        self.boxes = Boxes()
        #: reads of bytes that had not been written
        self.blind: set[int] = set()
        self.kind = np.zeros(self._room, np.int64)
        #: the (first) warp that made the access
        self.warp = np.zeros(self._room, np.int64)
        self.column = np.zeros(self._room, np.int64)
        self.lanewise = np.zeros(self._room, np.int64)
        self.clock = np.zeros(self._room, np.int64)
        #: of accesses that each lane makes for itself, the column of its warp's first lane; -1 for others
        self.threads = np.zeros(self._room, np.int64)
        #: by the identity of a row, which is kept alive: which records it knows to have ended, as far as was asked
        self._ended: dict[int, tuple[Array, Array]] = {}
        self._tools = fastest()
        #: records of ordinary accesses at a warp's current time, which further accesses of the same line share
        self._present: dict[int, tuple[int, dict[tuple[object, ...], int]]] = {}
        #: the latest that were made together by each warp, which are not in `_present`: its time, the first of them,
        #: what they are, and the log whose records are the warp's
        self._latest: dict[int, tuple[int, int, Ordinary, int]] = {}
        self._add(NOBODY, "", Kind.NOTHING, (), ALWAYS, 0, 0)

    def ordinary(self, by: By, opcode: str, kind: Kind, writes: bool) -> int:
        """The record of a load or store. All accesses of one line at one time of its warp share a record."""
        time = self._clocks.time[by.warp]
        present = self._present.get(by.warp)
        if present is None or present[0] != time:
            present = self._present[by.warp] = time, self._at(by.warp, time)
        if not writes:
            self._clocks.loads[by.warp] = True
        key = key_of(by, opcode, writes)
        number = present[1].get(key)
        if number is None:
            number = present[1][key] = self._add(by, opcode, kind, (by.warp,), THREAD + 32 * by.warp, 1, time)
        return number

    def own(self, record: int, warp: int) -> int:
        """What stands in `threads` for the accesses that come before this one because the same lane made them.

        Before a collective load there are none: its lanes read what others have written.
        """
        # item: numpy compares its own integers with an IntEnum in 3 us
        return NOT_ONE if self.kind.item(record) == Kind.COLLECTIVE else THREAD + 32 * warp

    def _at(self, warp: int, time: int) -> dict[tuple[object, ...], int]:
        """The records that a warp has made together with others at a time of its."""
        latest = self._latest.get(warp)
        if latest is None or latest[0] != time:
            return {}
        _, first, made, log = latest
        return {made.keys[place]: first + place for place in np.flatnonzero(made.log == log).tolist()}

    def fresh(self, warps: Iterable[int]) -> bool:
        """Whether none of these warps has made a record of an ordinary access at its current time."""
        clock = self._clocks.time
        for warp in warps:
            now = clock[warp]
            if self._present.get(warp, _NONE)[0] == now or self._latest.get(warp, _NONE)[0] == now:
                return False
        return True

    def several(self, made: Ordinary, rows: Iterable[Array], clock: Array) -> int:
        """Make records of ordinary accesses by warps that are `fresh`; return the first number.

        Of each record, `rows` has what its warp knows, and `clock` (records,) the time of its warp.
        """
        first, owners = len(self.by), made.warp
        end = first + len(owners)
        while end > self._room:
            self._grow()
        self.by += made.by
        self.callers += made.callers
        self.opcode += made.opcode
        self.warps += made.warps
        self.row += rows
        self.clock[first:end] = clock
        self.kind[first:end], self.warp[first:end], self.lanewise[first:end] = int(Kind.ORDINARY), owners, 1
        self.column[first:end] = self.threads[first:end] = THREAD + 32 * owners
        return first

    def share(self, warp: int, time: int, first: int, made: Ordinary, log: int) -> None:
        """Let further accesses by a warp at that time share the records that it has `made` in a log."""
        self._latest[warp] = time, first, made, log

    def object(self, by: By, opcode: str) -> int:
        """The record of an mbarrier in the bytes that it occupies. Nothing orders an ordinary access after it."""
        return self._add(by, opcode, Kind.OBJECT, (by.warp,), NEVER, 0, 0)

    def agent(self, by: By, opcode: str, kind: Kind, column: int, clock: int, warps: tuple[int, ...] = ()) -> int:
        """The record of an asynchronous access, which has ended for a row whose `column` is past `clock`."""
        return self._add(by, opcode, kind, warps or (by.warp,), column, 0, clock)

    def under_way(self, by: By, opcode: str) -> int:
        """The record of a cp.async that no wait has covered yet."""
        return self._add(by, opcode, Kind.CP_ASYNC, (by.warp,), NEVER, 0, 0)

    def waited(self, record: int) -> None:
        """The warp of a cp.async has waited: from now on, each lane's part counts as a store by that lane now."""
        (warp,) = self.warps[record]
        self.column[record] = self.threads[record] = THREAD + 32 * warp
        self.lanewise[record] = 1
        self.clock[record] = self._clocks.time[warp]

    def attach(self, record: int, column: int, clock: int) -> None:
        """Note that a cp.async ends with a phase of an mbarrier."""
        self.column[record], self.clock[record] = column, clock
        self.attachments = True

    def attached(self, record: Any) -> Any:
        """Whether each record is of a cp.async that ends with a phase of an mbarrier, bool (shape of `record`)."""
        return (self.kind[record] == Kind.CP_ASYNC) & (self.lanewise[record] == 0) & (self.column[record] != NEVER)

    def _add(
        self, by: By, opcode: str, kind: Kind, warps: tuple[int, ...], column: int, lanewise: int, clock: int
    ) -> int:
        number, now = len(self.by), self._clocks.time
        if number == self._room:
            self._grow()
        warp = by.warp
        self.callers.append(self._callers_of(by))
        self.by.append(by)
        self.opcode.append(opcode)
        self.warps.append(warps)
        self.row.append(self._clocks.rows[max(warp, 0)])
        if kind is not Kind.ORDINARY:
            self._began[number] = {each: now[each] for each in warps}
        # as plain numbers, which numpy takes in a third of the time
        self.kind[number], self.warp[number] = int(kind), warp
        self.column[number], self.lanewise[number], self.clock[number] = column, lanewise, clock
        self.threads[number] = column if kind is Kind.ORDINARY else -1
        return number

    def _grow(self) -> None:
        """Make room for twice as many records."""
        more = np.zeros(self._room, np.int64)
        self.kind, self.warp, self.column, self.lanewise, self.clock, self.threads, self.previous = (
            np.concatenate([each, more])
            for each in (self.kind, self.warp, self.column, self.lanewise, self.clock, self.threads, self.previous)
        )
        self._room *= 2

    def _callers_of(self, by: By) -> tuple[Site, ...]:
        callers = () if by is NOBODY else callers_of(by)
        return self._chains.setdefault(callers, callers) if callers else callers

    def together(self, one: int, other: int) -> bool:
        """Whether both accesses are strong and so do not race.

        Two volatile accesses of one warp do race: code that uses volatile there assumes that the lanes run in step.
        """
        first, second = self.strong.get(one, WEAK), self.strong.get(other, WEAK)
        if first.order == second.order == "volatile" and self.same_warps(one, other):
            return False
        return first.together(second, self._away(one, other))

    def why_not_together(self, one: int, other: int) -> str:
        """Why two strong accesses nevertheless race; empty if one is weak."""
        return self.strong.get(one, WEAK).why(self.strong.get(other, WEAK), self._away(one, other))

    def _away(self, one: int, other: int) -> int:
        """How far a scope must reach from the one access to the other."""
        return int(self.by[one].block != self.by[other].block)

    def same_warps(self, one: int, other: int) -> bool:
        """Whether some warp took part in both accesses."""
        return not set(self.warps[one]).isdisjoint(self.warps[other])

    def ended(self, marks: Array, row: Array) -> bool:
        """Whether `row` knows that the records of all `marks` (n,) have ended, for all their lanes.

        This is quick, because usually few records have many marks; `unknown` looks at each mark instead.
        """
        return self.all_ended(marks, _numbers(len(marks)), row)

    def all_ended(self, marks: Array, cells: Array, row: Array) -> bool:
        """The same for the marks that `cells` (n,) have."""
        known = self.known(row)
        while (record := self._tools.other(marks, cells, known)) >= 0:
            if not self.learn(record, row, known):
                return False
        return True

    def settled(self, marks: Array, row: Array, record: int) -> bool:
        """Whether the records of all `marks` have ended, or do not race with `record` because both are strong."""
        marks = marks.ravel()
        if record not in self.strong:
            return self.ended(marks, row)
        cells, known = _numbers(len(marks)), self.known(row)
        passed = known.copy()
        while (other := self._tools.other(marks, cells, passed)) >= 0:
            if not (self.together(other, record) or self.learn(other, row, known)):
                return False
            passed[other] = True
        return True

    def known(self, row: Array) -> Array:
        """Which records are known to have ended for `row`, bool (records,), as far as it was asked; record 0 is."""
        _, known = self._ended.get(id(row)) or self._begin(row)
        return known if len(known) >= len(self.by) else self._begin(row)[1]

    def learn(self, record: int, row: Array, known: Array) -> bool:
        """Whether a record has ended for `row`; if so, it becomes `known`, as it stays so."""
        column = self.column.item(record)
        clock = min(row[column : column + 32].tolist()) if self.lanewise.item(record) else row.item(column)
        ended: bool = clock > self.clock.item(record)
        known[record] = ended
        return ended

    def link(self, record: int, mark: int) -> None:
        """Remember the record before this one of the same bytes, of the same sort, which had the largest `mark`.

        Only the first one is remembered, and only if it is older: a shared record may be the older one.
        """
        if not self.previous[record]:
            previous = int(mark) >> 5
            self.previous[record] = previous if previous < record else 0

    def _begin(self, row: Array) -> tuple[Array, Array]:
        """Remember a row, of which so far only record 0 is known to have ended."""
        if len(self._ended) == _ROWS:
            self._ended.clear()
        known = np.zeros(self._room, bool)
        known[0] = True
        kept = self._ended[id(row)] = row, known
        return kept

    def unknown(self, marks: Array, row: Array, fenced: bool = False) -> Array:
        """Which of `marks` are accesses that `row` does not know to have ended, bool (shape of `marks`).

        With `fenced`, an ordinary access must also be covered by its own thread's fence.proxy.async.
        """
        record = marks >> 5
        if marks.ndim == 1 and len(marks) > _FEW and np.count_nonzero(record == record[0]) == len(record):
            return self._of_one(int(record[0]), marks, row, fenced)
        lanewise = self.lanewise[record]
        column = self.column[record] + lanewise * (marks & 31)
        if fenced:
            column += lanewise * self._clocks.lanes
        return np.asarray(row[column] <= self.clock[record])

    def _of_one(self, record: int, marks: Array, row: Array, fenced: bool) -> Array:
        """The same for many marks of one record: one copy has filled a whole tile."""
        column, clock = int(self.column[record]), self.clock[record]
        if not self.lanewise[record]:
            return np.full(len(marks), row[column] <= clock)
        lanes = column + (marks & 31)
        return np.asarray(row[lanes + self._clocks.lanes if fenced else lanes] <= clock)

    def knows(self, row: Array, record: int, lane: int, fenced: bool = False) -> bool:
        """Whether `row` knows that the access has ended."""
        return not self.unknown(np.array([32 * record + lane], np.int64), row, fenced)[0]

    def knows_began(self, row: Array, record: int, lane: int) -> bool:
        """Whether `row` knows that the access was issued; it may still be pending."""
        return any(row[THREAD + 32 * warp + lane] > self.began(record, warp) for warp in self.warps[record])

    def began(self, record: int, warp: int) -> int:
        """The time of a warp when the access began."""
        return self.clock.item(record) if record not in self._began else self._began[record][warp]
