"""Meetings: the four warps of a warpgroup execute one instruction together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tcemu.errors import LaunchError, TcemuError, listing
from tcemu.instructions import Instruction
from tcemu.machine.events import By, Disagreed, Faulted, Waiting

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core
    from tcemu.machine.scheduler import Strand

#: What the four warps do together: called with the last to arrive, the origins of all, and what each of them brought.
Together = Callable[["Core", tuple[By, ...], Sequence[Any]], None]
#: Warps of a warpgroup.
WARPGROUP = 4
SECTION = "9.7.15"


class Meetings:
    """The meetings of one warpgroup, one after the other."""

    def __init__(self, block: Block, number: int) -> None:
        self._block, self._number = block, number
        self._members = range(WARPGROUP * number, WARPGROUP * (number + 1))
        self._whole = self._members.stop <= block.warps
        #: of the warps that have arrived: the instruction, what each of them brought, and those that sleep
        self._instruction: Instruction
        self._brought: dict[int, tuple[By, Any]] = {}
        self._sleepers: list[Strand] = []

    def meet(self, core: Core, by: By, instruction: Instruction, brought: Any, act: Together) -> None:
        """A warp arrives at an instruction with its operands; it sleeps until the last of the four has acted for all.

        If that raises an error, the launch ends with it.
        """
        if not self._whole:
            message = (
                f"{instruction}: {by} does not belong to a whole warpgroup, which is four consecutive warps that "
                f"start at a multiple of four; the block has {self._block.warps} warps (PTX ISA {SECTION})"
            )
            core.tell(Faulted, by, instruction, "warpgroup", None, message)
            self._block.grid.fail(LaunchError(message))
        if not self._brought:
            self._instruction = instruction
        elif self._instruction.opcode != instruction.opcode:
            first = next(iter(self._brought.values()))[0]
            self._block.grid.tell(Disagreed, (first, by), (self._instruction, instruction))
            self._block.grid.fail(
                LaunchError(
                    f"the warps of warpgroup {self._number} must execute the same instruction: {first} reached "
                    f"{self._instruction}, but {by} reached {instruction} (PTX ISA {SECTION})"
                )
            )
        self._brought[by.warp] = by, brought
        if len(self._brought) < WARPGROUP:
            self._sleepers.append(core.strand)
            core.grid.scheduler.sleep(
                core.strand, lambda: Waiting(by, self._missing(instruction), "warpgroup", self._number)
            )
            return
        bys, brought_by_all = zip(*map(self._brought.__getitem__, self._members), strict=True)
        sleepers = self._sleepers
        self._brought, self._sleepers = {}, []
        try:
            act(core, bys, brought_by_all)
        except TcemuError as error:  # the other three warps already wait for it
            self._block.grid.fail(error)
        for sleeper in sleepers:
            sleeper.asleep = False

    def _missing(self, instruction: Instruction) -> str:
        """A description of the warps that have not arrived."""
        absent = [warp for warp in self._members if warp not in self._brought]
        numbers = f"warp{'s' * (len(absent) > 1)} {listing(absent, 'and')}"
        return f"{numbers} of warpgroup {self._number} to reach {instruction}"
