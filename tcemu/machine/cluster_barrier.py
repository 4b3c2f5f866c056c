"""The barrier of a thread-block cluster, and its instructions (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tcemu.errors import LaunchError, ranges
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, ClusterArrived, ClusterWaited, Faulted
from tcemu.machine.masks import FULL
from tcemu.machine.registers import WARP

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

SECTION = "9.7.13.3"


class ClusterBarrier:
    """The barrier of a cluster. A thread arrives, and then waits; one that exits counts as arrived."""

    def __init__(self, blocks: list[Block]) -> None:
        self._grid = blocks[0].grid
        #: how often it has completed
        self.phase = 0
        threads, warps = self._grid.shape.threads, range(self._grid.shape.warps)
        full = [FULL >> max(0, WARP * (warp + 1) - threads) for warp in warps]
        #: by block and warp: lanes that have not exited, those that arrived in this phase, those still to wait for the
        #: phase before
        self._present = {(block.number, warp): full[warp] for block in blocks for warp in warps}
        self._arrived = dict.fromkeys(self._present, 0)
        self._due = dict.fromkeys(self._present, 0)
        #: how many threads this phase waits for
        self._missing = threads * len(blocks)

    def arrive(self, by: By, instruction: Instruction) -> int:
        """The active lanes arrive; return the phase. Ends the launch if one has not waited since it arrived last."""
        warp, phase = (by.block, by.warp), self.phase
        if by.active & (self._arrived[warp] | self._due[warp]):
            self._misused("arrives again", "wait", by, instruction)
        self._arrived[warp] |= by.active
        self._fewer(by.active.bit_count())
        return phase

    def begin(self, by: By, instruction: Instruction) -> int:
        """The active lanes begin to wait; return the phase. Ends the launch if one of them has not arrived."""
        warp = by.block, by.warp
        if by.active & ~(self._arrived[warp] | self._due[warp]):
            self._misused("waits", "arrive before", by, instruction)
        return self.phase if by.active & self._arrived[warp] else self.phase - 1

    def complete(self, phase: int) -> bool:
        """Whether all threads have arrived in a phase."""
        return self.phase > phase

    def passed(self, by: By) -> None:
        """The active lanes have finished waiting."""
        self._due[by.block, by.warp] &= ~by.active

    def exited(self, by: By) -> None:
        """The active lanes have exited."""
        warp = by.block, by.warp
        new = by.active & self._present[warp] & ~self._arrived[warp]
        self._present[warp] &= ~by.active
        self._due[warp] &= ~by.active
        self._fewer(new.bit_count())

    def missing(self) -> str:
        """A description of the threads that have not arrived."""
        late = {warp for warp, present in self._present.items() if present & ~self._arrived[warp]}
        blocks = sorted({block for block, _ in late})
        rows = {number: sorted(warp for block, warp in late if block == number) for number in blocks}
        who = "; ".join(f"warp{'s' * (len(row) > 1)} {ranges(row)} of block {number}" for number, row in rows.items())
        return f"the barrier of the cluster, where {self._missing} threads have not arrived: {who}"

    def _fewer(self, count: int) -> None:
        """The phase waits for fewer threads; it completes if there are none left."""
        self._missing -= count
        if count and not self._missing:
            self.phase += 1
            self._due = {warp: arrived & self._present[warp] for warp, arrived in self._arrived.items()}
            self._arrived = dict.fromkeys(self._present, 0)
            self._missing = sum(present.bit_count() for present in self._present.values())

    def _misused(self, does: str, without: str, by: By, instruction: Instruction) -> NoReturn:
        message = f"a thread {does} at the barrier of the cluster without barrier.cluster.{without}"
        self._grid.tell(Faulted, by, instruction, "cluster", None, message)
        self._grid.fail(LaunchError(f"{message} ({by}; PTX ISA {SECTION})"))


# ---------------------------------------------------------------------------------------------------- instructions


@executes("barrier.cluster.arrive")
def arrive(instruction: Instruction) -> Act:
    """barrier.cluster.arrive: the active lanes arrive; .relaxed publishes nothing that they did before."""
    order = "relaxed" if instruction.words.get("order") == "relaxed" else "release"

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(ClusterArrived, by, core.block.cluster.barrier.arrive(by, instruction), order)

    return act


@executes("barrier.cluster.wait")
def wait(instruction: Instruction) -> Act:
    """barrier.cluster.wait: wait until all threads of the cluster have arrived."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        barrier = core.block.cluster.barrier
        phase = barrier.begin(by, instruction)

        def passed() -> None:
            barrier.passed(by)
            core.tell(ClusterWaited, by, phase)

        core.wait(by, "cluster", 0, lambda: barrier.complete(phase), barrier.missing, passed)

    return act
