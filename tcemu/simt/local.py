"""The local memory of a warp's lanes: a stack for each, where functions keep variables and pass arguments.

Beside its bytes lies what says of each whether it lacks a value: all bits are set where a variable begins, for
observers. Steps with the space "unset" read and write that (see unset.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError
from tcemu.machine.addresses import LOCAL, STACK, STACKS
from tcemu.machine.masks import LANES

Array = npt.NDArray[Any]
#: The most local memory of a thread, on all targets (CUDA programming guide, compute capabilities).
MOST = STACK
#: The most threads of a block.
_THREADS = 1024


class Local:
    """Bytes (32, size), a row for each lane; addresses count from the start of the row."""

    def __init__(self, size: int, block: int = 0, warp: int = 0) -> None:
        """`size` bytes for each lane of a warp of a block, both by their numbers."""
        threads = _THREADS * block + len(LANES) * warp + LANES
        #: the generic address of each lane's first byte, int64 (32,): on a GPU, it is the same in all threads
        self.window: Array = LOCAL + threads % STACKS * STACK
        self.size = max(_possible(size), 16)
        self.bytes, self.unset = np.zeros((2, 32, self.size), np.uint8)

    def grow(self, size: int) -> bool:
        """Make room for so many bytes a lane; whether the bytes have moved."""
        if size <= self.size:
            return False
        larger = np.zeros((2, 32, min(MOST, max(_possible(size), 2 * self.size))), np.uint8)
        larger[:, :, : self.size] = self.bytes, self.unset
        (self.bytes, self.unset), self.size = larger, larger.shape[2]
        return True

    def begin(self, first: int, size: int, variables: Iterable[tuple[int, int]], lanes: Array) -> None:
        """A function begins, with bytes from `first` on: its `variables`, starts and sizes there, lack values."""
        self.unset[lanes, first : first + size] = 0
        for at, length in variables:
            self.unset[lanes, first + at : first + at + length] = 0xFF

    def read(self, addresses: Array, size: int, lanes: Array) -> Array:
        """Bytes (n, size) of these lanes, bool (32,)."""
        return self.bytes[LANES[lanes, None], addresses[lanes, None] + np.arange(size, dtype=np.int64)]

    def write(self, addresses: Array, data: Array, lanes: Array) -> None:
        """Write bytes (n, size) of these lanes."""
        where = LANES[lanes, None], addresses[lanes, None] + np.arange(data.shape[1], dtype=np.int64)
        self.bytes[where], self.unset[where] = data, 0

    def marks(self, addresses: Array, size: int, lanes: Array, data: Array | None = None) -> Array:
        """What says of bytes (32, size) whether they lack a value, in those of the lanes where there are such bytes.

        With `data` (32, size), that is written.
        """
        found = np.zeros((32, size), np.uint8)
        lanes = lanes & (addresses >= 0) & (addresses <= self.size - size)
        where = LANES[lanes, None], addresses[lanes, None] + np.arange(size, dtype=np.int64)
        if data is not None:
            self.unset[where] = data[lanes]
        found[lanes] = self.unset[where]
        return found

    def owner(self, address: int) -> str:
        """The thread that a generic address in the local window belongs to; empty if it has no such byte."""
        thread, at = divmod(address - LOCAL, STACK)
        block, number = divmod(thread, _THREADS)
        return f"thread {number} of block {block}" if 0 <= thread < STACKS and at < self.size else ""

    def text(self, lane: int, address: int) -> bytes:
        """Bytes up to a zero."""
        return self.bytes[lane, address:].tobytes().partition(b"\0")[0]


def _possible(size: int) -> int:
    """The bytes of local memory that a thread asks for. Raises LaunchError if no GPU has them."""
    if size > MOST:
        raise LaunchError(
            f"a thread has at most {MOST >> 10} KiB of local memory; this kernel's arrays and the functions that call "
            f"each other need {size:,} bytes. Keep a large array in global memory; a recursion may never end"
        )
    return size
