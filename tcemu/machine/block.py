"""A block: its warps, its shared memory, its barriers, and what it has under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NoReturn

from tcemu.errors import Deadlock, LaunchError, TcemuError
from tcemu.machine.barriers import WARP, Barriers
from tcemu.machine.events import BlockEnded, BlockStarted, Event, Exited, Observer, Stuck, Waiting
from tcemu.machine.memory import Bytes, GlobalMemory
from tcemu.machine.pending import Pending, Policy
from tcemu.machine.scheduler import Scheduler

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """What all blocks of a launch share."""

    grid: Index3
    block: Index3
    shared: int
    target: str
    policy: Policy
    seed: int
    #: registers a thread at the start, for setmaxnreg
    registers: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def warps(self) -> int:
        """Warps of a block, the last one perhaps not full."""
        return -(-self.threads // WARP)


@dataclass(eq=False)
class Block:
    """One block in flight."""

    number: int
    index: Index3
    shape: Shape
    memory: GlobalMemory
    observers: Sequence[Observer]
    #: instructions executed, by opcode
    counts: Counter[str]
    exited: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warps = self.shape.warps
        self.shared = Bytes("shared", self.shape.shared, [(0, self.shape.shared, "shared memory")])
        self.barriers = Barriers(self)
        self.pending = Pending(self.shape.policy)
        self.scheduler = Scheduler(self.shape.seed + self.number if self.shape.seed else 0, self.pending)
        #: whatever operations keep for the block, by their own name
        self.kept: dict[str, Any] = {}
        #: what ended the launch
        self.failure: TcemuError | None = None
        #: after it, registers may still be read
        self.over = False

    def tell(self, kind: Callable[..., Event], *fields: Any) -> None:
        """Tell the observers of an event, which is made only where there are any."""
        if self.observers and not self.over:
            event = kind(*fields)
            try:
                for observer in self.observers:
                    observer(event)
            except LaunchError as error:
                self.fail(error)

    def fail(self, error: TcemuError) -> NoReturn:
        """Raise what ends the launch. A kernel that catches it does not go on: its next operation raises it again."""
        self.failure = error
        raise error

    def run(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Run a body for each warp to its end. Raises Deadlock."""
        self.tell(BlockStarted, self.number, self.shape.threads, self.shape.shared, self.shape.target)
        for number, body in enumerate(bodies):
            self.scheduler.add(number, body)
        try:
            stuck = self.scheduler.run()
            if stuck:
                self.tell(Stuck, stuck)
                raise Deadlock(self._told(stuck))
            self.pending.finish_all()
            self.tell(BlockEnded, self.number)
        finally:
            self.over = True

    def leave(self, by: Any) -> None:
        """A warp came to the end of the kernel."""
        if self.failure is not None:
            raise self.failure
        self.exited.append(by.warp)
        self.tell(Exited, by)
        self.barriers.warp_exited()

    def _told(self, stuck: Sequence[Waiting]) -> str:
        lines = [f"block {self.index} cannot go on:"]
        alike: dict[tuple[str, str], list[int]] = {}
        for each in stuck:
            alike.setdefault((each.what, str(each.by.site)), []).append(each.by.warp)
        for (what, line), numbers in alike.items():
            who = f"warp {numbers[0]} waits" if len(numbers) == 1 else f"warps {_ranges(numbers)} wait"
            lines.append(f"  {who} since {line} for {what}")
        if self.exited:
            gone = sorted(self.exited)
            lines.append(f"  warp{'s' * (len(gone) > 1)} {_ranges(gone)} came to the end of the kernel")
        return "\n".join(lines)


def _ranges(numbers: Sequence[int]) -> str:
    """0 to 3, 5: numbers in order, with runs told by their ends."""
    runs = [list(group) for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0][1]) if len(run) == 1 else f"{run[0][1]} to {run[-1][1]}" for run in runs)
