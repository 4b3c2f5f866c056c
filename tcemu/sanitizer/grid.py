"""What the blocks of a launch share: what each has published for the others, and the accesses to global memory.

A block keeps its own clocks. What it publishes at a location of global memory is a copy of them, and of what it knows
of other blocks. A block that finds it there adds it to its clocks as one more agent, which its own barriers then pass
on like everything else. A cluster counts as one block here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tcemu.errors import byte_span
from tcemu.machine.allocation import HEAP
from tcemu.machine.events import By, Fenced, Site
from tcemu.machine.global_memory import Pointer
from tcemu.machine.labels import Labelled
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.clocks import FOREVER, Array, Clocks, joined
from tcemu.sanitizer.fences import WEAK, Strength
from tcemu.sanitizer.global_shadow import GlobalShadow, Line
from tcemu.sanitizer.spans import Sources, Spans

#: Knowledge about blocks: by the number of a block here, a row of its clocks.
News = dict[int, Array]


@dataclass(eq=False, slots=True)
class StrongWrite:
    """A strong write to global or shared memory by lanes of a warp."""

    #: its number, and the number here of its block
    number: int
    block: int
    by: By
    opcode: str
    #: the time of its warp, and what it publishes of the block's clocks, without regard to scopes; None: nothing
    time: int
    published: Array | None
    addresses: Array
    lanes: Array

    def writers(self, address: int) -> Array:
        """The lanes that wrote to an address."""
        return np.asarray(self.lanes[self.addresses == address])


def merged(one: News, other: News) -> News:
    """The union of what both know."""
    news = dict(one)
    for number, row in other.items():
        before = news.get(number)
        news[number] = row if before is None or before is row else joined(before, row)
    return news


@dataclass(eq=False, slots=True)
class Published:
    """What a location of global memory publishes: in all, and by the block here and the warp that have put it there."""

    together: News = field(default_factory=dict)
    parts: dict[tuple[int, int], News] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class GlobalAccess:
    """One access to global memory, by lanes of a warp."""

    #: the number here of its block, or cluster
    block: int
    by: By
    opcode: str
    writes: bool
    strength: Strength
    #: the lines that called the function of the access, innermost first
    callers: tuple[Site, ...] = ()
    #: of a copy, which ends at some time: the agent of its block's clocks that shows it, and the number to be passed
    column: int = -1
    clock: int = 0

    @property
    def copies(self) -> bool:
        """Whether a bulk or tensor copy makes the access."""
        return self.column >= 0

    @property
    def who(self) -> str:
        """``warp 3 of block 0``."""
        return f"warp {self.origin.warp}"

    @property
    def origin(self) -> By:
        """Its origin, with a warp that prints with its block."""
        warp = self.by.warp
        if isinstance(warp, Labelled):
            return self.by
        return self.by._replace(warp=Labelled(warp, f"{warp} of block {self.by.block}"))

    def away(self, other: GlobalAccess) -> int:
        """How far a scope must reach from the one to the other."""
        return 0 if self.by.block == other.by.block else 1 if self.block == other.block else 2

    def together(self, other: GlobalAccess) -> bool:
        """Whether both accesses are strong, with scopes that reach each other, and so do not race."""
        return self.strength.together(other.strength, self.away(other))


class Accesses:
    """All accesses of a grid, by number. Number 0 stands for none."""

    def __init__(self) -> None:
        self.made: list[GlobalAccess | None] = [None]
        #: of each, the number of its block here, what stands for its warp (see `thread_of`), and the time of that
        self.block, self.thread, self.time = (np.zeros(256, np.int64) for _ in range(3))
        #: callers, each once
        self._chains: dict[tuple[Site, ...], tuple[Site, ...]] = {}
        #: by block and warp: a time of the warp, and the accesses at that time, which further ones of a line share
        self._present: dict[tuple[int, int], tuple[int, dict[tuple[object, ...], int]]] = {}

    def number(
        self,
        block: int,
        by: By,
        opcode: str,
        writes: bool,
        strength: Strength,
        time: int,
        callers: tuple[Site, ...] | None = None,
    ) -> int:
        """The number of an access at this time of its warp. All accesses of one line at one time share a number.

        `callers` are those of the line, if it is not the one that is being executed.
        """
        warp = block, by.warp
        present = self._present.get(warp)
        if present is None or present[0] != time:
            present = self._present[warp] = time, {}
        key = by.site, opcode, writes, by.active
        number = present[1].get(key)
        if number is None:
            callers = self.kept(callers_of(by)) if callers is None else callers
            access = GlobalAccess(block, by, opcode, writes, strength, callers)
            number = present[1][key] = self._add(access, time)
        return number

    def first(self, line: Line, time: int) -> int:
        """The mark of lane 0, were it among the lanes of a weak read on this line at a time of its warp."""
        return 32 * self.number(line.number, line.by, line.instruction.opcode, False, WEAK, time, line.callers)

    def marks(self, line: Line, time: int) -> Array:
        """The marks (n,) of a weak read on this line at a time of its warp."""
        return self.first(line, time) + line.lanes

    def kept(self, callers: tuple[Site, ...]) -> tuple[Site, ...]:
        """The same callers, each tuple once."""
        return self._chains.setdefault(callers, callers)

    def _add(self, access: GlobalAccess, time: int) -> int:
        number = len(self.made)
        if number == len(self.time):
            more = (np.pad(each, (0, number)) for each in (self.block, self.thread, self.time))
            self.block, self.thread, self.time = more
        self.made.append(access)
        self.block[number], self.time[number] = access.block, time
        self.thread[number] = thread_of(access.block, access.by.warp)
        return number


def thread_of(block: int, warp: int) -> int:
    """A number that tells a warp of a block, by its number here, from all others; its lanes tell its threads apart."""
    return block << 32 | warp


@dataclass(eq=False)
class Grid:
    """One run of a launch, as the sanitizer sees it."""

    #: the bytes of global memory as they are now, read-only, and its arrays as (first, end, name)
    memory: Array
    arrays: tuple[tuple[int, int, str], ...]
    #: of what earlier launches have written: (first, end, the kernel that wrote it)
    outputs: tuple[tuple[int, int, str], ...] = ()
    #: the pointers to the arrays, which know their shapes
    pointers: tuple[Pointer, ...] = ()
    #: the clocks of its blocks
    clocks: list[Clocks] = field(default_factory=list)
    #: the numbers here of the blocks of each launch of a stream, and what shows that all of them have ended
    members: dict[int, list[int]] = field(default_factory=dict)
    _ends: dict[int, News] = field(default_factory=dict)
    #: the launch of each block, by the machine's number, and the kernels of the launches
    launch_of: dict[int, int] = field(default_factory=dict)
    kernels: dict[int, str] = field(default_factory=dict)
    #: what locations of global memory publish to all blocks
    published: dict[int, Published] = field(default_factory=dict)
    accesses: Accesses = field(default_factory=Accesses)
    #: by address: the strong writes that its value comes from, the last ones of them; and numbers for them
    strong: dict[int, list[StrongWrite]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    #: lines where warps load the same words again, by strong loads, and those where they do not synchronise meanwhile
    again: set[tuple[Site, bool]] = field(default_factory=set)
    polls: set[tuple[Site, bool]] = field(default_factory=set)
    #: by block and warp: how many accesses came before its last releasing fence of tensor maps, the lanes, the reach
    released: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    #: by block and warp: what it knew at its last fence.proxy.async for global memory
    fenced: dict[tuple[int, int], Array] = field(default_factory=dict)
    #: by block: its last fence
    fences: dict[int, Fenced] = field(default_factory=dict)
    #: what bulk and tensor copies have read, and what they have written
    loaded: Spans = field(default_factory=Spans)
    stored: Spans = field(default_factory=Spans)
    #: what cp.async still reads
    sources: Sources = field(default_factory=Sources)
    #: the tensor maps in global memory that tensor copies have read
    maps: Spans = field(default_factory=Spans)
    shadow: GlobalShadow = field(init=False)
    #: the first byte of the heap and the one after its last; of each byte, whether it has been written
    heap: tuple[int, int] = field(init=False)
    defined: Array = field(init=False)

    def __post_init__(self) -> None:
        self.heap = next(((low, end) for low, end, name in self.arrays if name.endswith(HEAP)), (0, 0))
        self.defined = np.zeros(self.heap[1] - self.heap[0], bool)
        self.shadow = GlobalShadow(self.arrays, lambda: self.accesses.thread, self.accesses.marks)

    def ends(self, launch: int) -> News:
        """What a thread knows that has seen the end of a launch."""
        ends = self._ends.get(launch)
        if ends is None:
            ended = ((number, self.clocks[number].rows[0]) for number in self.members.get(launch, ()))
            ends = self._ends[launch] = {number: np.full_like(row, FOREVER) for number, row in ended}
        return ends

    def extent(self, addresses: Array, size: int) -> str:
        """``bytes 0 to 63 of argument 1``: what `size` bytes at each of the addresses span."""
        low, high = int(addresses.min()), int(addresses.max()) + size - 1
        for first, end, name in self.arrays:
            if first <= low < end:
                return f"{byte_span(low - first, high - first)} of {name}"
        return f"{byte_span(low, high)} of global memory"


class Neighbour:
    """What one block exchanges with the others of its grid."""

    def __init__(self, grid: Grid, clocks: Clocks) -> None:
        self._grid, self._clocks = grid, clocks
        self.number = len(grid.clocks)
        grid.clocks.append(clocks)
        #: what this block has acquired, and the columns of its clocks that show who knows it
        self._learned: list[tuple[int, News]] = []
        self._columns: dict[int, int] = {}

    def known(self, row: Array) -> News:
        """What a row of this block's clocks shows of all blocks."""
        known: News = {self.number: row}
        for column, news in self._learned:
            if column < len(row) and row[column]:
                known = merged(known, news)
        return known

    def publish(self, address: int, warp: int, row: Array | None, *, continues: bool) -> None:
        """Publish what `row` knows to every thread that finds it at the address.

        An atomic operation `continues` what was there; a store leaves only what the same warp has put there before.
        """
        published, who = self._grid.published.get(address), (self.number, warp)
        if row is None and (published is None or continues):
            return
        if published is None:
            published = self._grid.published[address] = Published()
        parts = published.parts if continues else {key: news for key, news in published.parts.items() if key == who}
        if row is not None:
            before, news = parts.get(who), self.known(row)
            parts[who] = news if before is None else merged(before, news)
            if continues:
                published.together = merged(published.together, news)
        if not continues:
            published.together = dict(parts.get(who, {}))
        published.parts = parts

    @property
    def published(self) -> bool:
        """Whether locations of global memory publish anything."""
        return bool(self._grid.published)

    def find(self, address: int) -> Array | None:
        """The row that the address publishes; None if nothing."""
        published = self._grid.published.get(address)
        news = {} if published is None else published.together
        if set(news) <= {self.number}:
            return None
        return self.learn(news)

    def learn(self, news: News) -> Array:
        """The row that shows this knowledge about other blocks."""
        column = self._columns.get(id(news))
        if column is None:
            column = self._columns[id(news)] = self._clocks.agent()
            self._learned.append((column, news))  # which keeps it alive, so that nothing else gets its identity
        row = np.zeros_like(self._clocks.rows[0])
        row[column] = 1
        return row
