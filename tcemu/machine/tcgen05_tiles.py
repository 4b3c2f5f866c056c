"""Where the operands of a tcgen05.mma are: tiles in shared memory, and matrices in Tensor Memory (PTX ISA 9.1, 9.7.16).

A pair of blocks has half of A's rows and of B's columns in each shared memory, and half of D's rows in each Tensor
Memory, with all of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.layouts.descriptor import Descriptor, addresses
from tcemu.layouts.tensor_memory import tcgen05_descriptor
from tcemu.machine.events import Area
from tcemu.machine.tensor_memory import WHOLE

if TYPE_CHECKING:
    from tcemu.machine.block import Block

Array = npt.NDArray[Any]
#: The bits of a descriptor that hold its start address, and how often a swizzle repeats, in units of 16 bytes.
_START, _PERIOD = 0x3FFF, 64
#: What 16 bytes of shared memory hold where elements are narrower than 8 bits: 16 elements, and then padding.
_CHUNK = 16


@dataclass(frozen=True)
class Tile:
    """Elements (mn, k) of shared memory: their addresses in bytes, and the end of the last."""

    role: str
    size: int
    where: Array
    end: int
    #: bits of an element, and whether it is a row (mn) that 16 bytes belong to, rather than a column
    bits: int
    mn_major: bool

    def read(self, units: Any) -> Array:
        """The patterns (mn, k); `units` is shared memory as elements of each size."""
        found = units[self.size][self.where // self.size]
        if self.bits >= 8:
            return np.asarray(found)
        return _unpadded(found.T, self.bits).T if self.mn_major else _unpadded(found, self.bits)


def _unpadded(found: Array, bits: int) -> Array:
    """Elements of 4 or 6 bits, of which 16 come in 16 bytes, the rest being padding."""
    bytes_ = np.ascontiguousarray(found, np.uint8).reshape(-1, _CHUNK)
    ones = np.unpackbits(bytes_, axis=1, bitorder="little")[:, : _CHUNK * bits].reshape(-1, _CHUNK, bits)
    return np.packbits(ones, axis=2, bitorder="little").reshape(found.shape)


def descriptor_of(instruction: Instruction, role: str, given: Any) -> int:
    """A descriptor as 64 bits, or an address in Tensor Memory, from a number or a Descriptor. Raises OperandError."""
    if isinstance(given, Descriptor):
        return tcgen05_descriptor(given)
    if isinstance(given, int | np.integer) and 0 <= given < 1 << 64:
        return int(given)
    raise OperandError(
        f"{instruction}: {role} must be a descriptor, 64 bits, or a Descriptor; got {briefly(given)} (PTX ISA "
        f"{instruction.section})"
    )


@lru_cache(maxsize=4096)
def tile_of(role: str, descriptor: int, rows: int, depth: int, bits: int, mn_major: bool) -> Tile:
    """The tile that a descriptor describes, `rows` along m or n and `depth` along k."""
    size = max(bits // 8, 1)
    along, deep = (np.arange(extent, dtype=np.int64) for extent in (rows, depth))
    where = addresses(np.array([descriptor], np.uint64), along, deep, size, mn_major)[0]
    return Tile(role, size, where, int(where.max()) + size, bits, mn_major)


class Part(NamedTuple):
    """A part of a matrix in the Tensor Memory of one block: some rows and columns, in some lanes and columns."""

    rank: int
    rows: slice
    columns: slice
    lanes: slice | Array
    #: the column of Tensor Memory, from the operand's address on
    first: int


def accumulator(m: int, n: int, pair: bool) -> tuple[Part, ...]:
    """Where D is, by the layouts of the manual: A and B of a pair, D and F of one block."""
    return _accumulator(m, n, pair)


@lru_cache(maxsize=256)
def _accumulator(m: int, n: int, pair: bool) -> tuple[Part, ...]:
    every = slice(0, n)
    if not pair and m == 64:  # layout F: each warp's quarter has 16 rows
        row = np.arange(64, dtype=np.int64)
        return (Part(0, slice(0, 64), every, row % 16 + row // 16 * 32, 0),)
    if not pair or m == 256:  # D, or A
        rows = slice(0, 128), slice(128, 256)
        return tuple(Part(rank, rows[rank], every, rows[0], 0) for rank in range(1 + pair))
    halves = slice(0, n // 2), slice(n // 2, n)  # B
    return tuple(
        Part(rank, slice(64 * rank, 64 * rank + 64), half, slice(64 * place, 64 * place + 64), 0)
        for rank in range(2)
        for place, half in enumerate(halves)
    )


def area_of(block: Block, part: Part, lane: int, column: int, width: int, role: str, bits: int = WHOLE) -> Area:
    """The cells of a part that takes `width` columns of Tensor Memory."""
    lanes = np.arange(128, dtype=np.int64)[part.lanes] + lane
    columns = np.arange(column + part.first, column + part.first + width, dtype=np.int64)
    return Area(block.number, lanes, columns, role, bits)
