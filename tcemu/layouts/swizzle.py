"""The swizzle of shared memory: in every 128-byte line, the numbers of the eight 16-byte units are XORed.

    32 bytes     unit XOR line mod 2
    64 bytes     unit XOR line mod 4
    128 bytes    unit XOR line mod 8

wgmma and tensor copies use the same swizzles (PTX ISA 9.1, 5.5.7 and 9.7.15.5.1.2). The number of a line is its address
div 128; a base offset is subtracted from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def turn(line: Array, swizzle: Array | int, base_offset: Array | int = 0) -> Array:
    """What the unit numbers of lines are XORed with; 0 if `swizzle` is 0 bytes. Integer arrays broadcast."""
    return np.asarray(line - base_offset & np.maximum(np.asarray(swizzle) // 16, 1) - 1)


def swizzled(addresses: Array, swizzle: Array | int, base_offset: Array | int = 0) -> Array:
    """The addresses at which the bytes at unswizzled `addresses` are stored. Integer arrays broadcast."""
    return np.asarray(addresses ^ turn(addresses >> 7, swizzle, base_offset) << 4)
