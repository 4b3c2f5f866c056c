"""tcgen05.cp: a matrix of shared memory to Tensor Memory (PTX ISA 9.1, 9.7.16.9.2).

Its rows of 16 or 32 bytes lie in shared memory as the descriptor says, in K-major order, and go to lanes of Tensor
Memory. A pair of blocks copies from both shared memories, each to its own Tensor Memory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu.errors import LayoutError
from tcemu.instructions import Instruction
from tcemu.layouts.tcgen05 import Copied, copied
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Area, By, Tcgen05
from tcemu.machine.masks import LANES
from tcemu.machine.pair import blocks_of
from tcemu.machine.tcgen05_operations import Operations
from tcemu.machine.tcgen05_tiles import SharedTile, check_lane, descriptor_of, refused, tile_of
from tcemu.machine.tensor_memory import WHOLE, TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core


@executes("tcgen05.cp")
def cp(instruction: Instruction) -> Act:
    """tcgen05.cp: each active lane copies the matrix."""
    words = instruction.words
    shape = copied(words["shape"], words.get("multicast", ""))

    def act(core: Core, taddr: Any, descriptor: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        core.block.state(TensorMemory).grouped(core, by, instruction)
        address = int(core.integers(instruction, "taddr", taddr)[0])
        check_lane(core, by, instruction, "taddr", address, 1 if shape.rows == 4 else 128)
        bits = descriptor_of(instruction, "s_desc", descriptor)
        try:
            tile = tile_of("s_desc", bits, shape.rows, shape.bytes // 16, 128)
        except LayoutError as error:
            refused(core, by, instruction, error, idesc=False)
        blocks = blocks_of(core, by, instruction)
        areas = [_area(core, by, instruction, block, shape, address) for block in blocks]
        for block in blocks:
            tile.check(core, by, instruction, block)
        shared = tuple(("s_desc", block.number, tile.where.ravel(), 16) for block in blocks)
        for lane in LANES[core.active].tolist():
            one = by._replace(active=1 << lane)
            operation = Tcgen05(
                "cp", instruction, one, writes=tuple(areas), shared=shared, descriptors={"s_desc": bits}
            )
            effect = partial(_copy, blocks, shape, tile, address)
            core.block.state(Operations).begin(core, operation, effect)

    return act


def _area(core: Core, by: By, instruction: Instruction, block: Block, shape: Copied, address: int) -> Area:
    """The cells that a block's copy writes."""
    lanes = np.unique(shape.lanes) + (address >> 16)
    column = address & 0xFFFF
    area = Area(block.number, lanes, np.arange(column, column + shape.bytes // 4, dtype=np.int64))
    block.state(TensorMemory).check(core, by, instruction, area)
    return area


def _copy(blocks: list[Block], shape: Copied, tile: SharedTile, address: int) -> None:
    lane, column = address >> 16, address & 0xFFFF
    for block in blocks:
        words = np.ascontiguousarray(tile.read(block.shared.units)).view(np.uint32)
        memory = block.state(TensorMemory)
        for lanes in np.array(shape.lanes).T:
            memory.write((lanes + lane, slice(column, column + shape.bytes // 4)), words, WHOLE)
