"""A running grid: its blocks, the memory that all of them see, and the observers."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice, product
from typing import Any, NoReturn

from tcemu.errors import Deadlock, Interrupted, LaunchError, TcemuError, Unending, counted
from tcemu.instructions import Instruction
from tcemu.machine.block import Block, Index3, Shape
from tcemu.machine.cluster import Cluster
from tcemu.machine.core import Core
from tcemu.machine.dispatch import Bound
from tcemu.machine.events import Accessed, Accesses, Event, Issued, Observer, Site, Sourced, Stuck, Touched, Waiting
from tcemu.machine.global_memory import GlobalMemory
from tcemu.machine.labels import Labelled
from tcemu.machine.registers import Bank
from tcemu.machine.scheduler import Overrun, Scheduler
from tcemu.machine.stopped import alike, came, gone, waiting
from tcemu.machine.strategy import InOrder, strategy_of
from tcemu.machine.tensor_memory import Multiprocessor
from tcemu.progress import Progress

#: The most groups of blocks that are listed when a launch is interrupted.
_SHOWN = 8
#: The most frequent events: no observer begins to need others because of them.
_FREQUENT = frozenset({Accessed, Issued, Touched})
#: Makes the function that a warp runs, given the warp's core.
Body = Callable[[Core], Callable[[], None]]


class Grid:
    """One run of a kernel under one policy. At most `resident` blocks are in flight, so that memory stays bounded.

    A block starts when another ends. While fewer than `resident` run, blocks also start when nothing else can
    continue and warps poll memory that the next block may change: as many as there are blocks with such a warp.
    """

    def __init__(
        self,
        shape: Shape,
        memory: GlobalMemory,
        observers: Sequence[Observer],
        resident: int = 1,
        strategy: InOrder | None = None,
        operations: int | None = None,
        *,
        kernel: str = "",
        before: Grid | None = None,
        programmatic: bool = False,
    ) -> None:
        """`before` is the grid before this one in the stream; a `programmatic` one may begin before that one ends."""
        self.shape, self.memory, self.observers = shape, memory, tuple(observers)
        #: the events that observers declare that they need; observers that declare nothing need every event
        self._hears: list[Callable[[type[Event]], bool]]
        self._hears = [getattr(each, "hears", _every) for each in observers]
        #: the observers, with whether they take many native accesses in one event
        self._takes = [(each, getattr(each, "takes", _none)) for each in observers]
        self._heard: set[type[Event]] = set()
        #: the observers that want to know whose results an instruction reads
        self.sourced = [each for each in observers if Sourced in getattr(each, "also", ())]
        #: the kinds of events that no observer has needed since it last received one
        self._unheard: set[type[Event]] = set()
        #: whether all observers can do without accesses to registers that repeat one
        self.once = all(Touched in getattr(each, "once", ()) for each in observers)
        #: the latest registers and lanes of such accesses since a rarer event, by bank, line and whether they write
        self.touched: dict[tuple[Bank, Site, bool], tuple[tuple[int, ...], int]] = {}
        #: whether some observer needs Issued of an instruction that only some lanes execute, and of one that all do; by
        #: opcode, once `follows` has found it out
        self.followed: dict[str, tuple[bool, bool]] = {}
        #: how often warps executed each instruction, by opcode; a Counter takes three times as long
        self.counts: defaultdict[str, int] = defaultdict(int)
        #: the most operations of a warp, if there is a limit
        self.operations = operations
        most = math.inf if operations is None else operations
        self.kernel, self.before, self.programmatic = kernel, before, programmatic
        #: the grid after this one, and this one's number in the stream
        self.after: Grid | None = None
        self.launch: int = 0 if before is None else before.launch + 1
        #: the numbers of the blocks that have let the next grid begin, and whether this one has begun
        self.triggered: set[int] = set()
        self.begun = False
        self.scheduler: Scheduler
        if before is None:
            self.scheduler = Scheduler(strategy or strategy_of(shape.policy, shape.seed), self._admit_any, most)
        else:
            before.after, self.scheduler = self, before.scheduler
        #: the instructions that this launch has executed, as the kernel gave them
        self.bound: dict[str | Instruction, Bound] = {}
        #: the error that ended the launch
        self.failure: TcemuError | None = None
        #: number of blocks that have ended
        self.done = 0
        #: number of blocks that will never start, because try_cancel has cancelled them
        self.cancelled = 0
        #: the blocks in flight, by number
        self.blocks: dict[int, Block] = {} if before is None else before.blocks
        self.cores: dict[int, list[Core]] = {} if before is None else before.cores
        #: the SMs on which blocks have used Tensor Memory
        self.multiprocessors: list[Multiprocessor] = [] if before is None else before.multiprocessors
        #: what shows how many of its blocks have ended
        self.bar: Progress | None = None
        #: how many blocks are in flight at most
        self.resident = resident
        #: the clusters that have not started; without clusters, each block is one
        self._waiting: deque[Index3] = deque()
        self._body: Body
        #: how often a clock has been read
        self._readings = 0

    def run(self, body: Body) -> None:
        """Run `body` for each warp of each block. Raises Deadlock, or the error that ended the launch."""
        self.prepare(body)
        self.drive()

    def prepare(self, body: Body) -> None:
        """Say what the warps of this grid will run."""
        self._body, self._waiting = body, deque(self._order())

    def drive(self) -> None:
        """Run this grid, which is the first of its stream, and those after it."""
        self.begin()
        try:
            stuck = self._stuck()
            if stuck:
                full = self._full() if self._waiting and any(each.elsewhere for each in stuck) else ""
                waiting = [tuple(waits) for _, waits in groupby(stuck, key=lambda each: each.by.block)]
                for waits in sorted(waiting, key=_follows):
                    self.tell(Stuck, waits, full)
                raise Deadlock(self._deadlock(stuck, full))
        except KeyboardInterrupt as stop:
            message = self._stopped("the launch was interrupted")
            raise Interrupted(message).with_traceback(stop.__traceback__) from None
        except Overrun as overrun:
            block, warp = overrun.args
            most = self.operations or 0
            message = (
                f"warp {warp} of block {block} has executed more than {most:,} operations, so one of its loops may "
                f"never end (the limit is operations={most})"
            )
            raise Unending(self._stopped(message), most) from None
        finally:
            # Registers may still be read after the end. Observers, which may hold much memory, are freed now: the grid,
            # its blocks and its warps refer to each other, so it is not.
            for grid in self._stream():
                grid.forget()

    def _stuck(self) -> tuple[Waiting, ...]:
        """Run all warps until they exit; if some cannot, return what they wait for.

        An observer that has put events off is asked to `settle` if an error ends the launch: its own may come first.
        """
        try:
            return self.scheduler.run()
        except BaseException:
            for observer in self.observers:
                getattr(observer, "settle", _nothing)()
            raise

    def forget(self) -> None:
        """Let go of the observers and of what belongs to them."""
        self.observers, self._hears, self._takes, self.followed, self.touched = (), [], [], {}, {}

    def clock(self) -> int:
        """The instructions so far, and the readings of this clock: it grows from reading to reading."""
        self._readings += 1
        return sum(self.counts.values()) + self._readings

    # ------------------------------------------------------------------------------------------ the stream

    def _stream(self) -> Iterator[Grid]:
        """This grid and those after it."""
        grid: Grid | None = self
        while grid is not None:
            yield grid
            grid = grid.after

    def number(self, number: int) -> int:
        """The number of a block in the stream; it prints as its number in the grid, with the kernel."""
        if self.before is None and self.after is None:
            return number
        first, before = 0, self.before
        while before is not None:
            first, before = first + math.prod(before.shape.grid), before.before
        return Labelled(first + number, f"{number} of {self.kernel}")

    @property
    def complete(self) -> bool:
        """Whether all its blocks have ended."""
        return self.begun and self.done + self.cancelled == math.prod(self.shape.grid)

    @property
    def prerequisite(self) -> Grid | None:
        """The grid that griddepcontrol.wait waits for."""
        return self.before if self.programmatic else None

    @property
    def ended_before(self) -> tuple[int, ...]:
        """The launches that had ended before this one began, whatever the schedule."""
        if self.before is None:
            return ()
        return self.before.ended_before if self.programmatic else tuple(range(self.launch))

    def trigger(self, block: Block) -> None:
        """A block lets the next grid begin, as far as it is concerned (griddepcontrol.launch_dependents)."""
        self.triggered.add(block.number)
        self._advance()

    def lets(self, after: Grid) -> bool:
        """Whether the grid after this one may begin."""
        if not after.programmatic:
            return self.complete and (self.before is None or self.before.lets(after))
        running = (number for number, block in self.blocks.items() if block.grid is self)
        return self.begun and not self._waiting and self.triggered.issuperset(running)

    def _advance(self) -> None:
        """Begin the grids after this one that may."""
        after = self.after
        if after is not None and not after.begun and self.lets(after):
            after.begin()

    def begin(self) -> None:
        """Start the first blocks."""
        self.begun = True
        while self._running() < self._together() and self.admit():
            pass
        self._advance()

    def _running(self) -> int:
        """How many of its blocks are in flight."""
        alone = self.before is None and self.after is None
        return len(self.blocks) if alone else sum(each.grid is self for each in self.blocks.values())

    def _admit_any(self) -> bool:
        """Start blocks of the first grid of the stream that can."""
        return any(grid.begun and grid.admit() for grid in self._stream())

    # ------------------------------------------------------------------------------------------ its blocks

    def _order(self) -> list[Index3]:
        order = [(a, b, c) for c, b, a in product(*map(range, reversed(self.shape.clusters)))]
        return self.scheduler.strategy.blocks(order)

    def _together(self) -> int:
        """How many blocks run concurrently even if none waits for another."""
        return min(self.scheduler.strategy.together, self.resident)

    def admit(self) -> bool:
        """Start the blocks of the next cluster, if there is one and places for them; return whether there were."""
        if len(self.blocks) + self.shape.ranks > self.resident or not self._waiting:
            return False
        for block in Cluster(self, self._waiting.popleft()).blocks:
            self.blocks[block.number] = block
            cores = [Core(block, warp) for warp in range(self.shape.warps)]
            self.cores[block.number] = cores
            block.start([(core, self._body(core)) for core in cores])
        return True

    def cancel(self) -> Index3 | None:
        """Cancel the cluster that would start next; the first %ctaid of it, or None if all have started."""
        if not self._waiting:
            return None
        x, y, z = (at * size for at, size in zip(self._waiting.popleft(), self.shape.cluster or (1, 1, 1), strict=True))
        self.cancelled += self.shape.ranks
        return x, y, z

    def ended(self, block: Block) -> None:
        """A block has ended: start the next one, unless enough others run."""
        del self.blocks[block.number], self.cores[block.number]
        self.done += 1
        if self.bar is not None:
            self.bar.show(self.done)
        if self._running() < self._together():
            self.admit()
        self._advance()

    # ------------------------------------------------------------------------------------------ events, failures

    def tell(self, kind: Callable[..., Event], *fields: Any) -> None:
        """Report an event to the observers; without observers it is not even created."""
        if self.observers:
            event = kind(*fields)
            if kind not in _FREQUENT:
                self._unheard.clear()
                self.touched.clear()
            try:
                for observer in self.observers:
                    observer(event)
            except LaunchError as error:
                self.fail(error)

    def access(self, event: Accesses) -> None:
        """Report loads and stores that a front end has made natively: each by itself to observers that do not take all.

        `counts` does not get them: the front end counts what its native code executes.
        """
        single: tuple[Observer, ...] = ()
        try:
            for observer, takes in self._takes:
                if takes(event):
                    observer(event)
                else:
                    single += (observer,)
            if single:
                self._singly(event, single)
        except LaunchError as error:
            self.fail(error)

    def _singly(self, event: Accesses, observers: Sequence[Observer]) -> None:
        """Report native loads and stores, each by itself, to these observers."""
        for number, mask, at in event.records():
            by, whole = event.by(number, mask), mask == self.cores[event.block][event.warp].present
            instruction = event.table.rows[number].instruction
            accessed = event.single(number, mask, at, by)
            for observer in observers:
                if event.table.sourced is not None and observer in self.sourced:
                    observer(event.table.sourced(by, number))
                if getattr(observer, "follows", _every)(instruction, whole):
                    observer(Issued(by, instruction))
                for each in accessed:
                    observer(each)

    def hears(self, kind: type[Event]) -> bool:
        """Whether some observer needs events of this kind.

        Once an observer needs them, it is not called again; the others are called again only after a rarer event.
        """
        if kind in self._heard:
            return True
        if kind in self._unheard:
            return False
        for hears in self._hears:  # not any(...): a kernel asks so often that its generator would cost most of this
            if hears(kind):
                self._heard.add(kind)
                return True
        self._unheard.add(kind)
        return False

    def follows(self, instruction: Instruction) -> tuple[bool, bool]:
        """Whether some observer follows an instruction of some lanes, and of all; others follow all."""
        asked = [getattr(each, "follows", _every) for each in self.observers]
        some, whole = (any(follows(instruction, whole) for follows in asked) for whole in (False, True))
        self.followed[instruction.opcode] = some, whole
        return some, whole

    def fail(self, error: TcemuError) -> NoReturn:
        """Raise the error that ends the launch. If a kernel catches it, its next operation raises it again."""
        self.failure = error
        raise error

    def _deadlock(self, stuck: Sequence[Waiting], full: str) -> str:
        blocks = [
            (self.blocks[number], [*waiting(waits), *gone(self.blocks[number])])
            for number, waits in groupby(stuck, key=lambda each: each.by.block)
        ]
        lines = [line for block_lines in alike(blocks, "cannot continue") for line in block_lines]
        return "\n".join([*lines, full] if full else lines)

    def _stopped(self, why: str) -> str:
        """Where the warps were when the launch was stopped."""
        blocks = []
        for number, warps in groupby(self.scheduler.interrupted, key=lambda each: each.block):
            block, left = self.blocks[number], list(warps)
            waits = waiting(wait for each in left for wait in each.waits)
            blocks.append((block, [*came(self.cores[number], left), *waits, *gone(block)]))
        lines = [line for each in islice(alike(blocks, "ran"), _SHOWN) for line in each]
        ended = sum(grid.done for grid in self._stream())
        blocks_of_all = sum(math.prod(grid.shape.grid) for grid in self._stream())
        done = f"{ended:,} of {counted(blocks_of_all, 'block')} had ended"
        return "\n".join([f"{why}; {done}, and the arrays are unchanged.", *lines])

    def _full(self) -> str:
        left, places = counted(self.shape.ranks * len(self._waiting), "block"), counted(self.resident, "block")
        return (
            f"{left} cannot start before one of these ends: {places} fit at a time (resident={self.resident}). If "
            "these wait for a block that has not started, launch no more blocks than fit, or give each block its "
            "number when it starts, from a counter in global memory"
        )


def _every(*_: object) -> bool:
    return True


def _none(*_: object) -> bool:
    return False


def _nothing() -> None:
    return None


def _follows(waits: Sequence[Waiting]) -> bool:
    """Whether a block only waits for others of its cluster, and so is not the first reason for a deadlock."""
    return all(each.kind == "cluster" for each in waits)
