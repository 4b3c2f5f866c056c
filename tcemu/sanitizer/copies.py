"""cp.async and bulk copies: their reads and writes of shared memory, from the issue until a thread waits for them."""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import (
    By,
    CopiesArrive,
    CopiesCommitted,
    CopiesWaited,
    Copy,
    CopyIssued,
)
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import joined
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.naming import whole
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.shared import SharedMemory


class Copies:
    """The asynchronous copies of a block."""

    def __init__(self, block: Block, shared: SharedMemory, mbarriers: Mbarriers) -> None:
        self._block, self._clocks, self._records = block, block.clocks, block.records
        self._shared, self._mbarriers = shared, mbarriers
        warps = range(block.warps)
        #: each warp's cp.async instructions that no wait has covered, (record, lanes, group), the oldest first
        self._open: list[list[tuple[int, int, int]]] = [[] for _ in warps]
        #: how many groups of cp.async and of bulk copies each warp has committed
        self._groups = {"cp.async": [0 for _ in warps], "bulk": [0 for _ in warps]}
        #: a warp's bulk copies out of shared memory: their column, and the lanes that issued them
        self._out: dict[int, tuple[int, int]] = {}
        self.handlers: Handlers = {
            CopyIssued: self._issue,
            CopiesCommitted: self._commit,
            CopiesWaited: self._wait,
            CopiesArrive: self._arrive,
        }

    def _issue(self, event: CopyIssued) -> None:
        copy = event.copy
        if copy.kind == "cp.async":
            self._issue_lanes(copy)
        elif copy.writes[0] == "shared" and len(copy.writes[1]):
            self._issue_load(copy)
        if copy.kind == "bulk" and copy.reads[0] == "shared":
            self._issue_store(copy)

    # ---------------------------------------------------------------------------------------- cp.async

    def _issue_lanes(self, copy: Copy) -> None:
        _, addresses, size = copy.writes
        by, warp = copy.by, copy.by.warp
        cells, per = self._block.shadow.cells(addresses, size)
        record = self._records.under_way(by, copy.instruction.opcode)
        self._open[warp].append((record, by.active, self._groups["cp.async"][warp]))
        self._shared.write_lanes(by, record, cells, np.repeat(copy.lanes, per))

    def _commit(self, event: CopiesCommitted) -> None:
        self._groups[event.kind][event.by.warp] = event.group + 1

    def _wait(self, event: CopiesWaited) -> None:
        by = event.by
        if event.kind == "bulk":
            self._wait_out(by, event.below)
            return
        kept = []
        for record, lanes, group in self._open[by.warp]:
            if group < event.below and lanes & by.active == lanes:
                self._shared.decided(record, waited=True)
                if not self._records.attached(record):
                    self._records.waited(record)
            else:
                kept.append((record, lanes, group))
        self._open[by.warp] = kept

    def _arrive(self, event: CopiesArrive) -> None:
        by = event.by
        here = self._mbarriers.used(by, event.address, "cp.async.mbarrier.arrive")
        if here is None:
            return
        self._mbarriers.attached.append(by)
        here.arrived = joined(here.arrived, self._clocks.release(by.warp, by.active))
        for record, lanes, _ in self._open[by.warp]:
            if lanes & by.active == lanes and not self._records.attached(record):
                self._shared.decided(record, waited=False)
                self._records.attach(record, here.column, event.phase)

    # ---------------------------------------------------------------------------------------- bulk copies

    def _issue_load(self, copy: Copy) -> None:
        _, addresses, size = copy.writes
        here = self._mbarriers.found.get(copy.mbarrier)
        if here is None:
            return
        by = copy.by
        record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, here.column, copy.phase)
        cells = self._block.shadow.tile(addresses, size)
        if copy.kind == "st.async":
            self._records.strong[record] = "relaxed"
        self._shared.write_async(record, cells, self._clocks.view(by.warp, by.active), fenced=copy.kind == "bulk")

    def _issue_store(self, copy: Copy) -> None:
        _, addresses, size = copy.reads
        if not len(addresses):
            return
        by, warp = copy.by, copy.by.warp
        here = self._mbarriers.found.get(copy.mbarrier)
        if here is not None:  # it is in no group: it has read its source when the mbarrier has counted it
            record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, here.column, copy.phase)
            cells = self._block.shadow.tile(addresses, size)
            self._shared.read_async(record, cells, whole([self._clocks.view(warp, by.active)]), ("bulk", warp))
            return
        column, lanes = self._out.get(warp) or (self._clocks.agent(), 0)
        self._out[warp] = column, lanes | by.active
        record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, column, self._groups["bulk"][warp])
        cells = self._block.shadow.tile(addresses, size)
        self._shared.read_async(record, cells, whole([self._clocks.view(warp, by.active)]), ("bulk", warp))

    def _wait_out(self, by: By, below: int) -> None:
        """The waiting lanes that issued bulk copies learn that the groups before `below` have been read."""
        column, lanes = self._out.get(by.warp, (0, 0))
        if lanes & by.active:
            self._clocks.learn(by.warp, lanes & by.active, column, below)
