"""Grids of one stream: what griddepcontrol.wait orders, and accesses that come before it (PTX ISA 9.1, 9.7.13.13)."""

from __future__ import annotations

from tcemu.machine.events import Accessed, By, GridWaited
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.report import Report

_REMEDY = (
    "Execute griddepcontrol.wait (cudaGridDependencySynchronize) before the access. Do before it only what does not "
    "depend on the launch before: initialise mbarriers, prefetch, load weights."
)
#: An access before the wait: its origin, whether it writes, and the extent.
_Early = tuple[By, str, bool, str]


class Dependencies:
    """The waits of one block, or of one cluster, for the grid before.

    In a launch that depends on none, a wait does nothing. A kernel that has one is nevertheless meant to overlap the
    launch before it, so what it does too early there is a hint.
    """

    def __init__(self, block: Block) -> None:
        grid = block.grid
        self._block, self._grid, self._neighbour = block, grid, block.neighbour
        #: by warp and line: the accesses to what an earlier launch wrote, until the warp waits
        self._early: dict[tuple[int, int, object], _Early] = {}
        self._waited: set[tuple[int, int]] = set()
        self.handlers: Handlers = {
            GridWaited: self._returned,
            Accessed: ForAccesses(self._accessed, lambda access: access.space == "global" and bool(grid.outputs)),
        }

    def _returned(self, event: GridWaited) -> None:
        by = event.by
        if event.launch >= 0:
            row = self._neighbour.learn(self._grid.ends(event.launch))
            self._block.clocks.acquire(by.warp, by.active, row)
            return
        warp = int(by.block), by.warp
        self._waited.add(warp)
        for key in [key for key in self._early if key[:2] == warp]:
            early, opcode, writes, (what) = self._early.pop(key)
            self._hint(early, opcode, writes, what, by)

    def _accessed(self, event: Accessed) -> None:
        warp = int(event.by.block), event.by.warp
        low, high = event.extent
        if not high or warp in self._waited:
            return
        for first, end, kernel in self._grid.outputs:
            if first <= low < end:
                what = f"{self._grid.extent(event.addresses, event.size)}, which {kernel} wrote in an earlier launch"
                self._early.setdefault((*warp, event.by.site), (event.by, event.opcode, event.writes, what))

    def _hint(self, early: By, opcode: str, writes: bool, what: str, wait: By) -> None:
        does = "writes" if writes else "reads"
        message = (
            f"{opcode} {does} {what}; griddepcontrol.wait, which guards it, comes only later, at {wait.site}. This "
            f"launch overlaps none. With programmatic stream serialization it would, and this would be a race"
        )
        self._block.hint(Report("global-race", message, early, what, remedy=_REMEDY, weight="hint"))
