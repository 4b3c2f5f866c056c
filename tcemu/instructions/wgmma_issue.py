"""One wgmma.mma_async of a kernel: checked and decoded when it is issued, computed when it completes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute
from tcemu.arithmetic.plans import InWords
from tcemu.arithmetic.registers import plan_in_words
from tcemu.backend import backend
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_sp import k_of_stored, metadata_registers, selector
from tcemu.instructions.wgmma_operands import Immediates, element_bytes, immediates, one_descriptor
from tcemu.layouts.canonical import Major
from tcemu.layouts.descriptor import Descriptor, addresses

Array = npt.NDArray[Any]


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

    @property
    def tile(self) -> tuple[Descriptor, Major]:
        """The descriptor, and the direction in which its lines run."""
        return Descriptor.decode(self.key[0] + (self.base >> 4)), "MN" if self.key[1] else "K"

    def words(self, shape: tuple[int, int], *, negate: bool) -> InWords:
        """The offsets of the elements from `base`, in C order of a matrix (m, k) or (k, n)."""
        matrix = (self.addresses - self.base).reshape(shape)
        inside = (matrix.T if self.role == "b" else matrix).ravel()
        return InWords(inside // 4, inside % 4 * 8, negate)


@dataclass(frozen=True)
class Issue:
    """One mma_async of a kernel, checked and decoded once; `result` computes it when it completes."""

    instruction: Instruction
    last: Immediates
    a: Read | None
    b: Read
    stored_k: Array | None = None
    chosen: int = 0

    def with_metadata(self, metadata: Array, chosen: Any) -> Issue:
        """The same with the metadata registers (128,) and the selector of a sparse A. Raises OperandError."""
        picked = selector(self.instruction, chosen)
        held = metadata_registers(self.instruction, metadata).reshape(1, -1)
        return replace(self, stored_k=k_of_stored(self.instruction, held, picked), chosen=picked)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The tiles that it reads from shared memory."""
        return (self.b,) if self.a is None else (self.a, self.b)

    @cached_property
    def reported_reads(self) -> tuple[tuple[str, Array, int], ...]:
        """The same in the form that observers receive: role, addresses, bytes of an element."""
        return tuple((read.role, read.addresses, read.size) for read in self.reads)

    @cached_property
    def tiles(self) -> tuple[tuple[Descriptor, Major], ...]:
        """The descriptor of each of them, and the direction in which its lines run."""
        return tuple(read.tile for read in self.reads)

    @cached_property
    def adds(self) -> bool:
        """Whether D is read; it is not if scale_d is false."""
        return bool(self.last.scale_d)

    def result(
        self, operation: Operation, d: Array, a: Array | None, memory: Mapping[int, Array], metadata: Array | None
    ) -> Array:
        """The new D (128, n), from the registers and shared memory as they are now.

        `memory` has shared memory as elements of 1, 2 and 4 bytes.
        """
        plan = self.plan(operation) if metadata is None and self.stored_k is None else None
        if plan is not None:
            return self.by_plan(plan, d, a, memory[4])
        if self.a is not None:
            a = memory[self.a.size][self.a.index]
        elif a is not None:
            a = self.instruction.fragments["a"].read(a.reshape(1, -1), words=operation.packed)
        b = memory[self.b.size][self.b.index][None]
        stored_k = self.stored_k
        if metadata is not None:
            held = metadata_registers(self.instruction, metadata).reshape(1, -1)
            stored_k = k_of_stored(self.instruction, held, self.chosen)
        scale_d = self.last.scale_d.reshape(1)
        out = multiply(self.instruction, operation, self.last, np.asarray(a), b, d.reshape(1, -1), scale_d, stored_k)
        return out.reshape(d.shape)

    def plan(self, operation: Operation) -> Any:
        """How the kernels compute it in one pass, from registers and shared memory to registers; None: they do not."""
        for latest, plan in self._latest:
            if latest is operation:
                return plan
        if backend(prod(self.instruction.shape)) != "numba":
            return None
        last, plans = self.last, self.instruction.plans
        signs = last.negate_a, last.negate_b
        key = operation, self.a.key if self.a else None, self.b.key, signs
        plan = plans.get(key, plans)
        if plan is plans:
            if len(plans) >= _PLANS:
                plans.clear()
            plan = plans[key] = self._make_plan(operation)
        self._latest[:] = [(operation, plan)]
        return plan

    @cached_property
    def _latest(self) -> list[tuple[Operation, Any]]:
        """The latest operation with its plan: a kernel issues the same mma_async again and again."""
        return []

    def _make_plan(self, operation: Operation) -> Any:
        (m, n, k), fragments, last = self.instruction.shape, self.instruction.fragments, self.last
        if operation.packed or self.instruction.sparse:
            return None
        a = (
            self.a.words((m, k), negate=last.negate_a)
            if self.a
            else InWords(*fragments["a"].bits_of_elements, last.negate_a)
        )
        b = self.b.words((n, k), negate=last.negate_b)
        return plan_in_words(operation, a, b, fragments["d"], fragments["d"])

    def by_plan(self, plan: Any, d: Array, a: Array | None, words: Array) -> Array:
        """The new D (128, n); `words` is shared memory as words of 32 bits."""
        left = words[self.a.base // 4 :] if self.a is not None else np.ascontiguousarray(a).reshape(-1)
        sums = np.ascontiguousarray(d) if self.adds else np.zeros(d.shape, d.dtype)
        result = plan(left[None], words[self.b.base // 4 :][None], sums.reshape(1, -1))
        return np.asarray(result.reshape(d.shape))


def in_words(memory: Array) -> Array:
    """The bytes as words of 32 bits; a copy if they are not aligned as words."""
    if memory.size % 4 == 0:
        words = memory.view(np.uint32)
        if words.flags.aligned:
            return words
    return np.append(memory, np.zeros(-memory.size % 4, np.uint8)).view(np.uint32)


#: Up to this many plans and decoded mma_asyncs are kept for an instruction: those of all stages of a few kernels.
_PLANS, _ISSUES = 32, 256


@cache
def issues_of(instruction: Instruction) -> Callable[[bool, tuple[Any, ...]], Issue]:
    """A function that checks and decodes the operands of an mma_async that have one value for the warpgroup.

    They are in PTX's order, without metadata and its selector; whether A has a descriptor comes first. It remembers
    what it has decoded, because a pipeline issues the same mma_asyncs again and again. It raises OperandError.
    """
    remembered = lru_cache(maxsize=_ISSUES)(partial(_issue, instruction))

    def issue(described: bool, shared: tuple[Any, ...]) -> Issue:
        typed = tuple(zip(map(type, shared), shared, strict=True))  # with the types, True is not mistaken for 1
        try:
            return remembered(described, typed)
        except TypeError:  # an unhashable value is not an immediate
            return _issue(instruction, described, typed)

    return issue


def _issue(instruction: Instruction, described: bool, typed: tuple[tuple[type, Any], ...]) -> Issue:
    shared = [value for _, value in typed]
    descriptors, rest = shared[: 1 + described], shared[1 + described :]
    last = immediates(instruction, rest, described)
    b = _read_tile(instruction, "b", one_descriptor(instruction, "b", descriptors[-1]), last.mn_major_b)
    if not described:
        return Issue(instruction, last, None, b)
    a = _read_tile(instruction, "a", one_descriptor(instruction, "a", descriptors[0]), last.mn_major_a)
    return Issue(instruction, last, a, b)


@lru_cache(maxsize=4096)
def _read_tile(instruction: Instruction, role: str, descriptor: int, mn_major: bool) -> Read:
    """Where the elements of a tile are: cached, because a pipeline reads the same stages again and again."""
    m, n, k = instruction.shape
    words = 32 if instruction.types["a"].container == 1 else 1
    rows, depth = (n, k // words) if role == "b" else (m, (instruction.facts.stored or k) // words)
    size = element_bytes(instruction, role)
    along, deep = (np.arange(extent, dtype=np.int64) for extent in (rows, depth))
    where = addresses(np.array([descriptor], np.uint64), along, deep, size, mn_major)
    flat = where.reshape(-1)
    index = (flat // size).reshape(rows, depth)
    order = np.ascontiguousarray(index.T if role == "b" else index)
    base = (descriptor & _START) << 4 & -_PERIOD
    if flat.min() < base:  # the address space wraps
        base = 0
    return Read(role, flat, size, order, int(flat.max()) + size, (descriptor - (base >> 4), mn_major), base)


#: The start address in a descriptor, in units of 16 bytes, and how often a swizzle repeats.
_START, _PERIOD = 0x3FFF, 1024


# ---------------------------------------------------------------------------------------------------- the product


def multiply(
    instruction: Instruction,
    operation: Operation,
    last: Immediates,
    a: Array,
    b: Array,
    d: Array,
    scale_d: Array,
    stored_k: Array | None,
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
    out = compute(operation, a, b, c, stored_k)

    # WRITE: by layout
    return fragment.write(out.reshape(-1, m * n))
