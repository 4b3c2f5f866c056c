"""The rule about memory from malloc that is read before it is written.

Who copies a struct copies its padding: together with a member, or, as compilers do it, by loads of bytes. So some of
what a lane loads at once may be undefined, and so may single bytes.
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import Accessed, CopyIssued, GivenAgain
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import Array

#: The types by which compilers copy padding.
_PADDING = ("u8", "s8", "b8")


class HeapBytes:
    """The accesses of one block to the heap. Native code leaves them to the machine, so that each is an event."""

    def __init__(self, block: Block) -> None:
        self._block, self._grid = block, block.grid
        self._first, self._end = block.grid.heap
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: access.space == "global"),
            CopyIssued: self._copy,
            GivenAgain: self._forget,
        }

    def _accessed(self, event: Accessed) -> None:
        if not self._first <= event.extent[0] < self._end:
            return
        numbers = self._bytes(event.addresses, event.size)
        if event.writes:
            self._grid.defined[numbers] = not event.function  # free makes the bytes undefined again
            return
        words = event.instruction.words
        if words.get("op") == "exch" or words.get("type") in _PADDING:  # the result of exch is often unused
            return
        undefined = np.flatnonzero(~self._grid.defined[numbers].any(axis=1))
        if len(undefined):
            what = self._grid.extent(event.addresses[undefined], event.size)
            lanes = tuple(event.lanes[undefined].tolist())
            message = f"{event.opcode} reads {what}, which nothing had written"
            self._block.report("uninitialised-heap", event.by, message, what=what, lanes=lanes)

    def _copy(self, event: CopyIssued) -> None:
        """A copy into the heap."""
        space, addresses, size = event.copy.writes
        if space == "global" and len(addresses) and self._first <= int(addresses.min()) < self._end:
            self._grid.defined[self._bytes(addresses, size)] = True

    def _forget(self, event: GivenAgain) -> None:
        """What malloc gives out again has another owner, who has nothing to do with the one before."""
        self._grid.shadow.forget(event.first, event.end)

    def _bytes(self, addresses: Array, size: int) -> Array:
        """The numbers (n, size) of bytes in the heap."""
        return np.asarray(addresses[:, None] - self._first + np.arange(size, dtype=np.int64))
