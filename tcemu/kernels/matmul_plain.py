"""Tiles of matrix products that need no alignment: small integers, bits, and binary64."""

from __future__ import annotations

import numpy as np
from numba import float32, int32, int64, uint32

from tcemu.kernels.binary64 import INVALID, NEAREST, bits_of, fma, is_nan, quiet, value_of
from tcemu.kernels.compiling import njit
from tcemu.kernels.directed import round_as, round_to_nearest
from tcemu.kernels.matmul_exact import WIDTH

#: Products that are summed at once. float32 holds sums of 256 products of bytes, below 2^24, exactly.
BLOCK = 16

_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1


@njit(cache=True, nogil=True, error_model="numpy")
def _sum16(a, b, c):  # type: ignore[no-untyped-def]
    """c[m, j] += a[m, k] * b[k, j] over 16 k, wrapping; b is flat, with rows of WIDTH."""
    for m in range(a.shape[0]):
        for j in range(WIDTH):
            total = float32(0.0)
            for k in range(16):
                total += float32(a[m, k] * b[WIDTH * k + j])
            c[m, j] = int32(c[m, j] + int32(total))


@njit(cache=True, nogil=True, error_model="numpy")
def _clamp_into(part, c):  # type: ignore[no-untyped-def]
    """c += part, clamped; part becomes zero."""
    for m in range(c.shape[0]):
        for j in range(WIDTH):
            total = int64(c[m, j]) + int64(part[m, j])
            c[m, j] = int32(min(max(total, int64(_LOWEST)), int64(_HIGHEST)))
            part[m, j] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def integer(a, b, c, chain, saturate):  # type: ignore[no-untyped-def]
    """c = a @ b + c in place: a (blocks, rows, 16), b (blocks, 16 * WIDTH) float32 of bytes; c (rows, WIDTH) int32.

    Wraps, or is clamped after every `chain` blocks.
    """
    part = np.zeros(c.shape if saturate else (1, 1), np.int32)
    for i in range(a.shape[0]):
        _sum16(a[i], b[i], part if saturate else c)
        if saturate and i % chain == chain - 1:
            _clamp_into(part, c)


@njit(cache=True, nogil=True)
def _ones(x):  # type: ignore[no-untyped-def]
    """The number of ones in a uint32, by adding neighbours; LLVM replaces this code by the processor's instruction."""
    x = uint32(x - uint32((x >> uint32(1)) & uint32(0x55555555)))
    x = uint32(uint32(x & uint32(0x33333333)) + uint32((x >> uint32(2)) & uint32(0x33333333)))
    x = uint32(uint32(x + uint32(x >> uint32(4))) & uint32(0x0F0F0F0F))
    return int32(uint32(x * uint32(0x01010101)) >> uint32(24))


@njit(cache=True, nogil=True, error_model="numpy")
def bits(a, b, c, exclusive):  # type: ignore[no-untyped-def]
    """c[m, n] += the number of ones in a[m, w] xor b[w, n] (or a and b) over all words w, wrapping."""
    for m in range(a.shape[0]):
        for w in range(a.shape[1]):
            word = a[m, w]
            if exclusive:
                for n in range(c.shape[1]):
                    c[m, n] = int32(c[m, n] + _ones(uint32(word ^ b[w, n])))
            else:
                for n in range(c.shape[1]):
                    c[m, n] = int32(c[m, n] + _ones(uint32(word & b[w, n])))


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
