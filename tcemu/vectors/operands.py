"""The operands of an instruction as test vectors and the GPU need them: A in registers, or as a descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operand import Operand


def operands(instruction: Instruction, described: bool = False) -> tuple[Operand, ...]:
    """All operands in PTX's order; one that is read and written is listed once, first.

    With `described`, a matrix descriptor replaces A's registers, as wgmma allows, and the immediates that belong to it
    are included.
    """
    if not described:
        return tuple(each for each in instruction.operands if not _of_a_descriptor(each))
    return tuple(
        Operand(each.role, "descriptor", bits=64) if each.described else replace(each, optional=False)
        for each in instruction.operands
    )


def sources(instruction: Instruction, described: bool = False) -> tuple[Operand, ...]:
    """The operands that tcemu.run takes, in PTX's order."""
    return tuple(operand for operand in operands(instruction, described) if operand.read)


def as_given(instruction: Instruction, values: Sequence[Any]) -> tuple[Operand, ...]:
    """The operands that tcemu.run takes with these values: with a descriptor of A, or with A in registers."""
    pairs = zip(instruction.sources, values, strict=False)
    return sources(instruction, any(each.described and np.asarray(value).dtype != np.uint32 for each, value in pairs))


def written(instruction: Instruction) -> Operand | None:
    """The operand that the instruction writes; None for a store."""
    return next((operand for operand in instruction.operands if operand.written), None)


def _of_a_descriptor(operand: Operand) -> bool:
    """Whether it is present only if A has a descriptor."""
    return operand.kind == "immediate" and operand.optional
