"""The scheduler, which lets warps take turns as a strategy decides. Warps are greenlets.

Under seed 0 a warp runs until it must wait, and the order is fixed. Under any other seed the scheduler may switch
before any operation, as a chip could, in an order that the seed alone decides (strategy.py). A scheduler belongs to a
launch: it holds the warps of all blocks in flight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from greenlet import GreenletExit, getcurrent, greenlet

from tcemu.errors import LaunchError
from tcemu.extras import IN_BROWSER
from tcemu.machine.events import Waiting
from tcemu.machine.pending import Pending
from tcemu.machine.sites import called, frames
from tcemu.machine.strategy import InOrder

if TYPE_CHECKING:
    from tcemu.instructions import Instruction

#: After this many operations, a warp always lets others run: it may be polling memory in a loop.
_TURN = 256
#: How often all warps may test without success, with nothing pending, before the launch counts as stuck: for each
#: warp, and for all together.
_LOOKS, _MOST_LOOKS = 1024, 8192
#: The most different loads of a loop that polls memory, and how many loads in a row must find nothing new: weak ones,
#: which a loop may repeat for other reasons, and strong ones.
_WINDOW, _REPEATS = 16, {False: 256, True: 16}


#: Says what a warp waits for: of one whose lanes wait in groups, each of them.
Waits = Callable[[], Waiting | list[Waiting]]


class Strand:
    """A warp as the scheduler sees it: `block` and `warp` are its numbers."""

    __slots__ = (
        "asleep", "block", "elsewhere", "fiber", "frame", "loads", "looks", "operations", "ready", "repeats", "waiting",
        "warp",
    )  # fmt: skip

    def __init__(self, block: int, warp: int, body: Callable[[], None]) -> None:
        self.block, self.warp, self.fiber = block, warp, greenlet(body)
        #: where it waits, if its fiber does not know
        self.frame: FrameType | None = None
        #: whether it waits until another warp wakes it, by setting this to False
        self.asleep = False
        #: returns whether it can continue, called repeatedly; None: it can
        self.ready: Callable[[], bool] | None = None
        self.waiting: Waits | None = None
        #: What it last tested for without success, and has not found since.
        self.looks: Waits | None = None
        #: whether it polls memory that a block which has not started yet could change
        self.elsewhere = False
        self.operations = 0
        #: its latest loads, the oldest first, and how many consecutive ones returned nothing new
        self.loads: dict[Hashable, None] = {}
        self.repeats = 0


class Left(NamedTuple):
    """A warp that has not exited: its numbers, whether it has begun, and what its lanes wait for, if they do."""

    block: int
    warp: int
    begun: bool
    waits: list[Waiting]


class Overrun(Exception):  # noqa: N818 - the launch makes an error of it
    """A warp has executed more operations than the launch allows; its arguments are the numbers of block and warp."""


def _numbers(strand: Strand) -> tuple[int, int]:
    return strand.block, strand.warp


def _left(strand: Strand) -> Left:
    return Left(*_numbers(strand), bool(strand.fiber) or strand.fiber.dead, _waits(strand))


def _waits(strand: Strand) -> list[Waiting]:
    """What the lanes of a warp wait for."""
    waits = strand.waiting or strand.looks
    waiting = waits() if waits else []
    return waiting if isinstance(waiting, list) else [waiting]


class Scheduler:
    """The warps of the blocks in flight, and their pending work."""

    def __init__(
        self, strategy: InOrder, more: Callable[[], bool] = lambda: False, operations: float = math.inf
    ) -> None:
        """`more` starts the next block, where no warp of those in flight can continue; it returns whether it did.

        A warp may execute `operations`, which is checked when it lets others run.
        """
        self.strategy, self._preempts, self._more, self._most = strategy, strategy.preempts, more, operations
        #: whether the strategy always chooses the first busy warp, and whether it may end tasks before a warp's turn
        self._first = type(strategy).runs is InOrder.runs
        self._ends = type(strategy).ends is not InOrder.ends or strategy.policy == "random"
        #: the pending work of each block in flight
        self._pending: dict[int, Pending] = {}
        self._strands: list[Strand] = []
        self._current: Strand | None = None
        self._hub = getcurrent()
        #: consecutive turns without progress
        self._in_vain = 0
        #: what to do when the last warp of a block has exited
        self._ended: dict[int, Callable[[], None]] = {}
        #: after an interruption of the launch, or an overrun: the warps that had not exited
        self.interrupted: list[Left] = []

    def add(self, block: int, pending: Pending, strands: list[Strand], ended: Callable[[], None]) -> None:
        """Start a block; `ended` is called once all its warps have exited."""
        self._pending[block], self._ended[block] = pending, ended
        for strand in strands:
            strand.fiber.parent = self._hub  # a warp may start the blocks of another grid
        self._strands += self.strategy.warps(strands)

    # ------------------------------------------------------------------------------------------ from a warp

    def pause(self, strand: Strand, instruction: Instruction) -> None:
        """Before an operation of a warp: let others run first if the strategy says so."""
        if self._current is not strand or strand.fiber is not getcurrent():
            self.check(strand)
        strand.operations += 1
        if instruction.changes:
            strand.looks = None
            strand.repeats = self._in_vain = 0
        if strand.operations % _TURN == 0 or (self._preempts and self.strategy.interrupts(strand, instruction)):
            self._leave(strand)

    def wait(self, strand: Strand, ready: Callable[[], bool], waiting: Waits) -> None:
        """Wait until `ready` returns True; `waiting` describes the wait in case that never happens."""
        if not ready():
            strand.ready, strand.waiting = ready, waiting
            self._leave(strand)
            strand.ready = strand.waiting = None
        strand.looks = None

    def sleep(self, strand: Strand, waiting: Waits) -> None:
        """Wait until another warp sets `strand.asleep` to False, which takes less time than polling."""
        strand.asleep, strand.waiting = True, waiting
        self._leave(strand)
        strand.waiting = strand.looks = None

    def looked(self, strand: Strand, ready: bool, waiting: Waits, elsewhere: bool = False) -> None:
        """The warp tested for something; if it found nothing, other warps run first.

        `elsewhere`: a block that has not started yet could make it so.
        """
        strand.looks, strand.elsewhere = None if ready else waiting, elsewhere
        if not ready:
            self._leave(strand)

    def polls(self, strand: Strand, what: Hashable, strong: bool) -> bool:
        """The warp loaded `what` (addresses and content); many repetitions mean that it polls memory in a loop."""
        loads = strand.loads
        if what not in loads:
            if len(loads) == _WINDOW:
                del loads[next(iter(loads))]
            loads[what] = None
            strand.looks, strand.repeats = None, 0
            return False
        strand.repeats += 1
        return strand.repeats > _REPEATS[strong]

    def changed(self, strand: Strand) -> None:
        """The warp has changed something, by an operation that often does not."""
        strand.looks = None
        strand.repeats = self._in_vain = 0

    def ran(self, strand: Strand, operations: int, stored: bool) -> None:
        """The warp has executed so many operations without the machine; others run if its turn is over."""
        before, strand.operations = strand.operations, strand.operations + operations
        if stored:
            self.changed(strand)
        if before // _TURN != strand.operations // _TURN:
            self._leave(strand)

    def rest(self, strand: Strand) -> None:
        """The warp lets all others run first."""
        self._strands.remove(strand)
        self._strands.append(strand)
        self._leave(strand)

    def check(self, strand: Strand) -> None:
        """Raise LaunchError unless this warp is the one that runs, in its own thread and greenlet."""
        if self._current is strand and strand.fiber is getcurrent():
            return
        what = "is not the one that runs here" if strand in self._strands else "is no longer running"
        raise LaunchError(
            f"warp {strand.warp} of block {strand.block} {what}: only a warp's own kernel may use it, and only while "
            f"that kernel runs"
        )

    def _leave(self, strand: Strand) -> None:
        """Let others run. In a browser a greenlet knows no frame: those of a warp that waits are copied before."""
        if IN_BROWSER:
            strand.frame = frames(_getframe(1))
        self._hub.switch()
        strand.frame = None

    # ------------------------------------------------------------------------------------------ the loop

    def run(self) -> tuple[Waiting, ...]:
        """Run all warps until they exit; if some cannot, return what they wait for."""
        try:
            return self._turns()
        except (KeyboardInterrupt, Overrun):
            self.interrupted = [_left(strand) for strand in sorted(self._strands, key=_numbers)]
            raise
        finally:
            self._kill()

    def _turns(self) -> tuple[Waiting, ...]:
        while self._strands:
            able, busy = self._able()
            self._in_vain = 0 if busy else self._in_vain + 1
            if not busy and self._in_vain > len(able):  # all have looked since something last happened
                if self._step() or (self._asks() and self._grow()):
                    self._in_vain = 0
                    continue
                # Warps that wait cannot change what they wait for. Those that poll may stop after so many looks.
                if not able or self._in_vain > min(_LOOKS * (len(able) + 1), _MOST_LOOKS):
                    return self._waiting()
            if able:
                for pending in self._pending.values() if self._ends else ():
                    if pending.tasks:
                        pending.perhaps()
                chosen = self.strategy.runs(able, busy)
                if self.strategy.queues and (not busy or chosen.operations % _TURN == 0):  # its turn is over
                    self._strands.remove(chosen)
                    self._strands.append(chosen)
                self._resume(chosen)
                if chosen.operations > self._most and not chosen.fiber.dead:
                    raise Overrun(*_numbers(chosen))
        return ()

    def _able(self) -> tuple[list[Strand], list[Strand]]:
        """The warps that can continue, and the busy ones among them.

        If the strategy always chooses the first busy one, the search stops there.
        """
        able, busy = [], []  # comprehensions would be two calls more, for each turn of a warp
        for strand in self._strands:
            if not strand.asleep and (strand.ready is None or strand.ready()):
                able.append(strand)
                if strand.looks is None:
                    busy.append(strand)
                    if self._first:
                        break
        return able, busy

    def _step(self) -> bool:
        """End a pending task of some block; return whether there was one."""
        return any(pending.step() for pending in list(self._pending.values()))

    def _grow(self) -> bool:
        """Start as many blocks as poll, lest those polls be repeated for each block; return whether one started."""
        started = False
        for _ in range(len({strand.block for strand in self._strands if strand.looks is not None})):
            if not self._more():
                break
            started = True
        return started

    def _asks(self) -> bool:
        """Whether some warp polls memory that a block which has not started yet could change."""
        return any(strand.looks is not None and strand.elsewhere for strand in self._strands)

    def _resume(self, strand: Strand) -> None:
        """A warp's turn; a block ends with its last warp."""
        self._current = strand
        strand.fiber.switch()
        self._current = None
        if strand.fiber.dead:
            self._strands.remove(strand)
            if not any(each.block == strand.block for each in self._strands):
                del self._pending[strand.block]
                self._ended.pop(strand.block)()

    def _waiting(self) -> tuple[Waiting, ...]:
        waits = []
        for strand in sorted(self._strands, key=_numbers):
            for waiting in _waits(strand):
                waiting.by = called(waiting.by, frame=strand.fiber.gr_frame or strand.frame)
                waits.append(waiting)
        return tuple(waits)

    def _kill(self) -> None:
        """End everything that has not ended: the launch is over."""
        self._current = None
        for strand in self._strands:
            if strand.fiber and not strand.fiber.dead:
                with suppress(Exception):  # the launch raises the error that ended it, not those of dying warps
                    strand.fiber.throw(GreenletExit)
        self._strands.clear()
