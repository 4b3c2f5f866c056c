"""CTA pairs: two blocks of a cluster whose ranks differ in the last bit, for .cta_group::2 (PTX ISA 9.1, 9.7.16.5).

The block with the even rank is the leader; one of its threads issues what both execute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcemu.errors import AddressError
from tcemu.instructions import Instruction
from tcemu.machine.events import By

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core


def follows_pair(instruction: Instruction) -> bool:
    """Whether an instruction is about both blocks of a pair."""
    return instruction.words.get("cta_group") == "cta_group::2"


def peer_of(core: Core, by: By, instruction: Instruction) -> Block:
    """The other block of the pair. Ends the launch if there is none, or if it has exited."""
    rank = core.block.rank ^ 1
    if rank < len(core.block.cluster.blocks):
        return core.block.cluster.block(core, by, instruction, rank)
    message = (
        f"{instruction} needs a pair of blocks, those of a cluster whose ranks differ in the last bit; the block with "
        f"rank {core.block.rank} has no peer in a cluster of {core.block.shape.ranks}. Launch with cluster=2 (PTX ISA "
        f"{instruction.section})"
    )
    return core.fault(by, instruction, "tensor", AddressError(message, "pair", "tensor"))


def blocks_of(core: Core, by: By, instruction: Instruction) -> list[Block]:
    """The blocks whose memories an instruction uses: the own one, or leader and follower of a pair.

    Ends the launch if a follower issues what only the leader may.
    """
    if not follows_pair(instruction):
        return [core.block]
    peer = peer_of(core, by, instruction)
    if core.block.rank % 2:
        message = (
            f"{instruction}: a thread of the leader, the block with the even rank, issues it for both blocks of the "
            f"pair; the rank of block {core.block.number} is {core.block.rank} (PTX ISA {instruction.section})"
        )
        core.fault(by, instruction, "tensor", AddressError(message, "pair", "tensor"))
    return [core.block, peer]
