"""Rules about the bytes of shared memory: races, proxies, copies used or overwritten too early, unwritten bytes.

Every access is compared with the last write of each byte and, if it writes, with the last read of each reader. An
earlier access that the accessing warps do not know to have ended is a collision, unless it is in order for another
reason (order.py); naming.py names the rule that it breaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.machine.allocation import RESERVED
from tcemu.machine.events import Accessed, BlockEnded, By, Site, Stuck
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import THREAD, lanes_in
from tcemu.sanitizer.fences import ACQUIRE, UNACQUIRED, strength
from tcemu.sanitizer.naming import Known, Naming, Side, Verdict, side_of
from tcemu.sanitizer.order import Order
from tcemu.sanitizer.quick import Quick
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.rules import Severity
from tcemu.sanitizer.shadow import among, run_of

Array = npt.NDArray[Any]

#: Why refilling bytes that ordinary loads have read is only a hint.
_DEBATED = (
    "no fence.proxy.async orders the loads with the copy. Opinions differ: CUTLASS's pipelines have none, "
    "because the readers' arrival and the producer's wait order the loads before the copy; but the manual orders "
    "accesses of two proxies only by a proxy fence, and DeepEP has added one after it saw wrong data"
)

#: Functions of libraries that read more than they use, by name, and where they say so: what such a line reads may be
#: undefined.
_UNUSED = {"cub::.*SerialMerge": "and which CUB does not use: as its documentation says, it may read one item more"}

_PERHAPS = "If you follow CUTLASS, none. If you follow the manual: fence.proxy.async in the readers before they arrive."


class SharedMemory:
    """Accesses of one block to its shared memory."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._records, self._shadow, self._clocks = block.records, block.shadow, block.clocks
        self._naming = Naming(block.clocks, block.records)
        self._quick = Quick(block.clocks, block.records, block.shadow)
        self._order = Order(block.clocks, block.records, block.shadow)
        #: cells read before any write, by record; reported at the end unless a later write explains them
        self._blind: dict[int, str] = {}
        #: reports held back until it is clear how the kernel waits for a cp.async, by its record
        self._held: dict[int, list[Report]] = {}
        #: the store that is looked at
        self._store: Accessed | None = None
        #: whether anything but wgmma and bulk copies has read
        self.generic_reads = False
        #: the lines of copies that have had a hint
        self._hinted: set[Site] = set()
        #: reports a phase (column, number) of an mbarrier if no expect_tx announced its bytes; returns whether it did
        self.unexpected: Callable[[int, int], bool] = lambda *_: False
        #: reports the mma_async of a read if a wait missed it because it is in no group; returns whether it did
        self.uncommitted: Callable[[int, Earlier], bool] = lambda *_: False
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: access.space == "shared"),
            BlockEnded: self._ended,
            Stuck: self._ended,
        }

    # ---------------------------------------------------------------------------------------- loads and stores

    def _accessed(self, event: Accessed) -> None:
        if not len(event.addresses):
            return
        cells, per = self._shadow.cells(event.addresses, event.size)
        lanes = event.lanes if per == 1 else event.lanes.repeat(per)
        kind = Kind.COLLECTIVE if event.collective else Kind.ORDINARY
        record = self._records.ordinary(event.by, event.instruction.opcode, kind, event.writes)
        if event.order and record not in self._records.strong:
            self._records.strong[record] = strength(event.instruction, event.order)
        if event.writes:
            self._store = event
            self.write_lanes(event.by, record, cells, lanes)
            self._store = None
        else:
            self.generic_reads = True
            self._read_lanes(event.by, record, cells, lanes, event.instruction.words.get("op") != "exch")
        if event.collective:
            self._clocks.meet(event.by.warp)

    def _read_lanes(self, by: By, record: int, cells: Array, lanes: Array, needed: bool) -> None:
        """A load; `needed` is False for atom.exch, whose result is often unused."""
        if self._quick.reads(by.warp, record, cells, lanes, needed):
            return
        writes = self._shadow.writes(cells, record in self._records.strong)
        for (row, part), prior in product(self._order.shares(by, lanes), writes):
            if self._records.settled(prior, row, record):
                continue
            late = among(self._records.unknown(prior, row), part)
            if len(late):
                own = self._records.own(record, by.warp)
                late = late[~self._order.own(prior[late], own, lanes[late])]
                self._collide_read(record, by.warp, cells, prior, lanes, late, Known(row, (row,)))
        if needed:
            self._note_blind(record, cells, writes[0])
        self._put_read(record, by.warp, cells, lanes)

    def write_lanes(self, by: By, record: int, cells: Array, lanes: Array) -> None:
        """A store or cp.async in which each lane writes its own cells."""
        if self._quick.writes(by.warp, record, cells, lanes):
            return
        writes, reads = self._shadow.writes(cells, record in self._records.strong), self._shadow.reads_at(cells)
        prior = writes[0]
        for row, part in self._order.shares(by, lanes):
            for before in writes:
                if self._records.settled(before, row, record):
                    continue
                late = among(self._records.unknown(before, row), part)
                if len(late):
                    late = late[~self._order.own(before[late], THREAD + 32 * by.warp, lanes[late])]
                    self._collide_rewrite(record, cells, before, late, lanes, Known(row, (row,)))
            if self._order.all_read(reads, row) or self._records.settled(reads, row, record):
                continue
            unknown = self._records.unknown(reads, row)
            for reader in np.flatnonzero(unknown.any(axis=1)) if len(reads) else ():
                marks, late = reads[reader], among(unknown[reader], part)
                late = late[~self._order.own_read(marks[late], by.warp, lanes[late], row)]
                self._collide_write(record, cells, marks, late, lanes, prior, Known(row, (row,)))
        self._note_write(record, cells, prior, lanes)

    # ---------------------------------------------------------------------------------------- the async proxy

    def read_async(self, record: int, cells: Array, known: Known, reader: object) -> None:
        """A wgmma or bulk copy will read `cells`; `known` is what the warps that issued it know."""
        if self._quick.reads_async(reader, record, cells, known.all):
            return
        self._check_async(record, reader, cells, known)
        reads = self._shadow.reads_of(reader)
        self._link_read(record, reads, cells)
        self._shadow.tools.put(reads, cells, 32 * record)

    def _check_async(self, record: int, reader: object, cells: Array, known: Known) -> None:
        """Compare a read with the last write of each cell. Usually one copy wrote them all and has ended."""
        prior = self._shadow.written[cells]
        late = self._records.unknown(prior, known.all, fenced=True)
        if self._records.attachments:
            late |= self._order.unfenced(record, prior)
        if np.count_nonzero(late):
            lanes = np.zeros(len(cells), np.int64)
            self._collide_read(record, reader, cells, prior, lanes, np.flatnonzero(late), known)
        self._note_blind(record, cells, prior)

    def combine_async(self, record: int, cells: Array, row: Array, *, fenced: bool) -> None:
        """A reduction, issued by lanes that know `row`, will combine its values with what `cells` hold."""
        self._note_blind(record, cells, self._shadow.written[cells])
        self.write_async(record, cells, row, fenced=fenced)

    def write_async(self, record: int, cells: Array, row: Array, *, fenced: bool = True) -> None:
        """A copy, issued by lanes that know `row`, will write `cells`; `fenced`: through the async proxy."""
        if not self.generic_reads and self._quick.writes_async(record, cells, row):
            return
        run = run_of(cells)
        prior, reads = self._shadow.written[run], self._shadow.reads_at(run)
        known, lanes = Known(row, (row,)), np.zeros(len(cells), np.int64)
        late = np.flatnonzero(self._records.unknown(prior, row, fenced=fenced))
        self._collide_rewrite(record, cells, prior, late, lanes, known)
        for marks in () if self._order.all_read(reads, row) else reads:
            late = np.flatnonzero(self._records.unknown(marks, row))
            late = late[~self._order.passed(marks[late], row)]
            self._collide_write(record, cells, marks, late, lanes, prior, known)
        if self.generic_reads and self._records.by[record].site not in self._hinted:
            self._hint_refill(record, cells, reads, row, lanes)
        self._note_write(record, run, prior, 0)

    def _hint_refill(self, record: int, cells: Array, reads: Array, row: Array, lanes: Array) -> None:
        """Hint at ordinary reads which are over, but with no fence.proxy.async before a copy refills their bytes."""
        for marks in reads:
            late = self._records.unknown(marks, row, fenced=True) & ~self._records.unknown(marks, row)
            for where in self._by_record(marks, np.flatnonzero(late), record)[:1]:
                self._hinted.add(self._records.by[record].site)
                verdict = Verdict("proxy-fence-missing", _DEBATED, weight="hint", remedy=_PERHAPS)
                self._tell(verdict, Side(record, 0), side_of(marks[where[0]]), cells[where], "refills", "read")
                return

    # ---------------------------------------------------------------------------------------- mbarriers, cp.async

    def objects(self, by: By, opcode: str, cells: Array) -> None:
        """mbarrier.init: the cells are an object from now on."""
        lanes = np.full(len(cells), lanes_in(by.active)[0])
        self.write_lanes(by, self._records.ordinary(by, opcode, Kind.ORDINARY, True), cells, lanes)
        self._shadow.write(cells, 32 * self._records.object(by, opcode) + lanes, False)

    def bytes_again(self, by: By, opcode: str, cells: Array) -> None:
        """mbarrier.inval: the cells are ordinary memory again, which counts as written by this thread."""
        marks = 32 * self._records.ordinary(by, opcode, Kind.ORDINARY, True) + lanes_in(by.active)[0]
        self._shadow.write(cells, np.full(len(cells), marks), False)

    def decided(self, record: int, waited: bool) -> None:
        """Make the reports held back for a cp.async, now that it is clear whether its own warp has waited for it."""
        for report in self._held.pop(record, ()):
            if not waited:
                report.rule = "cp-async-unwaited"
            self._block.tell(report)

    def _ended(self, event: BlockEnded | Stuck) -> None:
        for record in list(self._held):
            self.decided(record, waited=False)
        for warp in range(self._block.warps):
            self.tell_blind(warp, "uninitialised-shared")

    def tell_blind(self, warp: int, rule: str, why: str = "", remedy: str = "") -> bool:
        """Report the bytes that a warp read before any write; return whether there were any."""
        blind = [record for record in self._blind if self._records.warp[record] == warp]
        for record in blind:
            what, here = self._blind.pop(record), self._block.earlier(record)
            message = f"{here.what} reads {what}, which nothing had written"
            unused = _unused(here.site)
            text = ", ".join(filter(None, (message, why or unused)))
            weight: Severity | None = "hint" if unused else None
            self._block.report(rule, here.by, text, what=what, remedy=remedy, callers=here.callers, weight=weight)
        return bool(blind)

    # ---------------------------------------------------------------------------------------- collisions

    def _collide_read(
        self, record: int, reader: object, cells: Array, prior: Array, lanes: Array, late: Array, known: Known
    ) -> None:
        seen = self._shadow.reads_of(reader)[cells]
        for where in self._by_record(prior, late, record):
            first = where[0]
            read, write = Side(record, int(lanes[first])), side_of(prior[first])
            if self._is_object(read, write, cells[where]):
                continue
            if self._naming.came_early(write, read, int(seen[first]) >> 5, known):
                self._tell(self._naming.overwrite(write, read), write, read, cells[where], "overwrites", "reads")
            else:
                self._tell_read(read, write, known, cells[where], "wrote")

    def _collide_write(
        self, record: int, cells: Array, marks: Array, late: Array, lanes: Array, prior: Array, known: Known
    ) -> None:
        for where in self._by_record(marks, late, record):
            first = where[0]
            write, read = Side(record, int(lanes[first])), side_of(marks[first])
            if self._naming.came_late(read, known, int(prior[first]) >> 5):
                self._blind.pop(read.record, None)
                self._tell_read(read, write, None, cells[where], "writes")
            elif not self.uncommitted(read.record, self._block.earlier(record)):
                self._tell(self._naming.overwrite(write, read), write, read, cells[where], "overwrites", "reads")

    def _collide_rewrite(
        self, record: int, cells: Array, prior: Array, late: Array, lanes: Array, known: Known
    ) -> None:
        for where in self._by_record(prior, late, record):
            first = where[0]
            write, other = Side(record, int(lanes[first])), side_of(prior[first])
            if self._is_object(write, other, cells[where]):
                continue
            verdict = self._naming.rewrite(write, other, known)
            if verdict.rule.endswith("-race"):
                verdict = self._same(verdict, cells, where)
                by = self._records.by
                if by[other.record].site.line > by[write.record].site.line:
                    write, other = other, write  # neither is first, so report them in the order of their lines
            self._tell(verdict, write, other, cells[where], "writes", "wrote")

    def _same(self, verdict: Verdict, cells: Array, where: Array) -> Verdict:
        """The verdict about two writes: a hint if a store writes what is there already."""
        store, content, cell = self._store, self._block.content, self._shadow.cell
        if store is None or store.data is None or not len(content):
            return verdict
        new = store.data.reshape(-1, cell)[where]
        if store.before is None:
            old = content[: len(content) // cell * cell].reshape(-1, cell)[cells[where]]
        else:
            old = store.before.reshape(-1, cell)[where]
        if not np.array_equal(new, old):
            return verdict
        return replace(verdict, cause=f"{verdict.cause}; both write the same values", weight="hint")

    def _tell_read(self, read: Side, write: Side, known: Known | None, cells: Array, did: str) -> None:
        """Report a read that nothing orders after the write."""
        verdict = self._naming.read(read, write, known)
        if verdict.rule == "tma-unwaited":
            column, phase = int(self._records.column[write.record]), int(self._records.clock[write.record])
            row = known.all if known else self._clocks.rows[self._records.warps[read.record][0]]
            if row[column] >= phase > 0 and self.unexpected(column, phase):
                return  # the reader has waited, but for a phase that completed without the copy
        self._tell(verdict, read, write, cells, "reads", did)

    def _is_object(self, here: Side, other: Side, cells: Array) -> bool:
        """Report an ordinary access to an mbarrier; return whether it is one."""
        if self._records.kind[other.record] != Kind.OBJECT:
            return False
        verdict = Verdict("mbarrier-object", "until mbarrier.inval, only mbarrier operations may access them")
        self._tell(verdict, here, other, cells, "accesses", "made an mbarrier of")
        return True

    def _by_record(self, marks: Array, indices: Array, record: int) -> list[Array]:
        """Indices grouped by record, other warps than `record`'s first, without pairs of strong accesses."""
        if not len(indices):
            return []
        records = marks[indices] >> 5
        order = sorted(np.unique(records).tolist(), key=lambda each: self._records.same_warps(each, record))
        return [indices[records == each] for each in order if not self._records.together(each, record)]

    def _tell(self, verdict: Verdict, side: Side, other: Side, cells: Array, does: str, did: str) -> None:
        if verdict.rule.endswith("-race") and self._unacquired(side, other):
            verdict = replace(verdict, cause=UNACQUIRED, remedy=ACQUIRE)
        here, earlier = self._block.earlier(side.record), self._block.earlier(other.record)
        if RESERVED in (what := self._shadow.extent(cells)):
            return
        message = f"{here.what} {does} {what}; {earlier.what} of {self._naming.who(other)} {did} them: {verdict.cause}"
        ways = self._block.explained(other.record, side.record)
        vain = [self._block.in_vain.get(each.by.warp, "") for each in (earlier, here)]
        message = "; ".join(dict.fromkeys([message, *filter(None, ways + vain)]))
        lanes = (side.lane,) if self._records.lanewise[side.record] else ()
        remedy = verdict.remedy or self._naming.remedy(verdict.rule, side, other)
        report = Report(verdict.rule, message, here.by, what, earlier, lanes, remedy=remedy, weight=verdict.weight)
        report.callers = self._records.callers[side.record]
        if verdict.weight == "hint":
            self._block.hint(report)
        elif verdict.rule == "lane-race" and self._block.warps > 1:
            self._block.later(report)  # if warps race for the same bytes, that comes first
        elif verdict.until:
            self._held.setdefault(verdict.until, []).append(report)
        else:
            self._block.tell(report)

    def _unacquired(self, side: Side, other: Side) -> bool:
        """Whether an access would be ordered after the other one, had its lane acquired all that it has found."""
        records, last = self._records, int(self._records.column[other.record]) + 31
        rows = self._block.fences.unacquired(records.by[side.record].warp, side.lane)
        return any(last < len(row) and records.knows(row, other.record, other.lane) for row in rows)

    # ---------------------------------------------------------------------------------------- marks

    def _put_read(self, record: int, reader: object, cells: Array, lanes: Array) -> None:
        reads = self._shadow.reads_of(reader)
        self._link_read(record, reads, cells)
        self._shadow.tools.put_each(reads, cells, 32 * record, lanes)

    def _link_read(self, record: int, reads: Array, cells: Array) -> None:
        if not self._records.previous[record]:
            self._records.link(record, self._shadow.tools.latest(reads, cells)[0])

    def _note_blind(self, record: int, cells: Array, prior: Array) -> None:
        """Remember a read of bytes that nothing has written."""
        if np.count_nonzero(prior) < len(prior):
            self._records.blind.add(record)
            if RESERVED not in (what := self._shadow.extent(cells[prior == 0])):
                self._blind.setdefault(record, what)

    def _note_write(self, record: int, cells: Array | slice, prior: Array, lanes: Array | int) -> None:
        if not self._records.previous[record] and len(prior):
            self._records.link(record, int(np.maximum.reduce(prior)))
        self._shadow.write(cells, 32 * record + lanes, record in self._records.strong)


def _unused(site: Site) -> str:
    """Why what this line of a library has read may be undefined; empty for any other line."""
    functions = (site.function, *getattr(site, "within", ()))
    words = (why for each in functions for library, why in _UNUSED.items() if re.match(rf"{library}\b", each))
    return next(words, "")
