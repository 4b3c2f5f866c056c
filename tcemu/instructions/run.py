"""Run an instruction on registers, and multiply whole matrices with it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy.typing as npt

from tcemu.arithmetic import Operation
from tcemu.errors import IllegalInstruction, OperandError
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import FAMILIES, parse
from tcemu.instructions.targets import target_named

_FAMILIES = {family.name: family for family in FAMILIES}


def run(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    target: str = "sm_90a",
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """Execute one PTX instruction and return its destination, bit for bit what `target` answers.

    `instruction` is the opcode with all its qualifiers; the operands follow in PTX's order, without the destination.
    Registers are arrays (..., lanes, registers) of uint32, uint64 for f64; axes in front are independent warps and
    broadcast. `shared` and `memory` are for instructions that touch memory.

    Raises IllegalInstruction (no such instruction, or not on the target), OperandError (registers, lanes, dtypes) and
    ArithmeticUnknown (legal, but nobody knows what that chip computes).
    """
    try:
        family, found, operation = _prepared(instruction, target)
    except TypeError:  # an unhashable argument is no text
        raise IllegalInstruction(
            f"instruction and target are given as text; got {type(instruction).__name__} and {type(target).__name__}"
        ) from None
    for name, given in (("shared", shared), ("memory", memory)):
        if given is not None:
            raise OperandError(f"{found} touches registers only; it has no use for {name}=")
    return family.execute(found, operation, operands)


@lru_cache(maxsize=1024)
def _prepared(instruction: str | Instruction, target: str) -> tuple[Family, Instruction, Operation]:
    found = parse(instruction, target)
    return _FAMILIES[found.family], found, found.operation(target_named(target))
