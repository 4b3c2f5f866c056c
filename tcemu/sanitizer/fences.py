"""What strong operations hand on and learn: by releasing and acquiring, or by the fences around them (PTX ISA 8.8).

An operation that releases hands on what its lanes know now; a relaxed one hands on what they knew at their last fence.
An operation that acquires learns at once; what a relaxed one found is learned at the next fence.
"""

from __future__ import annotations

from tcemu.machine.events import Fenced, Order
from tcemu.sanitizer.clocks import Array, Clocks


class Fences:
    """The fences of one block, and what they will make known."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        #: the lanes of each warp that executed a fence, and what they knew then
        self._fenced: list[tuple[int, Array] | None] = [None] * clocks.warps
        #: what lanes of each warp have found and will learn at their next fence
        self._found: list[list[tuple[int, Array]]] = [[] for _ in range(clocks.warps)]

    def handed_on(self, warp: int, lanes: int, order: Order) -> Array | None:
        """What an operation of these lanes hands on to whoever finds it; None if nothing."""
        if order in ("release", "acq_rel"):
            return self._clocks.release(warp, lanes)
        fenced = self._fenced[warp]
        return fenced[1] if fenced is not None and fenced[0] & lanes == lanes else None

    def found(self, warp: int, lanes: int, order: Order, row: Array) -> None:
        """Lanes found what others handed on."""
        if order in ("acquire", "acq_rel"):
            self._clocks.acquire(warp, lanes, row)
        else:
            self._found[warp].append((lanes, row))

    def fence(self, event: Fenced) -> None:
        """Lanes execute fence or membar: they learn what they found, and hand on what they know now."""
        warp, lanes = event.by.warp, event.by.active
        found, self._found[warp] = self._found[warp], []
        for having, row in found:
            if having & lanes:
                self._clocks.acquire(warp, having & lanes, row)
            if having & ~lanes:
                self._found[warp].append((having & ~lanes, row))
        self._fenced[warp] = lanes, self._clocks.release(warp, lanes)
