"""mma.sp: D = A B + C with a sparse A (PTX ISA 9.1, 9.7.14.6), which is stored without the elements that are pruned.

    d = tcemu.run("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", a, b, c, metadata, selector)

A row of A is divided into chunks, and half of each chunk is stored: two of four elements (f16, bf16, s8, fp8), one of
two (tf32), two of four pairs (s4). Four bits of metadata for each chunk say which ones. A pruned element takes no part
at all: even an infinity in B does not matter there. `tcemu.sparse` compresses a matrix and makes its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute_registers
from tcemu.arithmetic.plans import Chosen, Plan
from tcemu.arithmetic.registers import FewWarps, plan_of
from tcemu.backend import backend
from tcemu.errors import OperandError, briefly, is_whole, listing
from tcemu.formats import Container, Format, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.lessons import PRODUCTS
from tcemu.instructions.mma import BLACKWELL, F8F6F4, FP8, RTX_BLACKWELL, SATFINITE, SMALL
from tcemu.instructions.multiply import CHUNK, container, in_chunks, registers, types_of
from tcemu.instructions.rows import Rows, multiply, pairs, vocabulary
from tcemu.instructions.sparsity import SPARSITY, Sparsity
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts.mma import ordinary
from tcemu.layouts.sparse import metadata

Array = npt.NDArray[Any]

SECTION = "9.7.14.6.3"

# ---------------------------------------------------------------------------------------------------- the table

_PLAIN, _ORDERED = {"sp": ("sp",)}, {"sp": ("sp::ordered_metadata",)}


def _both(
    shapes: str,
    types: list[str],
    ptx: str,
    since: str,
    sparsity: str,
    options: Mapping[str, tuple[str, ...]] | None = None,
    **facts: Any,
) -> list[Rows]:
    """Plain forms and, from PTX 8.5 on, those with ordered metadata."""
    return [
        multiply(shapes, types, version, since, {**order, **(options or {})}, sparsity=sparsity, **facts)
        for order, version in ((_PLAIN, ptx), (_ORDERED, "8.5"))
    ]


_HALVES = [*pairs("f16 f32", "f16"), *pairs("f32", "bf16")]
ROWS = [
    *_both("m16n8k16", _HALVES, "7.1", "sm_80", "2:4"),
    # ptxas accepts selectors that the manual does not give for this shape
    *_both("m16n8k32", _HALVES, "7.1", "sm_80", "2:4", assembled=4),
    *_both("m16n8k8 m16n8k16", pairs("f32", "tf32"), "7.1", "sm_80", "1:2"),
    *_both("m16n8k32 m16n8k64", pairs("s32", "s8 u8"), "7.1", "sm_80", "2:4", SATFINITE),
    *_both("m16n8k64 m16n8k128", pairs("s32", "s4 u4"), "7.1", "sm_80", "4:8", SATFINITE),
    *_both("m16n8k64", pairs("f32", FP8), "8.4", "sm_89", "2:4"),
    multiply("m16n8k64", pairs("f16", FP8), "8.7", RTX_BLACKWELL, _ORDERED, sparsity="2:4"),
    multiply("m16n8k64", pairs("f32", FP8), "8.6", BLACKWELL, _ORDERED | F8F6F4, sparsity="2:4", width=8),
    multiply("m16n8k64", pairs("f16", FP8), "8.7", RTX_BLACKWELL, _ORDERED | F8F6F4, sparsity="2:4", width=8),
    multiply("m16n8k64", SMALL, "8.7", RTX_BLACKWELL, _ORDERED | F8F6F4, sparsity="2:4", width=8),
]

# ---------------------------------------------------------------------------------------------------- instructions


def sparse_parts(words: Words, rows: Rows) -> tuple[Shape, dict[str, Format], dict[str, Fragment], Facts]:
    """Shape, types, fragments (e is the metadata) and facts of a sparse form."""
    shape, types = Shape.read(words["shape"]), types_of(words)
    sparsity = SPARSITY[rows.facts.sparsity, words["sp"]]
    width = rows.facts.width
    compressed = Shape(shape.m, shape.n, shape.k // 2)
    fragments = {}
    for role, form in types.items():
        holder = container(form, width if role in "ab" else None)
        fragments[role] = Fragment(role, ordinary(role, compressed if role == "a" else shape, holder.elements), holder)
    bits = fragments["a"].container.width
    fragments["e"] = Fragment("e", metadata(bits, shape.k // sparsity.chunk), Container(lookup("u4"), 4), "codes")
    return shape, types, fragments, replace(rows.facts, stored=shape.k // 2, pattern=sparsity)


def _instruction(words: Words, rows: Rows, opcode: str) -> Instruction:
    shape, types, fragments, facts = sparse_parts(words, rows)
    return Instruction(opcode, "mma.sp", SECTION, shape, rows.gate, types, fragments, words, facts)


# ---------------------------------------------------------------------------------------------------- executing one


def execute(
    instruction: Instruction,
    operation: Operation,
    operands: Sequence[npt.ArrayLike],
    memories: Mapping[str, Any],
) -> Array:
    """D of the stored A, B, C, metadata (..., 32) and a selector."""
    if len(operands) != 5:
        raise OperandError(
            f"{instruction} takes registers of A, B and C, metadata and a selector; got {len(operands)} operands"
        )
    few = instruction.plans.get((operation, operands[4])) if type(operands[4]) is int else None
    result: Array | None = None if few is None else few(*operands[:4])
    if result is not None:
        return result
    arrays = registers(instruction, dict(zip("abc", operands[:3], strict=True)))
    held = metadata_registers(instruction, operands[3])
    chosen = selector(instruction, operands[4])
    if few is None:
        few = FewWarps(operation, instruction.fragments, CHUNK, choice_of(instruction, chosen))
        instruction.plans[operation, chosen] = few
    others = {"metadata": (held, held.shape[:-1])}

    def run(parts: Mapping[str, Array], first: int, d: Array) -> None:
        a, b, c, metadata = (np.ascontiguousarray(parts[role]) for role in ("a", "b", "c", "metadata"))
        plan = sparse_plan(instruction, operation, chosen, len(d))
        if plan is None or plan(a, b, c, metadata=metadata, out=d) is None:
            # the metadata gives the row of B that multiplies each stored element of A, or it is illegal
            stored_k = k_of_stored(instruction, metadata, chosen, first)
            compute_registers(operation, instruction.fragments, a, b, c, stored_k, d)

    def shares(warps: int) -> bool:
        return getattr(sparse_plan(instruction, operation, chosen, warps), "shares", False)

    return in_chunks(instruction, arrays, others, run, shares)


def metadata_registers(instruction: Instruction, metadata: npt.ArrayLike) -> Array:
    """Metadata (..., 32) of uint32, checked."""
    try:
        return instruction.fragments["e"].check(as_array(metadata, "e")[..., None])[..., 0]
    except (OperandError, IndexError):  # numpy allows 64 axes, so an array with 64 cannot get another
        got = (
            f"dtype {metadata.dtype}, shape {metadata.shape}"
            if isinstance(metadata, np.ndarray)
            else type(metadata).__name__
        )
        raise OperandError(f"{instruction}: metadata is one uint32 register per lane, (..., 32); got {got}") from None


def selector(instruction: Instruction, value: object) -> int:
    """The sparsity selector: an immediate."""
    last = instruction.fragments["e"].layout.shape[0] - 1
    number = value if is_whole(value) else None
    if number is None or not 0 <= int(number) <= last:
        lanes = "it says which lanes' metadata is used" if last else "all lanes' metadata is used"
        taken = instruction.facts.assembled
        more = (
            f". The assembler accepts {listing(range(last + 1, taken), 'and')} too, but they select no lanes"
            if number is not None and last < int(number) < taken
            else ""
        )
        raise OperandError(
            f"{instruction}: the selector is an immediate, {listing(range(last + 1))}: {lanes} (PTX ISA {SECTION}); "
            f"got {briefly(value)}{more}"
        )
    return int(number)


def pattern_of(instruction: Instruction) -> Sparsity:
    """The pattern of a sparse form. Raises OperandError for a dense one."""
    if instruction.facts.pattern is None:
        raise OperandError(f"{instruction} is dense: all of A is stored")
    return instruction.facts.pattern


def sparse_plan(instruction: Instruction, operation: Operation, selected: int, warps: int) -> Plan | None:
    """How the kernels compute a sparse form on a number of warps in one pass; None if they do not."""
    products = warps * instruction.shape.m * instruction.shape.n * operation.depth
    if backend(products) != "numba":
        return None
    return plan_of(operation, instruction.fragments, choice_of(instruction, selected))


def choice_of(instruction: Instruction, selected: int) -> Chosen:
    """How A is pruned, for plans."""
    pattern = pattern_of(instruction)
    return Chosen(pattern.chunk, pattern.rows, selected)


def k_of_stored(instruction: Instruction, held: Array, chosen: int, first: int = 0) -> Array:
    """For flat metadata (warps, 32), counted from `first`: the k of each stored element, (warps, 16, K / 2)."""
    fragment, pattern = instruction.fragments["e"], pattern_of(instruction)
    codes = fragment.read(held).reshape(-1, *fragment.shape)[:, chosen]
    stored_k = np.take(pattern.table, codes.astype(np.intp, copy=False), axis=0)
    if stored_k.min(initial=0) < 0:
        _complain(instruction, codes, chosen, stored_k, first)
    stored_k += np.arange(0, instruction.shape.k, pattern.chunk, dtype=stored_k.dtype)[:, None]
    return np.asarray(stored_k.reshape(*codes.shape[:2], codes.shape[2] * pattern.stored))


def _complain(instruction: Instruction, codes: Array, chosen: int, stored_k: Array, first: int) -> None:
    """Raise the error about the first illegal four bits, which names lane and bits."""
    warp, row, chunk, _ = (int(x) for x in np.argwhere(stored_k < 0)[0])
    lane, place = instruction.fragments["e"].layout.holders(chosen, row, chunk)[0]
    pattern = pattern_of(instruction)
    whose = f", warp {first + warp}" if first + len(codes) > 1 else ""
    raise OperandError(
        f"{instruction}: metadata of lane {lane}, bits {4 * place + 3}:{4 * place} (row {row}, chunk {chunk}{whose}) "
        f"is {int(codes[warp, row, chunk]):#06b}; {pattern.name} sparsity takes "
        f"{listing([f'{code:#06b}' for code in sorted(pattern.positions)])} (PTX ISA 9.7.14.6.1)"
    )


FAMILY = Family(
    "mma.sp",
    SECTION,
    Spelling(
        "mma.{sp}.sync.aligned.{shape}.{alayout}.{blayout}[.{kind}][.{satfinite}].{dtype}.{atype}.{btype}.{ctype}",
        vocabulary(ROWS),
    ),
    tuple(ROWS),
    _instruction,
    execute,
    PRODUCTS,
    mnemonic="mma",
    distinguishing=frozenset({"sp", "sp::ordered_metadata"}),
    computes=True,
    signature="d = a b c e f",
    about="D = A B + C by one warp, A sparse: half of it is stored",
)
