"""The operands of tcgen05 in memory: tiles in shared memory, and matrices in Tensor Memory (PTX ISA 9.1, 9.7.16).

tcemu.layouts says where the elements are; this module reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, LayoutError, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.tcgen05 import Map
from tcemu.layouts.tcgen05_tiles import Tile, unpadded
from tcemu.layouts.tensor_memory import COLUMNS, LANES, tcgen05_descriptor
from tcemu.machine.events import Area, By
from tcemu.machine.tensor_memory import WHOLE, Index, TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------------- shared memory


@dataclass(frozen=True, eq=False)
class SharedTile:
    """Elements (mn, k) of shared memory: addresses of the units of `size` bytes that have them, and the end."""

    role: str
    where: Array
    size: int
    #: bits of an element: fewer than 8 in one of two ways
    bits: int
    #: whether two elements of 4 bits share a byte; others have 16 elements in 16 bytes, along k or, MN-major, along mn
    shares: bool
    mn_major: bool

    @cached_property
    def end(self) -> int:
        """The byte after the last."""
        return int(self.where.max()) + self.size

    @cached_property
    def _numbers(self) -> Array:
        return self.where // self.size

    def read(self, units: Mapping[int, Array]) -> Array:
        """The patterns (mn, k); `units` is shared memory as elements of each size."""
        elements = units[self.size][self._numbers]
        if self.shares:
            return np.asarray(elements >> (np.arange(elements.shape[1], dtype=np.int64) % 2 * 4).astype(np.uint8) & 15)
        if self.bits >= 8:
            return elements
        lines = elements.T if self.mn_major else elements
        chunks = unpadded(np.ascontiguousarray(lines).reshape(-1, 16), self.bits).reshape(lines.shape)
        return np.ascontiguousarray(chunks.T if self.mn_major else chunks)

    def check(self, core: Core, by: By, instruction: Instruction, block: Block) -> None:
        """End the launch unless the tile lies in a block's shared memory."""
        if self.end <= block.shape.shared:
            return
        what = f"element of {self.role}"
        try:
            block.shared.check(instruction, self.where.ravel(), self.size, self.size, what=what)
        except AddressError as error:
            core.fault(by, instruction, "shared", error)


@lru_cache(maxsize=4096)
def tile_of(
    role: str, descriptor: int, rows: int, depth: int, bits: int, mn_major: bool = False, shares: bool = False
) -> SharedTile:
    """The tile that a descriptor describes: `rows` along m or n, `depth` along k. Raises LayoutError.

    With `shares`, two elements of 4 bits are in one byte. A unit of 128 bits is a row of 16 bytes of tcgen05.cp.
    """
    held = bits if shares else max(bits, 8)
    where = Tile.decode(descriptor).addresses(rows, depth, held, mn_major=mn_major)
    return SharedTile(role, where, max(held // 8, 1), bits, shares, mn_major)


def descriptor_of(instruction: Instruction, role: str, operand: Any) -> int:
    """A descriptor as 64 bits, or an address in Tensor Memory, from a number or a Descriptor. Raises OperandError."""
    if isinstance(operand, Descriptor):
        return tcgen05_descriptor(operand)
    if isinstance(operand, Tile):
        return operand.encode()
    if isinstance(operand, int | np.integer) and not isinstance(operand, bool) and 0 <= operand < 1 << 64:
        return int(operand)
    raise OperandError(
        f"{instruction}: {role} must be a descriptor, 64 bits, or a Descriptor; got {briefly(operand)} (PTX ISA "
        f"{instruction.section})"
    )


def refused(core: Core, by: By, instruction: Instruction, error: LayoutError, idesc: bool) -> Any:
    """End the launch, because of a descriptor that the instruction does not take."""
    kind: Any = "idesc" if idesc else "descriptor"
    core.fault(by, instruction, "tensor", AddressError(f"{instruction}: {error}", kind, "tensor"))


# ---------------------------------------------------------------------------------------------------- Tensor Memory


@dataclass(frozen=True, eq=False)
class Cells:
    """A matrix of Tensor Memory: of each element, the number of its cell and its lowest bit there; and all lanes.

    `index` is what chooses these cells: two slices, which is quicker, if they are a rectangle.
    """

    numbers: Array
    index: Index
    bit: Array | None
    mask: int
    lanes: Array
    columns: Array

    @property
    def bits(self) -> int:
        """The bits of a cell that are used."""
        return WHOLE if self.bit is not None else self.mask

    def area(self, block: Block, role: str) -> Area:
        """The cells, as events have them."""
        return Area(block.number, self.lanes, self.columns, role, self.bits)

    def read(self, memory: TensorMemory) -> Array:
        """The elements as they are now, uint32."""
        words, _ = memory.seen(self.index)
        return words if self.bit is None else np.asarray(words >> self.bit & np.uint32(self.mask))

    def write(self, memory: TensorMemory, words: Array, lanes_kept: Array | None = None) -> None:
        """Write elements, one in each cell, but not to the lanes of a mask, bool (128,)."""
        if lanes_kept is None:
            memory.write(self.index, words, self.mask)
            return
        wanted = ~lanes_kept[self.numbers // COLUMNS]
        memory.write(self.numbers[wanted], words[wanted], self.mask)


@lru_cache(maxsize=1024)
def cells_of(where: Map, address: int, width: int = 32, first_bit: int = 0) -> Cells:
    """A map from an address on. Elements of `width` bits; in D, the lowest of a cell."""
    lanes, columns, bits = where.cells()
    lanes, columns = lanes + (address >> 16), columns + (address & 0xFFFF)
    every = np.unique(np.add.outer(np.array(where.copies), np.unique(lanes)))
    shifts = None if where.width == 32 else (bits + first_bit).astype(np.uint32)
    numbers = np.ascontiguousarray(lanes * COLUMNS + columns)
    return Cells(numbers, _rectangle(lanes, columns) or numbers, shifts, (1 << width) - 1, every, np.unique(columns))


def _rectangle(lanes: Array, columns: Array) -> tuple[slice, slice] | None:
    """Two slices for cells whose rows and columns are neighbours, one after the other; None for others."""
    down, across = (np.arange(size, dtype=np.int64) for size in lanes.shape)
    if (lanes != lanes[0, 0] + down[:, None]).any() or (columns != columns[0, 0] + across).any():
        return None
    lane, column = int(lanes[0, 0]), int(columns[0, 0])
    return slice(lane, lane + len(down)), slice(column, column + len(across))


def check_lane(core: Core, by: By, instruction: Instruction, role: str, address: int, step: int = 32) -> None:
    """End the launch unless the lane of an address is a multiple of `step`."""
    lane = address >> 16
    if lane % step == 0 and lane < LANES:
        return
    message = (
        f"{instruction}: the lane of {role}, bits 31:16 of its address, must be a multiple of {step} below {LANES}; "
        f"got {lane} (PTX ISA {instruction.section})"
    )
    core.fault(by, instruction, "tensor", AddressError(message, "alignment", "tensor"))
