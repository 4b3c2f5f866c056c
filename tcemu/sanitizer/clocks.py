"""Vector clocks of threads and asynchronous agents, which show whether one access is ordered after another.

Each warp keeps a row of clocks, with one column for each thread of the block and one for each asynchronous agent. The
record of an access has a column and a clock. A warp knows that the access has ended if the number in that column of
the warp's row is larger than the clock. The reports therefore depend on the kernel's synchronisation, not on the order
in which the warps happened to run.

Columns, for a block of L lanes in W warps:

    ALWAYS            every warp knows: for the record that stands for no access
    NEVER             no warp knows: for accesses that no warp has waited for
    thread + lane     the lane's ordinary accesses, in its warp's time
    fenced + lane     the time up to which the lane's own fence.proxy.async covers its accesses
    issued + warp     the time up to which all lanes of the warp have issued their loads; .aligned instructions show it
    agents            wgmma groups of a warpgroup, bulk-copy groups of a warp, phases of an mbarrier

Rows are never changed in place, because a record may keep the row that its warp had.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ALWAYS, NEVER, THREAD = 0, 1, 2
FOREVER = np.iinfo(np.int64).max
#: Number of agents that the first rows have room for.
_ROOM = 64


@lru_cache(maxsize=4096)
def lanes_in(mask: int) -> Array:
    """The lanes of a mask, as an array that callers must not change."""
    bits = np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64, copy=False)


def mask_of(lanes: Array) -> int:
    """Lanes (n,) as a mask."""
    return int(np.bitwise_or.reduce(1 << lanes))


def joined(one: Array, other: Array) -> Array:
    """The union of what two rows know: their elementwise maximum. A shorter row knows nothing of later agents."""
    if len(one) == len(other):
        return np.maximum(one, other)
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    joined_row = longer.copy()
    np.maximum(joined_row[: len(shorter)], shorter, out=joined_row[: len(shorter)])
    return joined_row


class Way(NamedTuple):
    """What all warps know, and their times, when a leg of their way begins, and which of them load something there."""

    rows: Array
    times: Array
    loaded: Array


class Clocks:
    """The clocks of one block."""

    def __init__(self, threads: int) -> None:
        self.warps = -(-threads // 32)
        self.lanes = 32 * self.warps
        self.fenced_base = THREAD + self.lanes
        self.issued_base = self.fenced_base + self.lanes
        self._used = self.issued_base + self.warps
        row = np.zeros(self._used + _ROOM, np.int64)
        row[ALWAYS] = FOREVER
        #: what all lanes of a warp know
        self.rows = [row] * self.warps
        #: what only some lanes of a warp know in addition, by mask
        self.partial: list[dict[int, Array]] = [{} for _ in range(self.warps)]
        #: each warp's own time; others keep this list, and those of `loads` and `present`
        self.time = [1] * self.warps
        #: the time up to which each lane's own fence.proxy.async covers its accesses
        self.fenced = np.zeros(self.lanes, np.int64)
        #: the time up to which all lanes of a warp have issued their accesses
        self.all_issued = [0] * self.warps
        #: whether a warp has loaded anything since that time
        self.loads = [False] * self.warps
        #: by warp: the lanes that have used an mbarrier since they last executed an instruction together
        self.apart: dict[int, int] = {}
        #: by warp, and by the lanes that then did: its times
        self._gathered: dict[int, dict[int, list[int]]] = {}
        #: what each warp knew when it last executed fence.proxy.async
        self.fence_views: list[Array | None] = [None] * self.warps
        #: whether all lanes of the warp executed it
        self.fence_whole = [False] * self.warps
        #: by warp, the latest view, with what it was computed from: the row, the warp's time, the lanes, and all lanes
        self._views: list[tuple[Array, tuple[int, int, int], Array] | None] = [None] * self.warps
        #: lanes that exist, as bits
        self.present = [(1 << min(32, threads - 32 * warp)) - 1 for warp in range(self.warps)]

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
        """What lanes of `mask` know, as (lanes, row) for each subset of them that knows the same."""
        known = self.partial[warp]
        if not known:
            return [(mask, self.rows[warp])]
        parts: dict[tuple[int, ...], int] = {}
        for lane in lanes_in(mask).tolist():
            bit = 1 << lane
            having = tuple(each for each in known if each & bit)
            parts[having] = parts.get(having, 0) | bit
        shares = []
        for having, part in parts.items():
            row = self.rows[warp]
            for each in having:
                row = joined(row, known[each])
            shares.append((part, row))
        return shares

    def view(self, warp: int, mask: int) -> Array:
        """What any lane of `mask` knows and has done so far: the row of what they issue or release now.

        Callers must not change it. Every method that changes it advances the warp's time or gives the warp another row.
        """
        if self.partial[warp]:
            return self._view(warp, mask)
        latest, row, state = self._views[warp], self.rows[warp], (self.time[warp], mask, self.present[warp])
        if latest is None or latest[0] is not row or latest[1] != state:
            latest = self._views[warp] = row, state, self._view(warp, mask)
        return latest[2]

    def alike(self, warps: Sequence[int]) -> bool:
        """Whether all lanes of all these warps know the same."""
        rows, partial = self.rows, self.partial
        row = rows[warps[0]]
        for warp in warps:  # noqa: SIM110 - not any(...), whose generator would cost most of this
            if rows[warp] is not row or partial[warp]:
                return False
        return True

    def reached(self, warp: int, mask: int, column: int) -> int:
        """How far any lane of `mask` knows an agent to be."""
        row = self.view(warp, mask) if self.partial[warp] else self.rows[warp]
        return int(row[column])

    def _view(self, warp: int, mask: int) -> Array:
        row = self.rows[warp].copy()
        for lanes, known in self.partial[warp].items():
            if lanes & mask:
                np.maximum(row, known, out=row)
        own, now = 32 * warp, self.time[warp] + 1
        if mask == self.present[warp]:
            row[THREAD + own : THREAD + own + 32] = now
            first = self.fenced_base + own
            row[first : first + 32] = self.fenced[own : own + 32]
            row[self.issued_base + warp] = now
            return row
        one = mask.bit_length() - 1  # as a number, which takes less time than an array, if it is the only lane
        some: Any = own + (one if mask == 1 << one else lanes_in(mask))
        row[THREAD + some] = now
        row[self.fenced_base + some] = self.fenced[some]
        row[self.issued_base + warp] = self.all_issued[warp]
        return row

    # ---------------------------------------------------------------------------------------- what changes it

    def release(self, warp: int, mask: int) -> Array:
        """The row for warps that synchronise with lanes of `mask`; it does not cover what these lanes do later."""
        row = self.view(warp, mask)
        self.time[warp] += 1
        return row

    def come(self, warp: int) -> None:
        """The whole warp comes to where it waits for others: it does nothing more until `met`."""
        self.time[warp] += 1

    def met(self, warps: Sequence[int]) -> Array:
        """What any of the warps knew and has done that wait where they meet: the join of their rows."""
        row, time, all_warps = self.rows[warps[0]].copy(), np.array(self.time, np.int64), len(warps) == self.warps
        if not self.alike(warps):
            rows = {id(row): row for warp in warps for row in (self.rows[warp], *self.partial[warp].values())}
            for other in rows.values():
                np.maximum(row, other, out=row)
        which: Any = slice(None) if all_warps else np.array(warps, np.intp)  # a slice takes a third of the time
        lanes = row[THREAD : self.issued_base].reshape(2, self.warps, 32)  # those of `thread` and those of `fenced`
        lanes[0, which], lanes[1, which] = time[which, None], self.fenced.reshape(-1, 32)[which]
        row[self.issued_base : self.issued_base + self.warps][which] = time[which]
        return row

    def way(self, loaded: Array) -> Way:
        """What all warps, which know the same now, will know if from now on they only meet, all of them each time.

        `loaded` (legs, warps) says which of them load something on each leg, the way from one such place to the next.
        """
        loaded[0] |= self.loads
        steps = np.empty(loaded.shape, np.int64)
        steps[0] = self.time
        steps[1:] = 2 + loaded[:-1]  # `come`, `meet` if something has been loaded, and `pass_barrier`
        times = steps.cumsum(axis=0)
        rows, arrived = np.empty((len(loaded), len(self.rows[0])), np.int64), times[1:] - 1
        rows[:] = self.rows[0]
        rows[1:, THREAD : self.fenced_base] = arrived.repeat(32, axis=1)
        rows[1:, self.fenced_base : self.issued_base] = self.fenced
        rows[1:, self.issued_base : self.issued_base + self.warps] = arrived
        return Way(rows, times, loaded)

    def go(self, way: Way, legs: int) -> None:
        """All warps have gone so many legs of their way."""
        if not legs:
            return
        self.rows = [way.rows[legs].copy()] * self.warps  # which does not keep the others alive
        self.time[:] = way.times[legs].tolist()
        issued = np.array(self.all_issued, np.int64)
        for leg in range(legs):
            np.copyto(issued, way.times[leg + 1] - 1, where=way.loaded[leg])
        self.all_issued, self.loads[:] = issued.tolist(), [False] * self.warps

    def acquire(self, warp: int, mask: int, row: Array) -> None:
        """Lanes of `mask` learn `row`."""
        if mask == self.present[warp]:
            self.rows[warp] = joined(self.rows[warp], row)
        else:
            known = self.partial[warp]
            known[mask] = joined(known.get(mask, self.rows[warp]), row)
        self.time[warp] += 1

    def learn(self, warp: int, mask: int, column: int, clock: int) -> None:
        """Lanes of `mask` learn that an agent has reached `clock`."""
        row = np.zeros_like(self.rows[warp])
        row[column] = clock
        self.acquire(warp, mask, row)

    def sync(self, warp: int, mask: int) -> None:
        """Lanes of `mask` meet: afterwards each knows what any of them knew and did."""
        row = self.release(warp, mask)
        if mask == self.present[warp]:
            self.partial[warp].clear()
        self.acquire(warp, mask, row)

    def pass_barrier(self, warp: int, row: Array) -> None:
        """The whole warp continues after a barrier of the block and learns `row`, the join of all who arrived.

        The warp was one of them, so it knows nothing else; warps that share a row share what is found out about it.
        """
        self.partial[warp].clear()
        if len(row) != len(self.rows[warp]):
            row = joined(self.rows[warp], row)
        self.rows[warp] = row
        self.time[warp] += 1

    def fence(self, warp: int, mask: int) -> None:
        """Lanes of `mask` execute fence.proxy.async, which covers what they did so far."""
        self.time[warp] += 1
        self.fenced[lanes_in(mask) + 32 * warp] = self.time[warp]
        self.fence_views[warp] = self.view(warp, mask)
        self.fence_whole[warp] = mask == self.present[warp]

    def use(self, warp: int, mask: int) -> None:
        """Lanes of `mask` use an mbarrier."""
        self.apart[warp] = self.apart.get(warp, 0) | mask

    def gather(self, warp: int, mask: int) -> None:
        """Lanes of `mask` execute an instruction together: each of them comes after what all of them have used."""
        if self.apart.get(warp, 0) & mask:
            self.apart[warp] &= ~mask
            self.time[warp] += 1
            self._gathered.setdefault(warp, {}).setdefault(mask, []).append(self.time[warp])

    def passed(self, row: Array, warp: int, mask: int, time: int) -> bool:
        """Whether `row` knows that lanes of `mask` have done what they did at a time of their warp.

        It knows that of each of them, or of one with which they have executed an instruction together since then.
        """
        first = THREAD + 32 * warp
        if (row[first + lanes_in(mask)] > time).all():
            return True
        for lanes, times in self._gathered.get(warp, {}).items():
            after = bisect_right(times, time)
            if not mask & ~lanes and after < len(times) and row[first + lanes_in(lanes)].max() > times[after]:
                return True
        return False

    def meet(self, warp: int) -> None:
        """All lanes execute one instruction together, so they have issued all their earlier loads."""
        if self.loads[warp]:
            self.time[warp] = self.all_issued[warp] = self.time[warp] + 1
            self.loads[warp] = False
