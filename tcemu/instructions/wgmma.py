"""wgmma.mma_async: D = A B + D by a warpgroup of 128 lanes (PTX ISA 9.1, 9.7.15.5.2), dense and sparse.

    d = tcemu.run(opcode, d, a, b, scale_d, *immediates, shared=bytes)

d is read and written: registers (..., 128, n), its new value is returned. a is registers (..., 128, 4) of uint32 or
descriptors (...) of uint64, b descriptors. A sparse A is followed by metadata (..., 128) and the selector after b. With
a false scale_d (...) D is not added. Floats take imm_scale_a and imm_scale_b (1 or -1), and f16 and bf16 then
imm_trans_a (where A is a descriptor) and imm_trans_b (0 K-major, 1 MN-major). What waits for what is the machine's
business: here an instruction completes at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute
from tcemu.errors import OperandError, briefly, listing
from tcemu.formats import Container, Format, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.memory import Memory
from tcemu.instructions.mma import FP8, SATFINITE
from tcemu.instructions.mma_sp import SPARSITY, metadata_registers, selector, stored_places
from tcemu.instructions.multiply import Take, broadcast, container, take
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts import wgmma as layouts
from tcemu.layouts.descriptor import addresses

Array = npt.NDArray[Any]

SECTION = "9.7.15.5.2"

# ---------------------------------------------------------------------------------------------------- the table

_EVERY_8 = tuple(range(8, 257, 8))
#: Integers take steps of 16 from 32 on.
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))


def _rows(
    ns: Sequence[int], k: int, types: list[str], ptx: str, options: Mapping[str, tuple[str, ...]], **facts: Any
) -> Rows:
    shapes = [f"m64n{n}k{k}" for n in ns]
    return Rows({"shape": shapes, "dtype atype btype": types, **options}, ptx, "sm_90a", facts)


_DENSE, _SPARSE = {"sp": ("",)}, {"sp": ("sp",)}
_FLOATS = (
    (16, ["f16 f16 f16", "f32 f16 f16", "f32 bf16 bf16"], "2:4", True),
    (8, ["f32 tf32 tf32"], "1:2", False),
    (32, [f"{d} {a} {b}" for d, a, b in product(("f16", "f32"), FP8.split(), FP8.split())], "2:4", False),
)
_SAME, _MIXED = ["s32 s8 s8", "s32 u8 u8"], ["s32 s8 u8", "s32 u8 s8"]
ROWS = [
    *(_rows(_EVERY_8, k, types, "8.0", _DENSE, scales=True, trans=trans) for k, types, _, trans in _FLOATS),
    _rows(_INTEGER_N, 32, _SAME, "8.0", {**_DENSE, **SATFINITE}),
    _rows(_INTEGER_N, 32, _MIXED, "8.4", {**_DENSE, **SATFINITE}),
    _rows(_INTEGER_N, 256, ["s32 b1 b1"], "8.0", {**_DENSE, "op": ("and",)}),
    *(
        _rows(_EVERY_8, 2 * k, types, "8.2", _SPARSE, scales=True, trans=trans, sparsity=kind)
        for k, types, kind, trans in _FLOATS
    ),
    _rows(_INTEGER_N, 64, _SAME, "8.2", {**_SPARSE, **SATFINITE}, sparsity="2:4"),
    _rows(_INTEGER_N, 64, _MIXED, "8.4", {**_SPARSE, **SATFINITE}, sparsity="2:4"),
]


def _instruction(words: Words, rows: Rows, opcode: str) -> Instruction:
    shape = Shape.read(words["shape"])
    types: dict[str, Format] = {role: lookup(words[f"{role}type"]) for role in "dab"}
    facts, stored = dict(rows.facts), shape.k
    if "sparsity" in facts:
        stored = shape.k // 2
        # the hardware takes both orders of two indices, as mma.sp without ordered metadata does
        facts |= {"stored": stored, "pattern": SPARSITY[facts["sparsity"], "sp"]}
    fragments = {"d": _accumulator(shape.n, words["dtype"]), "a": _registers(stored, words["atype"])}
    if "sparsity" in facts:
        fragments["e"] = _metadata(types["a"].container)
    return Instruction(opcode, "wgmma", SECTION, shape, rows.gate, types | {"c": types["d"]}, fragments, words, facts)


# A thousand forms share few fragments, and what each comes to know of itself.


@cache
def _accumulator(n: int, type_: str) -> Fragment:
    return Fragment("d", layouts.accumulator(n), container(lookup(type_), None))


@cache
def _registers(k: int, type_: str) -> Fragment:
    holder = container(lookup(type_), None)
    return Fragment("a", layouts.registers(k, holder.elements), holder)


@cache
def _metadata(bits: int) -> Fragment:
    return Fragment("e", layouts.metadata(bits), Container(lookup("u4"), 4), "codes")


# ---------------------------------------------------------------------------------------------------- operands


@dataclass(frozen=True)
class _Immediates:
    """scale_d and the immediates of one instruction, checked."""

    scale_d: Array
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool


def _immediates(instruction: Instruction, given: Sequence[Any], described: bool) -> _Immediates:
    """The operands after b (and metadata), in PTX's order."""
    scales = ["imm_scale_a", "imm_scale_b"] if instruction.facts.get("scales") else []
    trans = (["imm_trans_a"] * described + ["imm_trans_b"]) if instruction.facts.get("trans") else []
    names = [*scales, *trans]
    if len(given) != 1 + len(names):
        told = listing(["scale_d", *names], "and")
        how = "descriptor" if described else "registers"
        raise OperandError(
            f"{instruction} with A in {how} ends with {told}; got {len(given)} of them (PTX ISA {SECTION})"
        )
    values = dict(zip(names, given[1:], strict=True))
    for name, value in values.items():
        accepted = (-1, 1) if name in scales else (0, 1)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value not in accepted:
            raise OperandError(
                f"{instruction}: {name} is an immediate, {listing(accepted)}; got {briefly(value)} (PTX ISA {SECTION})"
            )
    return _Immediates(
        _predicate(instruction, given[0]),
        values.get("imm_scale_a") == -1,
        values.get("imm_scale_b") == -1,
        values.get("imm_trans_a") == 1,
        values.get("imm_trans_b") == 1,
    )


