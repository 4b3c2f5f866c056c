"""The rule about tensor maps that change while copies in flight still read them.

A copy reads its map at some time before it ends: a load before its mbarrier has counted it, a store or a reduction
before a wait for its group, with .read or without (PTX ISA 9.7.9.27.2.2: such a wait is for reading the map, too).
"""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import Accessed, By, CopiesWaited, Copy, CopyIssued, TensorMapRead
from tcemu.machine.sites import callers_of
from tcemu.machine.tensor_map_words import BYTES
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import lanes_in, mask_of
from tcemu.sanitizer.fences import WEAK
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.grid import GlobalAccess
from tcemu.sanitizer.groups import Groups
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.spans import Runs, Span

_CAUSE = "the copy is pending and may read its map after the change"
_WAITED = (
    "a wait_group came between them, as in CUTLASS; but this copy is in no group, and the manual does not promise that "
    "it has read its map"
)
_FIX = (
    "Before a tensor map changes, wait for the copies that use it: for a load on its mbarrier, for a store with "
    "cp.async.bulk.wait_group.read 0. Or give each problem its own map."
)


class TensorMapReads:
    """The copies of one block, or of one cluster, that read tensor maps in global memory, and the writes of maps."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks, self._grid, self._neighbour = block, block.clocks, block.grid, block.neighbour
        self._races = block.section(GlobalRaces)
        #: the latest copy that reads a map, by its origin, and the place of the map
        self._latest: tuple[By | None, int] = None, 0
        #: the groups that have read their maps
        self._groups = Groups(block.clocks)
        #: by warp: its loads since its last wait_group
        self._open: dict[int, list[Span]] = {}
        self.handlers: Handlers = {
            TensorMapRead: self._read,
            CopyIssued: self._copy,
            CopiesWaited: self._wait,
            Accessed: ForAccesses(self._accessed, lambda access: access.space == "global" and access.writes),
        }

    def _read(self, event: TensorMapRead) -> None:
        self._latest = event.by, event.tensor_map

    def _copy(self, event: CopyIssued) -> None:
        """A copy that has just named its map begins."""
        copy, (by, place) = event.copy, self._latest
        if copy.by != by:
            return
        access = GlobalAccess(self._neighbour.number, copy.by, f"{copy.opcode} (its tensor map)", False, WEAK)
        access.column, access.clock = self._end(copy)
        access.callers = callers_of(copy.by)
        span = Span(access, int(lanes_in(copy.by.active)[0]), Runs.of(np.array([place], np.int64), BYTES))
        self._grid.maps.renew(span)
        if copy.mbarrier >= 0:
            self._open.setdefault(copy.by.warp, []).append(span)

    def _end(self, copy: Copy) -> tuple[int, int]:
        """The agent that shows that a copy has ended, and the number to be passed."""
        here = self._block.section(Mbarriers).live.get(copy.mbarrier)
        if here is not None:
            return here.column, copy.phase
        return self._groups.join(copy.by), copy.group

    def _wait(self, event: CopiesWaited) -> None:
        """The waiting lanes now know that groups have read their maps; CUTLASS assumes the same of loads."""
        if event.kind != "bulk":
            return
        self._groups.ended(event.by, event.below)
        for span in self._open.pop(event.by.warp, []):
            span.unwaited = _WAITED

    def _accessed(self, event: Accessed) -> None:
        """Compare a write with the copies that may still read a map there."""
        maps, (low, high) = self._grid.maps, event.extent
        if low >= maps.end or high <= maps.first or not len(event.addresses):
            return
        first = event.addresses
        for span in maps.between(low, high):
            places = np.flatnonzero(span.runs.touched(first, first + event.size))
            late = len(places) and self._races.late(event.by.warp, mask_of(event.lanes[places]), span.access)
            if late:
                what = f"bytes of the tensor map at {int(span.runs.first[0])}"
                lane, cause = int(lanes_in(late)[0]), span.unwaited or _CAUSE
                self._races.report(
                    self._races.access(event), span.access, span.lane, lane, what,
                    cause=cause, remedy=_FIX, weight="hint" if span.unwaited else None,
                )  # fmt: skip
