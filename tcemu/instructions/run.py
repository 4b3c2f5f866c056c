"""tcemu.run: one instruction on registers and memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy.typing as npt

from tcemu.arithmetic import Operation
from tcemu.errors import IllegalInstruction, OperandError, listing
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, placed
from tcemu.instructions.parse import parse
from tcemu.instructions.table import family_of
from tcemu.instructions.targets import target_named


def run(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    target: str = "sm_90a",
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Any:
    """Execute one PTX instruction and return its destination, bit for bit as `target` computes it.

    `instruction` is the opcode with all its qualifiers; the operands follow in PTX's order, without the destination.
    Registers are arrays (..., lanes, registers) of uint32, or uint64 for f64; leading axes are independent warps and
    broadcast. `shared` and `memory` are uint8 arrays (..., bytes) for instructions that access memory.

    Raises IllegalInstruction (no such instruction, or not on the target), OperandError (registers, lanes, dtypes) and
    ArithmeticUnknown (legal, but it is not known what that chip computes).

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> A, B = np.ones((16, 16), np.float16), np.full((16, 8), 0.5, np.float16)
    >>> c = np.zeros((32, 4), np.uint32)  # 32 lanes with 4 registers of f32 each
    >>> d = tcemu.run(mma, mma.fragments["a"].pack(A), mma.fragments["b"].pack(B), c, target="sm_80")
    >>> d.shape, d.dtype, mma.fragments["d"].unpack(d)[0, 0]  # 16 products of 1 and 0.5
    ((32, 4), dtype('uint32'), np.float32(8.0))
    """
    try:
        family, parsed, operation = prepared(instruction, target)
    except TypeError:  # an unhashable argument is not text
        raise IllegalInstruction(
            f"instruction and target must be strings; got {type(instruction).__name__} and {type(target).__name__}"
        ) from None
    memories = {"shared": shared, "memory": memory}
    for name, array in memories.items():
        if array is not None and name not in family.memories:
            touched = listing(sorted(family.memories)) if family.memories else "registers only"
            raise OperandError(f"{parsed} does not take {name}=: it accesses {touched}")
    if family.execute is None:
        raise OperandError(
            f"{parsed} only has a meaning in a kernel; tcemu.run executes one instruction by itself. Run a kernel with "
            f"tcemu.launch (PTX ISA {parsed.section})"
        )
    try:
        return family.execute(parsed, operation, operands, memories)
    except OperandError as error:
        raise placed(error, parsed) from None


@lru_cache(maxsize=1024)
def prepared(instruction: str | Instruction, target: str) -> tuple[Family, Instruction, Operation | None]:
    """The family, the instruction as it is on `target`, and what it computes there, if it computes."""
    parsed = parse(instruction, target)
    family = family_of(parsed)
    return family, parsed, operation_on(parsed, target) if family.computes else None


@lru_cache(maxsize=4096)
def operation_on(instruction: Instruction, target: str) -> Operation:
    """What an instruction computes on `target`. Raises ArithmeticUnknown."""
    return instruction.operation(target_named(target))
