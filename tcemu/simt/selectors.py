"""What video instructions say of operands: the halves or bytes that take part, and signs (PTX ISA 9.1, 9.7.18)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tcemu import alu
from tcemu.assembly import Instruction, Minus, Operand, Parts
from tcemu.errors import counted
from tcemu.simt.errors import Unsupported

#: The selectors of scalar video instructions.
_PART = re.compile(r"h[01]|b[0-3]")


def selected(instruction: Instruction, row: alu.Ordinary) -> tuple[Sequence[Operand], alu.Ordinary]:
    """The operands of an instruction without selectors and signs, and its row with them."""
    if not row.parts or not any(isinstance(each, Parts | Minus) for each in instruction.operands):
        return instruction.operands, row
    return (_scalar if row.parts == 1 else _simd)(instruction.operands, row)


def _scalar(operands: Sequence[Operand], row: alu.Ordinary) -> tuple[Sequence[Operand], alu.Ordinary]:
    """A selector names one part; the product of a and b, or c, may be negated."""
    signs = [isinstance(each, Minus) for each in operands]
    bare = [each.of if isinstance(each, Minus) else each for each in operands]
    product, last = signs[1] != signs[2], any(signs[3:])
    if any(signs) and (row.extra != "minus" or signs[0] or (last and any(signs[:3]))):
        sign = next(each for each in operands if isinstance(each, Minus))
        raise Unsupported(f"{sign}: only vmad without .po takes minus signs, either before a and b or before c")
    for each in bare:
        if isinstance(each, Parts) and not _PART.fullmatch(each.selector):
            raise Unsupported(f"{each}: a selector is .h0 or .h1, or one of .b0 to .b3")
    if isinstance(bare[0], Parts) and row.extra != "merge":
        raise Unsupported(f"{bare[0]} needs an operand c, for the rest of it, and no secondary operation")
    selectors = tuple(each.selector if isinstance(each, Parts) else "" for each in bare[:3])
    registers = [each.register if isinstance(each, Parts) else each for each in bare[:3]]
    signed = {"minus": (product, last)} if any(signs) else {}
    return [*registers, *bare[3:]], replace(row, meaning=partial(row.meaning, selectors=selectors, **signed))


def _simd(operands: Sequence[Operand], row: alu.Ordinary) -> tuple[Sequence[Operand], alu.Ordinary]:
    """Each selector names as many parts as the instruction has."""
    parts = row.parts
    made = _numbers(operands[0], range(parts), parts)
    if list(made) != sorted(set(made)):
        raise Unsupported(f"{operands[0]}: a result has each part once, and the highest first")
    taken = []
    for operand, usual in zip(operands[1:3], (range(parts), range(parts, 2 * parts)), strict=True):
        taken.append(_numbers(operand, usual, 2 * parts))
        if len(taken[-1]) != parts:
            has = counted(len(taken[-1]), "part")
            raise Unsupported(f"{operand} selects {has}; {row.opcode} takes {parts} of this operand")
    registers = [each.register if isinstance(each, Parts) else each for each in operands[:3]]
    return [*registers, *operands[3:]], replace(row, meaning=partial(row.meaning, selectors=(made, *taken)))


def _numbers(operand: Operand, usual: Sequence[int], limit: int) -> Sequence[int]:
    """The parts that an operand's selector names, the lowest first; the usual ones if it has no selector."""
    if not isinstance(operand, Parts):
        return usual
    letter, digits = operand.selector[0], operand.selector[1:]
    numbers = [int(each) for each in reversed(digits)]
    own, name = ("h", "halves") if len(usual) == 2 else ("b", "bytes")
    if letter != own or max(numbers) >= limit:
        raise Unsupported(f"{operand}: this operand has the {name} .{own}0 to .{own}{limit - 1}")
    return numbers
