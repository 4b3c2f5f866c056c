"""What each architecture computes: the table of models, their plain-Python meaning, and whole arrays of them."""

from tcemu.arithmetic.compute import Operation, compute, compute_scaled
from tcemu.arithmetic.matmul import matmul
from tcemu.arithmetic.model import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.arithmetic.reference import FusedSum, Term, dot, fused_sum, fused_sums
from tcemu.arithmetic.registers import FewWarps, InWords, compute_registers, plan_of, scaled_plan
from tcemu.arithmetic.table import ROWS, Row, find

__all__ = [
    "ROWS",
    "BitDot",
    "FewWarps",
    "FmaChain",
    "FmaGroups",
    "FusedSum",
    "FusedSums",
    "InWords",
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
    "plan_of",
    "scaled_plan",
]
