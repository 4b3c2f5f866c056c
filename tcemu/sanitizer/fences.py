"""What strong operations hand on and learn: by releasing and acquiring, or by the fences around them (PTX ISA 8.8).

An operation that releases hands on what its lanes know now; a relaxed one hands on what they knew at their last fence.
An operation that acquires learns at once; what a relaxed one found is learned at the next fence. Both, and the fences,
have a scope: what goes from one block to another counts only if the scopes are wide enough for both.
"""

from __future__ import annotations

from tcemu.machine.events import Fenced, Order
from tcemu.sanitizer.clocks import Array, Clocks

#: How far a scope reaches: to the threads of the block, of the cluster, of the grid.
REACH = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
RELEASES: tuple[Order, ...] = ("release", "acq_rel")
_ACQUIRES: tuple[Order, ...] = ("acquire", "acq_rel")


class Fences:
    """The fences of one block, and what they will make known."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        #: by reach: the lanes of each warp that executed a fence that reaches so far, and what they knew then
        self._fenced: list[list[tuple[int, Array] | None]] = [[None] * clocks.warps for _ in range(3)]
        #: what lanes of each warp have found and will learn at their next fence that reaches far enough
        self._found: list[list[tuple[int, Array, int]]] = [[] for _ in range(clocks.warps)]

    def handed_on(self, warp: int, lanes: int, order: Order, reach: int = 0) -> Array | None:
        """What an operation of these lanes hands on to whoever finds it, as far away as `reach`; None if nothing."""
        if order in RELEASES:
            return self._clocks.release(warp, lanes)
        fenced = self._fenced[reach][warp]
        return fenced[1] if fenced is not None and fenced[0] & lanes == lanes else None

    def found(self, warp: int, lanes: int, order: Order, row: Array, reach: int = 0) -> None:
        """Lanes found what others handed on, which are as far away as `reach`."""
        if order in _ACQUIRES:
            self._clocks.acquire(warp, lanes, row)
        else:
            self._found[warp].append((lanes, row, reach))

    def fence(self, event: Fenced) -> None:
        """Lanes execute fence or membar: they learn what they found, and hand on what they know now."""
        warp, lanes, far = event.by.warp, event.by.active, REACH[event.scope]
        found, self._found[warp] = self._found[warp], []
        for having, row, reach in found:
            learning = having & lanes if reach <= far else 0
            if learning:
                self._clocks.acquire(warp, learning, row)
            if having & ~learning:
                self._found[warp].append((having & ~learning, row, reach))
        row = self._clocks.release(warp, lanes)
        for reach in range(far + 1):
            self._fenced[reach][warp] = lanes, row
