"""How threads share the tiles of a batch: each takes some, computes them, and takes more until none are left.

A thread that joins late, or not at all, delays nothing: the others take its tiles. The caller waits for tiles and not
for threads, in the kernel: to wake a thread takes longer than to compute hundreds of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

import numpy as np
import numpy.typing as npt
from numba import uint64

from tcemu.kernels.emit.code import atomic_add, atomic_load, atomic_min
from tcemu.kernels.host.compiling import merged
from tcemu.kernels.host.threads import cores, join

#: More tiles are shared; and a thread takes so many times as many as the kernel computes together.
SHARED, PART = 1024, 32
#: The places of the numbers that threads share, each in a line of a cache of its own: the first tile that nobody has
#: taken, how many are done, and the first that was left out, or one after the last.
TAKEN, DONE, LEFT, SHARES = 0, 8, 16, 24


def share_tiles(count: int, compute: Callable[[npt.NDArray[np.int64], bool], None]) -> int:
    """Let all cores compute so many tiles, or one core a few; returns the first tile that was left out, or `count`.

    compute: a function of the numbers that threads share, and whether to wait for all tiles.
    """
    numbers, caller = np.zeros(SHARES, np.int64), get_ident()
    numbers[LEFT] = count

    def work() -> None:
        compute(numbers, get_ident() == caller)

    if count > SHARED:
        join(work, cores())
    else:
        work()
    return int(numbers[LEFT])


@merged
def take(shares, size):  # type: ignore[no-untyped-def]
    """Take so many tiles; returns the first. shares: the address of the numbers that `share_tiles` gives."""
    return atomic_add(shares + uint64(8 * TAKEN), size)


@merged
def leave(shares, tile):  # type: ignore[no-untyped-def]
    """Note that a tile and all after it may not be computed."""
    atomic_min(shares + uint64(8 * LEFT), tile)


@merged
def finish_some(shares, count):  # type: ignore[no-untyped-def]
    """Note that so many tiles are done, or left out."""
    atomic_add(shares + uint64(8 * DONE), count)


@merged
def wait_for_all(shares, count):  # type: ignore[no-untyped-def]
    """Wait until all tiles are done."""
    while atomic_load(shares + uint64(8 * DONE)) < count:
        pass
