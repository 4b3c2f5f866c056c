"""barrier.cluster: the knowledge that threads exchange when they meet.

An arrival with .release publishes what its threads know; a relaxed one, what they knew at their last fence (PTX ISA
9.7.13.3). Any arrival shows that earlier accesses have been made, which is enough for a block that wants to exit
(cluster_exit.py).
"""

from __future__ import annotations

from tcemu.machine.events import By, ClusterArrived, ClusterWaited, MbarriersFenced
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, joined
from tcemu.sanitizer.fences import REACH


class Meetings:
    """The knowledge published at each phase of the barrier."""

    def __init__(self) -> None:
        self._rows: dict[int, Array] = {}

    def add(self, phase: int, row: Array | None) -> None:
        """Arriving threads publish a row; phases that no thread still waits for are dropped."""
        if row is not None:
            before = self._rows.get(phase)
            self._rows[phase] = row if before is None else joined(before, row)
        self._rows.pop(phase - 2, None)

    def at(self, phase: int) -> Array | None:
        """The row that the threads that wait for a phase acquire."""
        return self._rows.get(phase)


class ClusterBarriers:
    """Joins the clocks of the threads that meet at the barrier of their cluster."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._known, self._made, self._inits = Meetings(), Meetings(), Meetings()
        #: what each warp knew at its last fence.mbarrier_init
        self._fenced: dict[int, Array] = {}
        #: by warp: when and where it last arrived with .relaxed, if it has not released since
        self._relaxed: dict[int, tuple[int, By]] = {}
        block.ways["barrier.cluster"] = self._way
        #: by block: the accesses that it knows to have been made
        self.passed: dict[int, Array] = {}
        self.handlers: Handlers = {
            ClusterArrived: self._arrive,
            ClusterWaited: self._wait,
            MbarriersFenced: self._fence,
        }

    def _fence(self, event: MbarriersFenced) -> None:
        self._fenced[event.by.warp] = self._clocks.release(event.by.warp, event.by.active)

    def _arrive(self, event: ClusterArrived) -> None:
        warp, lanes, phase = event.by.warp, event.by.active, event.phase
        if event.order == "release":
            self._relaxed.pop(warp, None)
        else:
            self._relaxed[warp] = self._clocks.time[warp], event.by
        made = self._clocks.release(warp, lanes)
        released = event.order == "release"
        known = made if released else self._block.fences.handed_on(warp, lanes, "relaxed", REACH["cluster"])
        self._known.add(phase, known)
        self._made.add(phase, made)
        self._inits.add(phase, self._fenced.get(warp))

    def _way(self, record: int, user: int) -> str:
        """The relaxed arrival after one of two accesses that race, if its thread has neither fenced nor released."""
        records = self._block.records
        for each in (record, user):
            warp = int(records.warp[each])
            time, by = self._relaxed.get(warp, (-1, None))
            if by is not None and records.column[each] == THREAD + 32 * warp and records.clock[each] <= time:
                return f"the arrival at {by.site} is .relaxed: without a fence before it, it releases nothing"
        return ""

    def _wait(self, event: ClusterWaited) -> None:
        by, row = event.by, self._known.at(event.phase)
        made, inits = self._made.at(event.phase), self._inits.at(event.phase)
        if made is not None:
            before = self.passed.get(by.block)
            self.passed[by.block] = made if before is None else joined(before, made)
        if inits is not None:
            self._block.announced[by.warp] = inits
        if row is None:
            return
        if by.active == self._clocks.present[by.warp]:
            self._clocks.pass_barrier(by.warp, row)
        else:
            self._clocks.acquire(by.warp, by.active, row)