def _predicate(instruction: Instruction, given: Any) -> Array:
    told = f"{instruction}: scale_d is a predicate, True or False for each warpgroup; got"
    array = as_array(given, told)
    if array.dtype == bool or (array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all()):
        return array.astype(bool)
    raise OperandError(f"{told} {briefly(given)}")


def _descriptors(instruction: Instruction, role: str, given: npt.ArrayLike) -> Array:
    array = as_array(given, f"{instruction}: {role} is not an array")
    if array.dtype == np.uint64:
        return array
    if isinstance(given, int) and 0 <= given < 1 << 64:
        return np.array(given, np.uint64)
    raise OperandError(
        f"{instruction}: {role} is a matrix descriptor, 64 bits of dtype uint64 (...); got dtype {array.dtype}, shape "
        f"{array.shape} (PTX ISA 9.7.15.5.1.2.2)"
    )


# ---------------------------------------------------------------------------------------------------- executing one

#: Warpgroups at a time.
_CHUNK = 16


@dataclass(frozen=True)
class Operands:
    """The operands of one mma_async, checked: registers, or descriptors of what lies in shared memory."""

    d: Array
    a: Array
    b: Array
    described: bool
    #: metadata registers of a sparse A, and the selector
    metadata: Array | None
    chosen: int
    last: _Immediates

    @classmethod
    def of(cls, instruction: Instruction, given: Sequence[npt.ArrayLike]) -> Operands:
        """The operands in PTX's order. Raises OperandError."""
        sparse = "e" in instruction.fragments
        if len(given) < 4 + 2 * sparse:
            told = "d, a, b, metadata, a selector, scale_d" if sparse else "d, a, b, scale_d"
            raise OperandError(f"{instruction} takes {told} and its immediates; got {len(given)} operands")
        d = instruction.fragments["d"].check(given[0])
        described = as_array(given[1], f"{instruction}: a is not an array").dtype != np.uint32
        a = _descriptors(instruction, "a", given[1]) if described else instruction.fragments["a"].check(given[1])
        b = _descriptors(instruction, "b", given[2])
        last = _immediates(instruction, given[3 + 2 * sparse :], described)
        metadata = metadata_registers(instruction, given[3]) if sparse else None
        return cls(d, a, b, described, metadata, selector(instruction, given[4]) if sparse else 0, last)

    def reads(self, instruction: Instruction) -> tuple[tuple[str, Array, int], ...]:
        """What is read from shared memory: role, addresses (warpgroups, elements), bytes of an element."""
        m, n, k = instruction.shape
        words = 32 if instruction.types["a"].container == 1 else 1
        tiles = [("b", self.b, (n, k // words), self.last.mn_major_b)]
        if self.described:
            stored = instruction.facts.get("stored", k) // words
            tiles.insert(0, ("a", self.a, (m, stored), self.last.mn_major_a))
        return tuple(
            (role, *_places(instruction, role, descriptors, shape, mn_major))
            for role, descriptors, shape, mn_major in tiles
        )


def execute(
    instruction: Instruction, operation: Operation, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]
) -> Array:
    """The new D."""
    given = Operands.of(instruction, operands)
    d, a, last = given.d, given.a, given.last
    memory = Memory(instruction, memories, generic=("shared",))
    arrays = {"d": d, "a": a, "b": given.b, "scale_d": last.scale_d}
    own = {"d": d.shape[:-2], "a": a.shape if given.described else a.shape[:-2]}
    own |= {"b": given.b.shape, "scale_d": last.scale_d.shape}
    if given.metadata is not None:
        arrays["metadata"], own["metadata"] = given.metadata, given.metadata.shape[:-1]
    arrays["which"], own["which"] = memory.numbers, memory.own
    groups = broadcast(instruction, own)
    takes: dict[str, Take] = {name: take(array, own[name], groups) for name, array in arrays.items()}
    out = np.empty((prod(groups), prod(d.shape[-2:])), d.dtype)
    for start in range(0, len(out), _CHUNK):
        some = slice(start, start + _CHUNK)
        parts = {name: part(some) for name, part in takes.items()}
        out[some] = _execute(instruction, operation, memory, given, parts)
    return out.reshape(*groups, *d.shape[-2:])


def _execute(
    instruction: Instruction,
    operation: Operation,
    memory: Memory,
    given: Operands,
    parts: Mapping[str, Array],
) -> Array:
    """The three paragraphs, for some warpgroups."""
    fragments, (m, n, k) = instruction.fragments, instruction.shape
    per = 32 if operation.packed else 1
    stored, depth = operation.depth // per, k // per
    which, last = parts["which"] if memory.own else None, given.last

    # READ: registers by layout, shared memory by descriptor
    if given.described:
        a = _tile(instruction, memory, "a", parts["a"], (m, stored), last.mn_major_a, which)
    else:
        a = fragments["a"].read(parts["a"], words=operation.packed).reshape(-1, m, stored)
    b = _tile(instruction, memory, "b", parts["b"], (n, depth), last.mn_major_b, which)
    c = fragments["d"].read(parts["d"]).reshape(-1, m, n)
    c = np.where(parts["scale_d"][:, None, None], c, c.dtype.type(0))
    a, b = (x ^ x.dtype.type(form.sign_bit) if flip else x for x, form, flip in (
        (a, instruction.types["a"], last.negate_a), (b, instruction.types["b"], last.negate_b)
    ))  # fmt: skip
    b = np.ascontiguousarray(b.swapaxes(1, 2))
    # every row of a sparse A picks the rows of B that its stored elements meet
    places = stored_places(instruction, parts["metadata"], given.chosen) if stored != depth else None

    # COMPUTE: by the arithmetic row
    d = compute(operation, a, b, c, places)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, m * n))


