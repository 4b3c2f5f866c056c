"""How a warp writes an accumulator of mma or wgmma: each lane has pairs of neighbouring elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcemu.machine.memory import Pointer
from tcemu.machine.warp import Warp


def store(warp: Warp, d: Pointer, c: Any, row: Any, column: Any) -> None:
    """Write the pairs c[:, 2i : 2i + 2] to the matrix `d`, except those beyond its edges.

    Even pairs are in `row` (one number, or one for each lane), odd pairs 8 rows below; every two pairs are 8 columns to
    the right of the two before. `column` is the tile's first.
    """
    m, n = d.shape
    values, first = c[:], column + 2 * (warp.laneid % 4)
    rows, rights = (row, row + 8), 8 * np.arange(c.shape[1] // 4)[:, None]
    places = [d.at(each, first) + d.dtype.itemsize * rights for each in rows]
    # lanes whose element exists: the first of each pair and, where a pair may come apart, the other one
    there = [[(each < m) & (first + rights < n - i) for each in rows] for i in range(1 + n % 2)]
    for pair in range(c.shape[1] // 2):
        right, below = divmod(pair, 2)
        here, place = values[:, 2 * pair : 2 * pair + 2], places[below][right]
        if n % 2 == 0:  # a pair is 8 bytes at a multiple of 8
            with warp.only(there[0][below][right]):
                warp.st_global(place, here, "v2.b32")
            continue
        for each in range(2):
            with warp.only(there[each][below][right]):
                warp.st_global(place + d.dtype.itemsize * each, here[:, each : each + 1])
