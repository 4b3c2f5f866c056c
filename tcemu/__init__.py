"""An executable tensor core: run tensor-core PTX instructions on registers, bit for bit, without a GPU."""

from tcemu.errors import (
    ArithmeticUnknown,
    FormatError,
    IllegalInstruction,
    KernelsUnavailable,
    LayoutError,
    OperandError,
    TargetError,
    TcemuError,
)
from tcemu.instructions import Instruction, matmul, parse, run
from tcemu.machine import wavefronts

__version__ = "0.1.0"

__all__ = [
    "ArithmeticUnknown",
    "FormatError",
    "IllegalInstruction",
    "Instruction",
    "KernelsUnavailable",
    "LayoutError",
    "OperandError",
    "TargetError",
    "TcemuError",
    "matmul",
    "parse",
    "run",
    "wavefronts",
]
