"""barrier.cluster: what the threads that meet learn, and whether a block has exited before its memory is free.

An arrival with .release hands on what its threads know; a relaxed one, what they knew at their last fence (PTX ISA
9.7.13.3). Any arrival shows that earlier accesses have been made, which is enough for a block that wants to exit.
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import Accessed, By, ClusterArrived, ClusterWaited, Exited, MbarrierArrived, MbarriersFenced
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, joined, lanes_in
from tcemu.sanitizer.fences import REACH
from tcemu.sanitizer.report import Report

_FIX = "Let all blocks of the cluster meet at barrier.cluster after the last access, before the first block exits."


class Meetings:
    """What is handed on at the phases of the barrier."""

    def __init__(self) -> None:
        self._rows: dict[int, Array] = {}

    def add(self, phase: int, row: Array | None) -> None:
        """Threads that arrive hand on a row; what nobody waits for any more is forgotten."""
        if row is not None:
            before = self._rows.get(phase)
            self._rows[phase] = row if before is None else joined(before, row)
        self._rows.pop(phase - 2, None)

    def at(self, phase: int) -> Array | None:
        """What those that wait for a phase learn."""
        return self._rows.get(phase)


class ClusterBarriers:
    """Joins the clocks of the threads that meet at the barrier of their cluster."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._known, self._made, self._inits = Meetings(), Meetings(), Meetings()
        #: what each warp knew at its last fence.mbarrier_init
        self._fenced: dict[int, Array] = {}
        #: by block: accesses to its memory by others, as (thread's column, time, origin, opcode), by warp and line
        self._remote: dict[int, dict[object, tuple[Array, int, By, str]]] = {}
        #: by block: what it knows to have been made, and its warps that have exited
        self._passed: dict[int, Array] = {}
        self._exited: dict[int, int] = {}
        self.handlers: Handlers = {
            ClusterArrived: self._arrive,
            ClusterWaited: self._wait,
            MbarriersFenced: self._fence,
            Accessed: self._accessed,
            MbarrierArrived: self._accessed,
            Exited: self._exit,
        }

    def _fence(self, event: MbarriersFenced) -> None:
        self._fenced[event.by.warp] = self._clocks.release(event.by.warp, event.by.active)

    def _arrive(self, event: ClusterArrived) -> None:
        warp, lanes, phase = event.by.warp, event.by.active, event.phase
        made = self._clocks.release(warp, lanes)
        released = event.order == "release"
        known = made if released else self._block.fences.handed_on(warp, lanes, "relaxed", REACH["cluster"])
        self._known.add(phase, known)
        self._made.add(phase, made)
        self._inits.add(phase, self._fenced.get(warp))

    def _wait(self, event: ClusterWaited) -> None:
        by, row = event.by, self._known.at(event.phase)
        made, inits = self._made.at(event.phase), self._inits.at(event.phase)
        if made is not None:
            before = self._passed.get(by.block)
            self._passed[by.block] = made if before is None else joined(before, made)
        if inits is not None:
            self._block.announced[by.warp] = inits
        if row is None:
            return
        if by.active == self._clocks.there[by.warp]:
            self._clocks.pass_barrier(by.warp, row)
        else:
            self._clocks.acquire(by.warp, by.active, row)

    # ---------------------------------------------------------------------------------------- exit

    def _accessed(self, event: Accessed | MbarrierArrived) -> None:
        by = event.by
        if event.owner in (-1, by.block):
            return
        columns = THREAD + 32 * by.warp + lanes_in(by.active)
        opcode = event.opcode if isinstance(event, Accessed) else "mbarrier.arrive"
        here = self._remote.setdefault(event.owner, {})
        here[by.warp, by.site] = columns, self._clocks.time[by.warp], by, opcode

    def _exit(self, event: Exited) -> None:
        """Report the accesses of others that the block does not know to have been made when its last warp exits."""
        number, block = event.by.block, self._block
        if not event.whole or number not in self._remote:
            self._exited[number] = self._exited.get(number, 0) + event.whole
            return
        self._exited[number] = self._exited.get(number, 0) + 1
        warps = [warp for warp in range(block.warps) if block.number_of(warp) == number and self._clocks.there[warp]]
        if self._exited[number] < len(warps):
            return
        known = self._passed.get(number, self._clocks.rows[0])
        for warp in warps:
            known = joined(known, self._clocks.view(warp, self._clocks.there[warp]))
        for columns, time, by, opcode in self._remote[number].values():
            if np.any(known[columns] <= time):
                message = (
                    f"{opcode} uses the shared memory of block {number}, and nothing lets that block wait for it "
                    "before it exits: the memory may be gone"
                )
                block.tell(Report("out-of-range", message, by, f"shared memory of block {number}", remedy=_FIX))
