"""mma with block scaling (PTX ISA 9.1, 9.7.14.3 and 9.7.14.5.14): D = (A scale_A) (B scale_B) + C, dense and sparse.

    d = tcemu.run(opcode, a, b, c, scale_a, (byte_id, thread_id), scale_b, (byte_id, thread_id), target="sm_120a")

A row of A and a column of B have a scale for each block of k: one (.scale_vec::1X), two or four. Scale registers are
(..., 32) of uint32; the byte-id says at which byte the scales begin, the thread-id which lanes hold them. Sparse forms
take metadata and a selector after c. No recording of these instructions exists: their rows of arithmetic say how they
are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute_scaled
from tcemu.arithmetic.registers import FewWarps
from tcemu.errors import IllegalInstruction, OperandError, briefly, is_whole, listing, shown
from tcemu.formats import Container, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.mma import FP6_FP4, FP8
from tcemu.instructions.mma_sp import choice_of, k_of_stored, metadata_registers, selector, sparse_parts
from tcemu.instructions.multiply import CHUNK, container, in_chunks, registers, types_of
from tcemu.instructions.rows import Rows, multiply, pairs, vocabulary
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts.mma import ordinary
from tcemu.layouts.scales import SCALE_A, SCALE_B

Array = npt.NDArray[Any]

SECTION = "9.7.14.5.14"

# ---------------------------------------------------------------------------------------------------- the table


def _rows(kind: str, k: int, types: list[str], scales: str, stype: str, ptx: str, **facts: Any) -> list[Rows]:
    """The dense form, and the sparse one with twice the k; `scales` are its .scale_vec ("default": none)."""
    vectors = tuple("" if word == "default" else f"scale_vec::{word}" for word in scales.split())
    options = {"kind": (f"kind::{kind}",), "scale_vec": vectors, "stype": (stype,)}
    count = int(scales[-2])
    # the packed 4-bit forms with sparse A are tied to their chip, not to its family
    sparse_since = "sm_120a sm_121a" if facts["sparsity"] == "4:8" else "sm_120f"
    sparse = {"sp": ("sp::ordered_metadata",), **options}
    return [
        multiply(f"m16n8k{k}", types, ptx, "sm_120f", options, scales=count, **facts),
        multiply(f"m16n8k{2 * k}", types, ptx, sparse_since, sparse, scales=count, **facts),
    ]


_FP4 = pairs("f32", "e2m1")
ROWS = [
    *_rows("mxf8f6f4", 32, pairs("f32", f"{FP8} {FP6_FP4}"), "default 1X", "ue8m0", "8.7", width=8, sparsity="2:4"),
    *_rows("mxf4", 64, _FP4, "default 2X", "ue8m0", "8.7", sparsity="4:8"),
    *_rows("mxf4nvf4", 64, _FP4, "2X", "ue8m0", "8.7", sparsity="4:8"),
    *_rows("mxf4nvf4", 64, _FP4, "4X", "ue4m3", "8.7", sparsity="4:8"),
    *_rows("mxf4nvf4", 64, _FP4, "4X", "ue8m0", "9.1", sparsity="4:8"),
]

_BYTES = Container(lookup("u8"), 8)
_LAYOUTS = {"scale_a": SCALE_A, "scale_b": SCALE_B}
#: The fragments of each type of scales.
_SCALES = {
    stype: {role: Fragment(role, layout, _BYTES, stype) for role, layout in _LAYOUTS.items()}
    for stype in ("ue8m0", "ue4m3")
}


def _instruction(words: Words, rows: Rows, opcode: str) -> Instruction:
    if "sp" in words:
        shape, types, fragments, facts = sparse_parts(words, rows)
        facts = replace(facts, computes_as="mma.block_scale.sp")
    else:
        shape, types, facts = Shape.read(words["shape"]), types_of(words), rows.facts
        holders = {role: container(form, rows.facts.width if role in "ab" else None) for role, form in types.items()}
        fragments = {
            role: Fragment(role, ordinary(role, shape, holder.elements), holder) for role, holder in holders.items()
        }
    fragments |= _SCALES[words["stype"]]
    return Instruction(opcode, "mma.block_scale", SECTION, shape, rows.gate, types, fragments, words, facts)


# ---------------------------------------------------------------------------------------------------- executing one


def execute(
    instruction: Instruction,
    operation: Operation,
    operands: Sequence[npt.ArrayLike],
    memories: Mapping[str, Any],
) -> Array:
    """D of A, B, C, [metadata, selector,] scale_a, (byte_id, thread_id), scale_b, (byte_id, thread_id)."""
    sparse = "e" in instruction.fragments
    if len(operands) != 7 + 2 * sparse:
        raise _miscounted(instruction, len(operands), sparse)
    key = _key(operation, operands, sparse)
    few = None if key is None else instruction.plans.get(key)
    result: Array | None = None if few is None else few(*operands[: 3 + sparse], operands[-4], operands[-2])
    if result is not None:
        return result
    arrays = registers(instruction, dict(zip("abc", operands[:3], strict=True)))
    others, chosen = {}, 0
    if sparse:
        held = metadata_registers(instruction, operands[3])
        others["metadata"] = (held, held.shape[:-1])
        chosen = selector(instruction, operands[4])
    selectors = {}
    for role, scales, ids in zip(("scale_a", "scale_b"), operands[-4::2], operands[-3::2], strict=True):
        array = _scale_registers(instruction, role, scales)
        others[role] = (array, array.shape[:-1])
        selectors[role] = byte_and_thread(instruction, role, ids)
    if few is None:
        places = tuple(_bytes(instruction, role, ids) for role, ids in selectors.items())
        choice = choice_of(instruction, chosen) if sparse else None
        few = FewWarps(operation, instruction.fragments, CHUNK, choice, places)
        if key is not None:
            instruction.plans[key] = few

    def run(parts: Mapping[str, Array], first: int, d: Array) -> None:
        held = {role: np.ascontiguousarray(each) for role, each in parts.items()}
        if few.fill(d, *held.values()):
            return
        scales = [_scales(instruction, role, held[role], selectors[role]) for role in selectors]
        stored_k = k_of_stored(instruction, held["metadata"], chosen, first) if sparse else None
        d[...] = _execute(instruction, operation, scales, held, stored_k)

    return in_chunks(instruction, arrays, others, run)


def role_of_scales(instruction: Instruction, role: object) -> str:
    """`role`, if it is "a" or "b". Raises IllegalInstruction if the instruction has no scale factors, OperandError."""
    if "scale_a" not in instruction.fragments:
        raise IllegalInstruction(f"{instruction} has no scales; mma with .block_scale has them (PTX ISA 9.7.14.3)")
    if not isinstance(role, str) or role not in ("a", "b"):
        raise OperandError(f"{instruction} has scales of 'a' and of 'b'; got {shown(role)}")
    return role


def _miscounted(instruction: Instruction, count: int, sparse: bool) -> OperandError:
    matrices = "A, B, C, metadata, a selector, " if sparse else "A, B, C, "
    return OperandError(
        f"{instruction} takes {matrices}scale_a, (byte_id, thread_id), scale_b, (byte_id, thread_id); "
        f"got {count} operands"
    )


def _key(operation: Operation, operands: Sequence[Any], sparse: bool) -> tuple[Any, ...] | None:
    """What an instruction computes, by its immediates as kernels usually give them; None if others must check them."""
    pick_a, pick_b, chosen = operands[-3], operands[-1], operands[4] if sparse else 0
    if type(pick_a) is type(pick_b) is tuple and {type(each) for each in (*pick_a, *pick_b, chosen)} == {int}:
        return operation, pick_a, pick_b, chosen
    return None


def _execute(
    instruction: Instruction,
    operation: Operation,
    scales: Sequence[Array],
    parts: Mapping[str, Array],
    stored_k: Array | None,
) -> Array:
    """D, on flat registers (warps, 32 * registers); `stored_k` are the rows of B by which a sparse A is multiplied."""
    fragments, (m, n, k) = instruction.fragments, instruction.shape
    stored = operation.depth

    # READ: by layout
    a = fragments["a"].read(parts["a"]).reshape(-1, m, stored)
    b = fragments["b"].read(parts["b"]).reshape(-1, k, n)
    c = fragments["c"].read(parts["c"]).reshape(-1, m, n)

    # COMPUTE: by the arithmetic row
    d = compute_scaled(operation, a, b, c, scales[0], scales[1], stored_k)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, m * n))


def _scales(instruction: Instruction, role: str, held: Array, ids: tuple[int, int]) -> Array:
    """Scales (warps, 16, s) of A, or (warps, s, 8) of B, from flat registers (warps, 32)."""
    numbers = _numbers(instruction, role, ids)
    return instruction.fragments[role].read(held, some=numbers.ravel()).reshape(-1, *numbers.shape)


def _numbers(instruction: Instruction, role: str, ids: tuple[int, int]) -> Array:
    """The elements of a fragment that are the scales, (16, s) of A or (s, 8) of B."""
    byte, thread = ids
    shape, some = instruction.fragments[role].shape, slice(byte, byte + instruction.facts.scales)
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)[thread]
    return np.asarray(numbers[:, some] if role == "scale_a" else numbers[some])


def _bytes(instruction: Instruction, role: str, ids: tuple[int, int]) -> Array:
    """The bytes of a warp's registers that hold them."""
    word, bit = instruction.fragments[role].bits_of_elements
    return np.asarray((word * 4 + bit // 8).ravel()[_numbers(instruction, role, ids)])


def _scale_registers(instruction: Instruction, role: str, scales: npt.ArrayLike) -> Array:
    """Scales (..., 32) of uint32, checked."""
    try:
        return instruction.fragments[role].check(as_array(scales, role)[..., None])[..., 0]
    except (OperandError, IndexError):  # numpy allows 64 axes, so an array with 64 cannot get another
        got = f"dtype {scales.dtype}, shape {scales.shape}" if isinstance(scales, np.ndarray) else type(scales).__name__
        raise OperandError(f"{instruction}: {role} is one uint32 register per lane, (..., 32); got {got}") from None


def byte_and_thread(instruction: Instruction, role: str, pair: Any) -> tuple[int, int]:
    """The byte-id and thread-id of one scale operand, checked."""
    count = instruction.facts.scales
    bytes_, threads = range(0, 4, count), range(instruction.fragments[role].shape[0])
    try:
        byte, thread = pair
        whole = all(is_whole(each) for each in (byte, thread))
        if whole and byte in bytes_ and thread in threads:
            return int(byte), int(thread)
    except (TypeError, ValueError):
        pass
    raise OperandError(
        f"{instruction}: {role} is followed by (byte_id, thread_id): with {count} scale{'s' * (count > 1)} the "
        f"byte-id is {listing(bytes_)} and the thread-id {listing(threads)} (PTX ISA 9.7.14.3); got {briefly(pair)}"
    )


FAMILY = Family(
    "mma.block_scale",
    SECTION,
    Spelling(
        "mma[.{sp}].sync.aligned.{shape}.{alayout}.{blayout}.{kind}.block_scale[.{scale_vec}].{dtype}.{atype}.{btype}.{ctype}.{stype}",
        vocabulary(ROWS),
    ),
    tuple(ROWS),
    _instruction,
    execute,
    mnemonic="mma",
    distinguishing=frozenset({"block_scale"}),
    computes=True,
    signature="d = a b c [e f] scale_a pick_a scale_b pick_b",
    about="D = (A scale_A) (B scale_B) + C by one warp, a scale for each block of k",
)
