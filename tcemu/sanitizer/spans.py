"""What copies access in global memory: runs of bytes, found by the bytes of another access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.marks import fastest

if TYPE_CHECKING:
    from tcemu.machine.events import Copy
    from tcemu.sanitizer.grid import GlobalAccess

#: Most copies that are kept: a long kernel forgets the oldest half of them, so that memory stays bounded, and a hint
#: says so.
MOST = 1 << 14
#: The time of a wait that has not happened yet.
NEVER_WAITED = np.iinfo(np.int64).max


@dataclass(eq=False, slots=True)
class Runs:
    """Bytes as runs in order: the first byte of each (n,), and the byte after its last."""

    first: Array
    end: Array

    @classmethod
    def of(cls, addresses: Array, size: int) -> Runs:
        """The runs that `size` bytes at each of the addresses make."""
        runs = fastest().runs
        pairs = runs(addresses, size)
        return cls(*(pairs if pairs.size else runs(_once(np.sort(addresses)), size)))

    def units(self, size: int) -> Array:
        """The numbers (n,) of the units of `size` bytes that have a byte of these."""
        low, high = self.first // size, -(-self.end // size)
        counts = high - low
        starts = np.repeat(low - np.cumsum(counts) + counts, counts.astype(np.intp, copy=False))
        units = starts + np.arange(len(starts), dtype=np.int64)
        return units if len(low) < 2 else _once(units)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """The key that distinguishes them from others."""
        return self.first.tobytes(), self.end.tobytes()

    def touched(self, first: Array, end: Array) -> Array:
        """Which of the spans from `first` to `end` (n,) have a byte of these, bool (n,)."""
        before = np.searchsorted(self.first, end) - 1
        return np.asarray((before >= 0) & (self.end[before] > first))


def _once(numbers: Array) -> Array:
    """Each of the numbers, which are in order, once; np.unique would look them up in a table, which takes longer."""
    return np.concatenate([numbers[:1], numbers[1:][np.diff(numbers) > 0]])


@dataclass(eq=False, slots=True)
class Span:
    """One copy's access, the lane that issued the copy, and the bytes."""

    access: GlobalAccess
    lane: int
    runs: Runs
    #: of a store: its warp's time when it was issued and when a wait covered it, and what was wrong until then
    issued: int = 0
    waited: int = NEVER_WAITED
    unwaited: str = ""


@dataclass(eq=False, slots=True)
class Source:
    """What one cp.async reads: for the lanes (n,) of its addresses."""

    access: GlobalAccess
    copy: Copy
    lanes: Array
    #: the lanes that have not waited for it, as bits
    waiting: int


class Spans:
    """The spans of a grid, found by the bytes between their first and their last."""

    def __init__(self) -> None:
        self._made: list[Span] = []
        self._low, self._high = (np.zeros(64, np.int64) for _ in range(2))
        #: the first byte of all spans, and the one after the last
        self.first, self.end = np.iinfo(np.int64).max, 0
        #: by their origin and their bytes: the numbers of the spans that a later copy may replace
        self._same: dict[tuple[object, ...], int] = {}
        #: how many have been forgotten
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._made)

    def renew(self, span: Span) -> None:
        """Add a span, in place of an earlier one from the same line, agent and lane with the same bytes.

        A thread that knows that the later copy has ended knows the same of the earlier one.
        """
        access = span.access
        key = access.by.site, access.block, access.column, span.lane, *span.runs.key
        before = self._same.get(key)
        if before is None:
            self.add(span)
            self._same[key] = len(self._made) - 1
        else:
            self._made[before] = span

    def add(self, span: Span) -> None:
        """One more."""
        if len(self._made) == MOST:
            self._forget(MOST // 2)
        number = len(self._made)
        if number == len(self._low):
            self._low, self._high = (np.pad(each, (0, number + 1)) for each in (self._low, self._high))
        low, high = int(span.runs.first[0]), int(span.runs.end[-1])
        self._low[number], self._high[number] = low, high
        self.first, self.end = min(self.first, low), max(self.end, high)
        self._made.append(span)

    def _forget(self, count: int) -> None:
        """Forget the oldest ones."""
        self._made, self._low, self._high = self._made[count:], self._low[count:], self._high[count:]
        self._same = {key: number - count for key, number in self._same.items() if number >= count}
        self.forgotten += count

    def between(self, low: int, high: int) -> list[Span]:
        """The spans that may have one of the bytes from `low` to `high` - 1."""
        if high <= self.first or low >= self.end:
            return []
        count = len(self._made)
        numbers = np.flatnonzero((self._low[:count] < high) & (self._high[:count] > low))
        return [self._made[number] for number in numbers.tolist()]


class Sources:
    """What the cp.async instructions of a grid read that no wait has covered yet."""

    def __init__(self) -> None:
        #: by block and warp
        self._open: dict[tuple[int, int], list[Source]] = {}
        self._reset()

    def _reset(self) -> None:
        #: the first byte of all, and the one after the last
        self.first, self.end = np.iinfo(np.int64).max, 0

    def add(self, source: Source, low: int, end: int) -> None:
        """One more, whose bytes lie from `low` to `end` - 1."""
        access = source.access
        self._open.setdefault((access.block, access.by.warp), []).append(source)
        self.first, self.end = min(self.first, low), max(self.end, end)

    def waited(self, block: int, warp: int, lanes: int, below: int) -> list[Source]:
        """Lanes of a warp have waited for its groups before `below`; return what no lane waits for any more."""
        before = self._open.pop((block, warp), [])
        for each in before:
            if each.copy.group < below:
                each.waiting &= ~lanes
        still = [each for each in before if each.waiting]
        if still:
            self._open[block, warp] = still
        elif not self._open:
            self._reset()
        return [each for each in before if not each.waiting]

    def forget(self, block: int) -> None:
        """A block has ended."""
        for key in [each for each in self._open if each[0] == block]:
            del self._open[key]
        if not self._open:
            self._reset()

    def under(self, first: Array, size: int) -> Iterator[tuple[Source, int, int]]:
        """The reads of bytes that accesses of `size` bytes at `first` (n,) reach: each with a lane and an access."""
        for each in [each for some in self._open.values() for each in some]:
            _, addresses, bytes_each = each.copy.reads
            reaches = (addresses[:, None] < first + size) & (first < addresses[:, None] + bytes_each)
            reaches &= (each.waiting >> each.lanes & 1).astype(bool)[:, None]
            if reaches.any():
                place, number = np.argwhere(reaches)[0].tolist()
                yield each, int(each.lanes[place]), number
