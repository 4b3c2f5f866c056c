"""Driving `tcemu.kernels.lanes` for a `Tiles`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.kernels import lanes
from tcemu.kernels.tiles import Place, Tiles, rooms

Array = npt.NDArray[Any]


@cache
def _tables(tiles: Tiles) -> tuple[Any, ...]:
    m, n, k = tiles.shape
    sums = np.array(tiles.sums)
    a = np.arange(m)[None, :, None] * k + sums[:, None, :]
    b = sums[:, None, :] * n + np.arange(n)[None, :, None]

    def table(place: Place, elements: Array) -> Array:
        return np.array([place.word.ravel()[elements.ravel()], place.bit.ravel()[elements.ravel()]], np.uint32)

    numbers = [*tiles.source[0], *tiles.source[1], tiles.a.mask, tiles.b.mask, tiles.c.mask, tiles.half_c]
    numbers += [tiles.normal[0], tiles.normal[1]]
    return (
        (table(tiles.a, a), table(tiles.b, b), table(tiles.c, np.arange(m * n)), np.array(numbers, np.int64)),
        np.ascontiguousarray(tiles.d.elements.T.astype(np.uint32)),
        (sums.shape[0] * m * sums.shape[1], sums.shape[0] * n * sums.shape[1], m * n),
    )


def run(tiles: Tiles, a: Array, b: Array, c: Array, d: Array) -> Array:
    """Fill d; returns the tiles that this way cannot do."""
    tables, out, (size_a, size_b, size_c) = _tables(tiles)
    blocks = -(-len(a) // lanes.LANES)
    shapes = ((size_a, np.float32), (size_a, np.int8), (size_b, np.float32), (size_b, np.int8))
    packed = [rooms.take(f"many {i}", (blocks, size * lanes.LANES), kind) for i, (size, kind) in enumerate(shapes)]
    running = rooms.take("many c", (blocks, size_c * lanes.LANES), np.int32)
    bases, flags = np.empty((blocks, lanes.LANES), np.int32), np.empty((blocks, lanes.LANES), np.uint8)
    lanes.prepare(a, b, c, *tables, bases, flags, *packed, running)
    sweep = lanes.sweep_of(tiles.depth, tiles.half)
    sweep(*packed, running, bases, tiles.rule, len(tiles.sums), tiles.shape[0], tiles.join)
    lanes.store(running, tiles.half_d, tiles.d.elements.shape[1], tiles.d.width, out, d)
    return np.flatnonzero(flags.reshape(-1)[: len(a)])
