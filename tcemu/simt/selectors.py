"""Selectors of video instructions: which halves or bytes of the operands take part (PTX ISA 9.1, 9.7.18.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tcemu import alu
from tcemu.assembly import Instruction, Operand, Parts
from tcemu.errors import counted
from tcemu.simt.errors import Unsupported


def selected(instruction: Instruction, row: alu.Ordinary) -> tuple[Sequence[Operand], alu.Ordinary]:
    """The operands of an instruction without their selectors, and its row with them."""
    operands, parts = instruction.operands, row.parts
    if not parts or not any(isinstance(each, Parts) for each in operands[:3]):
        return operands, row
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
