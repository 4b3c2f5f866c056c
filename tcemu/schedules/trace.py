"""The trace of a run: the operations before which holding a warp back can matter.

Not every operation is such a point. One that touches nothing but its warp's registers commutes with whatever other
warps do, as does a load or store of bytes that no other warp writes: holding a warp back there is the same as doing so
before the warp's next point. Of ordinary accesses to shared memory between two operations that synchronise, the first
stands for all: if the others are not ordered by synchronisation, the sanitizer reports a race in any order. And of the
looks of a loop that polls, the first stands for those that follow before another warp has run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.machine import events
from tcemu.machine.events import Event, Issued, Site
from tcemu.machine.schedule import Delay

#: A warp: the numbers of its block and its own.
Who = tuple[int, int]

#: Events of operations that concern only their own warp; with any other event, an operation is a point.
_OWN = (
    events.BlockEnded, events.BlockStarted, events.CopiesCommitted, events.Exited, events.Fenced,
    events.MbarriersFenced, events.OperandChanged, events.ProxyFenced, events.Touched, events.WarpSynced,
    events.WgmmaCommitted, events.WgmmaFenced,
)  # fmt: skip
#: Families that are points even while they find nothing.
_LOOKS = "mbarrier."
#: The grain in bytes in which memory is tracked, as a shift.
_GRAIN = 3
#: Users of memory besides warps: none, and asynchronous work.
_NOBODY, _ASYNCHRONOUS = -1, -2
#: More than the warps of a block, to number the warps of all blocks.
_WARPS = 64


class Point(NamedTuple):
    """An operation before which a warp may be held back: the delay, the opcode and the line."""

    delay: Delay
    opcode: str
    site: Site


@dataclass(eq=False)
class Step:
    """An operation of a warp; `number` counts those of the warp from 1."""

    who: Who
    number: int
    opcode: str
    site: Site
    #: whether it synchronises, or may be what another warp waits for
    meets: bool
    #: whether other warps cannot observe it
    looks: bool = True
    #: the ordinary accesses: the memory, and the grains
    accesses: list[tuple[tuple[str, int], npt.NDArray[np.int64]]] = field(default_factory=list)


class Users:
    """By grain of a memory: its first user, and whether there are several, and whether one of them writes it."""

    def __init__(self) -> None:
        self._first = np.full(64, _NOBODY)
        self._several, self._written = np.zeros(64, bool), np.zeros(64, bool)

    def add(self, grains: npt.NDArray[np.int64], user: int, writes: bool) -> None:
        """Note a read or write of these grains."""
        most = int(grains.max(initial=0))
        if most >= len(self._first):
            more = (0, most + 1)
            self._first = np.pad(self._first, more, constant_values=_NOBODY)
            self._several, self._written = np.pad(self._several, more), np.pad(self._written, more)
        first = self._first[grains]
        self._several[grains] |= (first != _NOBODY) & (first != user)
        self._first[grains] = np.where(first == _NOBODY, user, first)
        self._written[grains] |= writes

    def conflict(self, grains: npt.NDArray[np.int64]) -> bool:
        """Whether several use one of these grains, and at least one of them writes it."""
        return bool((self._several[grains] & self._written[grains]).any())


class Trace:
    """An observer that finds the points of a run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._now: dict[Who, Step] = {}
        self._users: dict[tuple[str, int], Users] = {}

    def __call__(self, event: Event) -> None:
        """Receive an event of the machine."""
        if isinstance(event, Issued):
            self._issue(event)
        elif isinstance(event, events.Accessed):
            self._access(event)
        elif isinstance(event, events.CopyIssued):
            for writes, (space, addresses, size) in enumerate((event.copy.reads, event.copy.writes)):
                self._use(self._memory(space, event.block), addresses, size, _ASYNCHRONOUS, bool(writes))
            self._meets((event.copy.by,))
        elif isinstance(event, events.WgmmaIssued):
            for _, addresses, size in event.wgmma.reads:
                self._use(("shared", event.block), addresses, size, _ASYNCHRONOUS, False)
            self._meets(event.wgmma.bys)
        elif not isinstance(event, _OWN):
            self._meets((event.by,) if isinstance(event, events.WarpEvent) else getattr(event, "bys", ()))

    def _issue(self, event: Issued) -> None:
        who = event.by.block, event.by.warp
        number = self._now[who].number + 1 if who in self._now else 1
        meets = event.instruction.family.startswith(_LOOKS)
        step = self._now[who] = Step(who, number, event.opcode, event.by.site, meets)
        self.steps.append(step)

    def _meets(self, bys: tuple[events.By, ...]) -> None:
        for by in bys:
            if (by.block, by.warp) in self._now:
                step = self._now[by.block, by.warp]
                step.meets, step.looks = True, False

    def _access(self, event: events.Accessed) -> None:
        by, memory = event.by, self._memory(event.space, event.block)
        user = _WARPS * by.block + by.warp
        grains = self._use(memory, event.addresses, event.size, user, event.writes)
        step = self._now[by.block, by.warp]
        step.accesses.append((memory, grains))
        step.meets |= bool(event.order)
        step.looks &= not event.writes

    def _use(
        self, memory: tuple[str, int], addresses: npt.NDArray[np.int64], size: int, user: int, writes: bool
    ) -> npt.NDArray[np.int64]:
        starts = np.asarray(addresses, np.int64).reshape(-1, 1)
        grains = np.unique((starts + np.arange(0, max(size, 1), 1 << _GRAIN, dtype=np.int64)) >> _GRAIN)
        self._users.setdefault(memory, Users()).add(grains, user, writes)
        return grains

    @staticmethod
    def _memory(space: str, block: int) -> tuple[str, int]:
        return space, -1 if space == "global" else block

    # ------------------------------------------------------------------------------------------ after the run

    def points(self, begun: dict[tuple[int, int, int], None]) -> list[Point]:
        """The points of the run, in the order in which it reached them; `begun` is that of its strategy."""
        points, accessed = [], dict.fromkeys(self._now, False)
        for step in self._fresh():
            shared_only = all(memory[0] == "shared" for memory, _ in step.accesses)
            if step.meets:
                accessed[step.who] = False
            elif not self._conflicts(step) or (shared_only and accessed[step.who]):
                continue
            else:
                accessed[step.who] = shared_only
            points.append(Point(Delay(*step.who, "@", step.number), step.opcode, step.site))
            if (*step.who, step.number) in begun:
                points.append(Point(Delay(*step.who, "~", step.number), step.opcode, step.site))
        return points

    def _fresh(self) -> Iterator[Step]:
        """The steps, without those of a loop that polls: the same look again, while nothing has changed."""
        who, seen = None, set[object]()
        for step in self.steps:
            if step.who != who or not step.looks:
                who, seen = step.who, set()
            if step.looks and (step.meets or step.accesses):
                look = step.site, step.opcode, *(grains.tobytes() for _, grains in step.accesses)
                if look in seen:
                    continue
                seen.add(look)
            yield step

    def _conflicts(self, step: Step) -> bool:
        return any(self._users[memory].conflict(grains) for memory, grains in step.accesses)

    def at(self, delay: Delay) -> Step | None:
        """The operation that a delay concerns, if the run reached it."""
        who = delay.block, delay.warp
        return next((step for step in self.steps if step.who == who and step.number == delay.operation), None)
