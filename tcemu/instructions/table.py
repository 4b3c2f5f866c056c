"""THE TABLE: every family of instructions, and the family that an instruction belongs to."""

from __future__ import annotations

from tcemu.instructions import (
    atomic,
    barrier,
    cluster,
    control,
    copies,
    exchange,
    fence,
    launch_control,
    load_store,
    matrix_move,
    mbarrier,
    mma,
    mma_block_scale,
    mma_sp,
    ordering,
    tcgen05,
    tcgen05_mma,
    wgmma,
    wmma,
)
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction

#: Families with the same mnemonic are listed from general to special: the last one that claims an opcode has it. Those
#: whose `execute` is None belong in a kernel, where the machine executes them.
FAMILIES: tuple[Family, ...] = (
    mma.FAMILY,
    mma_sp.FAMILY,
    mma_block_scale.FAMILY,
    wmma.LOAD,
    wmma.STORE,
    wmma.MMA,
    matrix_move.LOAD,
    matrix_move.STORE,
    matrix_move.MOVE,
    wgmma.FAMILY,
    *load_store.FAMILIES,
    *atomic.FAMILIES,
    *exchange.FAMILIES,
    *barrier.FAMILIES,
    *fence.FAMILIES,
    *mbarrier.FAMILIES,
    *copies.FAMILIES,
    *control.FAMILIES,
    *cluster.FAMILIES,
    *launch_control.FAMILIES,
    ordering.FENCE,
    ordering.COMMIT,
    ordering.WAIT,
    ordering.PROXY,
    *tcgen05.FAMILIES,
    *tcgen05_mma.FAMILIES,
)
_BY_NAME = {family.name: family for family in FAMILIES}


def family_of(instruction: Instruction) -> Family:
    """The family that an instruction belongs to."""
    return _BY_NAME[instruction.family]
