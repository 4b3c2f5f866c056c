"""cp.async and bulk copies: their reads and writes of shared memory, from the issue until a thread waits for them."""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import (
    BlockEnded,
    By,
    CopiesArrive,
    CopiesCommitted,
    CopiesWaited,
    Copy,
    CopyIssued,
    CopyKind,
    Site,
)
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.fences import strength
from tcemu.sanitizer.groups import Groups
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.naming import whole
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.tiles import Box

#: The fix where a block ends too early.
_LEAVE = (
    "Before the issuing thread exits, it must execute cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0."
)


class Copies:
    """The asynchronous copies of a block."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks, self._records = block, block.clocks, block.records
        self._shared, self._mbarriers = block.section(SharedMemory), block.section(Mbarriers)
        warps = range(block.warps)
        #: each warp's cp.async instructions that no wait has covered, (record, lanes, group), the oldest first
        self._open: list[list[tuple[int, int, int]]] = [[] for _ in warps]
        #: how many groups of cp.async and of bulk copies each warp has committed
        self._groups = {"cp.async": [0 for _ in warps], "bulk": [0 for _ in warps]}
        #: the groups of bulk copies out of shared memory that have been read
        self._out = Groups(block.clocks)
        #: each warp's bulk copies out of shared memory that no wait has covered, with their groups and callers
        self._leaving: dict[int, list[tuple[Copy, int, tuple[Site, ...]]]] = {}
        #: each warp's last wait for cp.async and for bulk copies: where, and how many groups it left pending
        self._waits: dict[tuple[str, int], tuple[By, int]] = {}
        block.ways["wait"] = self._way
        self.handlers: Handlers = {
            CopyIssued: self._issue,
            CopiesCommitted: self._commit,
            CopiesWaited: self._wait,
            CopiesArrive: self._arrive,
            BlockEnded: self._end,
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
        if copy.src_size is not None and (copy.src_size > size).any():
            self._too_much(copy, copy.src_size)
        by, warp = copy.by, copy.by.warp
        cells, per = self._block.shadow.cells(addresses, size)
        record = self._records.under_way(by, copy.instruction.opcode)
        self._open[warp].append((record, by.active, self._groups["cp.async"][warp]))
        lanes = copy.lanes if per == 1 else copy.lanes.repeat(per)
        self._shared.write_lanes(by, record, cells, lanes)

    def _too_much(self, copy: Copy, sizes: Array) -> None:
        """Report a cp.async that is to read more than it writes."""
        size = copy.writes[2]
        wrong = np.flatnonzero(sizes > size)
        lanes, most = tuple(copy.lanes[wrong].tolist()), int(sizes[wrong[0]])
        signed = f" ({most - (1 << 32)} as a signed number)" if most >> 31 else ""
        message = (
            f"cp.async of {size} bytes with a src-size of {most}{signed} in lane {lanes[0]}: it must be 0 to {size}"
        )
        self._block.report("cp-async-src-size", copy.by, message, what=f"src-size {most}", lanes=lanes)

    def _commit(self, event: CopiesCommitted) -> None:
        self._groups[event.kind][event.by.warp] = event.group + 1

    def _wait(self, event: CopiesWaited) -> None:
        by = event.by
        self._waits[event.kind, by.warp] = by, self._groups[event.kind][by.warp] - event.below
        if event.kind == "bulk":
            self._wait_out(by, event.below)
            return
        kept = []
        for record, lanes, group in self._open[by.warp]:
            if group < event.below and lanes & by.active == lanes:
                self._shared.decided(record, waited=True)
                if not (self._records.attachments and self._records.attached(record)):
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
        here.phase(event.phase).attached = True
        here.hear(self._clocks.release(by.warp, by.active))
        for record, lanes, _ in self._open[by.warp]:
            if lanes & by.active == lanes and not self._records.attached(record):
                self._shared.decided(record, waited=False)
                self._records.attach(record, here.column, event.phase)

    def _way(self, record: int, user: int) -> str:
        """Why a copy has not ended, in words; empty if it has, or if it is another kind of access."""
        if record > user:
            return ""  # it has only just begun: its thread may commit and wait yet
        kind, warp = Kind(self._records.kind[record]), self._records.by[record].warp
        if kind == Kind.CP_ASYNC:
            groups = [group for number, _, group in self._open[warp] if number == record]
            return self._why("cp.async", warp, groups[0]) if groups and not self._records.attached(record) else ""
        column = self._out.column(warp)
        if kind == Kind.BULK and self._records.column[record] == column:
            return self._why("bulk", warp, int(self._records.clock[record]))
        return ""

    def _why(self, kind: CopyKind, warp: int, group: int) -> str:
        name = "cp.async" if kind == "cp.async" else "cp.async.bulk"
        by, left = self._waits.get((kind, warp), (None, 0))
        committed = self._groups[kind][warp]
        if group >= committed:
            return f"it is in no group, because no {name}.commit_group followed it"
        if by is None:
            return f"its group was committed, but warp {warp} has executed no {name}.wait_group"
        if left > committed - 1 - group:
            return (
                f"{name}.wait_group {left} at {by.site} may leave its group pending; {name}.wait_group "
                f"{committed - 1 - group} would cover it"
            )
        return f"the last {name}.wait_group of warp {warp}, at {by.site}, came before the group was committed"

    # ---------------------------------------------------------------------------------------- bulk copies

    def _issue_load(self, copy: Copy) -> None:
        _, addresses, size = copy.writes
        here = self._mbarriers.live.get(copy.mbarrier)
        if here is None:
            return
        by = copy.by
        record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, here.column, copy.phase)
        cells = self._block.shadow.tile(addresses, size)
        if copy.kind == "st.async":
            self._records.strong[record] = strength(copy.instruction, "relaxed")
        if copy.tensor_map is not None:
            self._records.boxes.add(record, Box(copy.tensor_map, copy.coordinates, addresses, size))
        combines = copy.instruction.family == "red.async" or copy.instruction.family.startswith("cp.reduce")
        act = self._shared.combine_async if combines else self._shared.write_async
        act(record, cells, self._clocks.view(by.warp, by.active), fenced=copy.kind == "bulk")

    def _issue_store(self, copy: Copy) -> None:
        _, addresses, size = copy.reads
        if not len(addresses):
            return
        by, warp = copy.by, copy.by.warp
        here = self._mbarriers.live.get(copy.mbarrier)
        if here is not None:  # it is in no group: it has read its source when the mbarrier has counted it
            record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, here.column, copy.phase)
            cells = self._block.shadow.tile(addresses, size)
            self._shared.read_async(record, cells, whole([self._clocks.view(warp, by.active)]), ("bulk", warp))
            return
        column = self._out.join(by)
        record = self._records.agent(by, copy.instruction.opcode, Kind.BULK, column, self._groups["bulk"][warp])
        self._leaving.setdefault(warp, []).append((copy, self._groups["bulk"][warp], callers_of(by)))
        cells = self._block.shadow.tile(addresses, size)
        self._shared.read_async(record, cells, whole([self._clocks.view(warp, by.active)]), ("bulk", warp))

    def _wait_out(self, by: By, below: int) -> None:
        """The waiting lanes that issued bulk copies learn that the groups before `below` have been read."""
        if self._out.issuers(by):
            left = self._leaving.get(by.warp, [])
            self._leaving[by.warp] = [each for each in left if each[1] >= below or not each[0].by.active & by.active]
            self._out.ended(by, below)

    def _end(self, event: BlockEnded) -> None:
        """Report copies that may still read the block's shared memory when the next block gets it."""
        for warp, leaving in self._leaving.items():
            for copy, group, callers in leaving[:1]:
                opcode = copy.instruction.opcode
                why = "no cp.async.bulk.wait_group of the thread that issued it covers it"
                if group >= self._groups["bulk"][warp]:
                    why = "it is in no group, because no cp.async.bulk.commit_group followed it"
                message = f"the block ends while {opcode} may still read its shared memory: {why}"
                report = Report("overwritten-early", message, copy.by, "shared memory", remedy=_LEAVE, callers=callers)
                self._block.later(report)
