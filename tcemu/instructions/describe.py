"""The operands of an instruction, described for a learner: what each is, which array holds it, which rules it keeps.

`Instruction.operands` has the records; this module puts them into words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tcemu.errors import counted, listing
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.matrix_move import SOURCES, row_bytes
from tcemu.instructions.memory import SPACES
from tcemu.instructions.mma_sp import pattern_of
from tcemu.instructions.operand import Operand
from tcemu.layouts import Fragment


@dataclass(frozen=True)
class Description:
    """One operand in words. `example` is a Python expression for it, empty for a destination."""

    name: str
    #: "in", "out", or "optional" for one that may be left out.
    direction: str
    #: What it is: "16 x 16 f16", "byte addresses".
    what: str
    #: Registers of a lane; None where it is no register.
    registers: int | None
    #: Elements that share one of them.
    sharing: int | None
    #: The array that tcemu.run takes or returns: "uint32 (..., 32, 4)".
    array: str
    #: Rules that it keeps, each a sentence or two.
    rules: tuple[str, ...]
    example: str


def describe(instruction: Instruction) -> tuple[Description, ...]:
    """The operands in PTX's order, the destination first."""
    out = tuple(_register(instruction, each.role, "out") for each in instruction.operands if each.written)
    return out + tuple(_source(instruction, each) for each in instruction.sources if not _with_descriptor(each))


def memory(instruction: Instruction, family: Family) -> str:
    """The argument of tcemu.run that holds the bytes which the instruction touches; empty for one that touches none."""
    usable = [name for name in SPACES[instruction.words.get("ss", "")] if name in family.memories]
    return usable[-1] if usable else ""


def _with_descriptor(operand: Operand) -> bool:
    """Whether it follows only where A has a descriptor: the rule of the operand behind it says so."""
    return operand.kind == "immediate" and operand.optional


def _source(instruction: Instruction, operand: Operand) -> Description:
    if operand.role in _OTHERS and (operand.fragment is None or operand.kind != "registers"):
        return _OTHERS[operand.role](instruction)
    if operand.fragment is not None:
        return _register(instruction, operand.role, "in")
    return _plain(operand)


# ---------------------------------------------------------------------------------------------------- registers


def _register(instruction: Instruction, role: str, direction: str) -> Description:
    if role not in instruction.fragments:
        operand = next(each for each in instruction.operands if each.role == role)
        return replace(_plain(operand), direction=direction)
    fragment = instruction.fragments[role]
    *front, rows, columns = fragment.shape
    size = "".join(f"{number} of " for number in front if number > 1) + f"{rows} x {columns}"
    lanes, registers, dtype = fragment.lanes, fragment.registers, fragment.container.register_dtype
    example = f"np.zeros(({lanes}, {registers}), np.{dtype})" if direction == "in" else ""
    array = f"{dtype} (..., {lanes}, {registers})"
    what = f"{size} {fragment.type}"
    return Description(role, direction, what, registers, fragment.elements_per_register, array, (), example)


#: What a role without a description of its own is, by its kind.
_KINDS = {
    "value": "a value of each lane",
    "address": "byte addresses",
    "pointer": "byte address",
    "tensor map": "a tensor map",
    "coordinates": "coordinates of a box, innermost first",
    "predicate": "predicate",
    "immediate": "immediate",
    "membermask": "the lanes that execute it, one bit each",
}


def _plain(operand: Operand) -> Description:
    """An operand of an instruction that belongs in a kernel."""
    direction = "optional" if operand.optional else "in"
    registers = operand.registers or None
    array = f"uint{operand.bits} (32, {registers})" if registers else ""
    return Description(operand.role, direction, _KINDS.get(operand.kind, ""), registers, None, array, (), "")


def _metadata(instruction: Instruction) -> Description:
    pattern, fragment = pattern_of(instruction), instruction.fragments["e"]
    codes = ", ".join(f"{code:04b} = {' '.join(map(str, places))}" for code, places in sorted(pattern.places.items()))
    rule = (
        f"e is the metadata of A's sparsity ({pattern.name}): of every {pattern.chunk} neighbours in a row of A "
        f"{pattern.stored} are stored, and four bits of e say which: {codes}. Nothing else is legal."
    )
    code = min(pattern.places)
    example = f"np.full({fragment.lanes}, 0x{8 * f'{code:x}'}, np.uint32)"
    sharing = fragment.elements_per_register
    return Description("e", "in", "metadata", 1, sharing, f"uint32 (..., {fragment.lanes})", (rule,), example)


