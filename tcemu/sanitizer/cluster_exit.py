"""Blocks of a cluster that others use before they start or after they exit: accesses, arrivals and copies.

A block has its shared memory from its start to its exit. Others may use it when they know that the block has started,
most often from barrier.cluster. It may exit when it knows that the accesses of others have been made and that the
copies of others have ended: from barrier.cluster, or from the phases of its own mbarriers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcemu.machine.events import Accessed, By, CopyIssued, Exited, MbarrierArrived, Site
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, joined, lanes_in
from tcemu.sanitizer.cluster_barrier import ClusterBarriers
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.report import Report

_MEET = "All blocks of the cluster must wait at barrier.cluster after the last access, before the first block exits."
_START = "All blocks of the cluster must wait at barrier.cluster before the first uses the shared memory of another."
_AWAIT = "Before it exits, each block must wait on its own mbarrier for all that other blocks copy into its memory."

_SENT = (
    "The block that sends must know that the copy has ended before it exits: let it meet the receiver at "
    "barrier.cluster, after the receiver has waited on its mbarrier."
)


@dataclass(eq=False, slots=True)
class Remote:
    """What a warp does with the memory of another block, or copies out of its own.

    It is over for who knows that the agents (n,) have passed these numbers.
    """

    by: By
    opcode: str
    columns: Array
    clock: int
    remedy: str = _MEET
    callers: tuple[Site, ...] = ()
    #: an arrival: the agent of its mbarrier and the phase, which show it too
    phase: tuple[int, int] | None = None

    def known(self, row: Array) -> bool:
        """Whether a block with the knowledge `row` knows that this use is over."""
        if self.phase is not None and row[self.phase[0]] > self.phase[1]:
            return True
        return not np.any(row[self.columns] <= self.clock)


class ClusterExits:
    """The starts and the exits of the blocks of a cluster."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._barriers, self._mbarriers = block.section(ClusterBarriers), block.section(Mbarriers)
        #: by block: the last use of its memory by each warp and line of other blocks, and by copies out of it
        self._remote: dict[int, dict[object, Remote]] = {}
        #: warps, and blocks that they know to have started or are reported not to
        self._together: set[tuple[int, int]] = set()
        #: by block: its warps that have exited
        self._exited: dict[int, int] = {}
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: access.remote),
            MbarrierArrived: self._arrived,
            CopyIssued: self._copy,
            Exited: self._exit,
        }

    def _accessed(self, event: Accessed) -> None:
        if event.owner not in (-1, event.by.block):
            self._add(event.owner, self._made(event.by, event.opcode))

    def _arrived(self, event: MbarrierArrived) -> None:
        if event.owner in (-1, event.by.block):
            return
        made, here = self._made(event.by, "mbarrier.arrive"), self._mbarriers.live.get(event.address)
        if here is not None:
            made.phase = here.column, event.phase
        self._add(event.owner, made)

    def _copy(self, event: CopyIssued) -> None:
        copy = event.copy
        here = self._mbarriers.live.get(copy.mbarrier)
        if copy.owner in (-1, copy.by.block) or here is None:
            return
        columns, callers = np.array([here.column], np.int64), callers_of(copy.by)
        self._add(copy.owner, Remote(copy.by, copy.opcode, columns, copy.phase, _AWAIT, callers))
        space, addresses, _ = copy.reads
        if space == "shared" and len(addresses):
            self._keep(copy.by.block, Remote(copy.by, copy.opcode, columns, copy.phase, _SENT, callers))

    def _made(self, by: By, opcode: str) -> Remote:
        """The use that these lanes make of the memory now."""
        return Remote(by, opcode, THREAD + 32 * by.warp + lanes_in(by.active), self._clocks.time[by.warp])

    def _warps_of(self, number: int) -> list[int]:
        """The warps of a block, as the cluster numbers them."""
        block = self._block
        return [warp for warp in range(block.warps) if block.number_of(warp) == number and self._clocks.present[warp]]

    def _begin(self, owner: int, by: By, opcode: str) -> None:
        """Report what a warp does with the memory of a block that it does not know to have started."""
        if (by.warp, owner) in self._together:
            return
        self._together.add((by.warp, owner))
        known = self._clocks.view(by.warp, by.active)
        passed = self._barriers.passed.get(by.block)
        if passed is not None:
            known = joined(known, passed)
        threads = THREAD + 32 * np.array(self._warps_of(owner), np.int64)[:, None] + np.arange(32, dtype=np.int64)
        if not known[threads].any():
            what = f"shared memory of block {owner}"
            message = f"{opcode} uses the {what}, and nothing shows that this block has started and has the memory"
            self._block.later(Report("out-of-range", message, by, what, remedy=_START))

    def _add(self, owner: int, remote: Remote) -> None:
        self._begin(owner, remote.by, remote.opcode)
        self._keep(owner, remote)

    def _keep(self, owner: int, remote: Remote) -> None:
        """The block must not exit before this is over."""
        self._remote.setdefault(owner, {})[remote.by.warp, remote.by.site] = remote

    def _exit(self, event: Exited) -> None:
        """Report what others do that the block does not know to be over when its last warp exits."""
        number = event.by.block
        self._exited[number] = self._exited.get(number, 0) + event.whole
        if not event.whole or number not in self._remote:
            return
        warps = self._warps_of(number)
        if self._exited[number] < len(warps):
            return
        known = self._barriers.passed.get(number, self._clocks.rows[0])
        for warp in warps:
            known = joined(known, self._clocks.view(warp, self._clocks.present[warp]))
        for remote in self._remote[number].values():
            if not remote.known(known):
                message = (
                    f"{remote.opcode} uses the shared memory of block {number}, and nothing lets that block wait for "
                    "it before it exits, so the memory may be gone"
                )
                report = Report("out-of-range", message, remote.by, f"shared memory of block {number}")
                report.remedy, report.callers = remote.remedy, remote.callers or report.callers
                self._block.tell(report)
