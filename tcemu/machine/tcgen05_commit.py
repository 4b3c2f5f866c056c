"""tcgen05.commit and the fences of tcgen05 (PTX ISA 9.1, 9.7.16.11 and 9.7.16.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tcemu.errors import AddressError
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Tcgen05Arrived, Tcgen05Commit, Tcgen05Committed, Tcgen05Fenced
from tcemu.machine.masks import LANES
from tcemu.machine.mbarrier_operations import mbarriers_of
from tcemu.machine.mbarriers import Mbarriers
from tcemu.machine.pending import Task
from tcemu.machine.tcgen05_operations import Operations
from tcemu.machine.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

#: An mbarrier that gets an arrival: its block, and its address there.
Target = tuple["Block", int]


@executes("tcgen05.commit")
def commit(instruction: Instruction) -> Act:
    """tcgen05.commit (9.7.16.12.1): an mbarrier gets an arrival when the thread's operations so far have ended.

    With .multicast::cluster, each block of `cta_mask` gets one, at the same place of its shared memory.
    """
    group = instruction.words["cta_group"]

    def act(core: Core, mbarrier: Any, cta_mask: Any = None) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        core.block.state(TensorMemory).grouped(core, by, instruction)
        for mbarriers, place, mask in mbarriers_of(core, by, instruction, mbarrier):
            targets = _targets(core, by, instruction, mbarriers, place, cta_mask)
            for lane in LANES.tolist():
                if mask >> lane & 1:
                    _commit(core, by._replace(active=1 << lane), instruction, group, targets)

    return act


def _targets(
    core: Core, by: By, instruction: Instruction, mbarriers: Mbarriers, place: int, cta_mask: Any
) -> list[Target]:
    if cta_mask is None:
        return [(mbarriers.block, place)]
    ranks, mask = range(core.block.shape.ranks), int(core.integers(instruction, "cta_mask", cta_mask)[0]) & 0xFFFF
    if mask >> len(ranks):
        message = f"{instruction}: the mask {mask:#06x} names blocks that a cluster of {len(ranks)} does not have"
        core.fault(by, instruction, "shared", AddressError(f"{message} (PTX ISA {instruction.section})", "rank"))
    return [(core.block.cluster.block(core, by, instruction, rank), place) for rank in ranks if mask >> rank & 1]


def _commit(core: Core, by: By, instruction: Instruction, group: str, targets: list[Target]) -> None:
    """One thread commits."""
    covered = core.block.state(Operations).commit(core, by.active, group)
    phases = tuple(
        (block.number, place, block.mbarriers.find(core, by, instruction, place).phase) for block, place in targets
    )
    commit = Tcgen05Commit(instruction, by, tuple([each.operation for each in covered]), phases)
    core.tell(Tcgen05Committed, commit)

    def arrive() -> None:
        core.tell(Tcgen05Arrived, commit)
        for block, place in targets:
            if block is not core.block:  # which may meanwhile have exited
                block.cluster.block(core, by, instruction, block.rank)
            block.mbarriers.arrive(core, by, instruction, place, 1, order="relaxed")

    core.block.pending.add(Task(commit, arrive, [each.task for each in covered]))


@executes("tcgen05.fence")
def fence(instruction: Instruction) -> Act:
    """tcgen05.fence (9.7.16.11.1): orders the asynchronous operations of a thread with those of other threads.

    The machine only reports it: what runs in which order does not depend on it here.
    """
    which: Literal["before_thread_sync", "after_thread_sync"]
    which = "before_thread_sync" if "before" in instruction.opcode else "after_thread_sync"

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(Tcgen05Fenced, by, which)

    return act
