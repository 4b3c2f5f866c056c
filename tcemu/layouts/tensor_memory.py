"""What tcgen05 has in place of wgmma's descriptor and accumulator (PTX ISA 9.1, 9.7.16.1 and 9.7.16.4).

Only bits and addresses, as the manual gives them, not compared with a GPU.

    shared memory descriptor, 64 bits
    bits 13:0    start address
    bits 29:16   LBO
    bits 45:32   SBO
    bits 48:46   always 0b001
    bits 51:49   base offset
    bits 63:61   swizzle

Tensor Memory has 128 lanes and 512 columns of 32 bits for each block. Its addresses hold the lane in bits 31:16 and the
column in bits 15:0.
"""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import LayoutError, whole
from tcemu.layouts.descriptor import Descriptor, Field

#: Fields of the shared memory descriptor; `constant` and `zeros` have only one value each.
TCGEN05_FIELDS = (
    Field("start", "start address", 0, 14),
    Field("lbo", "LBO", 16, 14),
    Field("sbo", "SBO", 32, 14),
    Field("constant", "0b001", 46, 3),
    Field("base_offset", "base offset", 49, 3),
    Field("lbo_mode", "mode", 52, 1),
    Field("zeros", "0", 53, 8),
    Field("swizzle", "swizzle", 61, 3),
)
#: The field's value for each swizzle in bytes.
TCGEN05_SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6}
#: Lanes and columns of Tensor Memory, and the lanes that one warp can reach.
LANES, COLUMNS, LANES_OF_WARP = 128, 512, 32


@explained
def tcgen05_descriptor(descriptor: Descriptor) -> int:
    """The 64 bits with which tcgen05 describes a tile of shared memory that `descriptor` describes for wgmma.

    >>> from tcemu.layouts import Descriptor, tcgen05_descriptor
    >>> tile = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> f"{tile.encode():#018x} {tcgen05_descriptor(tile):#018x}"
    '0x4000004000010000 0x4000404000010000'
    """
    held = {
        "start": (descriptor.start & 0x3FFFF) >> 4,
        "lbo": (descriptor.lbo & 0x3FFFF) >> 4,
        "sbo": (descriptor.sbo & 0x3FFFF) >> 4,
        "constant": 1,
        "base_offset": descriptor.base_offset,
        "swizzle": TCGEN05_SWIZZLES[descriptor.swizzle],
    }
    return sum(held.get(field.attribute, 0) << field.low for field in TCGEN05_FIELDS)


@explained
def tensor_memory_address(lane: int, column: int) -> int:
    """The 32-bit address of a cell of Tensor Memory. Raises LayoutError for a cell that does not exist.

    >>> from tcemu.layouts import tensor_memory_address
    >>> f"{tensor_memory_address(33, 7):#010x}"
    '0x00210007'
    """
    at_lane, at_column = whole(lane, "lane", LayoutError), whole(column, "column", LayoutError)
    if not (0 <= at_lane < LANES and 0 <= at_column < COLUMNS):
        raise LayoutError(f"Tensor Memory has lanes 0 to 127 and columns 0 to 511; got {at_lane}, {at_column}")
    return at_lane << 16 | at_column


@explained
def lanes_of_warp(warp: int) -> range:
    """The lanes of Tensor Memory that a warp can load and store: those of its place in its warpgroup (9.7.16.8.1).

    >>> from tcemu.layouts import lanes_of_warp
    >>> lanes_of_warp(5)
    range(32, 64)
    """
    place = whole(warp, "the warp's number", LayoutError) % 4
    return range(LANES_OF_WARP * place, LANES_OF_WARP * (place + 1))
