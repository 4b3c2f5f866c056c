"""Where tcgen05 has its matrices in Tensor Memory: 128 lanes of 512 columns of 32 bits (PTX ISA 9.1, 9.7.16.10).

A map gives lane, column and bit of each element. It is written in digits, least significant first: a digit of a row or
a column has a size, and the lanes, columns and bits that one step of it is worth. Layout F, for example, has

    row     16 x (1 lane), 4 x (32 lanes)           lane = row mod 16 + 32 (row div 16)
    column  N x (1 column)

The manual shows these maps as figures; the digits are CuTe's, whose tables were expanded and compared, every element.
What CuTe lacks is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, LayoutError, listing
from tcemu.layouts.instruction_descriptor import InstructionDescriptor

Array = npt.NDArray[Any]

SECTION = "9.7.16.10.5"


class Digit(NamedTuple):
    """A digit of a row or a column: its size, and what one step of it is worth."""

    size: int
    lanes: int = 0
    columns: int = 0
    bits: int = 0


@dataclass(frozen=True)
class Map:
    """The places of a matrix in one block's Tensor Memory."""

    name: str
    rows: tuple[Digit, ...]
    columns: tuple[Digit, ...]
    #: Bits of an element.
    width: int = 32
    #: Lanes, relative to the first copy, at which each element stands again.
    copies: tuple[int, ...] = (0,)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return _size(self.rows), _size(self.columns)

    def cells(self) -> tuple[Array, Array, Array]:
        """Lane, column and bit of each element's first copy, each (rows, columns).

        >>> from tcemu.layouts.tcgen05 import data_path
        >>> lanes, columns, _ = data_path("F", 64, 8).cells()
        >>> int(lanes[17, 3]), int(columns[17, 3])
        (33, 3)
        """
        return _cells(self)


def _size(digits: tuple[Digit, ...]) -> int:
    size = 1
    for digit in digits:
        size *= digit.size
    return size


@lru_cache(maxsize=256)
def _cells(positions: Map) -> tuple[Array, Array, Array]:
    parts = []
    for worth in ("lanes", "columns", "bits"):
        sides = []
        for digits in (positions.rows, positions.columns):
            left, side = np.arange(_size(digits), dtype=np.int64), np.zeros(_size(digits), np.int64)
            for digit in digits:
                side += left % digit.size * getattr(digit, worth)
                left //= digit.size
            sides.append(side)
        parts.append(sides[0][:, None] + sides[1][None, :])
    lanes, columns, bits = parts
    return lanes, columns, bits


# ---------------------------------------------------------------------------------------------------- D

#: The data path layouts: rows of one block, and into how many groups of lanes the columns of the matrix are cut.
DATA_PATHS = {
    "A": ((Digit(128, 1),), 1),
    "B": ((Digit(64, 1),), 2),
    "D": ((Digit(128, 1),), 1),
    "E": ((Digit(64, 1),), 2),
    "F": ((Digit(16, 1), Digit(4, 32)), 1),
    "G": ((Digit(32, 1),), 4),
}
#: Which layout has D, by M, by the number of blocks ("ws" for .ws).
_OF_M = {
    (256, 2): "A", (128, 2): "B", (128, 1): "D", (64, 1): "F", (128, "ws"): "D", (64, "ws"): "E", (32, "ws"): "G",
}  # fmt: skip


def layout_of(m: int, cta_group: int = 1, *, ws: bool = False, sparse: bool = False) -> str:
    """The letter of the data path layout: "D" for M = 128 of one block.

    Raises ArithmeticUnknown for layout C, which is a figure of the manual only, and LayoutError for an M that does not
    exist.
    """
    if (m, cta_group, sparse) == (128, 2, True):
        raise ArithmeticUnknown("layout C (M = 128, two blocks, sparse A) is only a figure of the manual: not executed")
    letter = _OF_M.get((m, "ws" if ws else cta_group))
    if letter is None:
        how = ".ws" if ws else f".cta_group::{cta_group}"
        raise LayoutError(f"no layout has M = {m} with {how} (PTX ISA {SECTION})")
    return letter


