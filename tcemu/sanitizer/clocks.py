"""Who knows what: vector clocks of threads and asynchronous agents.

Each warp keeps a row of clocks, one column for each thread of the block and for each asynchronous agent. A record of an
access has a column and a clock; a warp knows that the access has ended where its row has a larger number there. So
what is reported depends on the kernel's synchronisation, not on the order in which warps happened to run.

Columns, for a block of L lanes in W warps:

    ALWAYS            known to everybody: what is no access at all
    NEVER             known to nobody: what nobody has waited for
    thread + lane     the lane's ordinary accesses, in its warp's time
    fenced + lane     up to which time fence.proxy.async of that very lane has covered its accesses
    met + warp        up to which time all lanes of the warp have issued their loads, as an .aligned instruction shows
    agents            groups of wgmma of a warpgroup, of bulk copies of a warp, phases of an mbarrier

Rows are never changed in place: a record may keep the row that its warp had.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ALWAYS, NEVER, THREAD = 0, 1, 2
_FOREVER = np.iinfo(np.int64).max
#: Agents that there is room for at first.
_ROOM = 64


@lru_cache(maxsize=4096)
def lanes_in(mask: int) -> Array:
    """The lanes of a mask, as an array that is not to be changed."""
    return np.flatnonzero(np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little"))


def joined(one: Array, other: Array) -> Array:
    """What both know together."""
    if len(one) < len(other):
        one, other = other, one
    if len(other) < len(one):
        other = np.pad(other, (0, len(one) - len(other)))
    return np.maximum(one, other)


class Clocks:
    """The clocks of one block."""

    def __init__(self, threads: int) -> None:
        self.warps = -(-threads // 32)
        self.lanes = 32 * self.warps
        self.fenced_base = THREAD + self.lanes
        self.met_base = self.fenced_base + self.lanes
        self._used = self.met_base + self.warps
        row = np.zeros(self._used + _ROOM, np.int64)
        row[ALWAYS] = _FOREVER
        #: what all lanes of a warp know
        self.rows = [row] * self.warps
        #: what only some lanes of a warp know besides, by mask
        self.partial: list[dict[int, Array]] = [{} for _ in range(self.warps)]
        #: each warp's own time
        self.time = [1] * self.warps
        #: up to which time each lane's accesses are covered by its own fence.proxy.async
        self.fenced = np.zeros(self.lanes, np.int64)
        #: up to which time all lanes of a warp have issued their accesses
        self.met = [0] * self.warps
        #: whether a warp has loaded anything since
        self.loads = [False] * self.warps
        #: what each warp knew when it last executed fence.proxy.async
        self.fence_views: list[Array | None] = [None] * self.warps
        #: lanes that exist, as bits
        self.there = [(1 << min(32, threads - 32 * warp)) - 1 for warp in range(self.warps)]

    def agent(self) -> int:
        """A column for one more agent."""
        column = self._used
        self._used += 1
        if column >= len(self.rows[0]):
            more = (0, len(self.rows[0]))
            self.rows = [np.pad(row, more) for row in self.rows]
            self.partial = [{mask: np.pad(row, more) for mask, row in known.items()} for known in self.partial]
        return column

    # ---------------------------------------------------------------------------------------- what is known

    def common(self, warp: int, mask: int) -> list[tuple[int, Array]]:
        """What lanes of `mask` know, as (lanes, row) for each part of them that knows the same."""
        known = self.partial[warp]
        if not known:
            return [(mask, self.rows[warp])]
        parts: dict[tuple[int, ...], int] = {}
        for lane in lanes_in(mask).tolist():
            bit = 1 << lane
            having = tuple(each for each in known if each & bit)
            parts[having] = parts.get(having, 0) | bit
        found = []
        for having, part in parts.items():
            row = self.rows[warp]
            for each in having:
                row = joined(row, known[each])
            found.append((part, row))
        return found

    def view(self, warp: int, mask: int) -> Array:
        """What any lane of `mask` knows and has done so far, as the start of something that they issue or release."""
        row = self.rows[warp].copy()
        for lanes, known in self.partial[warp].items():
            if lanes & mask:
                np.maximum(row, known, out=row)
        own, now = 32 * warp, self.time[warp] + 1
        if mask == self.there[warp]:
            row[THREAD + own : THREAD + own + 32] = now
            first = self.fenced_base + own
            row[first : first + 32] = self.fenced[own : own + 32]
            row[self.met_base + warp] = now
            return row
        some = lanes_in(mask) + own
        row[THREAD + some] = now
        row[self.fenced_base + some] = self.fenced[some]
        row[self.met_base + warp] = self.met[warp]
        return row

    # ---------------------------------------------------------------------------------------- what changes it

    def release(self, warp: int, mask: int) -> Array:
        """What those learn who synchronise with lanes of `mask`; what they do from now on is later."""
        row = self.view(warp, mask)
        self.time[warp] += 1
        return row

    def acquire(self, warp: int, mask: int, row: Array) -> None:
        """Lanes of `mask` learn `row`."""
        if mask == self.there[warp]:
            self.rows[warp] = joined(self.rows[warp], row)
        else:
            known = self.partial[warp]
            known[mask] = joined(known.get(mask, self.rows[warp]), row)
        self.time[warp] += 1

    def learn(self, warp: int, mask: int, column: int, clock: int) -> None:
        """Lanes of `mask` learn that an agent has come to `clock`."""
        row = np.zeros_like(self.rows[warp])
        row[column] = clock
        self.acquire(warp, mask, row)

    def sync(self, warp: int, mask: int) -> None:
        """Lanes of `mask` meet: each knows what any of them knew and did."""
        row = self.release(warp, mask)
        if mask == self.there[warp]:
            self.partial[warp].clear()
        self.acquire(warp, mask, row)

    def pass_barrier(self, warp: int, row: Array) -> None:
        """The whole warp goes on after a barrier of the block, where `row` came together."""
        self.partial[warp].clear()
        self.acquire(warp, self.there[warp], row)

    def fence(self, warp: int, mask: int) -> None:
        """fence.proxy.async by lanes of `mask`: it covers what they did so far."""
        self.time[warp] += 1
        self.fenced[lanes_in(mask) + 32 * warp] = self.time[warp]
        self.fence_views[warp] = self.view(warp, mask)

    def meet(self, warp: int) -> None:
        """All lanes execute one instruction together: their loads before it have been issued."""
        if self.loads[warp]:
            self.time[warp] += 1
            self.met[warp] = self.time[warp]
            self.loads[warp] = False
