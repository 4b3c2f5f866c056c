"""Cases: an instruction on one class of inputs, complete, so that a GPU or the emulator can answer it.

The operands come from the family's signature. Only wgmma, whose matrices are in shared memory, makes its own cases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.memory import SPACES
from tcemu.instructions.operand import Kind, Operand
from tcemu.instructions.run import run as emulate
from tcemu.instructions.table import family_of
from tcemu.vectors import inputs, warpgroup
from tcemu.vectors.operands import as_given, sources
from tcemu.vectors.patterns import CLASSES, Array


@dataclass(frozen=True)
class Case:
    """One call: its key in a golden file, and what it is given.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> (case,) = tcemu.vectors.cases(mma, "specials", warps=2)
    >>> case.answer(tcemu.vectors.emulator("sm_90a")).shape, case.only(1).warps
    ((2, 32, 4), 1)
    """

    key: str
    instruction: Instruction
    operands: tuple[Any, ...]
    #: The argument that holds the bytes, "shared" or "memory", and the bytes; empty if it accesses none.
    space: str = ""
    bytes: Array | None = None

    def answer(self, run: Callable[..., Any]) -> Array:
        """The answer of `run`: the destination registers, or the bytes after a store. The case does not change."""
        if self.bytes is None:
            return run(self.instruction, *self.operands)  # type: ignore[no-any-return]
        held = self.bytes.copy()
        result = run(self.instruction, *self.operands, **{self.space: held})
        return held if result is None else result

    @property
    def sources(self) -> tuple[Operand, ...]:
        """The operands as records, one for each of `operands`."""
        return as_given(self.instruction, self.operands)

    @property
    def outputs(self) -> int:
        """Number of elements of the matrices in the answer."""
        fragments = self.instruction.fragments
        return self.warps * prod((fragments["d"] if "d" in fragments else next(iter(fragments.values()))).shape)

    @property
    def warps(self) -> int:
        """Number of warps, or of warpgroups for wgmma."""
        return len(self.operands[0])

    def only(self, warp: int) -> Case:
        """The case with only one of its warps."""
        some = slice(warp, warp + 1)
        operands = tuple(value[some] if hasattr(value, "ndim") else value for value in self.operands)
        return replace(self, operands=operands, bytes=None if self.bytes is None else self.bytes[some])


def emulator(target: str) -> Callable[..., Any]:
    """What answers a case as the emulator does on `target`.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> (case,) = tcemu.vectors.cases(mma, "specials", warps=1)
    >>> case.answer(tcemu.vectors.emulator("sm_80")).dtype
    dtype('uint32')
    """
    return lambda instruction, *operands, **memories: emulate(instruction, *operands, target=target, **memories)


def digest(answer: Array) -> str:
    """SHA-256 of an answer as little-endian words in C order: what a golden file keeps of it.

    >>> tcemu.vectors.digest(np.zeros((32, 4), np.uint32))[:8]
    '076a27c7'
    """
    return hashlib.sha256(np.ascontiguousarray(answer).astype(answer.dtype.newbyteorder("<")).tobytes()).hexdigest()


def classes(instruction: Instruction) -> tuple[str, ...]:
    """The classes of inputs that differ for an instruction: what computes with floats has all, the others one.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    >>> tcemu.vectors.classes(mma)  # integers have no special values
    ('bits',)
    """
    floats = "a" in instruction.types and instruction.types["a"].kind == "float"
    return CLASSES if floats and family_of(instruction).computes else ("bits",)


def matrices(instruction: Instruction, kind: str, warps: int, series: str = "golden") -> tuple[Array, Array, Array]:
    """Registers of A, B and C of a product's first case.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> [registers.shape for registers in tcemu.vectors.matrices(mma, "specials", warps=3)]  # of A, B and C
    [(3, 32, 4), (3, 32, 2), (3, 32, 4)]
    """
    a, b, c = next(cases(instruction, kind, warps, series)).operands[:3]
    return a, b, c


def cases(instruction: Instruction, kind: str, warps: int, series: str = "golden") -> Iterator[Case]:
    """The cases of an instruction on inputs of class `kind`, each of `warps` warps, made from the text `series`.

    There is one for each value of an immediate that says whose registers count, and one for each place where a matrix
    may lie.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> (case,) = tcemu.vectors.cases(mma, "specials", warps=2)
    >>> [operand.shape for operand in case.operands]
    [(2, 32, 4), (2, 32, 2), (2, 32, 4)]
    """
    if instruction.family in _OWN:
        for name, operands, bytes_ in _OWN[instruction.family](instruction, kind, warps, series):
            yield Case(f"{instruction}|{kind}|{name}", instruction, operands, "shared", bytes_)
        return
    make = _computing if family_of(instruction).computes else _moving
    yield from make(instruction, kind, warps, series)


#: Families that make their own cases: name, operands and shared memory of each case.
_OWN: Mapping[str, Callable[[Instruction, str, int, str], Iterator[tuple[str, tuple[Any, ...], Array]]]] = {
    "wgmma": warpgroup.cases,
}


# ---------------------------------------------------------------------------------------------------- computing


def _computing(instruction: Instruction, kind: str, warps: int, series: str) -> Iterator[Case]:
    """All values of the immediates that say whose registers are used."""
    operands_read = sources(instruction)
    numbers = [operand for operand in operands_read if operand.in_the_text]
    for chosen in product(*(_CHOICES[operand.kind](instruction, operand) for operand in numbers)):
        number, immediates = _number(chosen), iter(chosen)
        draw = _Draw(instruction, kind, series, number, warps)
        operands = tuple(
            next(immediates) if each.in_the_text else _DRAWN[each.kind](draw, each) for each in operands_read
        )
        named = f"|{number}" if numbers else ""
        yield Case(f"{instruction}|{kind}{named}", instruction, operands)


@dataclass(frozen=True)
class _Draw:
    """What determines the operands of a case."""

    instruction: Instruction
    kind: str
    series: str
    number: str | int
    warps: int

    def matrix(self, operand: Operand) -> Array:
        """Registers of a matrix."""
        series = f"{self.series} {self.number}" if self.number else self.series
        key = f"{series}|{self.instruction}|{self.kind}|{operand.role}"
        return inputs.registers(self.instruction.fragments[operand.role], self.kind, key, self.warps)

    def metadata(self, operand: Operand) -> Array:
        """Registers of metadata."""
        return inputs.metadata(self.instruction, self._key, self.warps)

    def scales(self, operand: Operand) -> Array:
        """Registers of scales."""
        return inputs.scales(self.instruction, self.kind, f"{self._key}|{operand.role}", self.warps)

    @property
    def _key(self) -> str:
        return f"{self.series} {self.number}|{self.instruction}|{self.kind}"


def _number(chosen: tuple[Any, ...]) -> str | int:
    """Immediates in a key: the selector as a number, pairs as their digits."""
    if all(isinstance(each, int) for each in chosen):
        return chosen[0] if chosen else 0
    return " ".join("".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in chosen)


def _selectors(instruction: Instruction, operand: Operand) -> list[int]:
    return list(range(instruction.fragments["e"].shape[0]))


def _positions(instruction: Instruction, operand: Operand) -> list[tuple[int, int]]:
    """Every byte-id with every thread-id."""
    threads = instruction.fragments[operand.role.replace("pick", "scale")].shape[0]
    return [(byte, thread) for byte in range(0, 4, instruction.facts.scales) for thread in range(threads)]


#: Immediates that say whose registers are used, and all their values.
_CHOICES: dict[Kind, Callable[[Instruction, Operand], list[Any]]] = {"immediate": _selectors, "pair": _positions}
#: The values of the other immediates.
_DRAWN: dict[Kind, Callable[[_Draw, Operand], Array]] = {
    "registers": _Draw.matrix,
    "metadata": _Draw.metadata,
    "scale": _Draw.scales,
}


# ---------------------------------------------------------------------------------------------------- moving


def _moving(instruction: Instruction, kind: str, warps: int, series: str) -> Iterator[Case]:
    """A generic address can be in shared or in global memory."""
    key, memories = f"{series}|{instruction}", family_of(instruction).memories
    spaces = [name for name in SPACES[instruction.words.get("ss", "")] if name in memories]
    for space in spaces or [""]:
        operands = tuple(_moved(instruction, operand, key, warps, space) for operand in sources(instruction))
        named = f"|{space}" if len(spaces) > 1 else ""
        bytes_ = inputs.memory(key, warps) if space else None
        yield Case(f"{instruction}|{kind}{named}", instruction, operands, space, bytes_)


#: For a wmma.load from shared memory, an H200 requires more than the manual: it moves lines as ldmatrix does, and
#: faults (misaligned address) if one does not start at a multiple of 16 bytes, whatever the size of the fragment.
_ALIGNED = {"shared": 16}


def _moved(instruction: Instruction, operand: Operand, key: str, warps: int, space: str) -> Array:
    """An operand of a load or store."""
    if operand.fragment is not None:
        return inputs.held(operand.fragment, key, warps)
    if operand.kind == "address":
        return inputs.addresses(key, warps)
    (fragment,) = instruction.fragments.values()
    align = _ALIGNED.get(space, 1)
    if operand.kind == "pointer":
        return inputs.pointer(fragment, key, warps, align)
    return inputs.stride(fragment, instruction.words["layout"], key, warps, align)
