"""tcemu.matmul: whole matrices through one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import matmul as multiply
from tcemu.errors import OperandError, listing
from tcemu.instructions.instruction import Instruction, placed
from tcemu.instructions.parse import parse
from tcemu.instructions.table import FAMILIES
from tcemu.instructions.targets import target_named

Array = npt.NDArray[Any]

_FAMILIES = [family.name for family in FAMILIES if family.matrices]


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    instruction: str | Instruction,
    target: str = "sm_90a",
) -> Array:
    """D = A B + C of whole matrices, bit for bit as a kernel that loops over K with `instruction` computes it.

    a (M, K), b (K, N) and c (M, N; by default zeros) have the dtypes of the instruction's types
    (`tcemu.parse(instruction).types["a"].dtype`), or hold their patterns as unsigned integers; the result has the dtype
    of D. M, N and K must be multiples of the instruction's m, n and k. K ascends: each step's D is the next step's C.

    Raises IllegalInstruction, OperandError and ArithmeticUnknown, as tcemu.run does.

    >>> A, B = np.ones((32, 64), np.float16), np.eye(64, 16, dtype=np.float16)
    >>> D = tcemu.matmul(A, B, instruction="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> D.shape, D.dtype, D[0, 0]
    ((32, 16), dtype('float32'), np.float32(1.0))
    """
    parsed = parse(instruction, target)
    if parsed.family not in _FAMILIES or parsed.sparse:
        raise OperandError(
            f"{parsed} cannot multiply whole matrices by itself; tcemu.matmul takes the dense forms of "
            f"{listing(_FAMILIES, 'and')}"
        )
    operation = parsed.operation(target_named(target))
    try:
        left, right, addend = _operands(parsed, a, b, c)
    except OperandError as error:
        raise placed(error, parsed) from None
    if operation.packed:
        left, right = _words(left), np.ascontiguousarray(_words(right.T).T)
    return parsed.types["d"].matrix(multiply(operation, left, right, addend))


def _operands(
    instruction: Instruction, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike | None
) -> tuple[Array, Array, Array]:
    """The patterns of A, B and C. Raises OperandError for shapes that do not match."""
    types = instruction.types
    left, right = types["a"].patterns(a, f"A of {instruction}"), types["b"].patterns(b, f"B of {instruction}")
    _check(instruction, left, right)
    size = (left.shape[0], right.shape[1])
    addend = np.zeros(size, types["c"].storage) if c is None else types["c"].patterns(c, f"C of {instruction}")
    if addend.shape != size:
        raise OperandError(
            f"C of {instruction} must be {size[0]} x {size[1]}: A has {size[0]} rows and B {size[1]} columns; got "
            f"{addend.shape}"
        )
    return left, right, addend


def _check(instruction: Instruction, a: Array, b: Array) -> None:
    for name, array in (("A", a), ("B", b)):
        if array.ndim != 2:
            raise OperandError(f"{name} of {instruction} must be one matrix with two axes; got shape {array.shape}")
    if a.shape[1] != b.shape[0]:
        raise OperandError(f"A has {a.shape[1]} columns and B {b.shape[0]} rows; both are K, so they must be equal")
    m, n, k = instruction.shape
    sizes = (
        ("M", a.shape[0], m, "rows of A"),
        ("N", b.shape[1], n, "columns of B"),
        ("K", a.shape[1], k, "columns of A"),
    )
    wrong = [(name, have, step, what) for name, have, step, what in sizes if have % step]
    if wrong:
        said = listing(
            [f"{name} = {have} ({what}) is not a multiple of {step}" for name, have, step, what in wrong], "and"
        )
        padded = listing([f"{name} to {-(-have // step) * step}" for name, have, step, _ in wrong], "and")
        raise OperandError(f"{instruction}: {said}. Pad {padded} with zeros, which change no sum")
    same = instruction.types["d"] == instruction.types["c"]
    if not same and a.shape[1] != k:
        raise OperandError(
            f"{instruction}: D is {instruction.types['d'].name} and C {instruction.types['c'].name}, so its result "
            f"cannot be the addend of the next step; K must be {k}"
        )


def _words(bits: Array) -> Array:
    """Rows of single bits as rows of 32-bit words, with the first bit lowest."""
    packed = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u4").astype(np.uint32)
