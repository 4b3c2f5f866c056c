"""The operands of an instruction, described for a learner: what each is, which array holds it, and its rules.

`Instruction.operands` has the records; this module puts them into words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tcemu.errors import counted, listing
from tcemu.instructions.elements import elements_of, space_of
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
    #: What it holds: "16 x 16 f16", "byte addresses".
    what: str
    #: Registers per lane; None if it is not in registers.
    registers: int | None
    #: Elements that share a register.
    sharing: int | None
    #: The array that tcemu.run takes or returns: "uint32 (..., 32, 4)".
    array: str
    #: Its rules, each a sentence or two.
    rules: tuple[str, ...]
    example: str


def describe(instruction: Instruction) -> tuple[Description, ...]:
    """The operands in PTX's order, the destination first."""
    out = tuple(_register(instruction, each.role, "out") for each in instruction.operands if each.written)
    return out + tuple(_source(instruction, each) for each in instruction.sources if not _with_descriptor(each))


def memory(instruction: Instruction, family: Family) -> str:
    """The argument of tcemu.run with the bytes that the instruction accesses; empty if it accesses none."""
    usable = [name for name in SPACES[instruction.words.get("ss", "")] if name in family.memories]
    return usable[-1] if usable else ""


#: Kinds of operands that _plain describes whatever their role: elsewhere, b is a descriptor.
_VALUES = ("value",)


def _with_descriptor(operand: Operand) -> bool:
    """Whether it is present only if A is a descriptor; the rule of the next operand says so."""
    return operand.kind == "immediate" and operand.optional and not operand.about


def _source(instruction: Instruction, operand: Operand) -> Description:
    if operand.about:
        return _plain(instruction, operand)
    if operand.kind != "registers" and operand.role in _OTHERS and operand.kind not in _VALUES:
        return _OTHERS[operand.role](instruction)
    if operand.fragment is not None:
        return _register(instruction, operand.role, "in")
    return _plain(instruction, operand)


# ---------------------------------------------------------------------------------------------------- registers


def _register(instruction: Instruction, role: str, direction: str) -> Description:
    if role not in instruction.fragments:
        operand = next(each for each in instruction.operands if each.role == role)
        return replace(_plain(instruction, operand), direction=direction)
    fragment = instruction.fragments[role]
    *front, rows, columns = fragment.shape
    size = "".join(f"{number} of " for number in front if number > 1) + f"{rows} x {columns}"
    lanes, registers, dtype = fragment.lanes, fragment.registers, fragment.container.register_dtype
    example = f"np.zeros(({lanes}, {registers}), np.{dtype})" if direction == "in" else ""
    array = f"{dtype} (..., {lanes}, {registers})"
    what = f"{size} {fragment.type}"
    return Description(role, direction, what, registers, fragment.elements_per_register, array, (), example)


#: What an operand is that is not a fragment: by its role, otherwise by its kind. {type} is what a lane moves.
_ROLES = {
    "a": "the value that a lane gives, {type}",
    "address": "byte address of each lane, {where}",
    "b": "{type} of each lane",
    "barrier": "number of the barrier, 0 to 15",
    "byte_mask": "which bytes of 16 are copied, one bit each",
    "c": "{type} of each lane, stored where b is found",
    "cache_policy": "how caches treat the line, from createpolicy",
    "cta": "rank of the block in its cluster",
    "cta_mask": "which blocks of the cluster receive it, one bit each",
    "d": "{type} of each lane",
    "destination": "byte address to write to",
    "duration": "nanoseconds",
    "mbarrier": "byte address of the mbarrier",
    "N": "how many groups may still be pending",
    "new_value": "the field's new value",
    "offsets": "offsets of the window",
    "ordinal": "which of several numbers",
    "p": "predicate of each lane",
    "parity": "0 or 1, the phase's parity",
    "predicate": "predicate of each lane",
    "size": "bytes",
    "source": "byte address to read from",
    "src_size": "bytes to read; all if left out",
    "state": "the mbarrier's state, 64 opaque bits",
    "suspend_hint": "longest wait in nanoseconds",
    "threads": "threads to wait for; all if left out",
    "tx_count": "bytes",
}
_KINDS = {
    "value": "a value of each lane",
    "address": "byte address of each lane",
    "pointer": "byte address",
    "tensor map": "tensor map",
    "coordinates": "coordinates of the box, innermost first",
    "predicate": "predicate",
    "immediate": "immediate",
    "membermask": "lanes that take part, one bit each; the active lanes if left out",
}
#: Exceptions: roles that have another meaning in a family.
_COUNTS = {"mbarrier.init": "arrivals of a phase", "setmaxnreg": "registers of a thread"}
_SHUFFLES = {"b": "the source lane, depending on the mode", "c": "segment mask from bit 8 on, bound below"}


