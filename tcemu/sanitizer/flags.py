"""Flags in memory: strong accesses that release and acquire, and the fences around them (PTX ISA 8.8 and 8.9).

A strong write that releases, or that follows a releasing fence, hands on what its lanes know. A thread that reads the
location, and acquires with that read or with a later fence, learns it. If several writes hand on knowledge at one
location, the reader learns all of it, whichever value the read returned.
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import Accessed, Fenced
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array, joined


class Flags:
    """The strong accesses of one block."""

    def __init__(self, block: Block) -> None:
        self._fences = block.fences
        #: what a location hands on, by state space and address
        self._released: dict[tuple[str, int], Array] = {}
        self.handlers: Handlers = {Accessed: self._accessed, Fenced: block.fences.fence}

    def _accessed(self, event: Accessed) -> None:
        if not event.order:
            return
        step = self._write if event.writes else self._read
        for address in np.unique(event.addresses).tolist():
            lanes = int(sum(1 << lane for lane in event.lanes[event.addresses == address].tolist()))
            step(event, (event.space, address), lanes)

    def _write(self, event: Accessed, place: tuple[str, int], lanes: int) -> None:
        row = self._fences.handed_on(event.by.warp, lanes, event.order)
        if row is not None:
            before = self._released.get(place)
            self._released[place] = row if before is None else joined(before, row)

    def _read(self, event: Accessed, place: tuple[str, int], lanes: int) -> None:
        found = self._released.get(place)
        if found is not None:
            self._fences.found(event.by.warp, lanes, event.order, found)
