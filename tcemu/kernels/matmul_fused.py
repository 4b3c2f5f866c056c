"""Fused sums over a tile of a matrix product, by the vector passes of `tcemu.kernels.blocks` or by the plain rule.

A tile holds some hundred rows of A, some hundred columns of B and the accumulators between them. All paths give the
same bits for every input; the fast one needs four vector operations for a product or, where nothing is cut off, one;
`exact` needs some forty scalar ones.

A thread computes a tile in one call without the interpreter lock: other threads must not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint32, uint64

from tcemu.kernels import sums
from tcemu.kernels.calls import address_of, call, put
from tcemu.kernels.compiling import njit
from tcemu.kernels.lanes import WIDTH
from tcemu.kernels.loading import LOADS
from tcemu.kernels.matmul_exact import INFINITY, QUIET, exact
from tcemu.kernels.moves import FLOATS, HALVES, finish, widen
from tcemu.kernels.products import chains_at, multiply
from tcemu.kernels.rooms import Kept
from tcemu.kernels.rule import HALF, JOIN, KEEP, ROWS, SUMS
from tcemu.kernels.vectors import whole_vectors

Array = npt.NDArray[Any]
#: Products packed at a time for each output.
CHUNK = 256
#: Where `_multiply` notes what `pack` found, after the number that says that nothing is fetched ahead.
FOUND = LOADS + 1
#: Rows of A and of C, and columns of B and of C, from which a thread takes a tile: m0, m1, n0, n1.
Corner = tuple[int, int, int, int]


# ------------------------------------------------------------------------------------------------- elements and results


@njit(cache=True, nogil=True, error_model="numpy")
def _load_x(b, k0, ks, n0, n1, mask, patterns):  # type: ignore[no-untyped-def]
    """patterns[g, q, j] = b[k0 + ks[q], n0 + 16 g + j], flat; zeros after column n1, and where ks[q] is -1."""
    whole_vectors()
    lanes, depth, columns = uint64(WIDTH), uint64(ks.shape[0]), uint64(n1 - n0)
    for q in range(depth):
        k, first = uint64(k0 + ks[q]), uint64(n0)
        there = columns if ks[q] >= 0 else uint64(0)
        for g in range(there // lanes):
            at = (g * depth + q) * lanes
            for j in range(lanes):
                patterns[at + j] = uint32(b[k, first + g * lanes + j]) & mask
        for g in range(there // lanes, (columns + lanes - uint64(1)) // lanes):
            at = (g * depth + q) * lanes
            for j in range(lanes):
                n = g * lanes + j
                patterns[at + j] = uint32(b[k, first + n]) & mask if n < there else uint32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _load_y(a, k0, ks, straight, m0, m1, mask, patterns):  # type: ignore[no-untyped-def]
    """patterns[r, q, i] = a[m0 + 4 r + i, k0 + ks[q]], flat; zeros after row m1, and where ks[q] is -1.

    straight: whether ks[q] is q.
    """
    four, depth, rows = uint64(ROWS), uint64(ks.shape[0]), uint64(m1 - m0)
    for r in range((rows + four - uint64(1)) // four):
        first, at = uint64(m0) + r * four, r * depth * four
        if straight and r * four + four <= rows:
            for q in range(depth):
                for i in range(four):
                    patterns[at + q * four + i] = uint32(a[first + i, uint64(k0) + q]) & mask
            continue
        for q in range(depth):
            for i in range(four):
                there = r * four + i < rows and ks[q] >= 0
                patterns[at + q * four + i] = uint32(a[first + i, uint64(k0 + ks[q])]) & mask if there else uint32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _open(c, corner, running):  # type: ignore[no-untyped-def]
    """running[g, r, i, j] = c[m0 + 4 r + i, n0 + 16 g + j] as float32, flat; zeros after row m1 and column n1."""
    whole_vectors()
    m0, m1, n0, n1 = corner
    lanes, columns, rows = uint64(WIDTH), uint64(n1 - n0), uint64(m1 - m0)
    padded = uint64(-(-(m1 - m0) // ROWS) * ROWS)
    for m in range(padded):
        there = columns if m < rows else uint64(0)
        for g in range(there // lanes):
            at, first = (g * padded + m) * lanes, uint64(n0) + g * lanes
            for j in range(lanes):
                running[at + j] = c[uint64(m0) + m, first + j]
        for g in range(there // lanes, (columns + lanes - uint64(1)) // lanes):
            at, first = (g * padded + m) * lanes, g * lanes
            for j in range(lanes):
                running[at + j] = c[uint64(m0) + m, uint64(n0) + first + j] if first + j < there else 0
    of_c = uint64(running.ctypes.data)
    widen(of_c, int64(c.itemsize == 2), int64(running.shape[0] // WIDTH), of_c)


@njit(cache=True, nogil=True, error_model="numpy")
def _close(running, corner, d):  # type: ignore[no-untyped-def]
    """d[m0 + 4 r + i, n0 + 16 g + j] = the result running[g, r, i, j], flat, as a pattern of d's format."""
    whole_vectors()
    finish(uint64(running.ctypes.data), int64(running.shape[0] // WIDTH), int64(HALVES if d.itemsize == 2 else FLOATS))
    m0, m1, n0, n1 = corner
    lanes, columns, padded = uint64(WIDTH), uint64(n1 - n0), uint64(-(-(m1 - m0) // ROWS) * ROWS)
    for m in range(uint64(m1 - m0)):
        for g in range(columns // lanes):
            at, first = (g * padded + m) * lanes, uint64(n0) + g * lanes
            for j in range(lanes):
                d[uint64(m0) + m, first + j] = running[at + j]
        for n in range(columns // lanes * lanes, columns):
            d[uint64(m0) + m, uint64(n0) + n] = running[(n // lanes * padded + m) * lanes + n % lanes]


# --------------------------------------------------------------------------------------------------------- the products


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True)
def _multiply(x, vectors_x, y, vectors_y, steps, numbers, room, c, chains, blocks):  # type: ignore[no-untyped-def]
    """`products.multiply` for one tile, without scales; all but counts are addresses."""
    none, no = uint64(0), int64(0)
    ahead = numbers + uint64(8 * LOADS)  # nothing is fetched ahead: the number after the formats is 0
    seen = multiply(
        int64(1), x, vectors_x, y, vectors_y, steps, numbers, room, c, (none, none, no, no, none),
        (chains, blocks), ahead, no,
    )  # fmt: skip
    put(numbers, int64(FOUND), seen)


@cache
def _multiply_at() -> int:
    """The address of the compiled `_multiply`."""
    places = [uint64, int64, uint64, int64, int64, *[uint64] * 5]
    return address_of(_multiply, *places)


@njit(cache=True, nogil=True, error_model="numpy")
def _add(  # type: ignore[no-untyped-def]
    a, b, k, corner, ks, straight, counts, masks, numbers, rooms, running, code
):
    """running += a @ b of a tile, from k on; returns the k at which the fast path fails, or else their number.

    ks: what `_load_x` takes, for some instructions. counts: these instructions, and the products of each. masks: of the
    bits of an element of B and of A. rooms: for x, y and what is packed. code: the addresses of `_multiply` and of all
    that `chains_at` returns.
    """
    x, y, room = rooms
    m0, m1, n0, n1 = corner
    steps, deep = counts
    per = ks.shape[0] // steps
    while k < a.shape[1]:
        many = min(steps, (a.shape[1] - k) // deep)
        some = ks[: many * per]
        _load_x(b, k, some, n0, n1, masks[0], x)
        _load_y(a, k, some, straight, m0, m1, masks[1], y)
        chains = many if numbers[JOIN] else 1
        numbers[SUMS] *= many // chains
        vectors_x, vectors_y = -(-(n1 - n0) // WIDTH) * len(some), -(-(m1 - m0) // ROWS) * len(some) * ROWS // WIDTH
        call(
            code[0],
            (uint64(x.ctypes.data), int64(vectors_x), uint64(y.ctypes.data), int64(vectors_y), int64(chains),
             uint64(numbers.ctypes.data), uint64(room.ctypes.data), uint64(running.ctypes.data), *code[1]),
        )  # fmt: skip
        numbers[SUMS] //= many // chains
        if numbers[FOUND] & sums.OUTSIDE and (numbers[KEEP] != 23 or numbers[HALF]):
            return k
        k += many * deep
    return k


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


class Rule(NamedTuple):
    """Fraction bits F, the floor of E, fraction bits kept, and whether results are float16 rounded to nearest."""

    fraction: int
    floor: int
    keep: int
    half: bool


_KEPT = Kept()


class Product:
    """A product with everything that its tiles share.

    places: for one instruction, the k of each fused sum, (sums, depth), with -1 behind those of a shorter sum. formats,
    normal and join: see `matmul.fused`.
    """

    def __init__(self, rule: Rule, formats: Sequence[Array], normal: Sequence[bool], join: bool, places: Array):
        self._rule, self._formats, self._join = np.array(rule), formats, join
        self._sums = [ks[ks >= 0] for ks in places]
        forms = [*formats[1], normal[1], *formats[0], normal[0]]
        room = sums.space(rule.fraction, places.shape[1], [form.tolist() for form in formats])
        self._numbers = np.array([*rule, join, places.shape[1], len(places), room, *forms, 0, 0], np.int64)
        self._deep = sum(map(len, self._sums))
        self._steps = max(1, CHUNK // places.size)  # instructions at a time
        ks = np.arange(self._steps)[:, None, None] * self._deep + places
        self._ks = np.where(places < 0, -1, ks).reshape(-1)
        self._straight = np.array_equal(self._ks, np.arange(self._ks.size))
        self._masks = tuple(np.uint32(-1 << int(form[3]) & 0xFFFFFFFF) for form in (formats[1], formats[0]))

    def tile(self, a: Array, b: Array, c: Array, d: Array, corner: Corner, *, fast: bool) -> None:
        """A tile of d = a @ b + c, k in the order of the sums; all are matrices of patterns in C order.

        Without `fast`, the plain rule computes everything.
        """
        m0, m1, n0, n1 = corner
        rows, columns = -(-(m1 - m0) // ROWS) * ROWS, -(-(n1 - n0) // WIDTH) * WIDTH
        running = _KEPT.take("running", rows * columns, np.int32)
        _open(c, corner, running)
        k = 0
        while k < a.shape[1]:
            if fast:
                k = self._add(a, b, k, corner, rows, columns, running)
            if k < a.shape[1]:
                stop = min(k + self._steps * self._deep, a.shape[1])
                tile = running.reshape(-1, rows, WIDTH).transpose(1, 0, 2).reshape(rows, -1)[: m1 - m0, : n1 - n0]
                found = self._added(a[m0:m1, k:stop], b[k:stop, n0:n1], np.ascontiguousarray(tile))
                blocks = np.pad(found, ((0, rows - len(found)), (0, columns - found.shape[1])))
                running[...] = blocks.reshape(rows, -1, WIDTH).transpose(1, 0, 2).reshape(-1)
                k = stop
        _close(running, corner, d)

    def _add(self, a: Array, b: Array, k: int, corner: Corner, rows: int, columns: int, running: Array) -> int:
        size_x, size_y = columns * self._ks.size, rows * self._ks.size
        x, y = _KEPT.take("x", size_x, np.uint32), _KEPT.take("y", size_y, np.uint32)
        rooms = x, y, _KEPT.take("packed", 3 * (size_x + size_y), np.int32)
        counts, code = (self._steps, self._deep), (_multiply_at(), chains_at())
        reached: int = _add(
            a, b, k, corner, self._ks, self._straight, counts, self._masks, self._numbers.copy(), rooms, running, code
        )
        return reached

    def _added(self, a: Array, b: Array, c: Array) -> Array:
        """a @ b + c by the plain rule; c are float32 patterns."""
        for first in range(0, len(b), self._deep):
            part = np.zeros_like(c) if self._join else c
            for ks in self._sums:
                right, left = (
                    each.astype(np.uint32) & mask
                    for each, mask in zip((b[first + ks], a[:, first + ks]), self._masks, strict=True)
                )
                plain(np.ascontiguousarray(left), right, part, *self._formats, self._rule)
            if self._join:
                _join(part, c, bool(self._rule[3]))
        return c
