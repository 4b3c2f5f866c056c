"""What there is: the instructions that a target and a PTX version have, one by one and summed up in tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcemu.errors import IllegalInstruction, did_you_mean, listing, shown
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.table import FAMILIES
from tcemu.instructions.targets import ptx_version, target_named

#: The slots whose words name what is moved, where there are no operand types.
_MOVED = ("type", "dst_fmt", "src_fmt")


@dataclass(frozen=True)
class Group:
    """Forms that differ in words which do not matter for an overview: layouts, rounding, state space."""

    family: str
    #: The .kind qualifier, empty for most.
    kind: str
    shapes: tuple[str, ...]
    #: Types of A and B, or of what is moved.
    types: str
    #: Types of C and D, or which matrices.
    into: str
    ptx: str
    forms: int


def catalogue(
    target: str | None = None,
    ptx: str | None = None,
    family: str | None = None,
    type: str | None = None,  # noqa: A002 - the word of the manual and of the command line
    shape: str | None = None,
) -> list[Instruction]:
    """Every instruction that fits what is given, in the order of the tables.

    `type` is that of any operand ("f16", "b16"). Raises TargetError for a target or version that does not exist, and
    IllegalInstruction for a family, type or shape that no instruction has.
    """
    _check("family", family, (each.name for each in FAMILIES))
    _check("type", type, (word for _, instruction in _all() for word in types(instruction)))
    _check("shape", shape, (str(instruction.shape) for _, instruction in _all()))
    chip = None if target is None else target_named(target)
    if ptx is not None:
        ptx_version(ptx)
    return [
        instruction
        for each, instruction in _all()
        if (family is None or each.name == family)
        and (chip is None or instruction.gate.admits(chip))
        and (ptx is None or instruction.gate.admits_ptx(ptx))
        and (type is None or type in types(instruction))
        and (shape is None or str(instruction.shape) == shape)
    ]


def types(instruction: Instruction) -> tuple[str, ...]:
    """The types in an opcode: of D, A, B and C, or of what is moved."""
    return tuple(form.name for form in instruction.types.values()) or _moved(instruction)


def groups(instructions: Iterable[Instruction]) -> list[Group]:
    """The instructions summed up: forms with the same types and PTX version in one line, with all their shapes."""
    cells: dict[tuple[str, ...], list[Instruction]] = {}
    for instruction in instructions:
        cells.setdefault((instruction.family, _kind(instruction), *_pair(instruction)), []).append(instruction)
    lines: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    for key, found in cells.items():
        into = tuple(dict.fromkeys(_into(each) for each in found))
        shapes = tuple(dict.fromkeys(str(each.shape) for each in found))
        lines.setdefault((*key[:2], shapes, into), []).append(key)
    return [_group([cells[key] for key in keys]) for keys in lines.values()]


def _group(cells: list[list[Instruction]]) -> Group:
    found = [instruction for cell in cells for instruction in cell]
    oldest = min((instruction.gate.ptx for instruction in found), key=ptx_version)
    shapes = tuple(dict.fromkeys(str(instruction.shape) for instruction in found))
    into = ", ".join(dict.fromkeys(_into(instruction) for instruction in found))
    told = _types([_pair(cell[0]) for cell in cells])
    return Group(found[0].family, _kind(found[0]), shapes, told, into, oldest, len(found))


def _types(pairs: list[tuple[str, str]]) -> str:
    """f16, or "e4m3, e5m2" for any two of several."""
    left, right = ({pair[side] for pair in pairs} for side in (0, 1))
    names = ", ".join(dict.fromkeys(name for pair in pairs for name in pair if name))
    if len(pairs) == 1 and left != right:
        return " x ".join(name for name in pairs[0] if name)
    if all(first == second or not second for first, second in pairs):
        return names
    return f"any two of {names}" if len(pairs) == len(left) * len(right) else f"{len(pairs)} pairs of {names}"


def _pair(instruction: Instruction) -> tuple[str, str]:
    """The types of A and B, or the type that is moved."""
    if {"a", "b"} <= set(instruction.types):
        return instruction.types["a"].name, instruction.types["b"].name
    return ".".join(types(instruction)), ""


def _kind(instruction: Instruction) -> str:
    return instruction.words.get("kind", "")


def _into(instruction: Instruction) -> str:
    """The type of D, with that of C where it differs; or which matrix."""
    if {"c", "d"} <= set(instruction.types):
        d, c = instruction.types["d"].name, instruction.types["c"].name
        return d if c == d else f"{d} (C {c})"
    return instruction.words.get("matrix") or instruction.words.get("num", "")


def _moved(instruction: Instruction) -> tuple[str, ...]:
    return tuple(instruction.words[slot] for slot in _MOVED if slot in instruction.words)


def _all() -> Iterable[tuple[Family, Instruction]]:
    return ((family, instruction) for family in FAMILIES for _, instruction in family.variants)


def _check(what: str, given: str | None, accepted: Iterable[str]) -> None:
    if given is None:
        return
    words = [word for word in dict.fromkeys(accepted) if word]
    if given not in words:
        hint = f"{did_you_mean(given, words)} There are {listing(words, 'and')}."
        raise IllegalInstruction(f"no instruction has the {what} {shown(given)}.{hint}")
