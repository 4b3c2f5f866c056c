"""A running grid: its blocks, the memory that all of them see, and the observers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, NoReturn

from tcemu.errors import Deadlock, LaunchError, TcemuError, ranges
from tcemu.instructions import Instruction
from tcemu.machine.block import Block, Index3, Shape
from tcemu.machine.core import Core
from tcemu.machine.dispatch import Bound
from tcemu.machine.events import Event, Observer, Stuck, Waiting
from tcemu.machine.memory import GlobalMemory
from tcemu.machine.scheduler import Scheduler
from tcemu.machine.strategy import InOrder, strategy_of

if TYPE_CHECKING:
    from collections import Counter

#: Makes the function that a warp runs, given the warp's core.
Body = Callable[[Core], Callable[[], None]]


class Grid:
    """One run of a kernel under one policy. `resident` blocks are in flight at a time, so that memory stays bounded."""

    def __init__(
        self,
        shape: Shape,
        memory: GlobalMemory,
        observers: Sequence[Observer],
        counts: Counter[str],
        resident: int = 1,
        strategy: InOrder | None = None,
    ) -> None:
        self.shape, self.memory, self.observers, self.counts = shape, memory, tuple(observers), counts
        self.scheduler = Scheduler(strategy or strategy_of(shape.policy, shape.seed))
        #: the instructions that this launch has executed, as the kernel gave them
        self.bound: dict[str | Instruction, Bound] = {}
        #: the error that ended the launch
        self.failure: TcemuError | None = None
        #: number of blocks that have ended
        self.done = 0
        #: the blocks in flight, by number
        self.blocks: dict[int, Block] = {}
        self._resident = resident
        self._waiting: Iterator[tuple[int, Index3]] = iter(())
        self._body: Body

    def run(self, body: Body) -> None:
        """Run `body` for each warp of each block. Raises Deadlock, or the error that ended the launch."""
        self._body, self._waiting = body, iter(self._order())
        for _ in range(self._resident):
            self._admit()
        try:
            stuck = self.scheduler.run()
            if stuck:
                self.tell(Stuck, stuck)
                raise Deadlock(self._told(stuck))
        finally:
            self.observers = ()  # registers may still be read after the end

    def _order(self) -> list[tuple[int, Index3]]:
        x, y, z = self.shape.grid
        order = list(enumerate((a, b, c) for c, b, a in product(range(z), range(y), range(x))))
        return self.scheduler.strategy.blocks(order)

    def _admit(self) -> None:
        """Start the next block, if there is one."""
        for number, index in self._waiting:
            block = self.blocks[number] = Block(self, number, index)
            cores = [Core(block, warp) for warp in range(self.shape.warps)]
            block.start([(core, self._body(core)) for core in cores])
            return

    def ended(self, block: Block) -> None:
        """A block has ended: start the next one."""
        del self.blocks[block.number]
        self.done += 1
        self._admit()

    # ------------------------------------------------------------------------------------------ events, failures

    def tell(self, kind: Callable[..., Event], *fields: Any) -> None:
        """Report an event to the observers; without observers it is not even created."""
        if self.observers:
            event = kind(*fields)
            try:
                for observer in self.observers:
                    observer(event)
            except LaunchError as error:
                self.fail(error)

    def fail(self, error: TcemuError) -> NoReturn:
        """Raise the error that ends the launch. If a kernel catches it, its next operation raises it again."""
        self.failure = error
        raise error

    def _told(self, stuck: Sequence[Waiting]) -> str:
        lines: list[str] = []
        for number, waits in groupby(stuck, key=lambda each: each.by.block):
            block = self.blocks[number]
            lines.append(f"block {block.index} cannot go on:")
            alike: dict[tuple[str, str], list[int]] = {}
            for each in waits:
                alike.setdefault((each.what, str(each.by.site)), []).append(each.by.warp)
            for (what, line), numbers in alike.items():
                who = f"warp {numbers[0]} waits" if len(numbers) == 1 else f"warps {ranges(numbers)} wait"
                lines.append(f"  {who} since {line} for {what}")
            if block.exited:
                gone = sorted(block.exited)
                lines.append(f"  warp{'s' * (len(gone) > 1)} {ranges(gone)} reached the end of the kernel")
        return "\n".join(lines)
