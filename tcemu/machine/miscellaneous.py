"""setmaxnreg and nanosleep (PTX ISA 9.1, 9.7.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import RegistersMoved

if TYPE_CHECKING:
    from tcemu.machine.core import Core


class RegisterPool:
    """The registers per thread that each warp of a block has, and those that warps have given back."""

    def __init__(self, each: int) -> None:
        self._each = each
        self.free = 0
        self._held: dict[int, int] = {}

    def wanted(self, warp: int, count: int, *, more: bool) -> int:
        """How many registers per thread `warp` takes from the pool to have `count`; negative if it gives some back.

        A kernel may be compiled for fewer registers than the launch has room for, so a warp's first .inc may name
        fewer than it has.
        """
        first = warp not in self._held
        have = self._held.setdefault(warp, self._each)
        return 0 if first and more and count < have else count - have

    def move(self, warp: int, count: int, taken: int) -> None:
        """The warp has `count` from now on."""
        self.free -= taken
        self._held[warp] = count

    def held(self, warp: int) -> int:
        """Registers per thread of `warp`."""
        return self._held.get(warp, self._each)


@executes("setmaxnreg")
def setmaxnreg(instruction: Instruction) -> Act:
    """setmaxnreg (9.7.19.5): set how many registers each thread of this warp may use; .inc waits for them."""
    action = instruction.words["action"]
    section = f"PTX ISA {instruction.section}"

    def act(core: Core, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count not in range(24, 257, 8):
            raise OperandError(f"setmaxnreg takes a multiple of 8 from 24 to 256; got {briefly(count)} ({section})")
        by = core.begin(instruction)
        if by is None:
            return
        pool, warp = core.block.pool, core.index
        taken = pool.wanted(warp, int(count), more=action == "inc")
        if taken and (taken > 0) != (action == "inc"):
            told = f"setmaxnreg.{action} to {count}: warp {warp} has {pool.held(warp)} registers per thread ({section})"
            core.block.grid.fail(LaunchError(told))
        if action == "inc":
            what = f"{taken} registers per thread, which setmaxnreg.dec of other warps must give back ({section})"
            core.wait(by, "registers", 0, lambda: pool.free >= taken, lambda: what)
        pool.move(warp, int(count), taken)
        core.tell(RegistersMoved, by, action, count)

    return act


@executes("nanosleep")
def nanosleep(instruction: Instruction) -> Act:
    """nanosleep (9.7.19.2): let other warps run first. In this machine a wait has no duration."""

    def act(core: Core, duration: npt.ArrayLike) -> None:
        if core.begin(instruction) is not None:
            core.integers(instruction, "duration", duration)
            core.block.grid.scheduler.rest(core.strand)

    return act
