"""The 16 barriers of a block, bar and barrier, and bar.warp.sync (PTX ISA 9.1, 9.7.13.1 and 9.7.13.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, briefly, is_whole, listing, ranges
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import (
    BarrierArrived,
    BarrierCompleted,
    BarrierDisagreed,
    BarriersParted,
    By,
    Waiting,
    WarpSynced,
)
from tcemu.machine.masks import bits_of, lanes_of
from tcemu.machine.registers import WARP
from tcemu.machine.waits import Parked, Wait, nothing

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core
    from tcemu.machine.scheduler import Strand

SECTION = "9.7.13.1"
COUNT = 16


@dataclass
class _Barrier:
    """The state of one barrier between two completions."""

    #: Threads that it waits for, and whether a warp gave no number: then all threads of the block that have not exited.
    threads: int = 0
    all: bool = False
    arrived: list[By] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    #: The warps that sleep until it completes.
    sleepers: list[Strand] = field(default_factory=list)
    #: How often it has completed.
    generation: int = 0
    #: bar.red: the number of true predicates and of all predicates, by generation.
    votes: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class _Part:
    """Lanes of a warp that have arrived without the others, by a barrier instruction without .aligned."""

    number: int
    by: By
    instruction: Instruction
    threads: int | None
    waits: bool


class Barriers:
    """All barriers of one block. A warp counts as 32 threads once all of its remaining lanes have arrived.

    The manual does not say what happens to a warp whose lanes diverge. An H100 makes the first lanes wait for the
    warp's other lanes, even at barrier.arrive. It does not wait for lanes that exit. If other lanes meanwhile arrive at
    another barrier, it reports an illegal instruction.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._barriers = [_Barrier() for _ in range(COUNT)]
        self._most = WARP * block.warps
        self._parts: dict[int, _Part] = {}

    def arrive(
        self, by: By, instruction: Instruction, present: int, number: int, threads: int | None, waits: bool
    ) -> int:
        """Lanes of a warp arrive; return the generation whose completion they wait for.

        `present` is the mask of the lanes that the barrier needs from this warp.
        """
        barrier = self._named(number)
        before = self._parts.pop(by.warp, None)
        if before is not None:
            if before.number != number:
                self._parted(by, number, before)
            by, waits = by._replace(active=by.active | before.by.active), waits or before.waits
        if present & ~by.active:
            self._parts[by.warp] = _Part(number, by, instruction, threads, waits)
            return barrier.generation
        return self._count(by, instruction, number, threads, waits)

    def _parted(self, by: By, number: int, before: _Part) -> NoReturn:
        """End the launch: lanes of a warp are at two barriers."""
        self._block.grid.tell(BarriersParted, (before.by, by), (before.number, number))
        self._block.grid.fail(
            LaunchError(
                f"{by} arrives at barrier {number} while other lanes of the warp wait at barrier {before.number} "
                f"({before.by}): an H100 reports an illegal instruction (PTX ISA {SECTION})"
            )
        )

    def lanes_exited(self, warp: int, present: int) -> None:
        """Lanes of a warp have exited: the warp's waiting lanes may have been waiting only for these."""
        part = self._parts.get(warp)
        if part is not None and present and not present & ~part.by.active:
            del self._parts[warp]
            self._count(part.by, part.instruction, part.number, part.threads, part.waits)

    def _count(self, by: By, instruction: Instruction, number: int, threads: int | None, waits: bool) -> int:
        """A warp has arrived."""
        barrier = self._barriers[number]
        wanted = self._most if threads is None else self._checked(number, threads)
        if barrier.arrived and wanted != barrier.threads:
            self._block.grid.tell(BarrierDisagreed, (barrier.arrived[0], by), number, (barrier.threads, wanted))
            self._block.grid.fail(
                LaunchError(
                    f"barrier {number}: {barrier.arrived[0]} gave {barrier.threads} threads, but now a warp gives "
                    f"{wanted}; all warps that arrive must give the same number ({by}; PTX ISA {SECTION})"
                )
            )
        generation = barrier.generation
        barrier.threads = wanted
        barrier.all |= threads is None
        barrier.arrived.append(by)
        if waits:
            barrier.waiting.append(by.warp)
        self._block.grid.tell(BarrierArrived, by, instruction, number, wanted, waits)
        self._complete(number, barrier)
        return generation

    def vote(self, number: int, generation: int, true: int, asked: int) -> list[int]:
        """Count a warp's predicates; return the generation's list [true, all], which is final once it completes."""
        votes = self._barriers[number].votes
        votes.pop(generation - 2, None)  # no warp can still be waiting there
        here = votes.setdefault(generation, [0, 0])
        here[0] += true
        here[1] += asked
        return here

    def wait(self, core: Core, by: By, number: int, generation: int, finish: Callable[[], Any] = nothing) -> Any:
        """Wait until that generation of the barrier has completed; return what `finish` returns.

        Raises Parked if the lanes of a split warp have to wait.
        """
        barrier = self._barriers[number]
        if barrier.generation == generation:
            if core.split:
                what, ready = partial(self._missing, number), lambda: barrier.generation != generation
                raise Parked(Wait(by, "barrier", number, what, ready, finish))
            barrier.sleepers.append(core.strand)
            core.grid.scheduler.sleep(core.strand, lambda: Waiting(by, self._missing(number), "barrier", number))
        return finish()

    def warp_exited(self) -> None:
        """Barriers of all threads no longer wait for a warp that has exited."""
        for number, barrier in enumerate(self._barriers):
            if barrier.arrived and barrier.all:
                self._complete(number, barrier)

    def _missing(self, number: int) -> str:
        """A description of what an incomplete barrier waits for."""
        barrier = self._barriers[number]
        arrived = WARP * len(barrier.arrived)
        who = [str(by.warp) for by in barrier.arrived]
        parts = [part.by for part in self._parts.values() if part.number == number]

        def lanes(by: By) -> list[int]:
            return [int(lane) for lane in np.flatnonzero(lanes_of(by.active))]

        apart = "".join(f"; of warp {by.warp}, only lanes {ranges(lanes(by))}" for by in parts)
        if not who:
            return f"barrier {number}, where no warp has arrived{apart}"
        warps = f"warp{'s' * (len(who) > 1)} {listing(who, 'and')}"
        return f"barrier {number}, where {arrived} of {barrier.threads} threads have arrived ({warps}){apart}"

    def _complete(self, number: int, barrier: _Barrier) -> None:
        exited = WARP * len(self._block.exited) if barrier.all else 0
        if WARP * len(barrier.arrived) + exited < barrier.threads:
            return
        self._block.grid.tell(
            BarrierCompleted, self._block.number, number, tuple(barrier.arrived), tuple(barrier.waiting), exited
        )
        barrier.generation += 1
        for sleeper in barrier.sleepers:
            sleeper.asleep = False
        barrier.threads, barrier.all, barrier.arrived, barrier.waiting, barrier.sleepers = 0, False, [], [], []

    def _named(self, number: int) -> _Barrier:
        if not is_whole(number) or not 0 <= number < COUNT:
            raise OperandError(f"a block has barriers 0 to {COUNT - 1}; got {briefly(number)} (PTX ISA {SECTION})")
        return self._barriers[number]

    def _checked(self, number: int, threads: int) -> int:
        whole = is_whole(threads) and threads % WARP == 0
        if not whole or not WARP <= threads <= self._most:
            raise OperandError(
                f"barrier {number}: the number of threads must be a multiple of {WARP}, at most {self._most} in this "
                f"block; got {briefly(threads)} (PTX ISA {SECTION})"
            )
        return int(threads)


