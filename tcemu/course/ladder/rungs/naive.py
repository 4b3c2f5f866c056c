"""Rung 1, naive: a thread for each element of D."""

import numpy as np

from tcemu.gemm import scalar

TILE_M, TILE_N, THREADS = 16, 16, 256

LAUNCH = TILE_M, TILE_N, THREADS, 0


def kernel(warp, a, b, d):
    (m, n), k, (x, y, _) = d.shape, a.shape[1], warp.ctaid
    row, column = TILE_M * y + warp.threads // TILE_N, TILE_N * x + warp.threads % TILE_N
    with warp.only((row < m) & (column < n)):
        c = np.zeros(32, np.float32)
        for i in range(k):
            left, right = warp.ld_global(a.at(row, i), "b16"), warp.ld_global(b.at(column, i), "b16")
            c = scalar.fma(value(left), value(right), c)
        warp.st_global(d.at(row, column), c.view(np.uint32))


def value(held):
    return held[:, 0].astype(np.uint16).view(np.float16).astype(np.float32)
