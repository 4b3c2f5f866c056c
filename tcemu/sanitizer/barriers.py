"""Barriers, bar.warp.sync and fence.proxy.async, which order accesses; and the rule about threads that have exited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tcemu.errors import counted, listing
from tcemu.machine.events import BarrierArrived, BarrierCompleted, By, Exited, ProxyFenced, WarpSynced
from tcemu.machine.registers import WARP
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, joined, lanes_in
from tcemu.sanitizer.report import Earlier, Report, many

_ONCE = (
    "Make the warp wait until the barrier has completed before it arrives again: for example, at a second barrier, "
    "at which the warps that wait here arrive afterwards."
)


_APART = (
    "Use different barriers for warps that meet separately, or make a warp arrive only after it has synchronised with "
    "the warps that met there before. If all of them are to meet at once, let the barrier count the threads of all."
)


@dataclass
class _Barrier:
    """One barrier, and the warps that meet there."""

    #: the number of threads that it waits for
    threads: int = 0
    #: since it last completed: the first arrival of each warp, the warps that have arrived, and those that wait
    arrivals: dict[int, By] = field(default_factory=dict)
    came: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    #: what the warps knew that have arrived and do not wait
    row: Array | None = None
    #: all warps that ever arrived
    ever: set[int] = field(default_factory=set)
    #: what the warps that last met there knew, their arrivals, and the warps that waited
    last: tuple[Array, tuple[By, ...], tuple[int, ...]] | None = None


class Barriers:
    """Joins the clocks of the warps that meet at the barriers of a block."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._barriers: defaultdict[int, _Barrier] = defaultdict(_Barrier)
        #: lanes that have exited before the others of their warp
        self._lanes: dict[int, By] = {}
        self.handlers: Handlers = {
            BarrierArrived: self._arrive,
            BarrierCompleted: self._complete,
            WarpSynced: lambda event: self._clocks.sync(event.by.warp, event.by.active),
            ProxyFenced: self._fence,
            Exited: self._exit,
        }

    def _arrive(self, event: BarrierArrived) -> None:
        by, barrier = event.by, self._barriers[event.barrier]
        warp = by.warp
        first = barrier.arrivals.setdefault(warp, by)
        if first is not by:
            self._twice(event, first)
        if barrier.last is not None and warp not in barrier.last[2]:
            self._check_known(event, *barrier.last[:2])
        barrier.threads = event.threads
        barrier.came.append(warp)
        barrier.ever.add(warp)
        if event.waits:
            self._clocks.come(warp)
            barrier.waiting.append(warp)
            return
        row = self._clocks.release(warp, self._clocks.present[warp])  # a barrier counts whole warps
        barrier.row = row if barrier.row is None else joined(barrier.row, row)

    def _complete(self, event: BarrierCompleted) -> None:
        barrier = self._barriers[event.barrier]
        row, waiting = barrier.row, barrier.waiting
        barrier.arrivals, barrier.came, barrier.waiting, barrier.row = {}, [], [], None
        if waiting:
            met = self._clocks.met(waiting)
            row = met if row is None else joined(row, met)
        if row is None:
            return
        barrier.last = row, event.arrived, event.released
        parted = [by for by in event.arrived if by.warp in self._lanes] if self._lanes else []
        if event.exited or (parted and barrier.threads == WARP * len(self._clocks.present)):
            self._exited(event, parted)
            for warp in self._block.exited:
                row = joined(row, self._clocks.view(warp, self._clocks.present[warp]))
        for warp in event.released:
            self._clocks.pass_barrier(warp, row)

    def simple(self, meetings: Sequence[BarrierCompleted]) -> bool:
        """Whether there is nothing to report where all warps meet: no lane has exited, and all met there last time."""
        barriers, warps = [self._barriers[event.barrier] for event in meetings], self._clocks.warps
        return not self._lanes and not any(each.came or (each.last and len(each.last[2]) < warps) for each in barriers)

    def meet(self, event: BarrierCompleted, row: Array) -> None:
        """All warps have met at a barrier, and know `row` now, as their clocks do already."""
        barrier = self._barriers[event.barrier]
        barrier.threads, barrier.last = WARP * len(event.arrived), (row, event.arrived, event.released)
        barrier.ever.update(event.released)

    def counts(self, barrier: int) -> tuple[int, tuple[int, ...], frozenset[int]]:
        """The number of threads that a barrier waits for, the warps that have arrived, and all that ever did."""
        here = self._barriers[barrier]
        return here.threads, tuple(here.came), frozenset(here.ever)

    def _twice(self, event: BarrierArrived, first: By) -> None:
        by, barrier = event.by, event.barrier
        message = (
            f"warp {by.warp} arrives at barrier {barrier} again before the barrier has completed: its threads count "
            f"twice among the {counted(event.threads, 'thread')}, so the barrier completes without others"
        )
        earlier = Earlier(first, f"its arrival at barrier {barrier}")
        self._block.report("barrier-threads", by, message, what=f"barrier {barrier}", earlier=earlier, remedy=_ONCE)

    def _check_known(self, event: BarrierArrived, row: Array, arrived: Sequence[By]) -> None:
        """Report a warp that arrives for the next phase although nothing orders the arrivals of this one before it."""
        by = event.by
        if event.threads <= WARP:  # which a warp completes alone
            return
        known = self._clocks.view(by.warp, self._clocks.present[by.warp])
        for other in arrived:
            lanes = THREAD + 32 * other.warp + lanes_in(other.active)
            if other.warp != by.warp and not (known[lanes] >= row[lanes]).all():
                message = (
                    f"warp {by.warp} arrives at barrier {event.barrier} without knowing that the barrier has completed "
                    f"for warp {other.warp}: in another order, it counts in place of that warp"
                )
                what, earlier = f"barrier {event.barrier}", Earlier(other, "the arrival before")
                report = Report("barrier-threads", message, by, what, earlier, remedy=_APART)
                self._block.later(report)
                return

    def _exited(self, event: BarrierCompleted, parted: Sequence[By]) -> None:
        gone, by = tuple(sorted(self._block.exited)), (parted or event.arrived)[0]
        lanes = {each.warp: lanes_in(self._lanes[each.warp].active) for each in parted}
        who = [many("warp", gone)] * bool(gone)
        who += [f"{many('lane', tuple(map(int, each)))} of warp {warp}" for warp, each in lanes.items()]
        count = event.exited + sum(map(len, lanes.values()))
        message = (
            f"barrier {event.barrier} waits for all threads of the block, but {count} of them have exited: "
            f"{listing(who, 'and')}"
        )
        left = [*(self._block.exited[warp] for warp in gone), *(self._lanes[warp] for warp in lanes)]
        earlier = Earlier(left[0], "exit") if left else None
        message += "; since Volta, the barrier goes on without them, but what they should have done is not done"
        report = Report("exited-threads", message, by, f"barrier {event.barrier}", earlier)
        if event.exited:
            report.weight = "warning"
            self._block.tell(report)
            return
        report.weight = "hint"
        self._block.hint(report)

    def _fence(self, event: ProxyFenced) -> None:
        if "shared" in event.spaces:
            self._clocks.fence(event.by.warp, event.by.active)

    def _exit(self, event: Exited) -> None:
        if event.whole:
            self._block.exited[event.by.warp] = event.by
        else:
            before = self._lanes.get(event.by.warp)
            active = event.by.active | (before.active if before else 0)
            self._lanes[event.by.warp] = event.by._replace(active=active)
            self._clocks.present[event.by.warp] &= ~event.by.active
