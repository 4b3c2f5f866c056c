"""What the generations of GPUs compute for one instruction, and how that is known: the arithmetic table, read out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from tcemu.arithmetic import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model
from tcemu.errors import ArithmeticUnknown
from tcemu.instructions import Instruction
from tcemu.instructions.targets import target_named
from tcemu.show.table import Table
from tcemu.show.words import count

_TARGETS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def arithmetic_table(instruction: Instruction, targets: Iterable[str] = _TARGETS) -> Table:
    """One row for each target: what it computes, how that is known, and what was compared."""
    columns = ("target", "computes", "known from", "note")
    return Table(f"Arithmetic of {instruction}", columns, tuple(_row(instruction, name) for name in targets))


def _row(instruction: Instruction, name: str) -> tuple[str, ...]:
    target = target_named(name)
    if not instruction.gate.admits(target):
        return (name, "does not exist there", "", f"needs {instruction.gate.targets}")
    try:
        row = instruction.arithmetic(target)
    except ArithmeticUnknown as unknown:
        return (name, "unknown", "", str(unknown))
    return (name, in_words(row.model, instruction.shape.k), row.known, row.note)


@singledispatch
def in_words(model: Model, depth: int) -> str:
    """What a model does with `depth` products, in one line."""
    raise TypeError(model, depth)


@in_words.register
def _(model: FusedSums, depth: int) -> str:
    sums = model.sums(depth)
    how = f"{count(len(sums), 'fused sum')} of {len(sums[0])} products"
    through = f", operands as {model.through}" if model.through else ""
    addend = "" if model.addend == "first" else ", c added last"
    return f"{how}{through}, {model.fraction} bits kept{addend}"


@in_words.register
def _(model: FmaGroups, depth: int) -> str:
    chains = len(model.groups)
    return f"{count(chains, 'chain')} of {depth // chains} f32 multiply-adds, and c"


@in_words.register
def _(_model: FmaChain, depth: int) -> str:
    return f"a chain of {depth} f64 multiply-adds"


@in_words.register
def _(_model: IntegerDot, depth: int) -> str:
    return f"the exact sum of {depth} products"


@in_words.register
def _(_model: BitDot, depth: int) -> str:
    return f"the number of ones among {depth} bits"