def _plain(instruction: Instruction, operand: Operand) -> Description:
    """An operand of an instruction that belongs in a kernel."""
    direction = "optional" if operand.optional else "in"
    count = operand.registers or None
    array = f"uint{max(operand.bits, 32)} (32, {count})" if count else ""
    array = "bool (32,)" if operand.kind == "predicate" else array
    return Description(operand.role, direction, _what(instruction, operand), count, None, array, (), "")


def _what(instruction: Instruction, operand: Operand) -> str:
    if operand.about:
        return operand.about
    if operand.role == "count":
        return _COUNTS.get(instruction.family, "arrivals; 1 if left out")
    if instruction.family == "shfl.sync" and operand.role in _SHUFFLES:
        return _SHUFFLES[operand.role]
    template = _KINDS[operand.kind] if operand.kind == "predicate" else _ROLES.get(operand.role, _KINDS[operand.kind])
    return template.format(type=_moved(instruction), where=_WHERE[space_of(instruction)])


def _moved(instruction: Instruction) -> str:
    """What a lane moves: "4 x s16"."""
    if "type" not in instruction.words or instruction.facts.answers:
        return "a number"
    moved = elements_of(instruction)
    return moved.type if moved.count == 1 else f"{moved.count} x {moved.type}"


_WHERE = {
    "generic": "generic",
    "shared": "in shared memory",
    "shared::cluster": "in the cluster's shared memory",
    "global": "in global memory",
    "local": "in local memory",
    "const": "in constant memory",
    "param": "among the parameters",
}


def _metadata(instruction: Instruction) -> Description:
    pattern, fragment = pattern_of(instruction), instruction.fragments["e"]
    codes = ", ".join(
        f"{code:04b} = {' '.join(map(str, places))}" for code, places in sorted(pattern.positions.items())
    )
    rule = (
        f"e is the metadata of A's sparsity ({pattern.name}): of every {pattern.chunk} neighbours in a row of A, "
        f"{pattern.stored} are stored, and four bits of e say which: {codes}. No other values are legal."
    )
    code = min(pattern.positions)
    example = f"np.full({fragment.lanes}, 0x{8 * f'{code:x}'}, np.uint32)"
    sharing = fragment.elements_per_register
    return Description("e", "in", "metadata", 1, sharing, f"uint32 (..., {fragment.lanes})", (rule,), example)


def _selector(instruction: Instruction) -> Description:
    fragment = instruction.fragments["e"]
    count = fragment.shape[0]
    rule = f"f, the sparsity selector, says which lanes' metadata is used: {_choice(fragment, 'f')}."
    return Description("f", "in", f"selector, {_range(count)}", None, None, "int", (rule,), "0")


def _scale(role: str) -> Callable[[Instruction], Description]:
    def scale(instruction: Instruction) -> Description:
        count, of = instruction.facts.scales, "a row of A" if role == "scale_a" else "a column of B"
        each = instruction.shape.k // count
        scales = f"{counted(count, 'scale')}, one for each {each} of k"
        rule = f"{role}: {of} has {scales}, one byte each in one lane's register."
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
            f"The pair after {role} is (byte_id, thread_id). The scales begin at byte byte_id of the register, "
            f"{listing(range(0, 4, count))}, in the lanes that thread_id selects: {_choice(fragment, 'thread_id')}."
        )
        return Description("pair", "in", "(byte_id, thread_id)", None, None, "(int, int)", (rule,), "(0, 0)")

    return pick


