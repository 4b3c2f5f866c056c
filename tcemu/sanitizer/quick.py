"""Loads and stores that cannot break a rule, as almost all: compared with earlier accesses and noted in one step.

A load is one if it reads only what was written, by accesses that its warp knows to have ended; a store is one if its
warp also knows that all reads of the bytes have ended. shared.py looks closer at all others.
"""

from __future__ import annotations

from tcemu.sanitizer.clocks import Array, Clocks
from tcemu.sanitizer.records import Records
from tcemu.sanitizer.shadow import Shadow


class Quick:
    """The quick way for the accesses of one block to its shared memory."""

    def __init__(self, clocks: Clocks, records: Records, shadow: Shadow) -> None:
        self._clocks, self._records, self._shadow = clocks, records, shadow

    def reads(self, warp: int, record: int, cells: Array, lanes: Array, needed: bool) -> bool:
        """Note a load by `lanes` (n,) of `cells` (n,); return whether it was noted.

        `needed`: the load does not break a rule only if all its bytes have been written.
        """
        records, shadow = self._records, self._shadow
        if record in records.strong or self._clocks.partial[warp]:
            return False
        row, first = self._clocks.rows[warp], 32 * record
        known, written, reads = records.known(row), shadow.written, shadow.reads_of(warp)
        while (found := shadow.tools.load(written, reads, cells, known, first, lanes, needed)) >= 0:
            if found == 0 or not records.learn(found, row, known):
                return False
        records.link(record, -1 - found)
        return True

    def writes(self, warp: int, record: int, cells: Array, lanes: Array) -> bool:
        """Note a store by `lanes` (n,) to `cells` (n,); return whether it was noted."""
        records, shadow = self._records, self._shadow
        if record in records.strong or self._clocks.partial[warp] or shadow.weak is not None or not shadow.successive:
            return False
        row, first = self._clocks.rows[warp], 32 * record
        known, written, reads = records.known(row), shadow.written, shadow.reads
        while (found := shadow.tools.store(written, reads, cells, known, first, lanes)) >= 0:
            if not records.learn(found, row, known):
                return False
        records.link(record, -1 - found)
        return True
