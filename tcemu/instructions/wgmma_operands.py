"""Checks the operands of wgmma.mma_async: registers, matrix descriptors, immediates (PTX ISA 9.1, 9.7.15.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly, is_whole, listing
from tcemu.formats.arrays import as_array
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_sp import metadata_registers, selector
from tcemu.layouts.descriptor import Descriptor

Array = npt.NDArray[Any]

SECTION = "9.7.15.5.2"


@dataclass(frozen=True)
class Operands:
    """The checked operands of an mma_async: registers, or descriptors of tiles in shared memory."""

    d: Array
    a: Array
    b: Array
    described: bool
    #: The metadata registers of a sparse A, and the selector.
    metadata: Array | None
    chosen: int
    last: Immediates

    @classmethod
    def of(cls, instruction: Instruction, operands: Sequence[npt.ArrayLike]) -> Operands:
        """Check the operands, in PTX's order. Raises OperandError."""
        sparse = "e" in instruction.fragments
        if len(operands) < 4 + 2 * sparse:
            expected = "d, a, b, metadata, a selector, scale_d" if sparse else "d, a, b, scale_d"
            raise OperandError(f"{instruction} takes {expected} and its immediates; got {len(operands)} operands")
        d = instruction.fragments["d"].check(operands[0])
        described = as_array(operands[1], f"{instruction}: a is not an array").dtype != np.uint32
        a = _descriptors(instruction, "a", operands[1]) if described else instruction.fragments["a"].check(operands[1])
        b = _descriptors(instruction, "b", operands[2])
        last = immediates(instruction, operands[3 + 2 * sparse :], described)
        metadata = metadata_registers(instruction, operands[3]) if sparse else None
        return cls(d, a, b, described, metadata, selector(instruction, operands[4]) if sparse else 0, last)


@dataclass(frozen=True)
class Immediates:
    """The checked scale_d and immediates of an instruction."""

    scale_d: Array
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool


def immediates(instruction: Instruction, arguments: Sequence[Any], described: bool) -> Immediates:
    """Check the operands after b (and metadata), in PTX's order."""
    scales = ["imm_scale_a", "imm_scale_b"] if instruction.facts.negates else []
    trans = (["imm_trans_a"] * described + ["imm_trans_b"]) if instruction.facts.transposes else []
    names = [*scales, *trans]
    if len(arguments) != 1 + len(names):
        expected = listing(["scale_d", *names], "and")
        how = "a descriptor" if described else "registers"
        raise OperandError(
            f"{instruction} with A in {how} ends with {expected}; got {len(arguments)} of them (PTX ISA {SECTION})"
            f"{_k_major(instruction) if len(arguments) > 1 + len(names) else ''}"
        )
    values = dict(zip(names, arguments[1:], strict=True))
    for name, value in values.items():
        accepted = (-1, 1) if name in scales else (0, 1)
        if not is_whole(value) or value not in accepted:
            raise OperandError(
                f"{instruction}: {name} is an immediate, {listing(accepted)}; got {briefly(value)} (PTX ISA {SECTION})"
            )
    return Immediates(
        _predicate(instruction, arguments[0]),
        values.get("imm_scale_a") == -1,
        values.get("imm_scale_b") == -1,
        values.get("imm_trans_a") == 1,
        values.get("imm_trans_b") == 1,
    )


def _k_major(instruction: Instruction) -> str:
    """Why types other than f16 and bf16 have no immediates that transpose; empty for those two."""
    if instruction.facts.transposes:
        return ""
    a, b = instruction.types["a"].name, instruction.types["b"].name
    said = f"{a} and {b} are" if a != b else f"{a} is"
    return (
        f". {said} K-major only: imm_trans_a and imm_trans_b exist for f16 and bf16. Store the tile so that k is "
        "contiguous, or transpose it on its way into shared memory"
    )


def _predicate(instruction: Instruction, value: Any) -> Array:
    expected = f"{instruction}: scale_d is a predicate, True or False for each warpgroup; got"
    array = as_array(value, expected)
    if array.dtype == bool or (array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all()):
        return array.astype(bool)
    raise OperandError(f"{expected} {briefly(value)}")


def _descriptors(instruction: Instruction, role: str, value: npt.ArrayLike) -> Array:
    array = as_array(value, f"{instruction}: {role} is not an array")
    if array.dtype == np.uint64:
        return array
    if isinstance(value, int) and 0 <= value < 1 << 64:
        return np.array(value, np.uint64)
    raise OperandError(
        f"{instruction}: {role} is a matrix descriptor, 64 bits of dtype uint64 (...); got dtype {array.dtype}, shape "
        f"{array.shape} (PTX ISA 9.7.15.5.1.2.2)"
    )


def one_descriptor(instruction: Instruction, role: str, value: Any) -> int:
    """The 64 bits of one descriptor. Raises OperandError."""
    if isinstance(value, Descriptor):
        return value.encode()
    if type(value) is int and 0 <= value < 1 << 64:
        return value
    return int(_descriptors(instruction, role, value))


def element_bytes(instruction: Instruction, role: str) -> int:
    """Bytes of an element in shared memory; b1 is in words of 32."""
    bits = instruction.types[role].container
    return max(bits // 8, 1) if bits > 1 else 4
