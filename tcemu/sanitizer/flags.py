"""Flags in memory: strong accesses that release and acquire, and the fences around them (PTX ISA 8.8 and 8.9).

A strong write that releases, or that follows a releasing fence, hands on what its lanes know. A thread that reads the
location, and acquires with that read or with a later fence, learns it. If several writes hand on knowledge at one
location, the reader learns all of it, whichever value the read returned.
"""

from __future__ import annotations

import numpy as np

from tcemu.instructions.elements import order_of
from tcemu.machine.events import Accessed, Fenced
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array, joined
from tcemu.sanitizer.fences import REACH, RELEASES
from tcemu.sanitizer.grid import Neighbour

#: A location and who may find what it hands on: state space, address, and a block or, for its cluster, -1.
Place = tuple[str, int, int]
_CLUSTER = -1


class Flags:
    """The strong accesses of one block, or of one cluster; `neighbour` is what it exchanges with the others."""

    def __init__(self, block: Block, neighbour: Neighbour) -> None:
        self._fences, self._neighbour = block.fences, neighbour
        #: what a location hands on
        self._released: dict[Place, Array] = {}
        self.handlers: Handlers = {Accessed: self._accessed, Fenced: block.fences.fence}

    def _accessed(self, event: Accessed) -> None:
        if not event.order:
            return
        step = self._write if event.writes else self._read
        far = REACH[order_of(event.instruction).scope]
        for address in np.unique(event.addresses).tolist():
            lanes = int(sum(1 << lane for lane in event.lanes[event.addresses == address].tolist()))
            step(event, address, lanes, far)

    def _write(self, event: Accessed, address: int, lanes: int, far: int) -> None:
        row = None
        for reach in range(far + 1):
            if row is None or event.order not in RELEASES:  # a release hands on the same, however far it reaches
                row = self._fences.handed_on(event.by.warp, lanes, event.order, reach)
            if row is None:
                return
            if reach < REACH["gpu"]:
                place = event.space, address, _CLUSTER if reach else event.by.block
                before = self._released.get(place)
                self._released[place] = row if before is None else joined(before, row)
            elif event.space == "global":
                self._neighbour.publish(address, row)

    def _read(self, event: Accessed, address: int, lanes: int, far: int) -> None:
        for reach in range(far + 1):
            if reach < REACH["gpu"]:
                found = self._released.get((event.space, address, _CLUSTER if reach else event.by.block))
            else:
                found = self._neighbour.find(address) if event.space == "global" else None
            if found is not None:
                self._fences.found(event.by.warp, lanes, event.order, found, reach)
