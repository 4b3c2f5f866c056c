"""The operands of tcgen05's instructions in PTX text, checked as ptxas does before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from tcemu.assembly import Immediate, Memory, Negated, Operand, Register, Symbol, Vector, width
from tcemu.assembly import Instruction as Text
from tcemu.instructions import Instruction, target_named
from tcemu.instructions.tcgen05_operands import Argument, assigned, check_target


def check(instruction: Instruction, text: Text, registers: Mapping[str, str], target: str) -> None:
    """Raise OperandError or IllegalInstruction for operands that an instruction of tcgen05 does not take there."""
    if instruction.opcode.startswith("tcgen05."):
        check_target(instruction, assigned(instruction, given(text, registers)), target_named(target))


def given(text: Text, registers: Mapping[str, str]) -> list[Argument]:
    """An instruction's operands, described; `registers` has the types of the function's registers."""
    return [_described(each, registers) for each in text.operands]


def _described(operand: Operand, registers: Mapping[str, str]) -> Argument:
    text = str(operand)
    if isinstance(operand, Negated):
        return Argument("predicate", 1, text=text)
    if isinstance(operand, Register):
        kind = registers[operand.name]
        return Argument("predicate" if kind == "pred" else "register", width(kind), kind[0] == "f", text=text)
    if isinstance(operand, Immediate):
        return Argument("number" if operand.kind == "int" else "other", value=operand.value, text=text)
    if isinstance(operand, Memory) and isinstance(operand.base, Symbol):
        return Argument("address", text=text)
    if isinstance(operand, Memory) and isinstance(operand.base, Register) and not operand.coordinates:
        base = _described(operand.base, registers)
        return Argument("address", base.bits, base.floats, text=text)
    if isinstance(operand, Vector):
        parts = [_described(each, registers) for each in operand.items]
        if all(each.form == "register" for each in parts) and len({each.bits for each in parts}) == 1:
            return Argument("vector", parts[0].bits, registers=len(parts), text=text)
    return Argument("other", text=text)
