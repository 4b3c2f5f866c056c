"""The smallest input for which two answers still differ: one warp, then one output, then as many zeros as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcemu.instructions.instruction import Instruction
from tcemu.live.cases import Case
from tcemu.live.compare import Comparison, judge
from tcemu.live.form import words
from tcemu.live.inputs import Array

Answer = Callable[[Case], Array]


@dataclass(frozen=True)
class Failing:
    """A case of one warp whose answers differ, and how."""

    case: Case
    comparison: Comparison
    #: Whether the warp differs alone; where not, the case is what it was.
    alone: bool = True

    def __str__(self) -> str:
        if not self.alone:
            why = "it takes its neighbours, or comes and goes"
            return f"{self.comparison}\nNo warp of {self.case.key} differs alone: {why}."
        lines = [str(self.comparison), f"smallest input found ({self.case.key}):"]
        lines += [f"  {line}" for line in _inputs(self.case)]
        return "\n".join(lines)


def minimise(case: Case, one: Answer, other: Answer, gpu: str, target: str) -> Failing | None:
    """The smallest part of `case` for which `one` and `other` differ; None where they agree."""

    def compared(some: Case) -> tuple[Array, Array]:
        return one(some), other(some)

    found, expected = compared(case)
    wrong = np.argwhere(found != expected)
    if not len(wrong):
        return None
    small = case.only(int(wrong[0][0]))
    found, expected = compared(small)
    different = np.argwhere(found != expected)
    if not len(different):  # it takes its neighbours, or comes and goes
        return Failing(case, judge(case.instruction, *compared(case), gpu, target), alone=False)
    place = tuple(different[0])

    def fails(some: Case) -> bool:
        here, there = compared(some)
        return bool(here[place] != there[place])

    small = _zeroed(small, fails)
    found, expected = compared(small)
    keep = np.zeros(found.shape, bool)
    keep[place] = True
    return Failing(small, judge(small.instruction, found, np.where(keep, expected, found), gpu, target))


def _zeroed(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The case with every element zero that can be: first halves, then quarters, down to single ones."""
    units = list(_units(case))
    size = len(units)
    while size:
        for start in range(0, len(units), size):
            tried = _without(case, units[start : start + size])
            if fails(tried):
                case, units[start : start + size] = tried, [None] * len(units[start : start + size])
        units = [unit for unit in units if unit is not None]
        size = min(size // 2, max(len(units), 0)) if units else 0
    return case


#: (operand, register, bits of the element); operand -1 is memory, whose registers are bytes.
Unit = tuple[int, int, int]


def _units(case: Case) -> Iterator[Unit | None]:
    """Every element that is not zero, of operands that may hold zeros."""
    for index, word in _matrices(case.instruction):
        container = case.instruction.fragments[word].container
        flat = case.operands[index].reshape(-1)
        for element in range(container.elements):
            mask = ((1 << container.width) - 1) << element * container.width
            for register in np.flatnonzero(flat & flat.dtype.type(mask)):
                yield index, int(register), mask
    if case.bytes is not None:
        for byte in np.flatnonzero(case.bytes.reshape(-1)):
            yield -1, int(byte), 0xFF


def _matrices(instruction: Instruction) -> list[tuple[int, str]]:
    """Places of the operands that are matrices; zeros as metadata or scales would mean something else."""
    _, sources = words(instruction)
    held = [(index, word) for index, word in enumerate(sources) if word in instruction.fragments]
    return [(index, word) for index, word in held if word in instruction.types or not instruction.types]


def _without(case: Case, units: list[Any]) -> Case:
    """The case with these elements zero."""
    operands, bytes_ = list(case.operands), case.bytes
    for index in {unit[0] for unit in units if unit}:
        array = (bytes_ if index < 0 else operands[index]).copy()  # type: ignore[union-attr]
        flat = array.reshape(-1)
        for unit in units:
            if unit and unit[0] == index:
                flat[unit[1]] &= flat.dtype.type(~unit[2] & (1 << 8 * flat.itemsize) - 1)
        if index < 0:
            bytes_ = array
        else:
            operands[index] = array
    return replace(case, operands=tuple(operands), bytes=bytes_)


def _inputs(case: Case) -> Iterator[str]:
    """What is left, element by element; everything else is zero."""
    matrices = dict(_matrices(case.instruction))
    _, sources = words(case.instruction)
    for index, (word, operand) in enumerate(zip(sources, case.operands, strict=True)):
        if index not in matrices:
            told = " ".join(f"{int(value):#x}" for value in np.ravel(operand)) if np.ndim(operand) else str(operand)
            yield f"{word}: {told}"
            continue
        fragment = case.instruction.fragments[word]
        patterns = fragment.unpack_patterns(operand)[0]
        kept = np.argwhere(patterns != 0)
        for position in kept[:64]:
            pattern = patterns[tuple(position)]
            value = fragment.format.decode(np.array([pattern]))[0].item()
            yield f"{word}[{', '.join(map(str, position))}] = {value!r} ({int(pattern):#x})"
        if len(kept) > 64:
            yield f"{word}: and {len(kept) - 64} more elements that are not zero"
        if not len(kept):
            yield f"{word}: zeros"
    if case.bytes is not None:
        yield f"{case.space}: {int(np.count_nonzero(case.bytes))} bytes that are not zero"
