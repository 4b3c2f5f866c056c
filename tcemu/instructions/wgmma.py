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
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute
from tcemu.arithmetic.plans import InWords
from tcemu.arithmetic.registers import plan_in_words
from tcemu.backend import backend
from tcemu.errors import OperandError, briefly, listing
from tcemu.formats import Container, Format, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.memory import Memory
from tcemu.instructions.mma import FP8, SATFINITE
from tcemu.instructions.mma_sp import metadata_registers, selector, stored_places
from tcemu.instructions.multiply import Take, broadcast, container, take
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.sparsity import SPARSITY
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts import wgmma as layouts
from tcemu.layouts.descriptor import Descriptor, addresses

Array = npt.NDArray[Any]

SECTION = "9.7.15.5.2"

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


# ---------------------------------------------------------------------------------------------------- operands


@dataclass(frozen=True)
class _Immediates:
    """The checked scale_d and immediates of an instruction."""

    scale_d: Array
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool


def _immediates(instruction: Instruction, given: Sequence[Any], described: bool) -> _Immediates:
    """Check the operands after b (and metadata), in PTX's order."""
    scales = ["imm_scale_a", "imm_scale_b"] if instruction.facts.negates else []
    trans = (["imm_trans_a"] * described + ["imm_trans_b"]) if instruction.facts.transposes else []
    names = [*scales, *trans]
    if len(given) != 1 + len(names):
        told = listing(["scale_d", *names], "and")
        how = "a descriptor" if described else "registers"
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
    """The checked operands of an mma_async: registers, or descriptors of tiles in shared memory."""

    d: Array
    a: Array
    b: Array
    described: bool
    #: The metadata registers of a sparse A, and the selector.
    metadata: Array | None
    chosen: int
    last: _Immediates

    @classmethod
    def of(cls, instruction: Instruction, given: Sequence[npt.ArrayLike]) -> Operands:
        """Check the operands, in PTX's order. Raises OperandError."""
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


def execute(
    instruction: Instruction, operation: Operation, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]
) -> Array:
    """The new D."""
    found = _at_once(instruction, operation, operands, memories)
    if found is not None:
        return found
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


def _at_once(
    instruction: Instruction, operation: Operation, operands: Sequence[Any], memories: Mapping[str, Any]
) -> Array | None:
    """The new D of one dense mma_async whose operands are as a kernel has them; None where that takes a closer look."""
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
    given = rest[:1] if held else [a, *rest[:1]]
    descriptors = [each.encode() if type(each) is Descriptor else each for each in given]
    if not all(type(each) is int for each in descriptors):
        return None
    issue = Issue.of(instruction, not held, (*descriptors, *rest[1:]))
    plan = issue.plan(operation)
    if plan is None or any(read.end > shared.size for read in issue.reads):
        return None
    return issue.by_plan(plan, d, a if held else None, shared)