def _choice(fragment: Fragment, name: str) -> str:
    """Which lanes each value of the batch index selects: "those with lane mod 4 = f"."""
    size = fragment.shape[1] * fragment.shape[2]
    places = []
    for number in range(fragment.shape[0]):
        lanes = np.flatnonzero((fragment.layout.gather // size == number).any(axis=1))
        if len(lanes) == fragment.lanes:
            return "all lanes"
        places.append(sorted({int(lane) % 4 for lane in lanes}))
    if places == [[number] for number in range(4)]:
        return f"those with lane mod 4 = {name}"
    parts = [f"with {name} = {number} those with lane mod 4 = {listing(each)}" for number, each in enumerate(places)]
    return ", ".join(parts)


# ---------------------------------------------------------------------------------------------------- memory


def _addresses(instruction: Instruction) -> Description:
    fragment = next(iter(instruction.fragments.values()))
    matrices, rows = fragment.shape[:2]
    needed = matrices * rows
    others = ""
    if instruction.facts.all_lanes:
        others = " Here all 32 lanes must hold valid addresses."
    elif needed < 32:
        others = f" Addresses of lanes {needed} to 31 are ignored."
    where = f"Lane {rows} i + r" if matrices > 1 else "Lane r"
    which = "row r of matrix i" if matrices > 1 else "row r"
    rule = f"{where} gives the address of {which} in shared memory, not of what the lane itself receives.{others}"
    row = row_bytes(instruction)
    rules = [rule, f"A row has {row} bytes and starts at a multiple of {row}."]
    source = SOURCES.get(instruction.words.get("src_fmt", ""))
    if source:
        rest = ", with padding after them" if 2 * source.bits < row else ""
        filled = "its sign" if source.signed else "zeros"
        rules.append(f"It holds 16 elements of {source.bits} bits, the first in the lowest bits{rest}.")
        rules.append(f"Each is filled up to a byte with {filled}.")
    example = f"np.arange(32) * {row}"
    return Description("addresses", "in", "byte addresses", None, None, "int (..., 32)", tuple(rules), example)


def _pointer(instruction: Instruction) -> Description:
    fragment, line = _matrix(instruction), "row" if instruction.words["layout"] == "row" else "column"
    size = fragment.registers * fragment.container.register_bits // 8
    own = _extent(instruction)[0] * fragment.container.width // 8
    starts = f"It is a multiple of {size} bytes, the size of a lane's fragment, and so is the start of every {line}."
    if own < size:
        starts = f"It is a multiple of {size} bytes, the size of a lane's fragment; other {line}s, of {own} bytes."
    rule = f"The pointer is where {line} 0 starts, the same for all lanes; {line} i starts i strides later. {starts}"
    return Description("pointer", "in", "byte address", None, None, "int (...)", (rule,), "0")


def _stride(instruction: Instruction) -> Description:
    length, _, _ = _extent(instruction)
    rule = f"The stride counts elements. It is at least {length}, which is also the default."
    return Description("stride", "optional", "elements", None, None, "int (...)", (rule,), str(length))


def _descriptor(instruction: Instruction) -> Description:
    _, n, k = instruction.shape
    rule = (
        "The descriptor says where the tile of B is in shared memory: its start, the two byte offsets between its "
        "parts, and the swizzle. A may be given by a descriptor too, instead of registers."
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
    "N": _immediate("N", "int", "", "N is an integer of at least 0 and part of the instruction, not a register."),
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
    "scale_d": _immediate("scale_d", "bool (...)", "True", "If scale_d is false, D is not added: sums start from 0."),
    "imm_scale_a": _immediate("imm_scale_a", "int", "1", "imm_scale_a is 1, or -1 to negate A."),
    "imm_scale_b": _immediate("imm_scale_b", "int", "1", "imm_scale_b is 1, or -1 to negate B."),
    "imm_trans_b": _immediate(
        "imm_trans_b",
        "int",
        "0",
        "imm_trans_b is 0 for a K-major tile, 1 for an MN-major one; imm_trans_a precedes it if A has a descriptor.",
    ),
}
