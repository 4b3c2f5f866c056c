"""Meetings of the four warps of a warpgroup, which execute one instruction together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tcemu.errors import LaunchError, TcemuError, listing
from tcemu.instructions import Instruction
from tcemu.machine.events import By, Disagreed

if TYPE_CHECKING:
    from tcemu.machine.block import Block

#: Called when all four warps have arrived, with their origins and what each of them gave.
Act = Callable[[tuple[By, ...], list[Any]], None]
#: Warps of a warpgroup.
WARPGROUP = 4
SECTION = "9.7.15"


@dataclass
class _Round:
    """One meeting: the instruction, and what the warps that have arrived gave."""

    instruction: Instruction
    given: dict[int, tuple[By, Any]] = field(default_factory=dict)
    done: bool = False


class Meetings:
    """The meetings of one warpgroup, one after the other."""

    def __init__(self, block: Block, number: int) -> None:
        self._block, self._number = block, number
        self._members = range(WARPGROUP * number, WARPGROUP * (number + 1))
        self._round: _Round | None = None

    def meet(self, by: By, instruction: Instruction, given: Any, act: Act) -> _Round:
        """A warp arrives at an instruction with its operands; the last of the four calls `act` with all operands."""
        if self._members.stop > self._block.warps:
            self._block.grid.fail(
                LaunchError(
                    f"{instruction}: {by} does not belong to a whole warpgroup, which is four consecutive warps that "
                    f"start at a multiple of four; the block has {self._block.warps} warps (PTX ISA {SECTION})"
                )
            )
        if self._round is None:
            self._round = _Round(instruction)
        here = self._round
        if here.instruction.opcode != instruction.opcode:
            first = next(iter(here.given.values()))[0]
            self._block.grid.tell(Disagreed, (first, by), (here.instruction, instruction))
            self._block.grid.fail(
                LaunchError(
                    f"the warps of warpgroup {self._number} must execute the same instruction: {first} reached "
                    f"{here.instruction}, but {by} reached {instruction} (PTX ISA {SECTION})"
                )
            )
        here.given[by.warp] = by, given
        if len(here.given) == WARPGROUP:
            self._round = None
            who, what = zip(*map(here.given.__getitem__, self._members), strict=True)
            try:
                act(who, list(what))
            except TcemuError as error:  # the other three warps already wait for it
                self._block.grid.fail(error)
            here.done = True
        return here

    def missing(self, instruction: Instruction) -> str:
        """A description of the warps that have not arrived."""
        here = self._round
        absent = [warp for warp in self._members if here is None or warp not in here.given]
        numbers = f"warp{'s' * (len(absent) > 1)} {listing(absent, 'and')}"
        return f"{numbers} of warpgroup {self._number} to reach {instruction}"
