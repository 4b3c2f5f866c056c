"""Events of wgmma, from the fence to the wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcemu.machine.events.memory import Addresses
from tcemu.machine.events.origins import By, Event, WarpEvent, WarpsEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.layouts import Descriptor
    from tcemu.layouts.canonical import Major
    from tcemu.machine.registers import Registers

__all__ = [
    "OperandChanged",
    "Wgmma",
    "WgmmaCommitted",
    "WgmmaEnded",
    "WgmmaEvent",
    "WgmmaFenced",
    "WgmmaIssued",
    "WgmmaWaited",
]


@dataclass(eq=False)
class Wgmma:
    """One mma_async of a warpgroup: the warps that issued it, their registers, and the bytes that it reads.

    `reads` has, for each operand in shared memory, its role, the addresses (n,) of its elements and their size in
    bytes. `group` is the group that it will be part of. `adds` says whether it reads D: with scale_d = 0 it does not.
    """

    instruction: Instruction
    bys: tuple[By, ...]
    warpgroup: int
    group: int
    d: tuple[Registers, ...]
    a: tuple[Registers, ...]
    reads: tuple[tuple[str, Addresses, int], ...]
    adds: bool = True
    #: the metadata of a sparse one, of each warp
    e: tuple[Registers, ...] = ()
    #: the descriptor of each of these operands, and the direction in which its lines run
    tiles: tuple[tuple[Descriptor, Major], ...] = ()


class WgmmaFenced(WarpEvent):
    """A warp executed wgmma.fence."""


@dataclass(eq=False)
class WgmmaEvent(Event):
    """Something happened to an mma_async."""

    wgmma: Wgmma

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the warpgroup."""
        return self.wgmma.bys[0].block


class WgmmaIssued(WgmmaEvent):
    """All four warps have issued an mma_async."""


@dataclass(eq=False)
class WgmmaCommitted(WarpsEvent):
    """wgmma.commit_group: the warpgroup's mma_asyncs that are not in a group yet become group `group` (0, 1, 2...)."""

    warpgroup: int
    group: int


@dataclass(eq=False)
class WgmmaWaited(WarpsEvent):
    """wgmma.wait_group: groups before `below` have ended, and the four warps know it."""

    warpgroup: int
    below: int


@dataclass(eq=False)
class OperandChanged(WarpEvent):
    """The kernel changed a plain array that `by` gave as operand `role` while the mma_async was pending."""

    wgmma: Wgmma
    role: str


class WgmmaEnded(WgmmaEvent):
    """An mma_async has read its operands and written its accumulator; kernels may rely on it only after a wait."""
