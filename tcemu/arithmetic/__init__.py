"""What each architecture computes: the table of models, their plain-Python meaning, and whole arrays of them."""

from tcemu.arithmetic.compute import compute, compute_scaled
from tcemu.arithmetic.fused import FusedSum, Term, fused_sum
from tcemu.arithmetic.matmul import matmul
from tcemu.arithmetic.model import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.arithmetic.operation import Operation
from tcemu.arithmetic.reference import dot, fused_sums
from tcemu.arithmetic.registers import compute_registers
from tcemu.arithmetic.table import ROWS, Row, find

__all__ = [
    "ROWS",
    "BitDot",
    "FmaChain",
    "FmaGroups",
    "FusedSum",
    "FusedSums",
    "IntegerDot",
    "Model",
    "Operation",
    "Row",
    "ScaledSums",
    "Term",
    "compute",
    "compute_registers",
    "compute_scaled",
    "dot",
    "find",
    "fused_sum",
    "fused_sums",
    "matmul",
]
