"""wmma from global memory: each warp computes one tile of 16 x 16 without shared memory. Slow, short and correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.operands import check
from tcemu.launcher import launch
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.warp import Warp

#: Rows and columns of a warp's tile, and the steps along K.
TILE = 16
#: Warps in a block, down and across.
WARPS = 2

LOAD_A = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
LOAD_B = "wmma.load.b.sync.aligned.row.m16n16k16.global.f16"
MMA = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"
STORE = "wmma.store.d.sync.aligned.row.m16n16k16.global.f32"


def kernel(warp: Warp, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B, all row-major: A (m, k) and B (k, n) of f16, D (m, n) of f32."""
    x, y, _ = warp.ctaid
    row = TILE * (WARPS * y + warp.warpid // WARPS)
    column = TILE * (WARPS * x + warp.warpid % WARPS)
    depth, width = b.shape
    c = warp.registers(8, fill=0)
    for k in range(0, depth, TILE):
        held_a = warp.run(LOAD_A, a.at(row, k), depth)
        held_b = warp.run(LOAD_B, b.at(k, column), width)
        c = warp.run(MMA, held_a, held_b, c)
    warp.run(STORE, d.at(row, column), c, width)


@explained
def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch; m and n are multiples of 32, k of 16.

    `options` are passed to tcemu.launch: target, seed, policy, sanitizer. Raises OperandError for other shapes.

    >>> from tcemu.gemm import wmma_global
    >>> A, B = np.ones((64, 32), np.float16), np.ones((32, 64), np.float16)
    >>> D, result = wmma_global.multiply(A, B)
    >>> D[0, 0], result.reports
    (np.float32(32.0), [])
    """
    block = TILE * WARPS
    check(a, b, m=block, n=block, k=TILE)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = b.shape[1] // block, len(a) // block
    return d, launch(kernel, grid, 32 * WARPS**2, (a, b, d), **options)
