"""What each generation of GPUs computes for one instruction, and how that is known, from the arithmetic table."""

from __future__ import annotations

from collections.abc import Iterable

from tcemu.arguments import explained
from tcemu.arithmetic.words import in_words
from tcemu.errors import ArithmeticUnknown, TargetError, briefly
from tcemu.instructions import Instruction, parse
from tcemu.instructions.targets import target_named
from tcemu.show.table import Table

_TARGETS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@explained
def arithmetic_table(instruction: Instruction, targets: Iterable[str] = _TARGETS) -> Table:
    """One row for each target: what it computes, how that is known, and what it was compared with.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> [row[0] for row in tcemu.show.arithmetic_table(mma, ["sm_80", "sm_90a"]).rows]
    ['sm_80', 'sm_90a']
    """
    instruction = parse(instruction)
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise TargetError(f"targets must be a list of names, such as ['sm_80', 'sm_90a']; got {briefly(targets)}")
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
    depth = instruction.facts.stored or instruction.shape.k
    return (name, in_words(row.model, depth), row.known, row.note)