def _execute(
    instruction: Instruction,
    operation: Operation,
    memory: Memory,
    given: Operands,
    parts: Mapping[str, Array],
) -> Array:
    """READ registers by layout and shared memory by descriptor; then multiply."""
    m, n, k = instruction.shape
    per = 32 if operation.packed else 1
    which, last = parts["which"] if memory.own else None, given.last
    if given.described:
        a = _tile(instruction, memory, "a", parts["a"], (m, operation.depth // per), last.mn_major_a, which)
    else:
        a = instruction.fragments["a"].read(parts["a"], words=operation.packed)
    b = _tile(instruction, memory, "b", parts["b"], (n, k // per), last.mn_major_b, which)
    b = np.ascontiguousarray(b.reshape(-1, n, k // per).swapaxes(1, 2))
    places = stored_places(instruction, parts["metadata"], given.chosen) if "metadata" in parts else None
    return _multiply(instruction, operation, last, a, b, parts["d"], parts["scale_d"], places)


def _multiply(
    instruction: Instruction,
    operation: Operation,
    last: _Immediates,
    a: Array,
    b: Array,
    d: Array,
    scale_d: Array,
    places: Array | None,
) -> Array:
    """Flat registers of the new D, from patterns of A, of B (warpgroups, k, n), and flat registers of D."""
    fragment, (m, n, _) = instruction.fragments["d"], instruction.shape
    stored = operation.depth // (32 if operation.packed else 1)
    a = a.reshape(-1, m, stored)
    c = fragment.read(d).reshape(-1, m, n)
    if not scale_d.all():
        c = np.where(scale_d[:, None, None], c, c.dtype.type(0))
    if last.negate_a:
        a = a ^ a.dtype.type(instruction.types["a"].sign_bit)
    if last.negate_b:
        b = b ^ b.dtype.type(instruction.types["b"].sign_bit)

    # COMPUTE: by the arithmetic row; each row of a sparse A selects the rows of B that multiply its stored elements
    out = compute(operation, a, b, c, places)

    # WRITE: by layout
    return fragment.write(out.reshape(-1, m * n))


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
    size = _element_bytes(instruction, role)
    where = addresses(descriptors.reshape(-1), np.arange(shape[0]), np.arange(shape[1]), size, mn_major)
    flat = where.reshape(len(where), -1)
    memory.check(flat, size, size, f"element of {role}", "elements are aligned")
    return memory.elements(flat, size, which).reshape(-1, *shape)


def _element_bytes(instruction: Instruction, role: str) -> int:
    """Bytes of an element in shared memory; b1 is in words of 32."""
    bits = instruction.types[role].container
    return max(bits // 8, 1) if bits > 1 else 4


# ---------------------------------------------------------------------------------------------------- in a kernel


@dataclass(frozen=True)
class Read:
    """A tile in shared memory: the bytes that an mma_async reads, one element at each of `addresses` (n,)."""

    role: str
    addresses: Array
    size: int
    #: The index of each element in an array of elements: (m, k) of A, (k, n) of B.
    index: Array
    #: The end of the bytes that it reads. None is before 0, and elements are always aligned.
    end: int
    #: what `addresses` minus `base` depend on: as swizzles repeat every 1,024 bytes, the stages of a pipeline share it
    key: tuple[int, bool]
    base: int

    def words(self, shape: tuple[int, int], *, negate: bool) -> InWords:
        """Where the elements stand, in C order of a matrix (m, k) or (k, n), behind `base`."""
        matrix = (self.addresses - self.base).reshape(shape)
        inside = (matrix.T if self.role == "b" else matrix).ravel()
        return InWords(inside // 4, inside % 4 * 8, negate)


@dataclass(frozen=True)
class Issue:
    """One mma_async of a kernel, checked and decoded once; `result` computes it when it completes."""

    instruction: Instruction
    last: _Immediates
    a: Read | None
    b: Read
    places: Array | None = None
    chosen: int = 0

    @classmethod
    def of(cls, instruction: Instruction, described: bool, shared: tuple[Any, ...]) -> Issue:
        """The operands that are one for the warpgroup, in PTX's order without metadata: A may have a descriptor.

        Raises OperandError.
        """
        descriptors, rest = shared[: 1 + described], shared[1 + described :]
        given = instruction, descriptors, tuple((type(each), each) for each in rest), described
        if all(type(each) is int for each in descriptors):
            try:
                return _issue(*given)
            except TypeError:  # an unhashable value is not an immediate
                pass
        return _issue.__wrapped__(*given)

    def with_metadata(self, metadata: Array, chosen: Any) -> Issue:
        """The same with the metadata registers (128,) and the selector of a sparse A. Raises OperandError."""
        picked = selector(self.instruction, chosen)
        held = metadata_registers(self.instruction, metadata).reshape(1, -1)
        return replace(self, places=stored_places(self.instruction, held, picked), chosen=picked)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The tiles that it reads from shared memory."""
        return (self.b,) if self.a is None else (self.a, self.b)

    @property
    def adds(self) -> bool:
        """Whether D is read; it is not if scale_d is false."""
        return bool(self.last.scale_d)

    def result(self, operation: Operation, d: Array, a: Array | None, memory: Array, metadata: Array | None) -> Array:
        """The new D (128, n), from the registers and the bytes of shared memory as they are now."""
        plan = self.plan(operation) if metadata is None and self.places is None else None
        if plan is not None:
            return self.by_plan(plan, d, a, memory)
        if self.a is not None:
            a = memory.view(f"u{self.a.size}")[self.a.index]
        elif a is not None:
            a = self.instruction.fragments["a"].read(a.reshape(1, -1), words=operation.packed)
        b = memory.view(f"u{self.b.size}")[self.b.index][None]
        places = self.places
        if metadata is not None:
            held = metadata_registers(self.instruction, metadata).reshape(1, -1)
            places = stored_places(self.instruction, held, self.chosen)
        scale_d = self.last.scale_d.reshape(1)
        out = _multiply(self.instruction, operation, self.last, np.asarray(a), b, d.reshape(1, -1), scale_d, places)
        return out.reshape(d.shape)

    def plan(self, operation: Operation) -> Any:
        """How the kernels compute it in one pass, from registers and shared memory to registers; None: they do not."""
        if backend(prod(self.instruction.shape)) != "numba":
            return None
        last, plans = self.last, self.instruction.plans
        signs = last.negate_a, last.negate_b
        key = operation, self.a.key if self.a else None, self.b.key, signs
        found = plans.get(key, plans)
        if found is plans:
            if len(plans) >= _PLANS:
                plans.clear()
            found = plans[key] = self._make_plan(operation)
        return found

    def _make_plan(self, operation: Operation) -> Any:
        (m, n, k), fragments, last = self.instruction.shape, self.instruction.fragments, self.last
        if operation.packed or self.instruction.sparse:
            return None
        a = self.a.words((m, k), negate=last.negate_a) if self.a else InWords(*fragments["a"].places, last.negate_a)
        b = self.b.words((n, k), negate=last.negate_b)
        return plan_in_words(operation, a, b, fragments["d"], fragments["d"])

    def by_plan(self, plan: Any, d: Array, a: Array | None, memory: Array) -> Array:
        """The new D (128, n)."""
        words = _in_words(memory)
        left = words[self.a.base // 4 :] if self.a is not None else np.ascontiguousarray(a).reshape(-1)
        given = np.ascontiguousarray(d) if self.adds else np.zeros(d.shape, d.dtype)
        found = plan(left[None], words[self.b.base // 4 :][None], given.reshape(1, -1))
        return np.asarray(found.reshape(d.shape))


def _in_words(memory: Array) -> Array:
    """The bytes as words of 32 bits; a copy where they do not stand as words do."""
    if memory.size % 4 == 0:
        words = memory.view(np.uint32)
        if words.flags.aligned:
            return words
    return np.append(memory, np.zeros(-memory.size % 4, np.uint8)).view(np.uint32)


#: So many plans are kept for an instruction: those of all stages of a few kernels.
_PLANS = 32


def _fits(fragment: Fragment, registers: Array) -> bool:
    """Whether they are registers of the fragment; if not, Fragment.check says why."""
    return registers.dtype == np.uint32 and registers.shape == (fragment.lanes, fragment.registers)


@lru_cache(maxsize=1024)
def _issue(
    instruction: Instruction, descriptors: tuple[Any, ...], rest: tuple[tuple[type, Any], ...], described: bool
) -> Issue:
    """The mma_async with these descriptors, scale_d and immediates, which a pipeline issues again and again.

    The key includes the types of the latter, so that True is not mistaken for 1.
    """
    last = _immediates(instruction, [value for _, value in rest], described)
    b = _read_tile(instruction, "b", one_descriptor(instruction, "b", descriptors[-1]), last.mn_major_b)
    if not described:
        return Issue(instruction, last, None, b)
    a = _read_tile(instruction, "a", one_descriptor(instruction, "a", descriptors[0]), last.mn_major_a)
    return Issue(instruction, last, a, b)


def one_descriptor(instruction: Instruction, role: str, given: Any) -> int:
    """The 64 bits of one descriptor. Raises OperandError."""
    if isinstance(given, Descriptor):
        return given.encode()
    if type(given) is int and 0 <= given < 1 << 64:
        return given
    return int(_descriptors(instruction, role, given))


@lru_cache(maxsize=4096)
def _read_tile(instruction: Instruction, role: str, descriptor: int, mn_major: bool) -> Read:
    """Where the elements of a tile are: cached, because a pipeline reads the same stages again and again."""
    m, n, k = instruction.shape
    words = 32 if instruction.types["a"].container == 1 else 1
    rows, depth = (n, k // words) if role == "b" else (m, (instruction.facts.stored or k) // words)
    size = _element_bytes(instruction, role)
    where = addresses(np.array([descriptor], np.uint64), np.arange(rows), np.arange(depth), size, mn_major)
    flat = where.reshape(-1)
    index = (flat // size).reshape(rows, depth)
    order = np.ascontiguousarray(index.T if role == "b" else index)
    base = (descriptor & _START) << 4 & -_PERIOD
    if flat.min() < base:  # the address space wraps
        base = 0
    return Read(role, flat, size, order, int(flat.max()) + size, (descriptor - (base >> 4), mn_major), base)


#: The start address in a descriptor, in units of 16 bytes, and how often a swizzle repeats.
_START, _PERIOD = 0x3FFF, 1024


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
    marks=frozenset({"mma_async"}),
    computes=True,
    matrices=True,
    memories=frozenset({"shared"}),
    signature=(
        "d = d a/descriptor b_descriptor [e f] scale_d [negates: imm_scale_a imm_scale_b] "
        "[transposes: imm_trans_a? imm_trans_b]"
    ),
    about="D = A B + D by a warpgroup of 128 lanes, B (and A) in shared memory",
)
