"""The swizzle of shared memory: in every line of 128 bytes, the numbers of its eight units of 16 bytes are XORed.

    32 bytes     unit XOR line mod 2
    64 bytes     unit XOR line mod 4
    128 bytes    unit XOR line mod 8

What wgmma reads and what a tensor copy writes are turned alike (PTX ISA 9.1, 5.5.7 and 9.7.15.5.1.2). The number of a
line is its address div 128; a base offset is subtracted from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def turn(line: Array, swizzle: Array | int, base_offset: Array | int = 0) -> Array:
    """What the units of lines are XORed with: 0 where `swizzle` is 0 bytes. Integer arrays broadcast."""
    return np.asarray(line - base_offset & np.maximum(np.asarray(swizzle) // 16, 1) - 1)


def swizzled(addresses: Array, swizzle: Array | int, base_offset: Array | int = 0) -> Array:
    """Where the bytes at `addresses` of shared memory really lie. Integer arrays broadcast."""
    return np.asarray(addresses ^ turn(addresses >> 7, swizzle, base_offset) << 4)
