"""Rung 1, naive: a thread for each element of D."""

import numpy as np

from tcemu.gemm import scalar

TILE_M, TILE_N, THREADS = 16, 16, 256

# A block's tile, its threads, and its bytes of shared memory; every rung states them like this.
LAUNCH = TILE_M, TILE_N, THREADS, 0


def kernel(warp, a, b, d):
    (m, n), k, (x, y, _) = d.shape, a.shape[1], warp.ctaid
    row, column = TILE_M * y + warp.threads // TILE_N, TILE_N * x + warp.threads % TILE_N
    c = np.zeros(32, np.float32)
    # Your lines: value(warp.ld_global(a.at(row, i), "b16")), scalar.fma, warp.only, and for f32 c:
    # warp.st_global(d.at(row, column), c.view(np.uint32))


def value(held):
    """The f16 in a register of 16 bits, as f32."""
    return held[:, 0].astype(np.uint16).view(np.float16).astype(np.float32)
