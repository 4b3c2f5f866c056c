"""The operands of an instruction, told to a learner: what each is, as which array it is given, and the rules it keeps.

A family spells its operands in PTX's order (`Family.operands`); what each of those words means is told here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tcemu.errors import counted, listing
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.matrix_move import SOURCES, row_bytes
from tcemu.instructions.memory import SPACES
from tcemu.layouts import Fragment


@dataclass(frozen=True)
class Operand:
    """One operand, in words. `example` is an expression of Python for it, empty for what comes back."""

    name: str
    #: "in", "out", or "optional" for one that may be left out.
    direction: str
    #: What it is: "16 x 16 f16", "byte addresses".
    what: str
    #: Registers of a lane; None where it is no register.
    registers: int | None
    #: Elements that share one of them.
    sharing: int | None
    #: As what tcemu.run takes or returns it: "uint32 (..., 32, 4)".
    array: str
    #: Rules that it keeps, each a sentence or two.
    rules: tuple[str, ...]
    example: str


def operands(instruction: Instruction, family: Family) -> tuple[Operand, ...]:
    """The operands in PTX's order, the destination first."""
    target = family.operands.format_map(instruction.words).split("=")[0]
    out = tuple(_register(instruction, role, "out") for role in target.split())
    return out + tuple(_source(instruction, word) for word in sources(instruction, family))


def sources(instruction: Instruction, family: Family) -> list[str]:
    """The names of what the instruction reads, in the order of its operands."""
    return _present(instruction, family.operands.format_map(instruction.words).split("=")[1])


def memory(instruction: Instruction, family: Family) -> str:
    """The argument of tcemu.run that holds the bytes which the instruction touches; empty for one that touches none."""
    usable = [name for name in SPACES[instruction.words.get("ss", "")] if name in family.memories]
    return usable[-1] if usable else ""


def _present(instruction: Instruction, sources: str) -> list[str]:
    """The words without those in brackets that the instruction lacks: their fragment, or the fact before a "?"."""

    def group(match: re.Match[str]) -> str:
        fact, question, words = match[1].rpartition("?")
        there = instruction.facts.get(fact) if question else set(words.split()) & set(instruction.fragments)
        return words if there else ""

    return re.sub(r"\[(.*?)\]", group, sources).split()


def _source(instruction: Instruction, word: str) -> Operand:
    if word in _OTHERS:
        return _OTHERS[word](instruction)
    if word in instruction.fragments or not instruction.fragments:
        return _register(instruction, word, "in")
    return Operand(word, "in", "", None, None, "", (), "")  # a family says of it what it can, in its docstring


# ---------------------------------------------------------------------------------------------------- registers


def _register(instruction: Instruction, role: str, direction: str) -> Operand:
    fragment = instruction.fragments[role]
    *front, rows, columns = fragment.shape
    size = "".join(f"{number} of " for number in front if number > 1) + f"{rows} x {columns}"
    lanes, registers, dtype = fragment.lanes, fragment.registers, fragment.container.register_dtype
    example = f"np.zeros(({lanes}, {registers}), np.{dtype})" if direction == "in" else ""
    array = f"{dtype} (..., {lanes}, {registers})"
    what = f"{size} {fragment.type}"
    return Operand(role, direction, what, registers, fragment.elements_per_register, array, (), example)


def _metadata(instruction: Instruction) -> Operand:
    pattern, fragment = instruction.facts["pattern"], instruction.fragments["e"]
    codes = ", ".join(f"{code:04b} = {' '.join(map(str, places))}" for code, places in sorted(pattern.places.items()))
    rule = (
        f"e is the metadata of A's sparsity ({pattern.name}): of every {pattern.chunk} neighbours in a row of A "
        f"{pattern.stored} are stored, and four bits of e say which: {codes}. Nothing else is legal."
    )
    code = min(pattern.places)
    example = f"np.full({fragment.lanes}, 0x{8 * f'{code:x}'}, np.uint32)"
    sharing = fragment.elements_per_register
    return Operand("e", "in", "metadata", 1, sharing, f"uint32 (..., {fragment.lanes})", (rule,), example)


def _selector(instruction: Instruction) -> Operand:
    fragment = instruction.fragments["e"]
    count = fragment.shape[0]
    rule = f"f, the sparsity selector, says which lanes' metadata counts: {_choice(fragment, 'f')}."
    return Operand("f", "in", f"selector, {_range(count)}", None, None, "int", (rule,), "0")


def _scale(role: str) -> Callable[[Instruction], Operand]:
    def scale(instruction: Instruction) -> Operand:
        count, of = instruction.facts["scales"], "a row of A" if role == "scale_a" else "a column of B"
        each = instruction.shape.k // count
        scales = f"{counted(count, 'scale')}, one for each {each} of k"
        rule = f"{role}: {of} has {scales}, a byte each in one lane's register."
        example = f"np.full(32, {_ONE[instruction.words['stype']]}, np.uint32)"
        what = f"scales, {instruction.words['stype']}"
        return Operand(role, "in", what, 1, 4, "uint32 (..., 32)", (rule,), example)

    return scale


#: Four scales of 1.
_ONE = {"ue8m0": "0x7f7f7f7f", "ue4m3": "0x38383838"}


def _pick(role: str) -> Callable[[Instruction], Operand]:
    def pick(instruction: Instruction) -> Operand:
        fragment = instruction.fragments[role]
        count = instruction.facts["scales"]
        rule = (
            f"The pair after {role} is (byte_id, thread_id). The scales stand from byte byte_id of the register on, "
            f"{listing(range(0, 4, count))}, and in the lanes that thread_id picks: {_choice(fragment, 'thread_id')}."
        )
        return Operand("pair", "in", "(byte_id, thread_id)", None, None, "(int, int)", (rule,), "(0, 0)")

    return pick


