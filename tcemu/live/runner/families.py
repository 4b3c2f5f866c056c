"""THE TABLE of families that run on a GPU, and what is special about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import target_named
from tcemu.live import ptx
from tcemu.live.process.device import Device


@dataclass(frozen=True)
class Manner:
    """How a family runs on a GPU."""

    #: PTX before and after the instruction.
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    #: Whether its registers are in braces even if there is only one.
    braces: bool = True
    #: Whether it reads shared memory through the async proxy, so that a fence must follow the stores before it.
    through_proxy: bool = False
    #: An explanation if the GPU rejects an alignment that the emulator, following the manual, allows.
    misaligned: str = ""


#: Observed on an H200, which moves such rows as ldmatrix does.
_LINES_OF_16 = (
    "For a wmma.load from shared memory, the GPU requires more than the manual (PTX ISA 9.7.14.4.2): every line of the "
    "matrix must start at a multiple of 16 bytes, so pointer and stride must be multiples of 16 bytes. tcemu.run "
    "follows the manual and has an answer."
)
_PLAIN = Manner()
MANNERS: Mapping[str, Manner] = {
    "mma": _PLAIN,
    "mma.sp": _PLAIN,
    "mma.block_scale": _PLAIN,
    "wmma.mma": _PLAIN,
    "wmma.load": Manner(misaligned=_LINES_OF_16),
    "wmma.store": _PLAIN,
    "ldmatrix": _PLAIN,
    "stmatrix": _PLAIN,
    "movmatrix": Manner(braces=False),
    "wgmma": Manner((ptx.WGMMA_FENCE,), (ptx.WGMMA_COMMIT, ptx.wgmma_wait(0)), through_proxy=True),
}


def recordable(chip: Device) -> list[Instruction]:
    """Every instruction that this GPU and its driver support and tcemu.live runs, in the order of the tables."""
    return legal(tuple(MANNERS), chip.target, chip.ptx)


def legal(families: tuple[str, ...], target: str, version: str) -> list[Instruction]:
    """The instructions of some families that a target has in a PTX version, if their fragments are known."""
    instructions = [each for each in catalogue(target, version) if each.family in families]
    return [each for each in (one.on(target_named(target)) for one in instructions) if each.fragments]
