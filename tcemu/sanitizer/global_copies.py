"""The rule about races in global memory, for copies.

What a copy writes is there for the thread that has waited for the copy with cp.async.bulk.wait_group, without .read,
and for the threads that synchronise with it afterwards; a proxy fence is part of the completion (PTX ISA 9.7.9.25.2).
What a copy reads may be overwritten by a thread that knows the phase of the copy's mbarrier to be complete.
What cp.async reads, no thread may overwrite before the thread that issued it has waited for it.
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import BlockEnded, By, CopiesArrive, CopiesWaited, Copy, CopyIssued
from tcemu.machine.memory import extent_of
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import lanes_in
from tcemu.sanitizer.fences import REACH, WEAK, Strength
from tcemu.sanitizer.global_fences import GlobalFences
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.global_shadow import ACCESSES, WRITES
from tcemu.sanitizer.grid import GlobalAccess
from tcemu.sanitizer.groups import Groups
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.spans import NEVER_WAITED, Runs, Source, Span

#: How strong the reductions of copies are.
_REDUCES = Strength("relaxed", REACH["gpu"])
_UNWAITED = "no cp.async.bulk.wait_group of the thread that issued the copy covers it, so it may still write"
_SOURCE = "the copy may still write: wait_group.read at {site} waits only until a copy has read its source"
_REPEATED = "each lane that executes the instruction issues a copy of its own"
_ELECT = "Let one lane issue the copy, the one that elect.sync chooses or lane 0: the others only repeat it."
_SMALLER = "The kernel needs no fix. Launch it on a smaller problem as well, where it makes fewer copies."


class GlobalCopies:
    """What the bulk and tensor copies of one block, or of one cluster, read and write in global memory."""

    def __init__(self, block: Block) -> None:
        self._clocks, self._grid, self._neighbour = block.clocks, block.grid, block.neighbour
        self._races, self._fences = block.section(GlobalRaces), block.section(GlobalFences)
        self._mbarriers = block.section(Mbarriers)
        #: the groups that have written
        self._groups = Groups(block.clocks)
        #: by warp: its stores that no wait has covered
        self._open: dict[int, list[Span]] = {}
        #: the latest store: what it copies, and the spans of the lanes that have issued it
        self._store_of: tuple[object, ...] = ()
        self._issued: list[Span] = []
        #: passes on a hint; and the origin of the latest copy
        self._hint = block.hint
        self._latest: By | None = None
        self.handlers: Handlers = {
            CopyIssued: self._copy,
            CopiesWaited: self._wait,
            CopiesArrive: self._arrive,
            BlockEnded: self._end,
        }

    # ---------------------------------------------------------------------------------------- what copies do

    def _copy(self, event: CopyIssued) -> None:
        copy = event.copy
        if copy.kind == "cp.async":
            self._load_lanes(copy)
        elif copy.reads[0] == "global" and len(copy.reads[1]):
            self._load(copy)
        elif copy.writes[0] == "global" and len(copy.writes[1]):
            self._store(copy)

    def _load_lanes(self, copy: Copy) -> None:
        """cp.async reads as a load does."""
        _, addresses, size = copy.reads
        if not len(addresses):
            return
        shadow, stored, (low, end) = self._grid.shadow, self._grid.stored, extent_of(addresses, size)
        access = GlobalAccess(self._neighbour.number, copy.by, copy.opcode, False, WEAK, callers_of(copy.by))
        lanes = copy.lanes
        if len(lanes) != len(addresses):  # of unequal sizes, in pieces
            lanes = np.full(len(addresses), _lane(copy.by))
        self._grid.sources.add(Source(access, copy, lanes, copy.by.active), low, end)
        if shadow.untouched(low, end) and not stored.between(low, end):
            return
        if not shadow.untouched(low, end):
            cells, per = shadow.cells(addresses, size, end)
            self._races.compare(access, shadow.marks(cells, WRITES), cells, lanes.repeat(per), None)
        self._races.compare_spans(access, stored, addresses, addresses + size, lanes)

    def _load(self, copy: Copy) -> None:
        """A copy reads global memory, at some time before its mbarrier has counted it."""
        _, addresses, size = copy.reads
        access = GlobalAccess(self._neighbour.number, copy.by, copy.opcode, False, WEAK)
        runs = Runs.of(addresses, size)
        if not self._grid.shadow.untouched(int(runs.first[0]), int(runs.end[-1])):
            self._compare_shadow(access, runs, WRITES, own=False)
            self._fences.check(access, runs)
        if self._grid.stored.end:
            self._races.compare_spans(access, self._grid.stored, runs.first, runs.end, None)
        here = self._mbarriers.live.get(copy.mbarrier)
        if here is not None:
            access.column, access.clock = here.column, copy.phase
            access.callers = callers_of(copy.by)
            self._grid.loaded.renew(Span(access, _lane(copy.by), runs))
            self._latest = copy.by

    def _store(self, copy: Copy) -> None:
        """A copy writes global memory, at some time before a wait for its group; a reduction does so as red does."""
        _, addresses, size = copy.writes
        by, warp = copy.by, copy.by.warp
        reduces = copy.instruction.family.startswith("cp.reduce")
        access = GlobalAccess(self._neighbour.number, by, copy.opcode, True, _REDUCES if reduces else WEAK)
        runs = Runs.of(addresses, size)
        self._compare_shadow(access, runs, ACCESSES, own=not reduces)
        repeated = [] if reduces else self._repeated(copy, access, runs)
        for spans in (self._grid.stored, self._grid.loaded):
            self._races.compare_spans(access, spans, runs.first, runs.end, None, repeated)
        access.column, access.clock, access.callers = self._groups.join(by), copy.group, callers_of(by)
        span = Span(access, _lane(by), runs, self._clocks.time[warp], unwaited=_UNWAITED)
        repeated.append(span)
        self._open.setdefault(warp, []).append(span)
        self._grid.stored.add(span)
        self._latest = by

    def _repeated(self, copy: Copy, access: GlobalAccess, runs: Runs) -> list[Span]:
        """The stores of the same bytes to the same place that other lanes have issued by this instruction.

        They need no order, as all write the same values; a hint says so once an instruction.
        """
        by = copy.by
        space, addresses, size = copy.reads
        store_of = by.site, by.warp, self._clocks.time[by.warp], space, addresses.tobytes(), size, *runs.key
        if store_of != self._store_of or len(self._issued) == by.active.bit_count():
            self._store_of, self._issued = store_of, []
        elif len(self._issued) == 1:
            first, end = runs.first[:1], int(runs.end[-1])
            what = self._grid.extent(first, end - int(first[0]))
            before, lane = self._issued[0], _lane(by)
            self._races.report(access, before.access, lane, lane, what, cause=_REPEATED, remedy=_ELECT, same=True)
        return self._issued

    def _wait(self, event: CopiesWaited) -> None:
        """The waiting lanes that issued copies learn that the groups before `below` have written."""
        by = event.by
        if event.kind == "cp.async":
            for source in self._grid.sources.waited(self._neighbour.number, by.warp, by.active, event.below):
                self._note(source)
            return
        if not self._groups.issuers(by):
            return
        kept = []
        for span in self._open[by.warp]:
            if span.access.clock >= event.below or not span.access.by.active & by.active:
                kept.append(span)
            elif event.read:
                span.unwaited = _SOURCE.format(site=by.site)
                kept.append(span)
            else:
                span.waited = self._clocks.time[by.warp]
        self._open[by.warp] = kept
        if not event.read:
            self._groups.ended(by, event.below)

    def _note(self, source: Source) -> None:
        """A cp.async has read its source: from now on, it is as if it had been a load."""
        copy = source.copy
        _, addresses, size = copy.reads
        line = self._races.line(copy.by, copy.instruction, size, source.lanes)
        time = self._clocks.time[copy.by.warp]
        read = self._races.list(line, addresses.tobytes(), extent_of(addresses, size), time)
        if read is not None:
            self._grid.shadow.note(read)

    def _arrive(self, event: CopiesArrive) -> None:
        """From now on, an mbarrier says when the lanes' copies have ended."""
        by = event.by
        self._grid.sources.waited(self._neighbour.number, by.warp, by.active, NEVER_WAITED)

    def _end(self, _: BlockEnded) -> None:
        """Say in a hint if there have been more copies than are kept."""
        self._grid.sources.forget(self._neighbour.number)
        forgotten = self._grid.loaded.forgotten + self._grid.stored.forgotten
        if forgotten and self._latest is not None:
            message = (
                f"the launch made more bulk and tensor copies than the sanitizer keeps: it dropped the first "
                f"{forgotten:,} and cannot find races with them"
            )
            self._hint(Report("global-race", message, self._latest, weight="hint", remedy=_SMALLER))

    # ---------------------------------------------------------------------------------------- comparisons

    def _compare_shadow(self, access: GlobalAccess, runs: Runs, rows: slice, *, own: bool) -> None:
        """Compare with the last loads and stores; `own`: also with the stores of its own block.

        global_memory.py has the rules about a copy that reads what its own block stored.
        """
        shadow, accesses = self._grid.shadow, self._grid.accesses
        shadow.settle((int(runs.first[0]), int(runs.end[-1])))
        cells = shadow.noted(runs) if len(accesses.made) > 1 else np.zeros(0, np.int64)
        if not len(cells):
            return
        prior = shadow.marks(cells, rows)
        if not own:
            stores = prior[WRITES]
            stores[accesses.block[stores >> 5] == self._neighbour.number] = 0
        if prior.any():
            self._races.compare(access, prior, cells, np.full(len(cells), _lane(access.by)), None)


def _lane(by: By) -> int:
    """The lane that issues a copy."""
    return int(lanes_in(by.active)[0])
