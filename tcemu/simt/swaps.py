"""Where a loop of atom.cas begins: a load whose value another thread may change, as the loop expects.

An atomic operation that the hardware lacks is a loop: it loads the old value, computes the new one and puts it there
with atom.cas if the old one still is; if not, it tries again with what atom.cas found. CUDA's guide writes it with an
ordinary load (CUDA C++ Programming Guide, Atomic Functions), which PTX calls a data race with the atom.cas of other
threads (PTX ISA, Memory Consistency Model), though ptxas makes the same of it as of ld.relaxed: the loop is right
whatever it loads. It counts as ld.relaxed here; with an ordinary store it is a race all the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple, cast

from tcemu.assembly import Function, Immediate, Instruction, Memory, Operand, Register, Symbol, width

_SPACES = ("global", "shared", "shared::cta")


class _Place(NamedTuple):
    """What an instruction accesses: a register or variable, bytes behind it, and how many bits."""

    base: Operand
    offset: int
    bits: int


def begins_swaps(function: Function) -> Function:
    """The function with ld.relaxed where a loop of atom.cas begins."""
    if not any(_swaps(each) for each in function.body):
        return function
    known = _known(function)
    swaps: dict[_Place, list[Operand]] = {}
    for each in filter(_swaps, function.body):
        swaps.setdefault(_place(each, known), []).append(each.operands[2])
    body = tuple(_relaxed(each) if _begins(each, swaps, known, function) else each for each in function.body)
    return replace(function, body=body)


def _swaps(text: Instruction) -> bool:
    words = text.opcode.split(".")
    return words[0] == "atom" and "cas" in words and len(text.operands) > 2


def _known(function: Function) -> dict[Operand, tuple[Operand, int]]:
    """Registers that always hold an address in another register, or of a variable, and what is added to it."""
    counts = Counter(each.operands[0] for each in function.body if each.operands)
    known: dict[Operand, tuple[Operand, int]] = {}
    for each in function.body:
        head, *rest = each.operands or (None,)
        if not isinstance(head, Register) or counts[head] > 1 or each.guard:
            continue
        if each.opcode.startswith("mov.") and isinstance(rest[0], Symbol):
            known[head] = replace(rest[0], offset=0), rest[0].offset
        elif each.opcode.startswith("add.") and isinstance(rest[0], Register) and isinstance(rest[1], Immediate):
            known[head] = rest[0], rest[1].value
    return known


def _place(text: Instruction, known: dict[Operand, tuple[Operand, int]]) -> _Place:
    memory = cast("Memory", text.operands[1])  # of a load or an atomic operation
    base: Operand = memory.base
    offset = memory.offset
    if isinstance(base, Symbol):
        base, offset = replace(base, offset=0), offset + base.offset
    while base in known:
        base, more = known[base]
        offset += more
    return _Place(base, offset, width(text.opcode.rsplit(".", 1)[-1]))


def _begins(
    text: Instruction,
    swaps: dict[_Place, list[Operand]],
    known: dict[Operand, tuple[Operand, int]],
    function: Function,
) -> bool:
    """Whether it is an ordinary load of what an atom.cas at the same address then compares."""
    words = text.opcode.split(".")
    if words[0] != "ld" or set(words[1:-1]) - set(_SPACES) or not isinstance(text.operands[1], Memory):
        return False
    compared = swaps.get(_place(text, known), [])
    return bool(compared) and not _copies(text.operands[0], function).isdisjoint(compared)


def _copies(loaded: Operand, function: Function) -> set[Operand]:
    """The registers that a loaded value reaches by mov."""
    moves = [each.operands for each in function.body if each.opcode.startswith("mov.")]
    copies = {loaded}
    while more := {to for to, of, *_ in moves if of in copies} - copies:
        copies |= more
    return copies


def _relaxed(text: Instruction) -> Instruction:
    return replace(text, opcode=f"ld.relaxed.gpu{text.opcode.removeprefix('ld')}")
