"""A thread-block cluster: its blocks, which see each other's shared memory (PTX ISA 9.1)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from tcemu.errors import AddressError, counted
from tcemu.instructions import Instruction
from tcemu.machine.block import Block, Index3
from tcemu.machine.cluster_barrier import ClusterBarrier
from tcemu.machine.events import By

if TYPE_CHECKING:
    from tcemu.machine.core import Core
    from tcemu.machine.grid import Grid


class Cluster:
    """The blocks of one cluster, by rank. `index` is its position among the clusters of the grid."""

    def __init__(self, grid: Grid, index: Index3) -> None:
        self.index = index
        size = grid.shape.cluster or (1, 1, 1)
        x, y, _ = grid.shape.grid
        self.blocks: list[Block] = []
        for rank, (c, b, a) in enumerate(product(*map(range, reversed(size)))):
            i, j, k = (n * each + at for n, each, at in zip(index, size, (a, b, c), strict=True))
            self.blocks.append(Block(grid, grid.number(i + x * (j + y * k)), (i, j, k), self, rank, (a, b, c)))
        self.barrier = ClusterBarrier(self.blocks)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its blocks, by rank."""
        return tuple(block.number for block in self.blocks)

    def block(self, core: Core, by: By, instruction: Instruction, rank: int) -> Block:
        """The block with a rank. Ends the launch if there is none, or if it has exited."""
        exists = 0 <= rank < len(self.blocks)
        if exists and not self.blocks[rank].gone:
            return self.blocks[rank]
        problem = (
            f"the block with rank {rank} in the cluster has exited, and its shared memory is gone. Make all blocks "
            f"wait at barrier.cluster before the first one exits"
            if exists
            else f"there is no rank {rank} in a cluster of {counted(len(self.blocks), 'block')}"
        )
        error = AddressError(
            f"{instruction}: {problem} (PTX ISA {instruction.section})", "exited" if exists else "rank"
        )
        return core.fault(by, instruction, "shared", error)
