"""The rule about races in global memory: between blocks, and between the warps of one block.

global_copies.py has what bulk and tensor copies do; accesses are compared with them here.

Every access is compared with the last writes and, if it writes, with the last reads of its bytes. Two strong accesses
do not race if their scopes reach each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcemu.instructions import Instruction
from tcemu.machine.events import Accessed, By, Fenced, Site
from tcemu.machine.memory import Extent
from tcemu.machine.sites import alone, callers_of
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in, mask_of
from tcemu.sanitizer.fences import ACQUIRE, ALIKE, REACH, UNACQUIRED, WEAK, guessed, strength, summed
from tcemu.sanitizer.global_shadow import WRITES, GlobalShadow, Line
from tcemu.sanitizer.grid import GlobalAccess, thread_of
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.rules import Severity
from tcemu.sanitizer.spans import NEVER_WAITED, Span, Spans

_CAUSE = {
    "global-race": "nothing orders the accesses of the two {who}",
    "lane-race": "two lanes of the warp made the accesses, with no bar.warp.sync between them",
}
_INCOHERENT = "ld.global.nc reads through a cache that does not see what the launch writes, ordered or not"
_COHERENT = "Load with ld.global. ld.global.nc (__ldg) is for memory that nothing writes while the kernel runs."
_INSIDE = "Put bar.sync between the two accesses."
_FLAG = (
    "the thread whose access comes first executes fence.acq_rel.gpu (__threadfence) after it (and after a barrier, if "
    "it speaks for others) and then sets a flag; the other one waits for the flag with ld.acquire.gpu in a loop"
)
#: The fix where a plain store meets an atomic operation, or a strong store: which comes first decides the result.
_STORED = (
    "{order} the two, so that it is certain which one comes first: {way}. (A strong store would only hide the race: "
    "the result would still depend on the order.)"
)
#: How that begins where the atomic operation may take a lock.
_FREED = "If the store frees a lock, execute __threadfence() and atomicExch(&lock, 0) in its place. If not, order"
#: The fix where one of the two is strong and the other, weak one or the other reads: a flag, or data.
_POLLED = (
    "If the load is one of a loop that waits for the other thread, make both strong: load with ld.acquire.gpu, and "
    "store with st.release.gpu or an atomic operation. If it is not, order the two: {way}."
)
#: The fix for two stores.
_BOTH = (
    "Ask first whether the two {who}s share these addresses on purpose. If they do not, give each bytes of its own: "
    "compute the address from the number of the {who}, too. If each adds its part, use red or atom. If one is to come "
    "after the other, {way}."
)
#: The cause and the fix if a store overwrites what a cp.async reads.
_READING = "no cp.async.wait_group of the thread that issued the copy covers it, so it may still read"
_READ = (
    "In the thread that issued the copy, execute cp.async.commit_group and cp.async.wait_group before the store; then, "
    "if another thread stores, a barrier."
)
_NONE = None, 0
#: The fix if nothing waits for a copy that writes.
_WAIT = (
    "In the thread that issued the copy, execute cp.async.bulk.commit_group and cp.async.bulk.wait_group 0, without "
    ".read. Only after that may the thread release: set a flag, or arrive at a barrier."
)


class GlobalRaces:
    """The accesses of one block, or of one cluster, to global memory."""

    def __init__(self, block: Block) -> None:
        grid, neighbour = block.grid, block.neighbour
        self._block, self._clocks, self._grid, self._neighbour = block, block.clocks, grid, neighbour
        self._shadow: GlobalShadow = grid.shadow
        self._loads, self._time = block.clocks.loads, block.clocks.time
        #: by warp, of the latest access: what further ones must share to have its number, and the number
        self._latest: dict[int, tuple[object, int]] = {}
        #: what stands for its warps, but for the number of one
        self._own = thread_of(neighbour.number, 0)
        #: by warp and line of the kernel: what its latest weak reads have in common
        self._lines: dict[tuple[int, Site], Line] = {}
        #: what bulk and tensor copies have written and read
        self._stored, self._loaded = grid.stored, grid.loaded
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: access.space == "global"),
            Fenced: self._fence,
        }

    def _fence(self, event: Fenced) -> None:
        """Keep the block's last fence, which may be too narrow."""
        self._grid.fences[self._neighbour.number] = event

    def _accessed(self, event: Accessed) -> None:
        low, high = event.extent
        if not high:
            return
        if event.writes or event.order:
            self._look(event)
        else:
            line = self.line(event.by, event.instruction, event.size, event.lanes)
            read = self.list(line, event.addresses.tobytes(), event.extent, self._time[event.by.warp])
            if read is not None:
                self._look(event, read)
        stored, loaded = self._stored, self._loaded
        if (low < stored.end and high > stored.first) or (low < loaded.end and high > loaded.first):
            self._compare_copies(event)
        sources = self._grid.sources
        if event.writes and low < sources.end and high > sources.first:
            self._compare_sources(event)

    def _look(self, event: Accessed, read: tuple[Any, ...] = ()) -> None:
        """Compare an access with those before it; `read` has the fields of a weak read."""
        shadow, extent, strong = self._shadow, event.extent, bool(event.order)
        addresses, size, lanes, own = event.addresses, event.size, event.lanes, self._own + event.by.warp
        if event.writes:
            if shadow.claim(addresses, size, 32 * self._number(event), lanes, strong, extent, own):
                return
        else:
            self._loads[event.by.warp] = True
            if read and "nc" not in event.instruction.words:
                line, _, time = read
                if shadow.reread(addresses, size, self._grid.accesses.first(line, time), lanes, extent[1], own):
                    return
        cells, per = shadow.cells(event.addresses, event.size, extent[1])
        known = shadow.known(cells)
        if known is not None:
            prior = known if event.writes else known[WRITES]
            lanes = event.lanes if per == 1 else event.lanes.repeat(per)
            if np.count_nonzero(prior) and not self._incoherent(event, prior, cells, lanes):
                self.compare(self.access(event), prior, cells, lanes, event)
        if read:
            shadow.note(read)
            return
        marks = 32 * self._number(event) + (event.lanes if per == 1 else event.lanes.repeat(per))
        if event.writes:
            shadow.write(cells, marks, strong, extent)
        else:
            shadow.read_strongly(cells, marks)

    def access(self, event: Accessed) -> GlobalAccess:
        """An access by loads or stores."""
        strong = strength(event.instruction, event.order)
        return GlobalAccess(self._neighbour.number, event.by, event.opcode, event.writes, strong)

    def _incoherent(self, event: Accessed, prior: Array, cells: Array, lanes: Array) -> bool:
        """Report ld.global.nc of bytes that the launch has written; return whether it is one."""
        if "nc" not in event.instruction.words:
            return False
        row, place = np.argwhere(prior)[0].tolist()
        mark, what = int(prior[row, place]), self._grid.extent(cells[prior.any(axis=0)] * self._shadow.cell, 1)
        other = self._grid.accesses.made[mark >> 5]
        if other is not None:
            lane = int(lanes[place])
            self.report(self.access(event), other, mark & 31, lane, what, cause=_INCOHERENT, remedy=_COHERENT)
        return True

    def _number(self, event: Accessed) -> int:
        """The number of an access: often that of the warp's latest one, as kernels store a tile line by line."""
        _, warp, active, site = by = event.by
        time = self._time[warp]
        this = event.instruction, site, active, event.writes, time
        latest, number = self._latest.get(warp, _NONE)
        if this != latest:
            accesses, strong = self._grid.accesses, strength(event.instruction, event.order)
            number = accesses.number(self._neighbour.number, by, event.opcode, event.writes, strong, time)
            self._latest[warp] = this, number
        return number

    def line(self, by: By, instruction: Instruction, size: int, lanes: Array) -> Line:
        """What a weak read has in common with the others of its line; its warp now counts as one that reads."""
        _, warp, active, site = by
        self._loads[warp] = True
        line = self._lines.get((warp, site))
        if (
            line is None
            or line.lanes is not lanes
            or line.instruction is not instruction
            or line.active != active
            or line.size != size
            or not line.alone
        ):
            line = self._line(by, instruction, size, lanes, line)
        return line

    def list(self, line: Line, addresses: bytes, extent: Extent, time: int) -> tuple[Line, bytes, int] | None:
        """Put a weak read at a time of its warp on the list of its array; return it if that cannot be done."""
        (low, high), listed = extent, line.listed
        read = line, addresses, time
        if listed.low <= low and high <= listed.end and listed.room > 0:
            listed.add(read)
            return None
        return None if self._shadow.lists(read, extent) else read

    def _line(self, by: By, instruction: Instruction, size: int, lanes: Array, latest: Line | None) -> Line:
        """The same; often it is the `latest` one."""
        callers = callers_of(by)
        if (
            latest is not None
            and latest.callers == callers
            and latest.instruction is instruction
            and latest.active == by.active
            and latest.size == size
            and latest.lanes.tobytes() == lanes.tobytes()
        ):
            return latest
        if callers:
            callers = self._grid.accesses.kept(callers)
        line = Line(by, instruction, size, lanes, self._neighbour.number, callers, alone(by.site))
        self._lines[by.warp, by.site] = line
        return line

    def number(self, by: By, instruction: Instruction, writes: bool) -> int:
        """The number of a weak access by a warp now."""
        return self._grid.accesses.number(
            self._neighbour.number, by, instruction.opcode, writes, WEAK, self._time[by.warp]
        )

    # ---------------------------------------------------------------------------------------- what is in order

    def compare(self, access: GlobalAccess, prior: Array, cells: Array, lanes: Array, event: Accessed | None) -> None:
        """Report the earlier accesses (rows, n) that nothing orders before this one, one report for each record."""
        before = prior >> 5
        for number in np.unique(before).tolist():
            other = self._grid.accesses.made[number]
            if other is None or access.together(other):
                continue
            late = (before == number) & ~self._ordered(access, number, prior & 31, lanes)
            if late.any() and other.writes and other.strength.order:
                late &= ~self._observed(access, number, cells, lanes)
            if late.any():
                row, place = np.argwhere(late)[0].tolist()
                where = cells[late.any(axis=0)]
                same = event is not None and self._same(event, late.any(axis=0))
                what = self._grid.extent(where * self._shadow.cell, self._shadow.cell)
                first, lane = int(prior[row, place] & 31), int(lanes[place])
                cause, remedy = (UNACQUIRED, ACQUIRE) if self._unacquired(access, number, first, lane) else ("", "")
                self.report(access, other, first, lane, what, same=same, cause=cause, remedy=remedy)

    def _ordered(self, access: GlobalAccess, number: int, before: Array, lanes: Array) -> Array:
        """Whether the accesses of record `number` by lanes `before` (rows, n) are known to have ended, bool."""
        accesses, by = self._grid.accesses, access.by
        other, time = accesses.made[number], accesses.time[number]
        assert other is not None  # noqa: S101 - record 0 has been left out
        clocks = self._grid.clocks[other.block]
        column = THREAD + 32 * other.by.warp
        ordered = np.zeros(before.shape, bool)
        for mask, row in self._clocks.common(by.warp, by.active):
            known = self._neighbour.known(row).get(other.block)
            if known is not None:
                ended = known[column + before] > time
                if not other.writes:  # instructions of the whole warp show that its loads have been issued
                    ended |= known[clocks.issued_base + other.by.warp] > time
                ordered |= ended & (np.int64(mask) >> lanes & 1).astype(bool)
        if access.block == other.block and by.warp == other.by.warp:
            ordered |= (before == lanes) | (not other.writes)
        return ordered

    def _unacquired(self, access: GlobalAccess, number: int, before: int, lane: int) -> bool:
        """Whether an access would be ordered after record `number`, had its lane acquired all that it has found."""
        accesses = self._grid.accesses
        other, time = accesses.made[number], accesses.time[number]
        assert other is not None  # noqa: S101 - for the types
        column = THREAD + 32 * other.by.warp + before
        for row in self._block.fences.unacquired(access.by.warp, lane):
            known = self._neighbour.known(row).get(other.block)
            if known is not None and bool(known[column] > time):
                return True
        return False

    def _observed(self, access: GlobalAccess, number: int, cells: Array, lanes: Array) -> Array:
        """Whether the strong write of record `number` was seen by a strong read that comes before this access, (n,)."""
        writes, reads = self._shadow.seen(cells)
        observed = np.zeros(len(cells), bool)
        for read in np.unique(reads[writes >> 5 == number] >> 5).tolist():
            here = (writes >> 5 == number) & (reads >> 5 == read)
            reader, write = self._grid.accesses.made[read], self._grid.accesses.made[number]
            if reader is not None and write is not None and reader.together(write):
                observed |= here & self._ordered(access, read, reads[None] & 31, lanes)[0]
        return observed

    def _same(self, event: Accessed, indices: Array) -> bool:
        """Whether a store writes what is there already."""
        memory = self._grid.memory
        if event.data is None or not len(memory):
            return False
        per = event.data.size // len(indices) if len(indices) else 1
        chosen = event.data.reshape(-1, per)[indices]
        if event.before is not None:
            return np.array_equal(chosen, event.before.reshape(-1, per)[indices])
        cells = (event.addresses[:, None] + np.arange(0, event.size, per, dtype=np.int64)).reshape(-1)[indices]
        return np.array_equal(chosen, memory[cells[:, None] + np.arange(per, dtype=np.int64)])

    # ---------------------------------------------------------------------------------------- copies before it

    def _compare_copies(self, event: Accessed) -> None:
        """Compare a load or store of some bytes with the copies before it."""
        stored, loaded, first = self._grid.stored, self._grid.loaded, event.addresses
        for spans in (stored, loaded) if event.writes else (stored,):
            if spans.between(*event.extent):
                self.compare_spans(self.access(event), spans, first, first + event.size, event.lanes)

    def _compare_sources(self, event: Accessed) -> None:
        """Report that a store overwrites what a cp.async may still read."""
        for source, before, number in self._grid.sources.under(event.addresses, event.size):
            source.access.column = 0  # it is a copy
            lane, what = int(event.lanes[number]), self._grid.extent(event.addresses[number : number + 1], event.size)
            self.report(self.access(event), source.access, before, lane, what, cause=_READING, remedy=_READ)

    def compare_spans(
        self,
        access: GlobalAccess,
        spans: Spans,
        first: Array,
        end: Array,
        lanes: Array | None,
        but: Sequence[Span] = (),
    ) -> None:
        """Report the copies, `but` some, that may still access one of the bytes (n,) that `lanes` access."""
        for span in spans.between(int(first.min()), int(end.max())):
            if span in but or access.together(span.access):
                continue
            indices = np.flatnonzero(span.runs.touched(first, end))
            if len(indices):
                here = access.by.active if lanes is None else mask_of(lanes[indices])
                late = self.late(access.by.warp, here, span.access)
                if late:
                    self._report_copy(access, span, late, int(first[indices].min()), int(end[indices].max()))

    def late(self, warp: int, lanes: int, other: GlobalAccess) -> int:
        """The lanes that do not know a copy to have ended."""
        late = 0
        for mask, row in self._clocks.common(warp, lanes):
            known = self._neighbour.known(row).get(other.block)
            if known is None or len(known) <= other.column or known[other.column] <= other.clock:
                late |= mask
        return late

    def _report_copy(self, access: GlobalAccess, span: Span, lanes: int, low: int, high: int) -> None:
        """Report an access by lanes that do not know that the copy has ended: it has not, or nothing told them."""
        warp, other = access.by.warp, span.access
        known = self._neighbour.known(self._clocks.view(warp, lanes)).get(other.block)
        heard = 0 if known is None else int(known[THREAD + 32 * other.by.warp + span.lane])
        unwaited = span.unwaited and (span.issued < heard <= span.waited or span.waited == NEVER_WAITED)
        cause, remedy = (span.unwaited, _WAIT) if unwaited else ("", "")
        what = self._grid.extent(np.array([low], np.int64), high - low)
        self.report(access, other, span.lane, int(lanes_in(lanes)[0]), what, cause=cause, remedy=remedy)

    # ---------------------------------------------------------------------------------------- words

    def report(
        self,
        access: GlobalAccess,
        other: GlobalAccess,
        before: int,
        lane: int,
        what: str,
        *,
        cause: str = "",
        remedy: str = "",
        same: bool = False,
        weight: Severity | None = None,
    ) -> None:
        """Report two accesses to the bytes `what`, by these lanes; `same`: a store writes what is there already."""
        inside = access.block == other.block
        lanewise = inside and access.by.warp == other.by.warp and not (access.copies or other.copies)
        rule = "lane-race" if lanewise else "global-race"
        why = access.strength.why(other.strength, access.away(other))
        if why and not cause:
            cause, remedy = f"nothing orders them; {why}", ALIKE
        apart = self._apart(access, other)
        if apart and not cause:
            cause, remedy = apart
        cause = cause or _CAUSE[rule].format(who="warps" if access.by.block == other.by.block else "blocks")
        does = "updates" if access.strength.atomic else "writes" if access.writes else "reads"
        did = "updated" if other.strength.atomic else "wrote" if other.writes else "read"
        message = f"{access.opcode} {does} {what}; {other.opcode} of {other.who}, lane {before} {did} them: {cause}"
        hint = same and other.writes
        message = "; ".join([message, *self._narrow(access, other)])
        if hint:
            message += "; both write the same values"
        if not remedy and not (access.copies or other.copies):
            remedy = _remedy(access, other, lanewise)
        earlier = Earlier(other.origin, other.opcode, other.callers)
        report = Report(rule, message, access.by, what, earlier, (lane,), remedy=remedy)
        report.weight = "hint" if hint else weight
        self._tell(report)

    def _narrow(self, access: GlobalAccess, other: GlobalAccess) -> Iterator[str]:
        """The last fences of the two blocks, if their scopes do not reach so far, in words."""
        for each in () if access.copies or other.copies else (other, access):
            last = self._grid.fences.get(each.block)
            if last is not None and REACH[last.scope] < access.away(other):
                fence = f"the fence of block {last.by.block} at {last.by.site}"
                yield f"{fence} has the scope .{last.scope}, which does not reach so far"

    def _apart(self, access: GlobalAccess, other: GlobalAccess) -> tuple[str, str] | None:
        """The cause and the fix, if the accesses are of two launches of a stream."""
        one, two = sorted(self._grid.launch_of[each.by.block] for each in (access, other))
        if one == two:
            return None
        before, after = self._grid.kernels[one], self._grid.kernels[two]
        remedy = (
            f"Execute griddepcontrol.wait (cudaGridDependencySynchronize) in {after} before its access: it returns "
            f"once {before} has ended and all that it wrote can be seen."
        )
        return f"{after} may run while {before}, before it in the stream, has not ended", remedy

    def _tell(self, report: Report) -> None:
        if report.weight == "hint":
            self._block.hint(report)
        elif report.rule == "lane-race":
            self._block.later(report)
        else:
            self._block.tell(report)


def _remedy(access: GlobalAccess, other: GlobalAccess, lanewise: bool) -> str:
    """The fix for two loads, stores or atomic operations, perhaps of one warp; empty if the rule's own fits."""
    inside = access.by.block == other.by.block
    way = f"put bar.{'warp.' * lanewise}sync between them" if inside else _FLAG
    one, two = ((each.opcode, each.strength.order) for each in (access, other))
    guess = guessed(one, two, way) or summed((one[0], access.by.site), (two[0], other.by.site), way)
    if guess or lanewise:
        return guess
    stores = all(each.writes or each.strength.atomic for each in (access, other))
    if bool(access.strength.order) != bool(other.strength.order):
        frees = any(set(each.opcode.split(".")) & {"cas", "exch"} for each in (access, other)) and stores
        return (_STORED if stores else _POLLED).format(way=way, order=_FREED if frees else "Order")
    if stores:
        return _BOTH.format(who="warp" if inside else "block", way=way)
    return _INSIDE if inside else ""