def data_path(letter: str, rows: int, n: int) -> Map:
    """The map of D for a layout, in one block: `rows` of it and all `n` columns; f16 is in the low half of a column."""
    if letter not in DATA_PATHS:
        raise LayoutError(f"the layouts are {listing(DATA_PATHS, 'and')}; got {letter!r} (PTX ISA {SECTION})")
    digits, groups = DATA_PATHS[letter]
    if rows != _size(digits):
        raise LayoutError(f"layout {letter} has {_size(digits)} rows in a block; got {rows} (PTX ISA {SECTION})")
    across = (Digit(n // groups, 0, 1), *((Digit(groups, 128 // groups),) if groups > 1 else ()))
    return Map(letter, digits, across)


def accumulator(descriptor: InstructionDescriptor, cta_group: int = 1) -> Map:
    """The map of D in one block for an instruction descriptor: in a pair, of the block's own half of the rows."""
    desc = descriptor
    letter = layout_of(desc.m, cta_group, ws=desc.ws, sparse=desc.sparse)
    return data_path(letter, desc.m // cta_group, desc.n)


# ---------------------------------------------------------------------------------------------------- A, metadata


def a_operand(descriptor: InstructionDescriptor, cta_group: int, width: int) -> Map:
    """The map of A in Tensor Memory, in one block: elements of `width` bits are packed along k.

    In a pair with M = 128, the 64 rows of a block stand twice. Raises ArithmeticUnknown for .ws with fewer rows.
    """
    desc, stored = descriptor, descriptor.k // (2 if descriptor.sparse else 1)
    per = 32 // width
    across = (*((Digit(per, 0, 0, width),) if per > 1 else ()), Digit(stored // per, 0, 1))
    rows = desc.m // cta_group
    if desc.ws and rows < 128:
        raise ArithmeticUnknown(f"where tcgen05.mma.ws has an A of {rows} rows in Tensor Memory has not been published")
    if cta_group == 2 and rows == 64:
        return Map("A twice", (Digit(64, 1),), across, width, copies=(0, 64))
    return Map("A", DATA_PATHS[layout_of(desc.m, cta_group)][0], across, width)


#: Metadata of kinds of 16 and 32 bits: 8 chunks of a row in one column, the second half of them 8 lanes further on.
_WIDE_METADATA = (Digit(8, 1), Digit(2, 0, 0, 16)), (Digit(4, 0, 0, 4), Digit(2, 8))


def metadata(descriptor: InstructionDescriptor, cta_group: int = 1) -> Map:
    """The map of a sparse A's metadata in one block: (rows, chunks), four bits each.

    Kinds of 16 and 32 bits choose one of two columns by the selector; others have two columns and no selector. Raises
    ArithmeticUnknown for what only the manual's figures show: M = 64, and selectors 2 and 3.
    """
    desc = descriptor
    rows, wide = desc.m // cta_group, desc.kind in ("f16", "tf32")
    if rows != 128 and not desc.ws:
        raise ArithmeticUnknown(f"the metadata of an A of {rows} rows is a figure of the manual; nobody else has it")
    if desc.selector > wide:
        raise ArithmeticUnknown(f"what the sparsity selector {desc.selector} chooses has not been published")
    if wide:
        down, across = _WIDE_METADATA
        return Map("metadata", (*down, Digit(rows // 16, 16)), across, 4)
    return Map("metadata", (Digit(rows, 1),), (Digit(8, 0, 0, 4), Digit(2, 0, 1)), 4)


# ---------------------------------------------------------------------------------------------------- scales, copies

#: The lanes at which a scale stands again: each quarter has all of them.
QUARTERS = (0, 32, 64, 96)


def scale_factors(rows: int, scales: int) -> Map:
    """The map of the scales of `rows` rows of A, or columns of B: a byte each, from the byte of the scale ID on."""
    down = (Digit(min(rows, 32), 1), *((Digit(-(-rows // 32), 0, 1),) if rows > 32 else ()))
    return Map("scale factors", down, (Digit(scales, 0, 0, 8),), 8, QUARTERS)


def scales_of_b_in_a_pair(n: int, scales: int) -> Map:
    """The same for B and M = 128 of a pair: the two halves of N are in the two halves of the lanes, each twice."""
    down = (Digit(min(n // 2, 32), 1), *((Digit(n // 64, 0, 1),) if n > 64 else ()), Digit(2, 64))
    return Map("scale factors", down, (Digit(scales, 0, 0, 8),), 8, (0, 32))


class Copied(NamedTuple):
    """What tcgen05.cp copies: rows of the matrix, their bytes, and the lanes of each row's copies."""

    rows: int
    bytes: int
    lanes: tuple[tuple[int, ...], ...]


#: By .multicast: the digits of a row, and the lanes at which it stands again.
_MULTICASTS: dict[str, tuple[tuple[Digit, ...], tuple[int, ...]]] = {
    "": ((Digit(128, 1),), (0,)),
    "warpx2::02_13": ((Digit(64, 1),), (0, 64)),
    "warpx2::01_23": ((Digit(32, 1), Digit(2, 64)), (0, 32)),
    "warpx4": ((Digit(32, 1),), QUARTERS),
}


def copied(shape: str, multicast: str = "") -> Copied:
    """Rows and lanes of a .shape and .multicast of tcgen05.cp, relative to the lane of the address.

    >>> from tcemu.layouts.tcgen05 import copied
    >>> copied("32x128b", "warpx4").lanes[5]
    (5, 37, 69, 101)
    """
    count, _, bits = shape.removesuffix("b").partition("x")
    rows = int(count)
    # the four rows of 4x256b go to one lane of each quarter
    digits, copies = ((Digit(4, 32),), (0,)) if rows == 4 else _MULTICASTS[multicast]
    lanes = Map("copy", digits, (Digit(1),)).cells()[0][:, 0].tolist()
    return Copied(rows, int(bits) // 8, tuple(tuple(lane + again for again in copies) for lane in lanes))