def _tile(
    instruction: Instruction,
    memory: Memory,
    role: str,
    descriptors: Array,
    shape: tuple[int, int],
    mn_major: bool,
    which: Array | None,
) -> Array:
    """Patterns (warpgroups, mn, k) of a tile in shared memory; b1 comes in words of 32."""
    flat, size = _places(instruction, role, descriptors, shape, mn_major)
    memory.check(flat, size, size, f"element of {role}", "elements are aligned")
    return memory.elements(flat, size, which).reshape(-1, *shape)


def _places(
    instruction: Instruction, role: str, descriptors: Array, shape: tuple[int, int], mn_major: bool
) -> tuple[Array, int]:
    """Addresses (warpgroups, elements) of a tile's elements, and the bytes of one; b1 comes in words of 32."""
    bits = instruction.types[role].container
    size = max(bits // 8, 1) if bits > 1 else 4
    where = addresses(descriptors.reshape(-1), np.arange(shape[0]), np.arange(shape[1]), size, mn_major)
    return where.reshape(len(where), -1), size


FAMILY = Family.of(
    "wgmma",
    SECTION,
    Spelling(
        "wgmma.mma_async[.{sp}].sync.aligned.{shape}[.{satfinite}].{dtype}.{atype}.{btype}[.{op}.popc]",
        vocabulary(ROWS),
    ),
    ROWS,
    _instruction,
    execute,
    marks=frozenset({"mma_async"}),
    matrices=True,
    memories=frozenset({"shared"}),
    operands="d = d a b_descriptor [e f] scale_d [scales? imm_scale_a imm_scale_b] [trans? imm_trans_b]",
    about="D = A B + D by a warpgroup of 128 lanes, B (and A) in shared memory",
)
