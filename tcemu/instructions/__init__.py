"""The table of instructions, and the code that reads it: parsing, legality, execution, explanation."""

from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.matmul import matmul
from tcemu.instructions.parse import parse
from tcemu.instructions.run import run
from tcemu.instructions.table import FAMILIES
from tcemu.instructions.targets import TARGETS, Gate, Target, target_named

__all__ = ["FAMILIES", "TARGETS", "Gate", "Instruction", "Shape", "Target", "matmul", "parse", "run", "target_named"]