def _choice(fragment: Fragment, name: str) -> str:
    """Which lanes each value of the number in front picks: "those with lane mod 4 = f"."""
    size = fragment.shape[1] * fragment.shape[2]
    places = []
    for number in range(fragment.shape[0]):
        lanes = np.flatnonzero((fragment.layout.gather // size == number).any(axis=1))
        if len(lanes) == fragment.lanes:
            return "all lanes"
        places.append(sorted({int(lane) % 4 for lane in lanes}))
    if places == [[number] for number in range(4)]:
        return f"those with lane mod 4 = {name}"
    told = [f"with {name} = {number} those with lane mod 4 = {listing(each)}" for number, each in enumerate(places)]
    return ", ".join(told)


# ---------------------------------------------------------------------------------------------------- memory


def _addresses(instruction: Instruction) -> Operand:
    fragment = next(iter(instruction.fragments.values()))
    matrices, rows = fragment.shape[:2]
    needed = matrices * rows
    others = ""
    if instruction.facts.get("all lanes"):
        others = " Here all 32 lanes must hold valid addresses."
    elif needed < 32:
        others = f" Addresses of lanes {needed} to 31 are not looked at."
    where = f"Lane {rows} i + r" if matrices > 1 else "Lane r"
    which = "row r of matrix i" if matrices > 1 else "row r"
    rule = f"{where} gives the address of {which} in shared memory, not of what the lane itself holds.{others}"
    row = row_bytes(instruction)
    rules = [rule, f"A row is {row} bytes and starts at a multiple of {row}."]
    source = SOURCES.get(instruction.words.get("src_fmt", ""))
    if source:
        rest = ", padding behind them" if 2 * source.bits < row else ""
        filled = "its sign" if source.signed else "zeros"
        rules.append(f"It holds 16 elements of {source.bits} bits, the first in the lowest bits{rest}.")
        rules.append(f"Each is filled up to a byte with {filled}.")
    example = f"np.arange(32) * {row}"
    return Operand("addresses", "in", "byte addresses", None, None, "int (..., 32)", tuple(rules), example)


def _pointer(instruction: Instruction) -> Operand:
    fragment, line = _matrix(instruction), "row" if instruction.words["layout"] == "row" else "column"
    size = fragment.registers * fragment.container.register_bits // 8
    own = _extent(instruction)[0] * fragment.container.width // 8
    starts = f"It is a multiple of {size} bytes, the size of a lane's fragment, and so are the starts of all {line}s."
    if own < size:
        starts = f"It is a multiple of {size} bytes, the size of a lane's fragment; the other {line}s, of {own} bytes."
    rule = f"The pointer is where {line} 0 starts, the same for all lanes; {line} i starts i strides behind. {starts}"
    return Operand("pointer", "in", "byte address", None, None, "int (...)", (rule,), "0")


def _stride(instruction: Instruction) -> Operand:
    length, _, _ = _extent(instruction)
    rule = f"The stride counts elements, at least {length}, which it is if you leave it out."
    return Operand("stride", "optional", "elements", None, None, "int (...)", (rule,), str(length))


def _descriptor(instruction: Instruction) -> Operand:
    _, n, k = instruction.shape
    rule = (
        "The descriptor says where in shared memory the tile of B lies: its start, the two byte offsets between its "
        "parts, and the swizzle. A may be given by one too, instead of by registers."
    )
    what = f"descriptor of {k} x {n} {instruction.types['b'].name}"
    return Operand("b", "in", what, None, None, "uint64 (...)", (rule,), "np.uint64(0)")


def _immediate(name: str, array: str, example: str, rule: str) -> Callable[[Instruction], Operand]:
    what = "immediate" if array == "int" else "predicate"
    return lambda _: Operand(name, "in", what, None, None, array, (rule,), example)


def _matrix(instruction: Instruction) -> Fragment:
    return instruction.fragments[instruction.words["matrix"]]


def _extent(instruction: Instruction) -> tuple[int, int, int]:
    """Elements of a line in memory, how many lines, and the bytes of all of them."""
    fragment = _matrix(instruction)
    rows, columns = fragment.shape
    length, lines = (columns, rows) if instruction.words["layout"] == "row" else (rows, columns)
    return length, lines, length * lines * fragment.container.width // 8


def bytes_needed(instruction: Instruction) -> int:
    """Bytes of memory that the example needs."""
    return _extent(instruction)[2] if "layout" in instruction.words else 32 * row_bytes(instruction)


def _range(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"


_OTHERS: dict[str, Callable[[Instruction], Operand]] = {
    "N": _immediate("N", "int", "", "N is an integer from 0 on, part of the instruction and no register."),
    "e": _metadata,
    "f": _selector,
    "scale_a": _scale("scale_a"),
    "pick_a": _pick("scale_a"),
    "scale_b": _scale("scale_b"),
    "pick_b": _pick("scale_b"),
    "addresses": _addresses,
    "pointer": _pointer,
    "stride": _stride,
    "b_descriptor": _descriptor,
    "scale_d": _immediate("scale_d", "bool (...)", "True", "With scale_d false, D is not added: sums start from 0."),
    "imm_scale_a": _immediate("imm_scale_a", "int", "1", "imm_scale_a is 1, or -1 to negate A."),
    "imm_scale_b": _immediate("imm_scale_b", "int", "1", "imm_scale_b is 1, or -1 to negate B."),
    "imm_trans_b": _immediate(
        "imm_trans_b", "int", "0", "imm_trans_b is 0 for a K-major tile, 1 for an MN-major one; imm_trans_a stands "
        "before it where A has a descriptor."
    ),
}
