"""Tiles of matrix products that need no alignment: small integers and bits."""

from __future__ import annotations

import numpy as np
from numba import float32, int32, int64, uint32

from tcemu.kernels.compiling import njit
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
