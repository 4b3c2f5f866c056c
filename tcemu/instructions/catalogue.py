"""The instructions that a target and a PTX version have, one by one and summarised in tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcemu.errors import IllegalInstruction, did_you_mean, listing, shown
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.rows import Rows
from tcemu.instructions.table import FAMILIES
from tcemu.instructions.targets import ptx_version, target_named

#: The slots whose words name what is moved, for instructions without operand types.
_MOVED = ("type", "dst_fmt", "src_fmt")
#: Those that name operand types.
_TYPED = ("atype", "btype", "ctype", "dtype")


@dataclass(frozen=True)
class Group:
    """Forms that differ only in words that an overview leaves out: layouts, rounding, state space."""

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
    """Every instruction that matches the arguments, in the order of the tables.

    `type` is that of any operand ("f16", "b16"). Raises TargetError for a target or version that does not exist, and
    IllegalInstruction for a family, type or shape that no instruction has.
    """
    _check("family", family, (each.name for each in FAMILIES))
    _check("type", type, _words(*_TYPED, *_MOVED))
    _check("shape", shape, _words("shape"))
    chip = None if target is None else target_named(target)
    if ptx is not None:
        ptx_version(ptx)
    return [
        instruction
        for each in FAMILIES
        if family is None or each.name == family
        for row in each.rows
        if (chip is None or row.gate.admits(chip)) and (ptx is None or row.gate.admits_ptx(ptx))
        if (type is None or _has(row, type)) and (shape is None or _has(row, shape))
        for _, instruction in each.forms(row)
        if (type is None or type in types(instruction)) and (shape is None or str(instruction.shape) == shape)
    ]


def _has(row: Rows, word: str) -> bool:
    """Whether any form of the row has this word; without it, no form has this type or shape."""
    return any(word in words for words in row.alone.values())


def types(instruction: Instruction) -> tuple[str, ...]:
    """The types in an opcode: of D, A, B and C, or of what is moved."""
    return tuple(form.name for form in instruction.types.values()) or _moved(instruction)


def groups(instructions: Iterable[Instruction]) -> list[Group]:
    """The instructions summarised: forms with the same types and PTX version in one line, with all their shapes."""
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
    """The type of D, with that of C if it differs; or which matrix."""
    if {"c", "d"} <= set(instruction.types):
        d, c = instruction.types["d"].name, instruction.types["c"].name
        return d if c == d else f"{d} (C {c})"
    return instruction.words.get("matrix") or instruction.words.get("num", "")


def _moved(instruction: Instruction) -> tuple[str, ...]:
    return tuple(instruction.words[slot] for slot in _MOVED if slot in instruction.words)


def _words(*slots: str) -> Iterable[str]:
    """The words of these slots in any family."""
    return (word for family in FAMILIES for slot in slots for word in family.spelling.vocabulary.get(slot, ()))


def _check(what: str, given: str | None, accepted: Iterable[str]) -> None:
    if given is None:
        return
    words = [word for word in dict.fromkeys(accepted) if word]
    if given not in words:
        hint = f"{did_you_mean(given, words)} There are {listing(words, 'and')}."
        raise IllegalInstruction(f"no instruction has the {what} {shown(given)}.{hint}")
