"""How a warp writes an accumulator of mma or wgmma: each lane has pairs of neighbouring elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcemu.machine.global_memory import Pointer
from tcemu.machine.warp import Warp


def store(warp: Warp, d: Pointer, c: Any, row: Any, column: Any) -> None:
    """Write the pairs c[:, 2i : 2i + 2] to the matrix `d`, except those beyond its edges.

    Even pairs are in `row` (one number, or one for each lane), odd pairs 8 rows below; every two pairs are 8 columns to
    the right of the two before. `column` is the tile's first.
    """
    m, n = d.shape
    pairs = np.arange(c.shape[1] // 2)[:, None]
    rows, columns = row + 8 * (pairs % 2), column + 2 * (warp.laneid % 4) + pairs // 2 * 8  # of each pair and lane
    places = d.at(rows, columns)
    values = np.ascontiguousarray(c[:].reshape(len(warp.laneid), -1, 2).transpose(1, 0, 2))
    if n % 2 == 0:  # a pair is 8 bytes at a multiple of 8
        parts = [(places, values, "v2.b32", (rows < m) & (columns < n))]
    else:
        parts = [
            (places + d.dtype.itemsize * i, values[:, :, i].copy(), "b32", (rows < m) & (columns + i < n))
            for i in range(2)
        ]
    for at, data, access, inside in parts:
        if inside.all():  # true of all tiles but those at the edges
            for place, value in zip(at, data, strict=True):
                warp.st_global(place, value, access)
            continue
        for place, value, lanes in zip(at, data, inside, strict=True):
            with warp.only(lanes):
                warp.st_global(place, value, access)
