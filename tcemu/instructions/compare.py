"""How two instructions differ: in gates, types, registers, layouts element by element, and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcemu.arithmetic.words import in_words
from tcemu.errors import ArithmeticUnknown
from tcemu.instructions.explain import default_target, depth
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import parse
from tcemu.instructions.targets import target_named
from tcemu.layouts import Fragment


@dataclass(frozen=True)
class Fact:
    """One property of both, in words; empty if one lacks it."""

    what: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """Whether the two differ in it."""
        return self.first != self.second


@dataclass(frozen=True)
class Moved:
    """An element that is in different places: every (lane, register, element) that holds it in each of the two."""

    role: str
    position: tuple[int, ...]
    first: tuple[tuple[int, int, int], ...]
    second: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Differences:
    """Two instructions side by side."""

    opcodes: tuple[str, str]
    targets: tuple[str, str]
    facts: tuple[Fact, ...]
    #: For each role that both have: the elements that both matrices have, and those of them in different places.
    common: dict[str, int]
    moved: tuple[Moved, ...]


def compare(one: str | Instruction, other: str | Instruction, target: str | None = None) -> Differences:
    """The differences between two instructions on `target`, by default on each one's default target.

    Raises what tcemu.parse raises: IllegalInstruction and TargetError.
    """
    instructions = [parse(each) for each in (one, other)]
    names = [default_target(each.gate) if target is None else str(target_named(target)) for each in instructions]
    first, second = (parse(each, name) for each, name in zip(instructions, names, strict=True))
    facts, common, moved = _facts(first, second, names), {}, []
    for role in first.fragments:
        if role in second.fragments:
            common[role], places = _moved(first.fragments[role], second.fragments[role])
            moved += places
    return Differences((first.opcode, second.opcode), (names[0], names[1]), tuple(facts), common, tuple(moved))


def _facts(first: Instruction, second: Instruction, names: list[str]) -> list[Fact]:
    both = first, second
    columns = [
        ("family", [each.family for each in both]),
        ("shape", [str(each.shape) for each in both]),
        ("needs PTX", [each.gate.ptx for each in both]),
        ("needs target", [each.gate.targets for each in both]),
        ("PTX section", [each.section for each in both]),
    ]
    slots = dict.fromkeys([*first.words, *second.words])
    compared = {"shape", *(f"{role}type" for role in "abcd")}
    columns += [(f".{slot}", [each.words.get(slot, "") for each in both]) for slot in slots if slot not in compared]
    for role in dict.fromkeys([*first.fragments, *second.fragments]):
        columns.append((f"{role}: matrix", [_matrix(each, role) for each in both]))
        columns.append((f"{role}: registers", [_registers(each, role) for each in both]))
        columns.append((f"{role}: layout", [_pattern(each, role) for each in both]))
    columns.append(("arithmetic", [_arithmetic(each, name) for each, name in zip(both, names, strict=True)]))
    return [Fact(what, values[0], values[1]) for what, values in columns if any(values)]


def _matrix(instruction: Instruction, role: str) -> str:
    if role not in instruction.fragments:
        return ""
    fragment = instruction.fragments[role]
    return " x ".join(map(str, fragment.shape)) + f" {fragment.type}"


def _registers(instruction: Instruction, role: str) -> str:
    if role not in instruction.fragments:
        return ""
    fragment = instruction.fragments[role]
    sharing = fragment.elements_per_register
    return f"{fragment.registers} of {sharing} element{'' if sharing == 1 else 's'}"


def _pattern(instruction: Instruction, role: str) -> str:
    return str(instruction.fragments[role].layout) if role in instruction.fragments else ""


def _arithmetic(instruction: Instruction, target: str) -> str:
    if "a" not in instruction.types or "b" not in instruction.types:
        return ""
    try:
        row = instruction.arithmetic(target_named(target))
    except ArithmeticUnknown:
        return "unknown"
    return f"{in_words(row.model, depth(instruction))} ({row.known})"


def _moved(one: Fragment, other: Fragment) -> tuple[int, list[Moved]]:
    """How many elements both matrices have, and those whose holders differ."""
    if len(one.shape) != len(other.shape):
        return 0, []
    shape = tuple(min(sizes) for sizes in zip(one.shape, other.shape, strict=True))
    moved = []
    for position in np.ndindex(*shape):
        first, second = one.holders(*position), other.holders(*position)
        if first != second:
            moved.append(Moved(one.role, position, tuple(first), tuple(second)))
    return int(np.prod(shape)), moved
