"""mma.sync with ldmatrix, fed by cp.async in two stages: while one tile is multiplied, the next is being copied.

A block of four warps computes a tile of 64 x 64, each warp 32 x 32 of it. In shared memory the 16-byte units of a row
are permuted by the number of the row, so that the eight rows of a matrix are in different banks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.gemm.wmma_global import check
from tcemu.launcher import launch
from tcemu.machine.launch import Launch
from tcemu.machine.memory import Pointer
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp

#: A block's tile, its step along K, and the stages.
M, N, K = 64, 64, 32
STAGES = 2
#: Bytes of the tiles of A (64 rows of 64 bytes) and B (32 rows of 128 bytes) in one stage.
A_BYTES, B_BYTES = 2 * M * K, 2 * K * N
STAGE_BYTES = A_BYTES + B_BYTES

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LOAD_TRANSPOSED = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"

Lanes = npt.NDArray[np.int64]


def place_a(row: Lanes, unit: Lanes) -> Lanes:
    """The address of a 16-byte unit in a tile of A, whose rows have 4 units."""
    return row * 64 + ((unit ^ row // 2 % 4) * 16)


def place_b(row: Lanes, unit: Lanes) -> Lanes:
    """The same in a tile of B, whose rows have 8 units."""
    return row * 128 + ((unit ^ row % 8) * 16)


def copy_stage(warp: Warp, a: Pointer, b: Pointer, k: int, stage: int) -> None:
    """Start copying the tiles of A and B at `k`: 256 units of 16 bytes from each, two for each thread."""
    x, y, _ = warp.ctaid
    for half in range(2):
        unit = warp.threads + 128 * half
        row, column = unit // 4, unit % 4
        warp.cp_async(stage * STAGE_BYTES + place_a(row, column), a.at(M * y + row, k + 8 * column), 16, cache="cg")
        row, column = unit // 8, unit % 8
        to = stage * STAGE_BYTES + A_BYTES + place_b(row, column)
        warp.cp_async(to, b.at(k + row, N * x + 8 * column), 16, cache="cg")
    warp.cp_async_commit_group()


def multiply_stage(warp: Warp, stage: int, c: list[list[Registers]]) -> None:
    """Multiply the tiles of a stage: this warp's 32 x 32, in steps of 16 along K."""
    first_a, first_b = stage * STAGE_BYTES, stage * STAGE_BYTES + A_BYTES
    row, column = 32 * (warp.warpid // 2), 32 * (warp.warpid % 2)
    for k in range(0, K, 16):
        # each group of 8 lanes gives the row addresses of one 8 x 8 matrix: down first, then along
        down, along = warp.laneid % 16, warp.laneid // 16
        held_a = [warp.run(LOAD, first_a + place_a(row + 16 * m + down, k // 8 + along)) for m in range(2)]
        held_b = [warp.run(LOAD_TRANSPOSED, first_b + place_b(k + down, column // 8 + 2 * n + along)) for n in range(2)]
        for m in range(2):
            for n in range(4):
                pair = held_b[n // 2][:, 2 * (n % 2) : 2 * (n % 2) + 2]
                c[m][n] = warp.run(MMA, held_a[m], pair, c[m][n])


def kernel(warp: Warp, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B, all row-major: A (m, k) and B (k, n) of f16, D (m, n) of f32."""
    x, y, _ = warp.ctaid
    steps = b.shape[0] // K
    c = [[warp.registers(4, fill=0) for _ in range(4)] for _ in range(2)]
    copy_stage(warp, a, b, 0, 0)
    for step in range(steps):
        if step + 1 < steps:
            copy_stage(warp, a, b, K * (step + 1), (step + 1) % STAGES)
            warp.cp_async_wait_group(1)
        else:
            warp.cp_async_wait_group(0)
        warp.bar_sync()  # the copies of all warps have arrived
        multiply_stage(warp, step % STAGES, c)
        warp.bar_sync()  # all warps have read them: the stage may be overwritten
    row = M * y + 32 * (warp.warpid // 2) + warp.laneid // 4
    column = N * x + 32 * (warp.warpid % 2) + 2 * (warp.laneid % 4)
    for m in range(2):
        for n in range(4):
            for half in range(2):
                where = d.at(row + 16 * m + 8 * half, column + 8 * n)
                warp.st_global(where, c[m][n][:, 2 * half : 2 * half + 2], "v2.b32")


def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch; m and n are multiples of 64, k of 32.

    `options` are passed to tcemu.launch: target, seed, policy, sanitizer. Raises OperandError for other shapes.
    """
    check(a, b, M, N, K)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = b.shape[1] // N, len(a) // M
    return d, launch(kernel, grid, 128, (a, b, d), shared=STAGES * STAGE_BYTES, **options)
