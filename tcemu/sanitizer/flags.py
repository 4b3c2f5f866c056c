"""Flags in memory: strong accesses that release and acquire, and the fences around them (PTX ISA 8.8 and 8.9).

A strong write that releases, or that follows a releasing fence, publishes what its lanes know. A thread that reads
the location, and acquires with that read or with a later fence, then knows it too. An atomic operation keeps what the
value before it published. A store replaces the value, so that the location publishes only what the same warp has put
there.
"""

from __future__ import annotations

from functools import reduce

from tcemu.instructions.elements import order_of
from tcemu.machine.events import Accessed, Fenced
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import Array, joined
from tcemu.sanitizer.fences import ATOMIC, REACH, RELEASES

#: A location, and who may find what it publishes: state space, address, and a block or, for its cluster, -1.
Location = tuple[str, int, int]
_CLUSTER = -1


class Flags:
    """The strong accesses of one block, or of one cluster; `neighbour` is what it exchanges with the others."""

    def __init__(self, block: Block) -> None:
        self._fences, self._neighbour = block.fences, block.neighbour
        #: what a location publishes, by the block and the warp that have put it there
        self._released: dict[Location, dict[tuple[int, int], Array]] = {}
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: bool(access.order)),
            Fenced: block.fences.fence,
        }

    def _accessed(self, event: Accessed) -> None:
        if self._silent(event):
            return
        step = self._write if event.writes else self._read
        far = REACH[order_of(event.instruction).scope]
        lanes: dict[int, int] = {}
        for address, lane in zip(event.addresses.tolist(), event.lanes.tolist(), strict=True):
            lanes[address] = lanes.get(address, 0) | 1 << lane
        for address in sorted(lanes):
            step(event, address, lanes[address], far)

    def _silent(self, event: Accessed) -> bool:
        """Whether an access neither publishes nor finds anything, as those of most sums and counters."""
        unpublished = not self._released and not self._neighbour.published
        if not event.writes:
            return unpublished
        replaces = event.instruction.family not in ATOMIC
        return event.order not in RELEASES and not self._fences.executed and (unpublished or not replaces)

    def _write(self, event: Accessed, address: int, lanes: int, far: int) -> None:
        row, continues = None, event.instruction.family in ATOMIC
        for reach in range(REACH["gpu"] + 1):
            if reach > far:
                row = None  # the scope does not reach readers so far away, but this is the value that they find
            elif row is None or event.order not in RELEASES:  # a release publishes the same, however far it reaches
                row = self._fences.handed_on(event.by.warp, lanes, event.order, reach)
            if row is None and continues:
                continue
            if reach < REACH["gpu"]:
                self._put((event.space, address, _CLUSTER if reach else event.by.block), event, row, continues)
            elif event.space == "global":
                self._neighbour.publish(address, event.by.warp, row, continues=continues)

    def _put(self, location: Location, event: Accessed, row: Array | None, continues: bool) -> None:
        """Publish `row` at a location of this block, or of its cluster."""
        releases, who = self._released.get(location, {}), (event.by.block, event.by.warp)
        before = releases.get(who)
        if not continues:
            releases = {} if before is None else {who: before}
        if row is not None:
            releases[who] = row if before is None else joined(before, row)
        if releases or location in self._released:
            self._released[location] = releases

    def _read(self, event: Accessed, address: int, lanes: int, far: int) -> None:
        for reach in range(far + 1):
            if reach < REACH["gpu"]:
                releases = self._released.get((event.space, address, _CLUSTER if reach else event.by.block))
                row = reduce(joined, releases.values()) if releases else None
            else:
                row = self._neighbour.find(address) if event.space == "global" else None
            if row is not None:
                self._fences.sees(event.by.warp, lanes, event.order, row, reach)
