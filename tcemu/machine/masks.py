"""Masks of a warp's lanes, as 32 bits and as bool (32,)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.machine.registers import WARP

Array = npt.NDArray[Any]

#: Every lane.
FULL = (1 << WARP) - 1
#: The number of each lane, (32,).
LANES = np.arange(WARP, dtype=np.int64)
LANES.flags.writeable = False
_BITS = np.uint64(1) << LANES.astype(np.uint64)


@lru_cache(maxsize=4096)
def lanes_of(bits: int) -> Array:
    """The lanes of a mask of 32 bits, bool (32,), read-only."""
    lanes: Array = (np.uint64(bits) & _BITS) != 0
    lanes.flags.writeable = False
    return lanes


def bits_of(lanes: Array) -> int:
    """The mask of 32 bits of lanes, bool (32,)."""
    return _packed(lanes.tobytes())


@lru_cache(maxsize=4096)
def _packed(lanes: bytes) -> int:
    """The same for lanes as bytes: kernels use the same masks again and again."""
    return int.from_bytes(np.packbits(np.frombuffer(lanes, bool), bitorder="little").tobytes(), "little")
