"""The rule about tensor maps that kernels change: tensor copies read them through a separate proxy.

The thread that changed a map executes fence.proxy.tensormap::generic.release afterwards (tensormap.cp_fenceproxy
contains one); the thread that uses the map knows about it, and executes fence.proxy.tensormap::generic.acquire on it
(PTX ISA 9.7.13.4).
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import Faulted, TensorMapFenced, TensorMapRead
from tcemu.machine.tensor_map_words import BYTES
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array, lanes_in
from tcemu.sanitizer.fences import REACH, WEAK
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.global_shadow import WRITES
from tcemu.sanitizer.grid import GlobalAccess
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.spans import Runs

_FIX = (
    "After the last change, execute fence.proxy.tensormap::generic.release.gpu in the thread that made it, or "
    "tensormap.cp_fenceproxy; before the copy, execute fence.proxy.tensormap::generic.acquire.gpu on the 128 bytes of "
    "the map in the thread that issues it."
)


class TensorMaps:
    """The tensor maps in global memory that one block, or one cluster, changes and uses."""

    def __init__(self, block: Block) -> None:
        self._block, self._grid, self._neighbour = block, block.grid, block.neighbour
        self._races = block.section(GlobalRaces)
        #: by warp and map: how many accesses to global memory there were at its last acquiring fence, and which lanes
        self._acquired: dict[tuple[int, int], tuple[int, int]] = {}
        self.handlers: Handlers = {TensorMapFenced: self._fence, TensorMapRead: self._read, Faulted: self._fault}

    def _fence(self, event: TensorMapFenced) -> None:
        by, made = event.by, len(self._grid.accesses.made)
        if event.semantics != "release":
            self._acquired[by.warp, event.tensor_map] = made, by.active
        if event.semantics != "acquire":
            self._grid.released[self._neighbour.number, by.warp] = made, by.active, REACH[event.scope]

    def _read(self, event: TensorMapRead) -> None:
        """A copy reads a map: compare with the last writes of its bytes."""
        by, (cells, prior) = event.by, self._writes(event.tensor_map)
        if not prior.any():
            return
        opcode = f"{event.instruction.opcode} (its tensor map)"
        access = GlobalAccess(self._neighbour.number, by, opcode, False, WEAK)
        accesses = {(int(mark) >> 5, int(mark) & 31) for mark in np.unique(prior[prior > 0])}
        if not any(self._unfenced(event, access, number, lane) for number, lane in sorted(accesses)):
            for number in {number for number, _ in accesses if self._together(access, number)}:
                prior[prior >> 5 == number] = 0
            lanes = np.full(len(cells), lanes_in(by.active)[0])
            self._races.compare(access, prior, cells, lanes, None)

    def _writes(self, place: int) -> tuple[Array, Array]:
        """The cells of the map at `place`, and the marks of their last writes."""
        cells = self._grid.shadow.noted(Runs.of(np.array([place], np.int64), BYTES))
        return cells, self._grid.shadow.marks(cells, WRITES)

    def _fault(self, event: Faulted) -> None:
        """A copy cannot use what it takes for a tensor map. Most often nobody has put one there."""
        if event.kind != "map":
            return
        _, prior = self._writes(event.address)
        last = self._grid.accesses.made[int(prior.max()) >> 5] if prior.any() else None
        no_writer = "" if prior.any() else "; no thread of this launch has written there"
        earlier = Earlier(last.origin, last.opcode, last.callers) if last else None
        what = f"the tensor map at {event.address}"
        self._block.report("not-a-tensor-map", event.by, event.message + no_writer, what=what, earlier=earlier)

    def _together(self, access: GlobalAccess, number: int) -> bool:
        """Whether all lanes of the copy's own warp wrote together: tensormap.cp_fenceproxy, which is .aligned."""
        write = self._grid.accesses.made[number]
        same = write is not None and write.block == access.block and write.by.warp == access.by.warp
        return same and write is not None and write.opcode.startswith("tensormap.cp_fenceproxy")

    def _unfenced(self, event: TensorMapRead, access: GlobalAccess, number: int, lane: int) -> bool:
        """Report a write that lacks a fence on either side; return whether one does."""
        write = self._grid.accesses.made[number]
        if write is None:
            return False
        released, lanes, reach = self._grid.released.get((write.block, write.by.warp), (0, 0, 0))
        acquired, here = self._acquired.get((event.by.warp, event.tensor_map), (0, 0))
        away = 0 if write.by.block == event.by.block else 1 if write.block == access.block else 2
        if released <= number or not lanes >> lane & 1:
            cause = "no fence.proxy.tensormap::generic.release of the thread that wrote them has followed"
        elif reach < away:
            cause = "the scope of the fence.proxy.tensormap::generic.release does not reach this block"
        elif acquired <= number or event.by.active & ~here:
            cause = (
                f"the copy's thread has executed no fence.proxy.tensormap::generic.acquire on {event.tensor_map} since"
            )
        else:
            return False
        message = (
            f"{event.instruction} uses the tensor map at {event.tensor_map}, which {write.opcode} of {write.who}, "
            f"lane {lane} wrote: {cause}"
        )
        earlier = Earlier(write.origin, write.opcode, write.callers)
        what = f"the tensor map at {event.tensor_map}"
        self._block.tell(Report("proxy-fence-missing", message, event.by, what, earlier, remedy=_FIX))
        return True
