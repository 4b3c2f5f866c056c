"""Fused sums over a tile of a matrix product, by the vector passes of `tcemu.kernels.blocks` or by the plain rule.

A tile holds some hundred rows of A, some hundred columns of B and the accumulators between them. All paths give the
same bits for every input; the fast one needs four vector operations for a product or, where nothing is cut off, one;
`exact` needs some forty scalar ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from tcemu.kernels import sums
from tcemu.kernels.blocks import ROWS, space
from tcemu.kernels.compiling import njit
from tcemu.kernels.loading import LOADS
from tcemu.kernels.matmul_exact import INFINITY, QUIET, exact
from tcemu.kernels.products import chains_at, multiply
from tcemu.kernels.rooms import aligned
from tcemu.kernels.simd import WIDTH

Array = npt.NDArray[Any]


@njit(cache=True, nogil=True)
def _arranged_x(b, patterns):  # type: ignore[no-untyped-def]
    """patterns[g, k, j] = b[k, 16 g + j], flat; zeros after the last column."""
    depth, columns = b.shape
    for g in range(uint64(-(-columns // WIDTH))):
        for k in range(uint64(depth)):
            at = (g * uint64(depth) + k) * uint64(WIDTH)
            for j in range(uint64(WIDTH)):
                column = g * uint64(WIDTH) + j
                patterns[at + j] = b[k, column] if column < uint64(columns) else np.uint32(0)


@njit(cache=True, nogil=True)
def _arranged_y(a, patterns):  # type: ignore[no-untyped-def]
    """patterns[r, k, i] = a[4 r + i, k], flat; zeros after the last row."""
    rows, depth = a.shape
    for r in range(uint64(-(-rows // ROWS))):
        first, at = r * uint64(ROWS), r * uint64(depth) * uint64(ROWS)
        whole = first + uint64(ROWS) <= uint64(rows)  # decided here, so that the loop has no branch
        for k in range(uint64(depth) if whole else uint64(0)):
            for i in range(uint64(ROWS)):
                patterns[at + k * uint64(ROWS) + i] = a[first + i, k]
        for k in range(uint64(0) if whole else uint64(depth)):
            for i in range(uint64(ROWS)):
                patterns[at + k * uint64(ROWS) + i] = a[first + i, k] if first + i < uint64(rows) else np.uint32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def plain(a, b, c, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """c[m, j] = one fused sum of c[m, j], a[m, k] and b[k, j] by the plain integer rule."""
    for j in range(c.shape[1]):
        column = np.ascontiguousarray(b[:, j])
        for m in range(c.shape[0]):
            if (c[m, j] & 0x7FFFFFFF) > INFINITY:  # a NaN stays a NaN
                c[m, j] = QUIET
            else:
                c[m, j] = exact(np.ascontiguousarray(a[m]), column, c[m, j], fmt_a, fmt_b, rule)


@njit(cache=True, nogil=True, error_model="numpy")
def _join(part, c, half):  # type: ignore[no-untyped-def]
    """c += part: the format's ordinary addition, rounded to nearest even."""
    sums.join(part, c, half)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiplied(x, y, steps, numbers, room, c, chains):  # type: ignore[no-untyped-def]
    """`products.multiply` for arrays."""
    of_x, of_y = uint64(x.ctypes.data), uint64(y.ctypes.data)
    at, into = uint64(numbers.ctypes.data), uint64(c.ctypes.data)
    vectors_x, vectors_y = int64(x.shape[0] // WIDTH), int64(y.shape[0] // WIDTH)
    none, no = uint64(0), int64(0)  # nothing is fetched ahead: the number after the formats is 0
    return multiply(
        int64(1), of_x, vectors_x, of_y, vectors_y, steps, at, uint64(room.ctypes.data), into, none, none, no, no,
        none, chains, at + uint64(8 * LOADS), no,
    )  # fmt: skip


class Rule(NamedTuple):
    """Fraction bits F, the floor of E, fraction bits kept, and whether results are float16 rounded to nearest."""

    fraction: int
    floor: int
    keep: int
    half: bool


class Tile:
    """What one thread needs for tiles up to a number of rows, columns and products."""

    def __init__(self, rule: Rule, formats: Sequence[Array], normal: Sequence[bool], join: bool, sums: int, depth: int):
        self._rule, self._formats, self._join, self._sums, self._depth = np.array(rule), formats, join, sums, depth
        forms = [*formats[1], normal[1], *formats[0], normal[0]]
        room = space(rule.fraction, depth, [form.tolist() for form in formats])
        self._numbers = np.array([*rule, join, depth, sums, room, *forms, 0], np.int64)
        self._rooms: dict[str, Array] = {}

    def _room(self, name: str, size: int, kind: Any) -> Array:
        """An array without initial content; the next call with this name returns the same memory."""
        room = self._rooms.get(name)
        if room is None or room.size < size:
            room = self._rooms[name] = aligned(size, kind)
        return room[:size]

    def add(self, a: Array, b: Array, c: Array, *, fast: bool) -> None:
        """c = a @ b + c in place, k in the order of the sums.

        a (rows, k) and b (k, columns): uint32 patterns; c (groups of columns, groups of rows, 4, 16): int32, float32
        patterns. Without `fast`, the plain rule computes everything.
        """
        if fast:
            size_x, size_y = c.shape[0] * WIDTH * len(b), c.shape[1] * ROWS * len(b)
            x, y = self._room("x", size_x, np.uint32), self._room("y", size_y, np.uint32)
            _arranged_x(b, x)
            _arranged_y(a, y)
            room = self._room("packed", 3 * (size_x + size_y), np.int32)
            steps = len(b) // (self._sums * self._depth) if self._join else 1
            if not self._join:
                self._numbers[6] = len(b) // self._depth
            found = _multiplied(x, y, steps, self._numbers, room, c.reshape(-1), chains_at())
            if not found & sums.OUTSIDE or (self._rule[2] == 23 and not self._rule[3]):
                return
        self._plainly(a, b, c)

    def _plainly(self, a: Array, b: Array, c: Array) -> None:
        rows, columns = len(a), b.shape[1]
        running = np.ascontiguousarray(c.transpose(1, 2, 0, 3)).reshape(c.shape[1] * ROWS, -1)[:rows, :columns].copy()
        part = np.zeros_like(running) if self._join else running
        for i in range(len(b) // self._depth):
            if self._join and i % self._sums == 0:
                part[...] = 0
            ks = slice(i * self._depth, (i + 1) * self._depth)
            plain(a[:, ks], b[ks], part, *self._formats, self._rule)
            if self._join and i % self._sums == self._sums - 1:
                _join(part, running, bool(self._rule[3]))
        c[...] = blocks_of(running)


def blocks_of(running: Array) -> Array:
    """A tile (rows, columns) as `Tile.add` takes it, with zeros after the last row and column."""
    rows, columns = running.shape
    padded = np.zeros((-(-rows // ROWS) * ROWS, -(-columns // WIDTH) * WIDTH), np.int32)
    padded[:rows, :columns] = running
    return np.ascontiguousarray(padded.reshape(-1, ROWS, padded.shape[1] // WIDTH, WIDTH).transpose(2, 0, 1, 3))


def tile_of(blocks: Array, rows: int, columns: int) -> Array:
    """The tile (rows, columns) of `blocks_of`."""
    tile: Array = blocks.transpose(1, 2, 0, 3).reshape(blocks.shape[1] * ROWS, -1)[:rows, :columns]
    return tile
