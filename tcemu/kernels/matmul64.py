"""Tiles of matrix products of binary64: chains of fused multiply-adds in ascending k.

Subnormal numbers take some processors a hundred times as long; `raised` computes tiles with some at another scale.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from tcemu.kernels import raised64
from tcemu.kernels.ahead import NOTES
from tcemu.kernels.binary64 import INVALID, NEAREST, bits_of, fma, is_nan, quiet, value_of
from tcemu.kernels.blocks64 import INDICES, ROWS
from tcemu.kernels.chains64 import HIGH, NUMBERS, VECTORS, high
from tcemu.kernels.compiling import njit
from tcemu.kernels.directed import round_as, round_to_nearest
from tcemu.kernels.raised64 import LANES
from tcemu.kernels.rooms import Kept

Array = npt.NDArray[Any]
_KEPT = Kept()
#: Nothing is fetched ahead.
_NOTHING = np.zeros(NOTES, np.int64)
_ONE, _FRACTIONS = np.uint64(1), np.uint64((1 << 52) - 1)


# ------------------------------------------------------------------------------------------------- at the usual scale


@njit(cache=True, nogil=True)
def _before_nan(row):  # type: ignore[no-untyped-def]
    """The number of patterns before the first NaN of a row; all, if it has none."""
    for k in range(row.shape[0]):
        if is_nan(row[k]):
            return k
    return row.shape[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _last_nans(b):  # type: ignore[no-untyped-def]
    """The last NaN of each column, quiet; 0 for a column without."""
    last = np.zeros(b.shape[1], np.uint64)
    for k in range(b.shape[0]):
        for n in range(b.shape[1]):
            last[n] = quiet(b[k, n]) if is_nan(b[k, n]) else last[n]
    return last


@njit(cache=True, nogil=True, error_model="numpy")
def chain64(a, b, c, mode):  # type: ignore[no-untyped-def]
    """c[m, n] = fma(a[m, k], b[k, n], c[m, n]) for ascending k; uint64 patterns. mode and NaN as in `binary64`.

    A multiply-add returns the NaN of b, else the one of its running sum, else that of a. So each NaN of a column of B
    replaces what came before it, and without one the first NaN stays: c, what an invalid operation makes, or the first
    NaN of the row of A. Up to there the processor's own instruction does what the silicon does.
    """
    last = _last_nans(b)
    running = np.empty(c.shape[1], np.float64)
    for m in range(a.shape[0]):
        depth = _before_nan(a[m])
        first = quiet(a[m, depth]) if depth < a.shape[1] else np.uint64(0)
        for n in range(c.shape[1]):
            running[n] = value_of(c[m, n])
        if mode != NEAREST:
            round_as(mode)
        for k in range(depth):
            x = value_of(a[m, k])
            for n in range(c.shape[1]):
                running[n] = fma(x, value_of(b[k, n]), running[n])
        if mode != NEAREST:
            round_to_nearest()
        for n in range(c.shape[1]):
            if last[n]:
                c[m, n] = last[n]
            elif is_nan(c[m, n]):
                c[m, n] = quiet(c[m, n])
            elif running[n] != running[n]:
                c[m, n] = INVALID
            else:
                c[m, n] = first or bits_of(running[n])


# ------------------------------------------------------------------------------------------------- at the other scale


def raised(a: Array, b: Array, c: Array, mode: int) -> bool:
    """`chain64` at the other scale, where subnormal numbers would be slow; returns whether c was computed."""
    if not raised64.subnormals_are_slow() or not (_any_subnormal(a) or _any_subnormal(b) or _any_subnormal(c)):
        return False
    (rows, depth), columns = a.shape, b.shape[1]
    high_rows, groups = -(-rows // ROWS) * ROWS, -(-columns // LANES)
    sizes = -(-high_rows * depth // LANES), groups * depth, groups * high_rows  # vectors of A, of B and of C
    of_a, of_b, of_c = (LANES * size for size in sizes)
    room = _KEPT.take("raised", 2 * (2 * (of_a + of_b + of_c) + of_c), np.uint32).view(np.uint64)
    left, right, start, found, rest = np.split(room, np.cumsum([of_a, of_b, of_c, of_c]))
    left[: a.size], left[a.size :] = a.reshape(-1), 0
    _put(b, right)
    _put(c, start)
    if not _high(left, right, start, *_told(high_rows, depth, groups), rest, mode, _NOTHING, found):
        return False
    results = found.reshape(groups, high_rows, LANES)[:, :rows].transpose(1, 0, 2).reshape(rows, -1)
    c[...] = results[:, :columns]
    return True


@njit(cache=True, nogil=True)
def _any_subnormal(x):  # type: ignore[no-untyped-def]
    """Whether any of the patterns of a matrix is a subnormal number."""
    found = False
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            # One less than a zero is above everything.
            found |= ((x[i, j] << _ONE) >> _ONE) - _ONE < _FRACTIONS
    return found


def _put(matrix: Array, vectors: Array) -> None:
    """vectors[group, row] = LANES elements of a row, flat; zeros after the last column and row."""
    rows, columns = matrix.shape
    groups = -(-columns // LANES)
    whole_rows = vectors.size // (groups * LANES)
    vectors[...] = 0
    padded = np.zeros((rows, groups * LANES), np.uint64)
    padded[:, :columns] = matrix
    vectors.reshape(groups, whole_rows, LANES)[:, :rows] = padded.reshape(rows, groups, LANES).transpose(1, 0, 2)


@lru_cache(maxsize=16)
def _told(rows: int, depth: int, groups: int) -> tuple[Array, Array]:
    """The tables and numbers of `chains64.high`, where everything is in order."""
    sizes = -(-rows * depth // LANES), groups * depth, groups * rows
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[:INDICES] = groups, rows, depth
    numbers[VECTORS:NUMBERS] = sizes
    numbers[HIGH : HIGH + 3] = 2 * LANES * np.cumsum([0, *sizes[:2]])
    # One table serves A, B and C, all of which are in order; the orders of lanes, which it also stands for, are unused.
    return np.arange(LANES * max(sizes), dtype=np.uint32), numbers


@njit(cache=True, nogil=True)
def _high(a, b, c, table, numbers, room, mode, ahead, found):  # type: ignore[no-untyped-def]
    """`chains64.high` for arrays."""
    if mode != NEAREST:
        round_as(mode)
    done = high(
        uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data), uint64(table.ctypes.data),
        uint64(numbers.ctypes.data), uint64(room.ctypes.data), mode, uint64(ahead.ctypes.data), int64(0),
        uint64(found.ctypes.data),
    )  # fmt: skip
    if mode != NEAREST:
        round_to_nearest()
    return done
