"""The matrix descriptor of wgmma (PTX ISA 9.1, 9.7.15.5.1.2.2): 64 bits that say where a tile lies in shared memory.

    bits 13:0    start address        each as (bytes & 0x3FFFF) >> 4
    bits 29:16   leading dimension byte offset (LBO)
    bits 45:32   stride dimension byte offset (SBO)
    bits 51:49   base offset
    bits 63:62   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes

Where element (mn, k) lies, mn being a row of A or a column of B, W the bytes of the swizzle and T the elements of 16
bytes; the byte k of K-major is k times the size of an element:

    K-major, none       (mn mod 8) 16 + (mn div 8) SBO + byte mod 16 + (byte div 16) LBO
    K-major, swizzled   (mn mod 8) W + (mn div 8) SBO + byte mod W + (byte div W) LBO
    MN-major, none      (mn mod T) size + (mn div T) SBO + (k mod 8) 16 + (k div 8) LBO
    MN-major, swizzled  (mn mod P) size + (mn div P) LBO + (k mod 8) W + (k div 8) SBO,  P = W / size

A swizzle then XORs address bits 4.. with address bits 7..: three bits for 128 bytes, two for 64, one for 32. All of it
was compared with an H200 for random starts and offsets in all modes, with a base offset of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LayoutError, listing

Array = npt.NDArray[Any]

#: Bytes of a swizzle by the value of its field.
SWIZZLES = (0, 128, 64, 32)
_FIELDS = {"start": 0, "lbo": 16, "sbo": 32}
_FIELD_MASK = 0x3FFF


@dataclass(frozen=True)
class Descriptor:
    """A matrix descriptor by its fields: start, LBO and SBO in bytes, the swizzle's bytes (0, 32, 64, 128).

    Raises LayoutError where a field cannot be encoded, and says whether its shift by 4 seems to be done already.
    """

    start: int
    lbo: int = 0
    sbo: int = 0
    swizzle: int = 0
    base_offset: int = 0

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value = getattr(self, name)
            if not 0 <= value <= 0x3FFFF or value % 16:
                raise LayoutError(
                    f"descriptor field {name} is {value}: a multiple of 16 bytes below 262144. Give bytes: encode() "
                    "shifts them right by 4."
                )
        if self.swizzle not in SWIZZLES:
            raise LayoutError(f"descriptor swizzle is {self.swizzle} bytes: it is {listing(sorted(SWIZZLES))}")
        if not 0 <= self.base_offset <= 7:
            raise LayoutError(f"descriptor base_offset is {self.base_offset}: three bits, 0 to 7")

    def encode(self) -> int:
        """The 64 bits."""
        bits = sum(int(getattr(self, name)) >> 4 << place for name, place in _FIELDS.items())
        return bits | self.base_offset << 49 | SWIZZLES.index(self.swizzle) << 62

    @classmethod
    def decode(cls, bits: int) -> Descriptor:
        """The descriptor of 64 bits; bits outside the fields are ignored."""
        fields = {name: (int(bits) >> place & _FIELD_MASK) << 4 for name, place in _FIELDS.items()}
        return cls(**fields, swizzle=SWIZZLES[int(bits) >> 62 & 3], base_offset=int(bits) >> 49 & 7)

    def address(self, mn: int, k: int, bits: int, mn_major: bool = False) -> int:
        """The byte address of element (mn, k), for elements of `bits` bits."""
        grid = addresses(np.array([self.encode()], np.uint64), np.array([mn]), np.array([k]), bits // 8, mn_major)
        return int(grid.item())

    def __str__(self) -> str:
        swizzle = f"{self.swizzle}-byte swizzle" if self.swizzle else "no swizzle"
        base = f", base offset {self.base_offset}" if self.base_offset else ""
        return f"start {self.start}, LBO {self.lbo}, SBO {self.sbo}, {swizzle}{base} ({self.encode():#018x})"


def addresses(descriptors: Array, mn: Array, k: Array, size: int, mn_major: bool) -> Array:
    """Byte addresses (..., mn, k) of elements of `size` bytes, for descriptors (...) of uint64."""
    fields = descriptors[..., None, None]
    start, lbo, sbo = (
        (fields >> np.uint64(p) & np.uint64(_FIELD_MASK)).astype(np.int64) << 4 for p in _FIELDS.values()
    )
    mode = (fields >> np.uint64(62)).astype(np.int64)
    base = (fields >> np.uint64(49) & np.uint64(7)).astype(np.int64)
    width = np.array(SWIZZLES)[mode]
    row, column = mn[:, None], k[None, :]
    if mn_major:
        unit = 16 // size
        span = np.maximum(width // size, 1)
        plain = row % unit * size + row // unit * sbo + column % 8 * 16 + column // 8 * lbo
        swizzled = row % span * size + row // span * lbo + column % 8 * width + column // 8 * sbo
    else:
        byte = column * size
        plain = row % 8 * 16 + row // 8 * sbo + byte % 16 + byte // 16 * lbo
        across = np.maximum(width, 1)
        swizzled = row % 8 * width + row // 8 * sbo + byte % across + byte // across * lbo
    found = start + np.where(mode == 0, plain, swizzled)
    # the pattern repeats from where it starts; the base offset tells the row of the pattern at its first address
    return np.asarray(found ^ (((found >> 7) - base & width // 16 - 1) << 4) * (mode != 0))
