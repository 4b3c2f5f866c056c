"""wgmma.mma_async: D = A B + D by a warpgroup of 128 lanes (PTX ISA 9.1, 9.7.15.5.2), dense and sparse.

    d = tcemu.run(opcode, d, a, b, scale_d, *immediates, shared=bytes)

d is registers (..., 128, n), read and written; the new value is returned. a is registers (..., 128, 4) of uint32 or
descriptors (...) of uint64, b is descriptors. If A is sparse, metadata (..., 128) and the selector follow b. If scale_d
(...) is false, D is not added. Floats take imm_scale_a and imm_scale_b (1 or -1); f16 and bf16 then take imm_trans_a
(if A is a descriptor) and imm_trans_b (0 K-major, 1 MN-major). Here an instruction completes at once; the machine
models what waits for what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation
from tcemu.formats import Container, Format, lookup
from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.lessons import INTEGER_N, PRODUCTS
from tcemu.instructions.memory import Memory
from tcemu.instructions.mma import FP8, SATFINITE
from tcemu.instructions.mma_sp import k_of_stored
from tcemu.instructions.multiply import Take, broadcast, container, take
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.sparsity import SPARSITY
from tcemu.instructions.spelling import Spelling, Words
from tcemu.instructions.wgmma_issue import in_words, issues_of, multiply
from tcemu.instructions.wgmma_operands import SECTION, Operands, element_bytes
from tcemu.layouts import Fragment
from tcemu.layouts import wgmma as layouts
from tcemu.layouts.descriptor import Descriptor, addresses

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------------- the table

_EVERY_8 = tuple(range(8, 257, 8))
#: For integers, n goes in steps of 16 from 32 on.
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))


def _rows(
    ns: Sequence[int], k: int, types: list[str], ptx: str, options: Mapping[str, tuple[str, ...]], **facts: Any
) -> Rows:
    shapes = [f"m64n{n}k{k}" for n in ns]
    return Rows({"shape": shapes, "dtype atype btype": types, **options}, ptx, "sm_90a", Facts(**facts))


_DENSE, _SPARSE = {"sp": ("",)}, {"sp": ("sp",)}
_FLOATS = (
    (16, ["f16 f16 f16", "f32 f16 f16", "f32 bf16 bf16"], "2:4", True),
    (8, ["f32 tf32 tf32"], "1:2", False),
    (32, [f"{d} {a} {b}" for d, a, b in product(("f16", "f32"), FP8.split(), FP8.split())], "2:4", False),
)
_SAME, _MIXED = ["s32 s8 s8", "s32 u8 u8"], ["s32 s8 u8", "s32 u8 s8"]
ROWS = [
    *(_rows(_EVERY_8, k, types, "8.0", _DENSE, negates=True, transposes=trans) for k, types, _, trans in _FLOATS),
    _rows(_INTEGER_N, 32, _SAME, "8.0", {**_DENSE, **SATFINITE}),
    _rows(_INTEGER_N, 32, _MIXED, "8.4", {**_DENSE, **SATFINITE}),
    _rows(_INTEGER_N, 256, ["s32 b1 b1"], "8.0", {**_DENSE, "op": ("and",)}),
    *(
        _rows(_EVERY_8, 2 * k, types, "8.2", _SPARSE, negates=True, transposes=trans, sparsity=kind)
        for k, types, kind, trans in _FLOATS
    ),
    _rows(_INTEGER_N, 64, _SAME, "8.2", {**_SPARSE, **SATFINITE}, sparsity="2:4"),
    _rows(_INTEGER_N, 64, _MIXED, "8.4", {**_SPARSE, **SATFINITE}, sparsity="2:4"),
]


def _instruction(words: Words, rows: Rows, opcode: str) -> Instruction:
    shape = Shape.read(words["shape"])
    types: dict[str, Format] = {role: lookup(words[f"{role}type"]) for role in "dab"}
    facts, stored = rows.facts, shape.k
    if facts.sparsity:
        stored = shape.k // 2
        # the hardware accepts two indices in either order, like mma.sp without ordered metadata
        facts = replace(facts, stored=stored, pattern=SPARSITY[facts.sparsity, "sp"])
    fragments = {"d": _accumulator(shape.n, words["dtype"]), "a": _registers(stored, words["atype"])}
    if facts.sparsity:
        fragments["e"] = _metadata(types["a"].container)
    return Instruction(opcode, "wgmma", SECTION, shape, rows.gate, types | {"c": types["d"]}, fragments, words, facts)


# A thousand forms share few fragments, so these and their cached properties are shared.


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


# ---------------------------------------------------------------------------------------------------- executing one

#: Warpgroups at a time.
_CHUNK = 16


def execute(
    instruction: Instruction, operation: Operation, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]
) -> Array:
    """The new D."""
    result = _at_once(instruction, operation, operands, memories)
    if result is not None:
        return result
    read = Operands.of(instruction, operands)
    d, a, last = read.d, read.a, read.last
    memory = Memory(instruction, memories, generic=("shared",))
    arrays = {"d": d, "a": a, "b": read.b, "scale_d": last.scale_d}
    own = {"d": d.shape[:-2], "a": a.shape if read.described else a.shape[:-2]}
    own |= {"b": read.b.shape, "scale_d": last.scale_d.shape}
    if read.metadata is not None:
        arrays["metadata"], own["metadata"] = read.metadata, read.metadata.shape[:-1]
    arrays["which"], own["which"] = memory.numbers, memory.own
    warpgroups = broadcast(instruction, own)
    takes: dict[str, Take] = {name: take(array, own[name], warpgroups) for name, array in arrays.items()}
    out = np.empty((prod(warpgroups), prod(d.shape[-2:])), d.dtype)
    for start in range(0, len(out), _CHUNK):
        some = slice(start, start + _CHUNK)
        parts = {name: part(some) for name, part in takes.items()}
        out[some] = _execute(instruction, operation, memory, read, parts)
    return out.reshape(*warpgroups, *d.shape[-2:])


def _at_once(
    instruction: Instruction, operation: Operation, operands: Sequence[Any], memories: Mapping[str, Any]
) -> Array | None:
    """The new D of one dense mma_async whose operands are as a kernel has them; None if they need further checks."""
    shared = memories.get("shared")
    if type(shared) is not np.ndarray or shared.dtype != np.uint8 or shared.ndim != 1 or not shared.flags.aligned:
        return None
    if memories.get("memory") is not None or not shared.flags.c_contiguous:
        return None
    if len(operands) < 4 or "e" in instruction.fragments or type(operands[3]) is not bool:
        return None
    d, a, *rest = operands
    if not (type(d) is np.ndarray and _fits(instruction.fragments["d"], d)):
        return None
    held = type(a) is np.ndarray and _fits(instruction.fragments["a"], a)
    matrices = rest[:1] if held else [a, *rest[:1]]
    descriptors = [each.bits if type(each) is Descriptor else each for each in matrices]
    if not all(type(each) is int for each in descriptors):
        return None
    issue = issues_of(instruction)(not held, (*descriptors, *rest[1:]))
    plan = issue.plan(operation)
    if plan is None or any(read.end > shared.size for read in issue.reads):
        return None
    return issue.by_plan(plan, d, a if held else None, in_words(shared))


def _fits(fragment: Fragment, registers: Array) -> bool:
    """Whether they are registers of the fragment; if not, Fragment.check says why."""
    return registers.dtype == np.uint32 and registers.shape == (fragment.lanes, fragment.registers)


def _execute(
    instruction: Instruction,
    operation: Operation,
    memory: Memory,
    read: Operands,
    parts: Mapping[str, Array],
) -> Array:
    """READ registers by layout and shared memory by descriptor; then multiply."""
    m, n, k = instruction.shape
    per = 32 if operation.packed else 1
    which, last = parts["which"] if memory.own else None, read.last
    if read.described:
        a = _tile(instruction, memory, "a", parts["a"], (m, operation.depth // per), last.mn_major_a, which)
    else:
        a = instruction.fragments["a"].read(parts["a"], words=operation.packed)
    b = _tile(instruction, memory, "b", parts["b"], (n, k // per), last.mn_major_b, which)
    b = np.ascontiguousarray(b.reshape(-1, n, k // per).swapaxes(1, 2))
    stored_k = k_of_stored(instruction, parts["metadata"], read.chosen) if "metadata" in parts else None
    return multiply(instruction, operation, last, a, b, parts["d"], parts["scale_d"], stored_k)


def _tile(
    instruction: Instruction,
    memory: Memory,
    role: str,
    descriptors: Array,
    shape: tuple[int, int],
    mn_major: bool,
    which: Array | None,
) -> Array:
    """Patterns (warpgroups, mn, k) of a tile in shared memory; b1 is in words of 32."""
    size = element_bytes(instruction, role)
    mn, k = (np.arange(extent, dtype=np.int64) for extent in shape)
    where = addresses(descriptors.reshape(-1), mn, k, size, mn_major)
    flat = where.reshape(len(where), -1)
    memory.check(flat, size, size, f"element of {role}", "elements are aligned")
    return memory.elements(flat, size, which).reshape(-1, *shape)


FAMILY = Family(
    "wgmma",
    SECTION,
    Spelling(
        "wgmma.mma_async[.{sp}].sync.aligned.{shape}[.{satfinite}].{dtype}.{atype}.{btype}[.{op}.popc]",
        vocabulary(ROWS),
    ),
    tuple(ROWS),
    _instruction,
    execute,
    (*PRODUCTS, *INTEGER_N),
    distinguishing=frozenset({"mma_async"}),
    computes=True,
    matrices=True,
    memories=frozenset({"shared"}),
    signature=(
        "d = d a/descriptor b_descriptor [e f] scale_d [negates: imm_scale_a imm_scale_b] "
        "[transposes: imm_trans_a? imm_trans_b]"
    ),
    about="D = A B + D by a warpgroup of 128 lanes, B (and A) in shared memory",
)
