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
        self._clocks = block.clocks
        #: what a location hands on, by state space and address
        self._released: dict[tuple[str, int], Array] = {}
        #: the lanes of each warp that executed a fence, and what they knew then
        self._fenced: list[tuple[int, Array] | None] = [None] * block.warps
        #: what lanes of each warp have read and will learn at their next fence
        self._read: list[list[tuple[int, Array]]] = [[] for _ in range(block.warps)]
        self.handlers: Handlers = {Accessed: self._accessed, Fenced: self._fence}

    def _accessed(self, event: Accessed) -> None:
        if not event.order:
            return
        step = self._write if event.writes else self._reads
        for address in np.unique(event.addresses).tolist():
            lanes = int(sum(1 << lane for lane in event.lanes[event.addresses == address].tolist()))
            step(event, (event.space, address), lanes)

    def _write(self, event: Accessed, place: tuple[str, int], lanes: int) -> None:
        warp = event.by.warp
        fenced = self._fenced[warp]
        if event.order == "release":
            row = self._clocks.release(warp, lanes)
        elif fenced is not None and fenced[0] & lanes == lanes:
            row = fenced[1]
        else:
            return
        before = self._released.get(place)
        self._released[place] = row if before is None else joined(before, row)

    def _reads(self, event: Accessed, place: tuple[str, int], lanes: int) -> None:
        found = self._released.get(place)
        if found is None:
            return
        if event.order == "acquire":
            self._clocks.acquire(event.by.warp, lanes, found)
        else:
            self._read[event.by.warp].append((lanes, found))

    def _fence(self, event: Fenced) -> None:
        warp, lanes = event.by.warp, event.by.active
        read, self._read[warp] = self._read[warp], []
        for having, row in read:
            if having & lanes:
                self._clocks.acquire(warp, having & lanes, row)
            if having & ~lanes:
                self._read[warp].append((having & ~lanes, row))
        self._fenced[warp] = lanes, self._clocks.release(warp, lanes)
