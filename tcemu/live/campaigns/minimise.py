"""The smallest input for which two answers still differ: one warp, then one output, then as many zeros as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcemu.instructions.operand import Operand
from tcemu.layouts import Fragment
from tcemu.live.runner.compare import Comparison, judge
from tcemu.vectors import Case
from tcemu.vectors.patterns import Array

Answer = Callable[[Case], Array]


@dataclass(frozen=True)
class Failing:
    """A case of one warp whose answers differ, and the difference."""

    case: Case
    comparison: Comparison
    #: Whether a single warp shows the difference; if not, the case is unchanged.
    alone: bool = True

    def __str__(self) -> str:
        if not self.alone:
            why = "the difference needs other warps, or does not occur every time"
            return f"{self.comparison}\nNo warp of {self.case.key} differs alone: {why}."
        lines = [str(self.comparison), f"smallest input found ({self.case.key}):"]
        lines += [f"  {line}" for line in _inputs(self.case)]
        return "\n".join(lines)


def minimise(case: Case, one: Answer, other: Answer, gpu: str, target: str) -> Failing | None:
    """The smallest part of `case` for which `one` and `other` differ; None if they agree."""

    def compared(some: Case) -> tuple[Array, Array]:
        return one(some), other(some)

    answer, expected = compared(case)
    wrong = np.argwhere(answer != expected)
    if not len(wrong):
        return None
    small = case.only(int(wrong[0][0]))
    answer, expected = compared(small)
    different = np.argwhere(answer != expected)
    if not len(different):
        return Failing(case, judge(case.instruction, *compared(case), gpu, target), alone=False)
    place = tuple(different[0])

    def fails(some: Case) -> bool:
        here, other_answer = compared(some)
        return bool(here[place] != other_answer[place])

    small = _zeroed(small, fails)
    answer, expected = compared(small)
    keep = np.zeros(answer.shape, bool)
    keep[place] = True
    return Failing(small, judge(small.instruction, answer, np.where(keep, expected, answer), gpu, target))


def _zeroed(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The case with as many zeros as possible: it tries halves, then quarters, down to single elements."""
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


#: (operand, register, bits of the element); operand -1 is memory, and its registers are bytes.
Unit = tuple[int, int, int]


def _units(case: Case) -> Iterator[Unit | None]:
    """Every nonzero element of the operands that may hold zeros."""
    for index, operand in _matrices(case):
        assert operand.fragment is not None  # noqa: S101 - matrices have one
        container = operand.fragment.container
        flat = case.operands[index].reshape(-1)
        for element in range(container.elements):
            mask = ((1 << container.width) - 1) << element * container.width
            for register in np.flatnonzero(flat & flat.dtype.type(mask)):
                yield index, int(register), mask
    if case.bytes is not None:
        for byte in np.flatnonzero(case.bytes.reshape(-1)):
            yield -1, int(byte), 0xFF


def _matrices(case: Case) -> list[tuple[int, Operand]]:
    """The operands that are matrices, by position; as metadata or scales, zeros would mean something else."""
    return [(index, operand) for index, operand in enumerate(case.sources) if operand.kind == "registers"]


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


#: How many elements or bytes of an operand are shown.
_SHOWN = 64


def _inputs(case: Case) -> Iterator[str]:
    """The remaining elements, one by one; everything else is zero."""
    for operand, value in zip(case.sources, case.operands, strict=True):
        if operand.kind == "registers" and operand.fragment is not None:
            yield from _elements(operand.role, operand.fragment, value)
        else:
            shown = " ".join(f"{int(each):#x}" for each in np.ravel(value)) if np.ndim(value) else str(value)
            yield f"{operand.role}: {shown}"
    if case.bytes is not None:
        lines = [f"{case.space}[{place:#x}] = {case.bytes[0, place]:#04x}" for place in np.flatnonzero(case.bytes[0])]
        yield from _listed(case.space, lines, "bytes")


def _elements(role: str, fragment: Fragment, registers: Array) -> Iterator[str]:
    patterns = fragment.unpack_patterns(registers)[0]
    lines = []
    for position in np.argwhere(patterns != 0):
        pattern = patterns[tuple(position)]
        number = fragment.format.decode(np.array([pattern]))[0].item()
        lines.append(f"{role}[{', '.join(map(str, position))}] = {number!r} ({int(pattern):#x})")
    yield from _listed(role, lines, "elements")


def _listed(role: str, lines: list[str], what: str) -> Iterator[str]:
    """The first lines, and the number of further ones."""
    yield from lines[:_SHOWN] or [f"{role}: zeros"]
    if len(lines) > _SHOWN:
        yield f"{role}: and {len(lines) - _SHOWN} more {what} that are not zero"
