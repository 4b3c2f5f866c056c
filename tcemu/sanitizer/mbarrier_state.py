"""What the sanitizer knows about one mbarrier: who made it, its phases, their bytes, arrivals and waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tcemu.errors import counted
from tcemu.machine.events import By, Site
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.clocks import THREAD, Array, Clocks, joined
from tcemu.sanitizer.report import Earlier


@dataclass
class Phase:
    """The bytes that one phase expects and the bytes that its copies bring."""

    expected: int = 0
    issued: int = 0
    #: the first copy, and the last one of an instruction that its warp executed before in this phase
    copy: Earlier | None = None
    again: Earlier | None = None
    #: by warp and line of all of them: where their bytes begin, if they are st.async
    origins: dict[tuple[int, Site], dict[int, Earlier]] = field(default_factory=dict)
    #: how many of its copies bring each box, as (its size, the elements' format, its bytes)
    boxes: Counter[tuple[tuple[int, ...], str, int]] = field(default_factory=Counter)
    #: whether a report already says that the two differ
    reported: bool = False
    #: whether a cp.async.mbarrier.arrive counts in it
    attached: bool = False


class Wait(NamedTuple):
    """The last wait of a warp: the phase that it found complete, its lanes, its line, and the warp's time then."""

    phase: int
    lanes: int
    by: By
    time: int


@dataclass
class Mbarrier:
    """An mbarrier object, from mbarrier.init on."""

    column: int
    init: By
    #: the column of the thread that initialised it, and the time of its warp at that point
    thread: int
    clock: int
    #: the joined knowledge of the threads that arrived in the current phase and before it
    arrived: Array
    #: the same without the arrivals of other blocks of the cluster: all that a wait with the scope .cta acquires
    near: Array
    #: the arrivals of a phase, as mbarrier.init has them
    arity: int
    completed: dict[int, Array] = field(default_factory=dict)
    completed_near: dict[int, Array] = field(default_factory=dict)
    #: number of completed phases
    count: int = 0
    #: whether the thread that initialised it has executed a fence since
    fenced: bool = False
    #: the last expect_tx
    expecting: By | None = None
    phases: dict[int, Phase] = field(default_factory=dict)
    #: the arrivals of the current phase that bring no bytes, and the last arrival of completed phases
    arrivals: list[By] = field(default_factory=list)
    completed_by: dict[int, By] = field(default_factory=dict)
    #: by warp: the lanes that have ever arrived without bytes
    crew: dict[int, int] = field(default_factory=dict)
    #: each expect_tx of the current phase, with its warp's time, that no arrival is known to come after
    announced: list[tuple[By, int]] = field(default_factory=list)
    #: each warp's last wait
    waits: dict[int, Wait] = field(default_factory=dict)
    #: by warp: the first phase that it missed, because its wait found a later one of the same parity
    skipped: dict[int, int] = field(default_factory=dict)
    #: whether an arrival or a wait was relaxed
    relaxed: bool = False
    #: lanes of a warp, as (warp, mask), that know of its mbarrier.init
    seen: set[tuple[int, int]] = field(default_factory=set)
    #: the last use by lanes of a warp, by (warp, mask): the warp's time then, the origin, the opcode
    uses: dict[tuple[int, int], tuple[int, By, str]] = field(default_factory=dict)

    def hear(self, row: Array, *, remote: bool = False) -> None:
        """Threads arrive, or issue copies, that know this; `remote`: in another block."""
        both = joined(self.arrived, row)
        self.near = self.near if remote else both if self.near is self.arrived else joined(self.near, row)
        self.arrived = both

    def came(self) -> int:
        """How many threads have ever arrived without bytes."""
        return sum(lanes.bit_count() for lanes in self.crew.values())

    @property
    def miscounts(self) -> str:
        """``takes 2 arrivals in a phase (mbarrier.init of ...), and 8 threads arrive``; empty if these are not more."""
        if self.came() <= self.arity:
            return ""
        begun = Earlier(self.init, "mbarrier.init", callers_of(self.init))
        return f"takes {counted(self.arity, 'arrival')} in a phase ({begun}), and {self.came()} threads arrive"

    def expect(self, number: int, count: int, by: By) -> None:
        """A phase expects `count` more bytes or, if it is negative, fewer: a thread has counted them as copied."""
        self.phase(number).expected += count
        if count > 0:
            self.expecting = by

    def late(self) -> set[int]:
        """The warps that brought bytes to the last phase, or expected them, and have not done so in this one."""
        before, now = self.phases.get(self.count - 1), self.phases.get(self.count)
        if before is None or now is None:
            return set()
        came = {warp for warp, _ in now.origins}
        if now.expected > now.issued:
            return {warp for warp, _ in before.origins} - came
        return {self.expecting.warp} - came if self.expecting and now.issued > now.expected == 0 else set()

    def known_to(self, by: By, clocks: Clocks, announced: Array | None) -> bool:
        """Whether each lane executed mbarrier.init or knows about it, perhaps only from fence.mbarrier_init."""
        who = by.warp, by.active
        if who in self.seen:
            return True
        if not self._announced(by, clocks, announced):
            return False
        self.seen.add(who)
        return True

    def _announced(self, by: By, clocks: Clocks, announced: Array | None) -> bool:
        if announced is not None and announced[self.thread] > self.clock:
            return True
        own = 1 << (self.thread - THREAD) % 32 if by.warp == self.init.warp else 0
        others = by.active & ~own
        if not others or not clocks.partial[by.warp]:
            return not others or bool(clocks.rows[by.warp][self.thread] > self.clock)
        return all(row[self.thread] > self.clock for lanes, row in clocks.common(by.warp, others) if lanes)

    def phase(self, number: int) -> Phase:
        """The bytes of one phase, kept from the first call on."""
        return self.phases.setdefault(number, Phase())
