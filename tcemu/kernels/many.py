"""Driving `tcemu.kernels.lanes` for a `Tiles`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.kernels import lanes
from tcemu.kernels import sums as fast
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


def run(tiles: Tiles, a: Array, b: Array, c: Array, d: Array) -> None:
    """Fill d."""
    tables, out, (size_a, size_b, size_c) = _tables(tiles)
    blocks = -(-len(a) // lanes.LANES)

    def room(name: str, size: int, kind: Any) -> Array:
        return rooms.take(f"many {name}", (blocks, size * lanes.LANES), kind)

    packed = [room("va", size_a, np.float32), room("ea", size_a, np.int8)]
    packed += [room("vb", size_b, np.float32), room("eb", size_b, np.int8)]
    running = room("c", size_c, np.int32)
    bases, flags = np.empty((blocks, lanes.LANES), np.int32), np.empty((blocks, lanes.LANES), np.uint8)
    lanes.prepare(a, b, c, *tables, bases, flags, *packed, running)
    found = flags.reshape(-1)[: len(a)]
    odd, outside = found != 0, (found & fast.OUTSIDE) != 0
    if odd.any() and not (odd.all() and (outside.all() or not outside.any())):
        # Tiles of a kind together, so that the common kind does not pay for the others.
        for some in (~odd, odd & ~outside, outside):
            if some.any():
                part = np.empty((np.count_nonzero(some), d.shape[1]), d.dtype)
                run(tiles, a[some], b[some], c[some], part)
                d[some] = part
        return
    special, wide = bool(odd.any()), bool(outside.any())
    signs = [_NOTHING, _NOTHING]
    if special:
        signs = [room("sa", size_a, np.float32), room("sb", size_b, np.float32)]
        more = [np.empty((blocks, 0), kind) for kind in (np.float32, np.int32)] * 2
        if wide:
            packed = more = [packed[0], room("wa", size_a, np.int32), packed[2], room("wb", size_b, np.int32)]
        lanes.prepare_odd(a, b, *tables[:2], tables[3], *signs, *more)
    sweep = lanes.sweep_of(tiles.depth, tiles.half, special, wide)
    sweep(*packed, *signs, running, bases, tiles.rule, len(tiles.sums), tiles.shape[0], tiles.join)
    lanes.store(running, tiles.half_d, tiles.d.elements.shape[1], tiles.d.width, out, d)


_NOTHING = np.empty((1, 0), np.float32)
