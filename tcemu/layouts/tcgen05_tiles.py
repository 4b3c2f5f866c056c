"""The shared memory descriptor of tcgen05 (PTX ISA 9.1, 9.7.16.4.1): 64 bits that say where a tile of A or B is.

Tiles lie in shared memory as wgmma's do (tcemu.layouts.descriptor has the sums), and there is one layout more, for
MN-major elements of 32 bits:

    128B base 32B       (mn mod 32) 4 + (mn div 32) LBO + (k mod 4) 128 + (k div 4) SBO, address bits 6:5 XOR 8:7

The fields are wgmma's too, but bits 48:46 are 0b001, and the swizzle has three bits (63:61). All of it is the manual's,
and CuTe's tiles, expanded element by element, are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, LayoutError, listing, whole
from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.descriptor import addresses as places
from tcemu.layouts.tensor_memory import TCGEN05_FIELDS, TCGEN05_SWIZZLES, tcgen05_descriptor

Array = npt.NDArray[Any]

SECTION = "9.7.16.4.1"
#: The swizzle's bytes by the field's value; the layout that only 32-bit elements have is 128 bytes too.
_SWIZZLES = {code: bytes_ for bytes_, code in TCGEN05_SWIZZLES.items()}
_BASE_32 = 1
_FIELD = {field.attribute: field for field in TCGEN05_FIELDS}


@dataclass(frozen=True)
class Tile:
    """A decoded descriptor: wgmma's fields, and whether the layout is 128B base 32B.

    >>> from tcemu.layouts import Descriptor, tcgen05_descriptor
    >>> from tcemu.layouts.tcgen05_tiles import Tile
    >>> Tile.decode(tcgen05_descriptor(Descriptor.for_tile("f16", 64, 64, swizzle=128)))
    Tile(descriptor=Descriptor(start=0, lbo=16, sbo=1024, swizzle=128, base_offset=0), base_32=False)
    """

    descriptor: Descriptor
    base_32: bool = False

    @staticmethod
    @lru_cache(maxsize=1024)
    def decode(bits: int) -> Tile:
        """The tile that 64 bits describe. Raises LayoutError for bits that are no descriptor of tcgen05."""
        value = whole(bits, "a shared memory descriptor", LayoutError)
        if not 0 <= value < 1 << 64:
            raise LayoutError(f"a shared memory descriptor has 64 bits; got {value:#x} (PTX ISA {SECTION})")
        held = {name: field.of(value) for name, field in _FIELD.items()}
        if held["constant"] != 1:
            what = "this is a descriptor of wgmma" if held["constant"] == 0 else "they are no descriptor's"
            raise _refused(value, f"bits 48:46 must be 0b001, and are {held['constant']:#05b}: {what}")
        if held["zeros"]:
            raise _refused(value, "bits 60:53 must be 0")
        if held["swizzle"] not in (*_SWIZZLES, _BASE_32):
            accepted = listing([str(code) for code in sorted((*_SWIZZLES, _BASE_32))])
            raise _refused(value, f"the swizzle (bits 63:61) is {held['swizzle']}; it must be {accepted}")
        if held["lbo_mode"]:
            raise ArithmeticUnknown(
                f"descriptor {value:#018x}: bit 52 makes LBO an address, for K of 48 bytes on sm_103a; that is not "
                f"executed (PTX ISA {SECTION})"
            )
        swizzle = 128 if held["swizzle"] == _BASE_32 else _SWIZZLES[held["swizzle"]]
        fields = {name: held[name] << 4 for name in ("start", "lbo", "sbo")}
        tile = Descriptor(**fields, swizzle=swizzle, base_offset=held["base_offset"])
        return Tile(tile, held["swizzle"] == _BASE_32)

    def encode(self) -> int:
        """The 64 bits."""
        if not self.base_32:
            return tcgen05_descriptor(self.descriptor)
        return tcgen05_descriptor(replace(self.descriptor, swizzle=0)) | _BASE_32 << _FIELD["swizzle"].low

    def addresses(self, mn: int, k: int, bits: int, *, mn_major: bool = False) -> Array:
        """Byte addresses (mn, k) of elements of `bits`: 32, 16, 8, or 4, which share a byte and are K-major.

        Elements of 4 and 6 bits of the 8-bit kinds take 16 bytes for 16 elements: ask for 8 bits, and see `unpadded`.
        """
        if self.base_32:
            return self._base_32(mn, k, bits, mn_major)
        if bits == 32 and mn_major:
            raise LayoutError(f"MN-major elements of 32 bits need the layout 128B base 32B (PTX ISA {SECTION})")
        if bits < 8 and mn_major:
            raise LayoutError("elements of 4 bits that share a byte cannot be MN-major (PTX ISA 9.7.16.10.3)")
        column = np.arange(k, dtype=np.int64) * bits // 8 if bits < 8 else np.arange(k, dtype=np.int64)
        described = np.array(self.descriptor.encode(), np.uint64)
        return places(described, np.arange(mn, dtype=np.int64), column, max(bits // 8, 1), mn_major)

    def _base_32(self, mn: int, k: int, bits: int, mn_major: bool) -> Array:
        if bits != 32 or not mn_major:
            raise LayoutError(f"the layout 128B base 32B is for MN-major elements of 32 bits (PTX ISA {SECTION})")
        if self.descriptor.base_offset:
            raise ArithmeticUnknown("what a base offset does to the layout 128B base 32B has not been published")
        row, column = np.arange(mn, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
        tile = self.descriptor
        offset = row % 32 * 4 + row // 32 * tile.lbo + column % 4 * 128 + column // 4 * tile.sbo + tile.start
        return np.asarray(offset ^ (offset >> 7 & 3) << 5)


def _refused(bits: int, what: str) -> LayoutError:
    return LayoutError(f"descriptor {bits:#018x}: {what} (PTX ISA {SECTION})")


def unpadded(units: Array, bits: int) -> Array:
    """The 16 elements (..., 16) of 4, 6 or 8 bits of each unit of 16 bytes (..., 16): the first is lowest.

    This is how formats of 4 and 6 bits lie in shared memory for the 8-bit kinds: packed, with padding behind them.

    >>> from tcemu.layouts.tcgen05_tiles import unpadded
    >>> unpadded(np.array([0x21, 0x43] + [0] * 14, np.uint8), 4)[:4]
    array([1, 2, 3, 4], dtype=uint8)
    """
    if bits == 8:
        return units
    packed = np.unpackbits(units, axis=-1, bitorder="little")[..., : 16 * bits]
    weights = 1 << np.arange(bits, dtype=np.int64)
    return np.asarray((packed.reshape(*units.shape[:-1], 16, bits) * weights).sum(-1).astype(np.uint8))
