"""Exact integer products on tiles: sums of small integers, and population counts."""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit

LOWEST, HIGHEST = np.int64(-(1 << 31)), np.int64((1 << 31) - 1)


@njit(cache=True, nogil=True)
def dot(a, b, c, d, sign_a, sign_b, saturate):  # type: ignore[no-untyped-def]
    """d[w] = a[w] @ b[w] + c[w] in 32 bits, wrapping or clamped. `sign_a`, `sign_b`: the sign bit, or 0."""
    tiles, rows, depth = a.shape
    columns = b.shape[2]
    signed, sums = np.empty((depth, columns), np.int32), np.empty(columns, np.int32)
    for w in range(tiles):
        for k in range(depth):
            for n in range(columns):
                signed[k, n] = (np.int64(b[w, k, n]) ^ sign_b) - sign_b
        for m in range(rows):
            sums[:] = 0
            for k in range(depth):
                x = np.int32((np.int64(a[w, m, k]) ^ sign_a) - sign_a)
                for n in range(columns):
                    sums[n] = np.int32(sums[n] + np.int32(x * signed[k, n]))
            for n in range(columns):
                total = np.int64(np.int32(c[w, m, n])) + sums[n]
                if saturate:
                    total = min(max(total, LOWEST), HIGHEST)
                d[w, m, n] = np.uint32(total & 0xFFFFFFFF)


@njit(cache=True, nogil=True)
def dot_sparse(a, b, c, d, sign_a, sign_b, saturate, places):  # type: ignore[no-untyped-def]
    """Like dot, for a sparse A: its elements meet the rows `places` (w, m, k) of a longer B."""
    tiles, rows, depth = a.shape
    length, columns = b.shape[1], b.shape[2]
    signed, sums = np.empty((length, columns), np.int32), np.empty(columns, np.int32)
    for w in range(tiles):
        for k in range(length):
            for n in range(columns):
                signed[k, n] = (np.int64(b[w, k, n]) ^ sign_b) - sign_b
        for m in range(rows):
            sums[:] = 0
            for k in range(depth):
                x, met = np.int32((np.int64(a[w, m, k]) ^ sign_a) - sign_a), places[w, m, k]
                for n in range(columns):
                    sums[n] = np.int32(sums[n] + np.int32(x * signed[met, n]))
            for n in range(columns):
                total = np.int64(np.int32(c[w, m, n])) + sums[n]
                if saturate:
                    total = min(max(total, LOWEST), HIGHEST)
                d[w, m, n] = np.uint32(total & 0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _ones(x):  # type: ignore[no-untyped-def]
    """The number of ones in a 32-bit word, by adding neighbours."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101 & 0xFFFFFFFF) >> 24


@njit(cache=True, nogil=True)
def popc(a, b, c, d, exclusive):  # type: ignore[no-untyped-def]
    """d[w] = c[w] plus the number of ones in a[w] xor b[w] (or a[w] and b[w]), over 32-bit words, wrapping."""
    tiles, rows, depth = a.shape
    columns = b.shape[2]
    for w in range(tiles):
        for m in range(rows):
            for n in range(columns):
                total = np.int64(c[w, m, n])
                for k in range(depth):
                    x, y = np.int64(a[w, m, k]), np.int64(b[w, k, n])
                    total += _ones(x ^ y if exclusive else x & y)
                d[w, m, n] = np.uint32(total & 0xFFFFFFFF)
