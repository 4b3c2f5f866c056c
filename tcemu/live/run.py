"""tcemu.live.run: one instruction on the GPU, with the contract of tcemu.run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy.typing as npt

from tcemu.errors import GpuUnavailable, IllegalInstruction, TargetError, listing
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import parse
from tcemu.instructions.table import FAMILIES, family_of
from tcemu.instructions.targets import target_named
from tcemu.live import process
from tcemu.live.device import Device, device
from tcemu.live.makers import Call
from tcemu.live.table import MAKERS


def run(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    target: str | None = None,
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Any:
    """Execute one PTX instruction on the GPU and return its destination, exactly as tcemu.run would.

    Operands, shapes, dtypes, broadcasting and errors are those of tcemu.run; wrong operands never reach the GPU. A
    store changes `shared` or `memory` in place; warps that share one of these store one after another. `target` may be
    left out: a GPU answers for itself, and refuses the name of another chip. Loads, stores and wgmma are done by the
    emulator first, which checks every address.

    Raises what tcemu.run raises, GpuUnavailable (no GPU, or one that lacks the instruction) and GpuError (the launch
    failed; the next call works again).
    """
    chip = device()
    family, found = prepared(instruction, _own(chip, target))
    memories = {name: given for name, given in (("shared", shared), ("memory", memory)) if given is not None}
    return MAKERS[family.name].run(Call(found, family, chip, operands, memories), process.ask)


def _own(chip: Device, target: str | None) -> str:
    """The target to generate code for. Raises TargetError for one that this GPU is not."""
    if target is None:
        return chip.target
    if not isinstance(target, str) or target_named(target).number != chip.chip.number:
        raise TargetError(f"a GPU answers for itself: this one is {chip.name}, {chip.target}, not {target}")
    return target


@lru_cache(maxsize=4096)
def _prepared(instruction: str | Instruction, target: str) -> tuple[Family, Instruction]:
    found = parse(instruction)
    family = family_of(found)
    if not found.gate.admits(target_named(target)):
        raise GpuUnavailable(f"{found} needs {found.gate.targets}; this GPU is {target}. tcemu.run emulates it.")
    if family.name not in MAKERS:
        raise GpuUnavailable(
            f"{found}: tcemu.live runs {listing(sorted(MAKERS), 'and')}, one at a time, and not {family.name}"
        )
    return family, found.on(target_named(target))


def prepared(instruction: str | Instruction, target: str) -> tuple[Family, Instruction]:
    """The instruction on this target and its family. Raises IllegalInstruction, and GpuUnavailable where it is not."""
    try:
        return _prepared(instruction, target)
    except TypeError:  # an unhashable argument is no text
        raise IllegalInstruction(f"an instruction is given as text; got {type(instruction).__name__}") from None


def recordable(chip: Device) -> list[Instruction]:
    """Every instruction that this GPU and its driver have and that tcemu.live runs, in the order of the tables."""
    return [
        instruction
        for each in FAMILIES
        if each.name in MAKERS
        for _, instruction in each.variants
        if instruction.gate.admits(chip.chip)
        and instruction.gate.admits_ptx(chip.ptx)
        and _known(instruction.on(chip.chip))
    ]


def _known(instruction: Instruction) -> bool:
    """Whether anybody has told how the chip lays out the fragments; else nobody knows how many registers there are."""
    return bool(instruction.fragments)


