"""setmaxnreg and nanosleep (PTX ISA 9.1, 9.7.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy.typing as npt

from tcemu.errors import OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Faulted, RegistersMoved

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core


class RegisterPool:
    """The registers per thread that each warp of a block has, and those that warps have given back."""

    def __init__(self, block: Block) -> None:
        self._each = block.shape.registers
        self.free = 0
        self._held: dict[int, int] = {}

    def held(self, warp: int, count: int, *, more: bool) -> int:
        """Registers per thread of `warp`, which requests `count`.

        A kernel may be compiled for fewer registers than the launch has room for, so a warp's first .inc may name
        fewer than it has; the others stay unused.
        """
        if warp not in self._held:
            self._held[warp] = min(self._each, count) if more else self._each
        return self._held[warp]

    def move(self, warp: int, count: int) -> None:
        """The warp has `count` from now on."""
        self.free -= count - self._held[warp]
        self._held[warp] = count


@executes("setmaxnreg")
def setmaxnreg(instruction: Instruction) -> Act:
    """setmaxnreg (9.7.19.5): set how many registers each thread of this warp may use; .inc waits for them."""
    action, more = instruction.words["action"], instruction.words["action"] == "inc"

    def act(core: Core, count: int) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        _check_count(core, by, instruction, count)
        pool, warp = core.block.state(RegisterPool), core.index
        held = pool.held(warp, int(count), more=more)
        taken = int(count) - held
        if more and taken > 0:
            what = (
                f"{taken} registers per thread, which setmaxnreg.dec of other warps must give back (PTX ISA "
                f"{instruction.section})"
            )
            core.wait(by, "registers", 0, lambda: pool.free >= taken, lambda: what)
        if (taken > 0) == more:
            pool.move(warp, int(count))
        core.tell(RegistersMoved, by, action, int(count), held)

    return act


def _check_count(core: Core, by: By, instruction: Instruction, count: object) -> None:
    """End the launch unless a thread can have this number of registers, an immediate that assemblers check."""
    if is_whole(count) and count in range(24, 257, 8):
        return
    message = (
        f"{instruction} takes a multiple of 8 from 24 to 256, the registers of a thread; got {briefly(count)} (PTX ISA "
        f"{instruction.section})"
    )
    core.tell(Faulted, by, instruction, "registers", None, message)
    core.block.grid.fail(OperandError(f"{message}: {by}"))


@executes("nanosleep")
def nanosleep(instruction: Instruction) -> Act:
    """nanosleep (9.7.19.2): let other warps run first. In this machine a wait has no duration."""

    def act(core: Core, duration: npt.ArrayLike) -> None:
        if core.begin(instruction) is not None:
            core.integers(instruction, "duration", duration)
            core.block.grid.scheduler.rest(core.strand)

    return act
