"""tcgen05.cp: a matrix of shared memory to Tensor Memory (PTX ISA 9.1, 9.7.16.9.2).

Its rows of 16 or 32 bytes lie in shared memory as the descriptor says, in K-major order, and go to lanes of Tensor
Memory. A pair of blocks copies from both shared memories, each to its own Tensor Memory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Area, By, Tcgen05
from tcemu.machine.masks import LANES
from tcemu.machine.pair import blocks_of
from tcemu.machine.tcgen05_operations import Operations
from tcemu.machine.tcgen05_tiles import Tile, descriptor_of, tile_of
from tcemu.machine.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]


class Shape(NamedTuple):
    """Rows of a shape, bytes of each, and the lanes of Tensor Memory that row 0 goes to; its row r, `rows[r]` on."""

    rows: Array
    bytes: int
    copies: tuple[int, ...] = (0,)


_ROWS = np.arange(128, dtype=np.int64)
#: By shape and multicast, as CuTe's copy atoms have it; 4x256b writes one lane of each warp's quarter.
SHAPES = {
    ("128x256b", ""): Shape(_ROWS, 32),
    ("128x128b", ""): Shape(_ROWS, 16),
    ("4x256b", ""): Shape(32 * _ROWS[:4], 32),
    ("64x128b", "warpx2::02_13"): Shape(_ROWS[:64], 16, (0, 64)),
    ("64x128b", "warpx2::01_23"): Shape(_ROWS[:64] % 32 + _ROWS[:64] // 32 * 64, 16, (0, 32)),
    ("32x128b", "warpx4"): Shape(_ROWS[:32], 16, (0, 32, 64, 96)),
}


@executes("tcgen05.cp")
def cp(instruction: Instruction) -> Act:
    """tcgen05.cp: each active lane copies the matrix."""
    words = instruction.words
    shape = SHAPES[words["shape"], words.get("multicast", "")]

    def act(core: Core, taddr: Any, descriptor: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        core.block.state(TensorMemory).grouped(core, by, instruction)
        address = int(core.integers(instruction, "taddr", taddr)[0])
        bits = descriptor_of(instruction, "s_desc", descriptor)
        tile = tile_of("s_desc", bits, len(shape.rows), shape.bytes // 16, 128, mn_major=False)
        blocks = blocks_of(core, by, instruction)
        areas = [_area(core, by, instruction, block, shape, address) for block in blocks]
        for block in blocks:
            check_tile(core, by, instruction, block, tile)
        shared = tuple(("s_desc", block.number, tile.where.ravel(), 16) for block in blocks)
        for lane in LANES[core.active].tolist():
            one = by._replace(active=1 << lane)
            operation = Tcgen05(
                "cp", instruction, one, writes=tuple(areas), shared=shared, descriptors={"s_desc": bits}
            )
            effect = partial(_copy, blocks, shape, tile, address)
            core.block.state(Operations).begin(core, operation, effect)

    return act


def _area(core: Core, by: By, instruction: Instruction, block: Block, shape: Shape, address: int) -> Area:
    """The cells that a block's copy writes."""
    lanes = np.unique(np.add.outer(np.array(shape.copies), shape.rows)) + (address >> 16)
    column = address & 0xFFFF
    area = Area(block.number, lanes, np.arange(column, column + shape.bytes // 4, dtype=np.int64))
    block.state(TensorMemory).check(core, by, instruction, area)
    return area


def _copy(blocks: list[Block], shape: Shape, tile: Tile, address: int) -> None:
    lane, column = address >> 16, address & 0xFFFF
    for block in blocks:
        words = np.ascontiguousarray(tile.read(block.shared.units)).view(np.uint32)
        memory = block.state(TensorMemory)
        for first in shape.copies:
            memory.put(shape.rows + first + lane, slice(column, column + shape.bytes // 4), words)


def check_tile(core: Core, by: By, instruction: Instruction, block: Block, tile: Tile) -> None:
    """End the launch unless a tile lies in shared memory."""
    if tile.end <= block.shape.shared:
        return
    what = f"element of {tile.role}"
    try:
        block.shared.check(instruction, tile.where.ravel(), tile.size, tile.size, what=what)
    except AddressError as error:
        core.fault(by, instruction, "shared", error)