# ---------------------------------------------------------------------------------------------------- instructions


def _needed(core: Core, instruction: Instruction) -> int:
    """The lanes that the barrier needs from this warp.

    With .aligned, the manual assumes that all of them are here. A GPU counts lanes since Volta, and so does a warp that
    a front end has split.
    """
    return core.bits if instruction.aligned and not core.split else core.present


@executes("bar.sync", "barrier.sync")
def bar_sync(instruction: Instruction) -> Act:
    """bar.sync (__syncthreads): wait until `threads` threads, by default all of the block, have arrived here."""

    def act(core: Core, barrier: int, threads: int | None = None) -> None:
        by = core.begin(instruction)
        if by is not None:
            barriers = core.block.barriers
            generation = barriers.arrive(by, instruction, _needed(core, instruction), barrier, threads, waits=True)
            barriers.wait(core, by, barrier, generation)

    return act


@executes("bar.arrive", "barrier.arrive")
def bar_arrive(instruction: Instruction) -> Act:
    """bar.arrive: count this warp at the barrier without waiting."""

    def act(core: Core, barrier: int, threads: int) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.block.barriers.arrive(by, instruction, _needed(core, instruction), barrier, threads, waits=False)

    return act


@executes("bar.red", "barrier.red")
def bar_red(instruction: Instruction) -> Act:
    """bar.red: as bar.sync; returns the number of true predicates, or whether all or any of them are true."""
    mode = instruction.words["op"]

    def result(true: int, asked: int) -> Any:
        return {"popc": true, "and": true == asked, "or": true > 0}[mode]

    def act(core: Core, barrier: int, threads: Any, predicate: npt.ArrayLike | None = None) -> Any:
        if predicate is None:  # PTX allows the number of threads to be left out
            threads, predicate = None, threads
        by = core.begin(instruction)
        if by is None:
            return 0 if mode == "popc" else mode == "and"
        mine = core.bits & bits_of(core.predicate(instruction, predicate))
        barriers = core.block.barriers
        generation = barriers.arrive(by, instruction, _needed(core, instruction), barrier, threads, waits=True)
        votes = barriers.vote(barrier, generation, mine.bit_count(), core.bits.bit_count())
        return barriers.wait(core, by, barrier, generation, lambda: result(*votes))

    return act


@executes("bar.warp.sync")
def bar_warp_sync(instruction: Instruction) -> Act:
    """bar.warp.sync (__syncwarp): the active lanes meet, and see what each of them wrote."""

    def act(core: Core, *membermask: Any) -> None:
        core.check_membermask(instruction, *membermask)
        by = core.begin(instruction)
        if by is not None:
            core.tell(WarpSynced, by)

    return act
