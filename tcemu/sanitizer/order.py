"""Which earlier accesses to shared memory are in order with a new one, although nobody knows that they have ended."""

from __future__ import annotations

import numpy as np

from tcemu.machine.events import By
from tcemu.sanitizer.clocks import Array, Clocks, lanes_in
from tcemu.sanitizer.marks import same_thread
from tcemu.sanitizer.records import Records
from tcemu.sanitizer.shadow import Shadow


class Order:
    """What the threads of one block know about earlier accesses. A mark is 32 times a record, plus a lane."""

    def __init__(self, clocks: Clocks, records: Records, shadow: Shadow) -> None:
        self._clocks, self._records, self._shadow = clocks, records, shadow

    def shares(self, by: By, lanes: Array) -> list[tuple[Array, Array | None]]:
        """What the lanes know, as (row, which accesses are those of lanes that know it, or None for all)."""
        if not self._clocks.partial[by.warp]:
            return [(self._clocks.rows[by.warp], None)]
        return [(row, np.isin(lanes, lanes_in(mask))) for mask, row in self._clocks.common(by.warp, by.active)]

    def all_read(self, reads: Array, row: Array) -> bool:
        """Whether the latest read of each reader (a row of marks) is known to have ended, as are those before it."""
        return self._shadow.successive and self._records.ended(np.maximum.reduce(reads, axis=1), row)

    def own(self, marks: Array, own: int, lanes: Array) -> Array:
        """Which marks are ordinary accesses by the lane itself, which sees them in order; `own`: see Records.own."""
        return same_thread(marks, self._records.threads, own, lanes)

    def own_read(self, marks: Array, warp: int, lanes: Array, row: Array) -> Array:
        """Which reads precede a write by these lanes even without synchronisation."""
        records, record = self._records, marks >> 5
        mine = (records.warp[record] == warp) & (records.lanewise[record] == 1)
        done = (marks & 31 == lanes) | (records.clock[record] < self._clocks.all_issued[warp])
        return np.asarray((mine & done) | self.passed(marks, row))

    def passed(self, marks: Array, row: Array) -> Array:
        """Which marks are reads that all lanes of their warp are known to have passed."""
        records, record = self._records, marks >> 5
        known = row[self._clocks.issued_base + records.warp[record]] > records.clock[record]
        return np.asarray(known & (records.lanewise[record] == 1))

    def unfenced(self, record: int, prior: Array) -> Array:
        """Which cells hold cp.async data that the user learned of from an mbarrier, with no fence.proxy.async since."""
        records, which = self._records, prior >> 5
        views = [self._clocks.fence_views[warp] for warp in records.warps[record]]
        attached = records.attached(which)
        for view in views:
            if view is None:
                return np.asarray(attached)
            column = np.minimum(records.column[which], len(view) - 1)
            attached = attached & (view[column] <= records.clock[which])
        return np.asarray(attached)
