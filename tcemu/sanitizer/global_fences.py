"""The rule about global memory and the async proxy between blocks: one block stores, another one copies.

global_memory.py has the rule for one block, where the fence belongs to the thread that stored. Between blocks, the
fence may stand on either side of the flag: any thread that knows of the store may execute it, before the copy.
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import ProxyFenced
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import THREAD
from tcemu.sanitizer.global_shadow import WRITES
from tcemu.sanitizer.grid import GlobalAccess
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.spans import Runs

_FIX = (
    "Execute fence.proxy.async (or fence.proxy.async.global) in the threads that stored, before they set the flag; or "
    "in the thread that copies, after it has seen the flag."
)


class GlobalFences:
    """The proxy fences of one block, or of one cluster, and its copies of what other blocks have stored."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks, self._grid, self._neighbour = block, block.clocks, block.grid, block.neighbour
        self.handlers: Handlers = {ProxyFenced: self._fence}

    def _fence(self, event: ProxyFenced) -> None:
        if "global" in event.spaces:
            by = event.by
            self._grid.fenced[self._neighbour.number, by.warp] = self._clocks.view(by.warp, by.active)

    def check(self, access: GlobalAccess, runs: Runs) -> None:
        """Report the stores of other blocks that a copy knows of and may yet not see, one for each line."""
        shadow, accesses = self._grid.shadow, self._grid.accesses
        marks = shadow.marks(shadow.noted(runs), WRITES)
        elsewhere = marks[(marks > 0) & (accesses.block[marks >> 5] != self._neighbour.number)]
        reported = set()
        for mark in np.unique(elsewhere).tolist():
            number, lane = mark >> 5, mark & 31
            if number not in reported and self._unfenced(access, number, lane):
                reported.add(number)
                self._report(access, number, lane)

    def _unfenced(self, access: GlobalAccess, number: int, lane: int) -> bool:
        """Whether a store comes before the copy, but no fence is between them."""
        accesses = self._grid.accesses
        store, time = accesses.made[number], int(accesses.time[number])
        if store is None:
            return False
        by, column = access.by, THREAD + 32 * store.by.warp + lane
        known = self._neighbour.known(self._clocks.view(by.warp, by.active)).get(store.block)
        if known is None or known[column] <= time:
            return False  # a race, which global_copies.py reports
        for (block, warp), row in self._grid.fenced.items():
            if block == store.block and row[column] > time:
                return False
            if block == access.block and warp == by.warp:
                heard = self._neighbour.known(row).get(store.block)
                if heard is not None and heard[column] > time:
                    return False
        return True

    def _report(self, access: GlobalAccess, number: int, lane: int) -> None:
        store = self._grid.accesses.made[number]
        assert store is not None  # noqa: S101 - checked by _unfenced
        message = (
            f"{access.opcode} reads global memory that {store.opcode} of {store.who}, lane {lane} wrote: no "
            f"fence.proxy.async for global memory is between them"
        )
        earlier = Earlier(store.origin, store.opcode, store.callers)
        report = Report("proxy-fence-missing", message, access.by, "global memory", earlier, remedy=_FIX)
        self._block.tell(report)