def _selector(instruction: Instruction) -> Description:
    fragment = instruction.fragments["e"]
    count = fragment.shape[0]
    rule = f"f, the sparsity selector, says which lanes' metadata counts: {_choice(fragment, 'f')}."
    return Description("f", "in", f"selector, {_range(count)}", None, None, "int", (rule,), "0")


def _scale(role: str) -> Callable[[Instruction], Description]:
    def scale(instruction: Instruction) -> Description:
        count, of = instruction.facts.scales, "a row of A" if role == "scale_a" else "a column of B"
        each = instruction.shape.k // count
        scales = f"{counted(count, 'scale')}, one for each {each} of k"
        rule = f"{role}: {of} has {scales}, a byte each in one lane's register."
        example = f"np.full(32, {_ONE[instruction.words['stype']]}, np.uint32)"
        what = f"scales, {instruction.words['stype']}"
        return Description(role, "in", what, 1, 4, "uint32 (..., 32)", (rule,), example)

    return scale


#: Four scales of 1.
_ONE = {"ue8m0": "0x7f7f7f7f", "ue4m3": "0x38383838"}


def _pick(role: str) -> Callable[[Instruction], Description]:
    def pick(instruction: Instruction) -> Description:
        fragment = instruction.fragments[role]
        count = instruction.facts.scales
        rule = (
            f"The pair after {role} is (byte_id, thread_id). The scales stand from byte byte_id of the register on, "
            f"{listing(range(0, 4, count))}, and in the lanes that thread_id picks: {_choice(fragment, 'thread_id')}."
        )
        return Description("pair", "in", "(byte_id, thread_id)", None, None, "(int, int)", (rule,), "(0, 0)")

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


def _addresses(instruction: Instruction) -> Description:
    fragment = next(iter(instruction.fragments.values()))
    matrices, rows = fragment.shape[:2]
    needed = matrices * rows
    others = ""
    if instruction.facts.all_lanes:
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
    return Description("addresses", "in", "byte addresses", None, None, "int (..., 32)", tuple(rules), example)


def _pointer(instruction: Instruction) -> Description:
    fragment, line = _matrix(instruction), "row" if instruction.words["layout"] == "row" else "column"
    size = fragment.registers * fragment.container.register_bits // 8
    own = _extent(instruction)[0] * fragment.container.width // 8
    starts = f"It is a multiple of {size} bytes, the size of a lane's fragment, and so are the starts of all {line}s."
    if own < size:
        starts = f"It is a multiple of {size} bytes, the size of a lane's fragment; the other {line}s, of {own} bytes."
    rule = f"The pointer is where {line} 0 starts, the same for all lanes; {line} i starts i strides behind. {starts}"
    return Description("pointer", "in", "byte address", None, None, "int (...)", (rule,), "0")


def _stride(instruction: Instruction) -> Description:
    length, _, _ = _extent(instruction)
    rule = f"The stride counts elements, at least {length}, which it is if you leave it out."
    return Description("stride", "optional", "elements", None, None, "int (...)", (rule,), str(length))


def _descriptor(instruction: Instruction) -> Description:
    _, n, k = instruction.shape
    rule = (
        "The descriptor says where in shared memory the tile of B lies: its start, the two byte offsets between its "
        "parts, and the swizzle. A may be given by one too, instead of by registers."
    )
    what = f"descriptor of {k} x {n} {instruction.types['b'].name}"
    return Description("b", "in", what, None, None, "uint64 (...)", (rule,), "np.uint64(0)")


def _immediate(name: str, array: str, example: str, rule: str) -> Callable[[Instruction], Description]:
    what = "immediate" if array == "int" else "predicate"
    return lambda _: Description(name, "in", what, None, None, array, (rule,), example)


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


_OTHERS: dict[str, Callable[[Instruction], Description]] = {
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
    "b": _descriptor,
    "scale_d": _immediate("scale_d", "bool (...)", "True", "With scale_d false, D is not added: sums start from 0."),
    "imm_scale_a": _immediate("imm_scale_a", "int", "1", "imm_scale_a is 1, or -1 to negate A."),
    "imm_scale_b": _immediate("imm_scale_b", "int", "1", "imm_scale_b is 1, or -1 to negate B."),
    "imm_trans_b": _immediate(
        "imm_trans_b", "int", "0", "imm_trans_b is 0 for a K-major tile, 1 for an MN-major one; imm_trans_a stands "
        "before it where A has a descriptor."
    ),
}
