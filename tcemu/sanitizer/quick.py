"""Accesses that cannot break a rule, as almost all: compared with earlier accesses and noted in one step.

A read is one if it reads only what was written, by accesses that its warp knows to have ended or that the same lane has
made; a write is one if the same holds for all reads of the bytes. For those through the async proxy, other copies must
have written the bytes: a load or store would need a proxy fence. shared.py looks closer at all others, and would report
none of these: tests/sanitizer/test_quick.py compares the two. The rule is stated a second time here because an access
that goes the long way costs twice as much (measured: 47 instead of 25 us for a load or store of 32 lanes).
"""

from __future__ import annotations

from tcemu.sanitizer.clocks import THREAD, Array, Clocks
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
        own, load, threads = records.own(record, warp), shadow.tools.load, records.threads
        while (answer := load(written, reads, cells, known, first, lanes, needed, threads, own)) >= 0:
            if answer == 0 or not records.learn(answer, row, known):
                return False
        records.link(record, -1 - answer)
        return True

    def writes(self, warp: int, record: int, cells: Array, lanes: Array) -> bool:
        """Note a store by `lanes` (n,) to `cells` (n,); return whether it was noted."""
        records, shadow = self._records, self._shadow
        if record in records.strong or self._clocks.partial[warp] or shadow.weak is not None or not shadow.successive:
            return False
        row, first = self._clocks.rows[warp], 32 * record
        known, written, reads = records.known(row), shadow.written, shadow.reads
        own, store, threads = THREAD + 32 * warp, shadow.tools.store, records.threads
        while (answer := store(written, reads, cells, known, first, lanes, threads, own)) >= 0:
            if not records.learn(answer, row, known):
                return False
        records.link(record, -1 - answer)
        return True

    def reads_async(self, reader: object, record: int, cells: Array, row: Array) -> bool:
        """Note that a wgmma or bulk copy, whose issuers know `row`, will read `cells`; return whether it was noted."""
        records, shadow = self._records, self._shadow
        if records.attachments:
            return False
        known, written, reads = records.known(row), shadow.written, shadow.reads_of(reader)
        while (answer := shadow.tools.read(written, reads, cells, known, records.lanewise, 32 * record)) >= 0:
            if known[answer] or not records.learn(answer, row, known):  # it may be known, but lanewise, or 0
                return False
        records.link(record, -1 - answer)
        return True

    def writes_async(self, record: int, cells: Array, row: Array) -> bool:
        """Note that a copy, issued by lanes that know `row`, will write `cells`; return whether it was noted."""
        records, shadow = self._records, self._shadow
        if record in records.strong or shadow.weak is not None or not shadow.successive:
            return False
        known, written, reads = records.known(row), shadow.written, shadow.reads
        while (answer := shadow.tools.fill(written, reads, cells, known, records.lanewise, 32 * record)) >= 0:
            if known[answer] or not records.learn(answer, row, known):  # it may be known, but lanewise
                return False
        records.link(record, -1 - answer)
        return True
