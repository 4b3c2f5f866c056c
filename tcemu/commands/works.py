"""What has to run once so that every kernel is compiled: ``tcemu warm`` performs it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy.typing as npt

import tcemu
from tcemu.errors import ArithmeticUnknown
from tcemu.formats import Format
from tcemu.instructions import FAMILIES, TARGETS, Instruction, Shape, Target
from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.table import family_of
from tcemu.machine import memory
from tcemu.sanitizer import batches, marks
from tcemu.vectors import cases, classes, elements, emulator

#: Warps at a time: one alone, some, and enough that the kernels handle them in another way.
WARPS = (1, 5, 40)
#: Rows, columns and depth of whole matrices, at least: one instruction, and enough to divide the work.
WHOLE = (1, 192)


@dataclass(frozen=True)
class Work:
    """An instruction on a target, which stands for all that the same code computes or moves."""

    opcode: str
    target: str


def works() -> list[Work]:
    """What has to run once to compile everything, according to the tables: each model on each set of dtypes.

    Of the instructions that agree in this, those with the smallest and the largest tile stand for the others.
    """
    alike: dict[Hashable, list[tuple[Instruction, Target]]] = {}
    for family in FAMILIES:
        for instruction in catalogue(family=family.name) if family.execute else ():
            for target in TARGETS.values():
                key = _manner(instruction, target)
                if key is not None:
                    alike.setdefault((family.name, key), []).append((instruction, target))
    ends = (end(same, key=_size) for same in alike.values() for end in (min, max))
    return list(dict.fromkeys(Work(instruction.opcode, str(target)) for instruction, target in ends))


def _size(each: tuple[Instruction, Target]) -> tuple[Shape, int]:
    """The shape and the registers of a lane: ldmatrix's .x1 and .x4 differ in these alone."""
    return each[0].shape, sum(fragment.registers for fragment in each[0].fragments.values())


def _manner(instruction: Instruction, target: Target) -> Hashable | None:
    """What decides which code computes an instruction; None if the target lacks it or its arithmetic is unknown."""
    if not instruction.gate.admits(target):
        return None
    on_target = instruction.on(target)
    if not on_target.knows_fragments:
        return None
    held = tuple((role, str(each.container.storage), each.lanes) for role, each in sorted(on_target.fragments.items()))
    if not family_of(on_target).computes:
        return held
    try:
        operation = on_target.operation(target)
    except ArithmeticUnknown:
        return None
    return held, operation.model, operation.depth, operation.keeps_addend


def perform(work: Work) -> None:
    """Run one work on every class of inputs, the first and the last with several numbers of warps; and on matrices."""
    instruction = tcemu.parse(work.opcode, target=work.target)
    kinds = classes(instruction)
    for kind in kinds:
        for warps in WARPS if kind in (kinds[0], kinds[-1]) else WARPS[:1]:
            for case in islice(cases(instruction, kind, warps, "warm"), 1):
                case.answer(emulator(work.target))
                if case.bytes is not None:  # all warps in one memory, as in a kernel
                    replace(case, bytes=case.bytes[0]).answer(emulator(work.target))
    if family_of(instruction).matrices and not instruction.sparse:
        for least in WHOLE:
            multiply(instruction, work.target, least)


def multiply(instruction: Instruction, target: str, least: int) -> None:
    """Whole matrices through the instruction, in no dimension less than `least`: ordinary numbers, and any bits."""
    m, n, k = (-(-least // size) * size for size in instruction.shape)
    k = instruction.shape.k if instruction.types["c"] != instruction.types["d"] else k
    sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    for kind in ("near", "bits"):
        a, b, c = (_matrix(instruction.types[role], kind, *size) for role, size in sizes.items())
        tcemu.matmul(a, b, c, instruction=instruction, target=target)


def _matrix(form: Format, kind: str, rows: int, columns: int) -> npt.NDArray[Any]:
    patterns = elements(form, kind, "warm", rows * columns).astype(form.storage)
    return form.matrix(patterns.reshape(rows, columns))


def compile_small() -> None:
    """Compile the kernels of the machine and the sanitizer, which no instruction needs."""
    memory.compile_all()
    marks.compile_all()
    batches.compile_all()
