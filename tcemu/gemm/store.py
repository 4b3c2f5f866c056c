"""How a warp writes an accumulator of mma or wgmma: each lane has pairs of neighbouring elements."""

from __future__ import annotations

from typing import Any

from tcemu.machine.memory import Pointer
from tcemu.machine.warp import Warp


def store(warp: Warp, d: Pointer, c: Any, row: Any, column: Any) -> None:
    """Write the pairs c[:, 2i : 2i + 2] to the matrix `d`, except those beyond its edges.

    Even pairs are in `row` (one number, or one for each lane), odd pairs 8 rows below; every two pairs are 8 columns to
    the right of the two before. `column` is the tile's first.
    """
    m, n = d.shape
    values, first = c[:], column + 2 * (warp.laneid % 4)
    below = row < m, row + 8 < m
    places = d.at(row, first), d.at(row + 8, first)
    for pair in range(c.shape[1] // 2):
        right, here = 8 * (pair // 2), values[:, 2 * pair : 2 * pair + 2]
        there, place = below[pair % 2], places[pair % 2] + d.dtype.itemsize * right
        if n % 2 == 0:  # a pair is 8 bytes at a multiple of 8
            with warp.only(there & (first < n - right)):
                warp.st_global(place, here, "v2.b32")
            continue
        for each in range(2):
            with warp.only(there & (first < n - right - each)):
                warp.st_global(place + d.dtype.itemsize * each, here[:, each : each + 1])
