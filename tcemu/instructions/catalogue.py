"""The instructions that a target and a PTX version have, one by one and summarised in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tcemu.errors import IllegalInstruction, briefly, did_you_mean, listing, nearest, shown
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.rows import Rows
from tcemu.instructions.table import FAMILIES
from tcemu.instructions.targets import ptx_version, target_named

#: The slots whose words name what is moved, for instructions without operand types.
_MOVED = ("type", "dst_fmt", "src_fmt")
#: Those that name operand types.
_TYPED = ("atype", "btype", "ctype", "dtype")
#: More words than this are not listed in an error.
_MANY = 80


@dataclass(frozen=True)
class Line:
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
    #: The first of them.
    example: str


def catalogue(
    target: str | None = None,
    ptx: str | None = None,
    family: str | None = None,
    type: str | None = None,  # noqa: A002 - the word of the manual and of the command line
    shape: str | None = None,
) -> list[Instruction]:
    """Every instruction that matches the arguments, in the order of the tables.

    `family` is one of the tables' ("mma", "mma.sp") or a mnemonic, which means all of its families ("wmma"); `type` is
    that of any operand ("f16", "b16"); `shape` is spelt as in PTX or as 16x8x16. Raises TargetError for a target or
    version that does not exist, and IllegalInstruction for a family, type or shape that no instruction has.
    """
    for what, value in (("family", family), ("type", type), ("shape", shape), ("PTX version", ptx)):
        if value is not None and not isinstance(value, str):
            raise IllegalInstruction(f"a {what} must be a string; got {briefly(value)}")
    families = families_named(family)
    _check("type", type, accepted("type"))
    if shape is not None:
        shape = shape_named(shape)
        _check("shape", shape, accepted("shape"))
    chip = None if target is None else target_named(target)
    if ptx is not None:
        ptx_version(ptx)
    return [
        instruction
        for each in families
        for row in each.rows
        if (chip is None or row.gate.admits(chip)) and (ptx is None or row.gate.admits_ptx(ptx))
        if (type is None or _has(row, type)) and (shape is None or _has(row, shape))
        for _, instruction in each.forms(row)
        if (type is None or type in types(instruction)) and (shape is None or str(instruction.shape) == shape)
    ]


def families_named(name: str | None) -> list[Family]:
    """The family of that name, or all with that mnemonic or beginning; all for None. Raises IllegalInstruction."""
    if name is None:
        return list(FAMILIES)
    families = [each for each in FAMILIES if each.name == name] or [each for each in FAMILIES if each.mnemonic == name]
    families = families or [each for each in FAMILIES if any(f"{stem}.".startswith(f"{name}.") for stem in each.stems)]
    if not families:
        _check("family", name, accepted("family"))
    return families


def shape_named(text: str) -> str:
    """m16n8k16 for "16x8x16" and "M16N8K16", m8n8 for "8x8"; anything else stays as it is."""
    sizes = re.fullmatch(r"m?([0-9]+)[xn]([0-9]+)(?:[xk]([0-9]+))?", text.lower())
    return f"m{sizes[1]}n{sizes[2]}{f'k{sizes[3]}' if sizes[3] else ''}" if sizes else text


def accepted(what: str) -> list[str]:
    """Every "family", "type" or "shape" that some instruction has, in the order of the tables."""
    if what == "family":
        return [each.name for each in FAMILIES]
    slots = ("shape",) if what == "shape" else (*_TYPED, *_MOVED)
    return [word for word in dict.fromkeys(_words(*slots)) if word]


def _has(row: Rows, word: str) -> bool:
    """Whether any form of the row has this word; without it, no form has this type or shape."""
    return any(word in words for words in row.alone.values())


def types(instruction: Instruction) -> tuple[str, ...]:
    """The types in an opcode: of D, A, B and C, or of what is moved."""
    return tuple(form.name for form in instruction.types.values()) or _moved(instruction)


def lines(instructions: Iterable[Instruction]) -> list[Line]:
    """The instructions summarised: forms with the same types and PTX version in one line, with all their shapes."""
    cells: dict[tuple[str, ...], list[Instruction]] = {}
    for instruction in instructions:
        cells.setdefault((instruction.family, _kind(instruction), *_pair(instruction)), []).append(instruction)
    alike: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    for key, cell in cells.items():
        into = tuple(dict.fromkeys(_into(each) for each in cell))
        shapes = tuple(dict.fromkeys(str(each.shape) for each in cell))
        alike.setdefault((*key[:2], shapes, into), []).append(key)
    return [_line([cells[key] for key in keys]) for keys in alike.values()]


def _line(cells: list[list[Instruction]]) -> Line:
    instructions = [instruction for cell in cells for instruction in cell]
    oldest = min((instruction.gate.ptx for instruction in instructions), key=ptx_version)
    shapes = tuple(dict.fromkeys(str(instruction.shape) for instruction in instructions))
    into = ", ".join(dict.fromkeys(_into(instruction) for instruction in instructions))
    types = _types([_pair(cell[0]) for cell in cells])
    return Line(
        instructions[0].family,
        _kind(instructions[0]),
        shapes,
        types,
        into,
        oldest,
        len(instructions),
        instructions[0].opcode,
    )


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


def _check(what: str, word: str | None, words: list[str]) -> None:
    if word is not None and word not in words:
        names = words if len(words) <= _MANY else nearest(word[:80], words, 5, cutoff=0)
        such = "There are" if len(words) <= _MANY else f"There are {len(words)}, for example"
        hint = f"{did_you_mean(word, words)} {such} {listing(names, 'and')}."
        raise IllegalInstruction(f"no instruction has the {what} {shown(word)}.{hint}")
