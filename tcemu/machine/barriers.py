"""The 16 barriers of a block: bar.sync and bar.arrive (PTX ISA 9.1, 9.7.13.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tcemu.errors import LaunchError, briefly
from tcemu.machine.events import BarrierArrived, BarrierCompleted, By

if TYPE_CHECKING:
    from tcemu.machine.block import Block

SECTION = "9.7.13.1"
COUNT = 16
WARP = 32


@dataclass
class _Barrier:
    """One barrier between two completions."""

    #: Threads that it waits for; None for all of the block, however many have exited.
    threads: int | None = None
    arrived: list[By] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    #: How often it was completed.
    generation: int = 0


class Barriers:
    """All barriers of one block. A warp counts as 32 threads, whatever lanes are active, as bar counts."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._barriers = [_Barrier() for _ in range(COUNT)]

    def arrive(self, by: By, number: int, threads: int | None, waits: bool) -> int:
        """A warp arrives; the generation that it waits for the end of."""
        barrier = self._named(number)
        self._check_threads(barrier, number, threads)
        generation = barrier.generation
        barrier.threads = threads
        barrier.arrived.append(by)
        if waits:
            barrier.waiting.append(by.warp)
        self._block.tell(BarrierArrived, by, number, threads or WARP * self._block.warps, waits)
        self._complete(number, barrier)
        return generation

    def passed(self, number: int, generation: int) -> bool:
        """Whether that generation of the barrier has been completed."""
        return self._barriers[number].generation > generation

    def warp_exited(self) -> None:
        """Barriers of all threads no longer wait for a warp that has exited."""
        for number, barrier in enumerate(self._barriers):
            if barrier.arrived and barrier.threads is None:
                self._complete(number, barrier)

    def missing(self, number: int) -> str:
        """What an incomplete barrier waits for, in words."""
        barrier = self._barriers[number]
        there = WARP * len(barrier.arrived)
        needed = barrier.threads or WARP * self._block.warps
        who = ", ".join(str(by.warp) for by in barrier.arrived)
        return f"barrier {number}, where {there} of {needed} threads have arrived (warp {who})"

    def _complete(self, number: int, barrier: _Barrier) -> None:
        exited = 0 if barrier.threads is not None else WARP * len(self._block.exited)
        if WARP * len(barrier.arrived) + exited < (barrier.threads or WARP * self._block.warps):
            return
        self._block.tell(
            BarrierCompleted, self._block.number, number, tuple(barrier.arrived), tuple(barrier.waiting), exited
        )
        barrier.generation += 1
        barrier.threads, barrier.arrived, barrier.waiting = None, [], []

    def _named(self, number: int) -> _Barrier:
        if isinstance(number, bool) or number not in range(COUNT):
            raise LaunchError(f"a block has barriers 0 to {COUNT - 1}; got {briefly(number)} (PTX ISA {SECTION})")
        return self._barriers[number]

    def _check_threads(self, barrier: _Barrier, number: int, threads: int | None) -> None:
        most = WARP * self._block.warps
        if threads is not None and (threads not in range(WARP, most + 1) or threads % WARP):
            raise LaunchError(
                f"barrier {number} is to wait for {briefly(threads)} threads: a multiple of {WARP}, and this block has "
                f"{most} (PTX ISA {SECTION})"
            )
        if barrier.arrived and threads != barrier.threads:
            first = barrier.arrived[0]
            told = [f"{count} threads" if count else "all threads" for count in (barrier.threads, threads)]
            raise LaunchError(
                f"barrier {number}: {first} made it wait for {told[0]}, and now it is to wait for {told[1]}; all that "
                f"arrive must give the same number (PTX ISA {SECTION})"
            )
