"""PTX text to modules: functions, instructions, operands, variables, and the source lines they come from."""

from tcemu.assembly.module import Function, Instruction, Line, Module, Prototype, Variable, width
from tcemu.assembly.operands import (
    Arguments,
    Immediate,
    Initial,
    Label,
    Masked,
    Memory,
    Minus,
    Negated,
    Operand,
    Pair,
    Parts,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from tcemu.assembly.parser import parse

__all__ = [
    "Arguments", "Function", "Immediate", "Initial", "Instruction", "Label", "Line", "Masked", "Memory", "Minus",
    "Module", "Negated", "Operand", "Pair", "Parts", "Prototype", "Register", "Sink", "Special", "Symbol", "Variable",
    "Vector", "parse", "width",
]  # fmt: skip
