"""Rung 5, cp.async: while one stage is multiplied, the next ones are being copied."""

import numpy as np

TILE_M, TILE_N, TILE_K, THREADS, WARP_M, WARP_N = 128, 128, 64, 256, 64, 32
STAGES, A_BYTES = 3, TILE_M * TILE_K * 2
STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2
SHARED = STAGES * STAGE_BYTES

LAUNCH = TILE_M, TILE_N, THREADS, SHARED

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def place(row, unit):
    return 128 * row + 16 * unit


def copy_tile(warp, to, matrix, first, column):
    rows, k = matrix.shape
    for begin in range(0, TILE_M * 8, THREADS):
        i = begin + warp.threads
        row, x = first + i // 8, column + i % 8 * 8
        inside = (row < rows) & (x < k)
        source = matrix.at(np.where(inside, row, 0), np.where(inside, x, 0))
        warp.cp_async(to + place(i // 8, i % 8), source, 16, np.where(inside, 16, 0), cache="cg")


def copy_stage(warp, a, b, step):
    x, y, _ = warp.ctaid
    tile = step % STAGES * STAGE_BYTES
    copy_tile(warp, tile, a, TILE_M * y, TILE_K * step)
    copy_tile(warp, tile + A_BYTES, b, TILE_N * x, TILE_K * step)


def multiply_stage(warp, step, c):
    tile = step % STAGES * STAGE_BYTES
    down, along = warp.laneid % 16, warp.laneid // 16
    row, column = WARP_M * (warp.warpid // 4), WARP_N * (warp.warpid % 4)
    for unit in range(0, TILE_K // 8, 2):
        held_a = [warp.run(LDMATRIX, tile + place(row + 16 * i + down, unit + along)) for i in range(4)]
        held_b = [warp.run(LDMATRIX, tile + A_BYTES + place(column + 16 * j + down, unit + along)) for j in range(2)]
        for i in range(4):
            for j in range(4):
                c[i][j] = warp.run(MMA, held_a[i], held_b[j // 2][:, [j % 2, j % 2 + 2]], c[i][j])


def store(warp, d, row, column, c):
    m, n = d.shape
    row, column = row + warp.laneid // 4, column + warp.laneid % 4 * 2
    for i in range(4):
        for half in range(2):
            for j in range(4):
                y, x = row + 16 * i + 8 * half, column + 8 * j
                with warp.only((y < m) & (x < n)):
                    warp.st_global(d.at(y, x), c[i][j][:, 2 * half : 2 * half + 2], "v2.b32")


def kernel(warp, a, b, d):
    k, (x, y, _) = a.shape[1], warp.ctaid
    row, column = TILE_M * y + WARP_M * (warp.warpid // 4), TILE_N * x + WARP_N * (warp.warpid % 4)
    c = [[warp.registers(4, fill=0) for j in range(4)] for i in range(4)]
    steps = (k + TILE_K - 1) // TILE_K
    for step in range(STAGES - 1):
        if step < steps:
            copy_stage(warp, a, b, step)
        warp.cp_async_commit_group()
    for step in range(steps):
        warp.cp_async_wait_group(STAGES - 2)  # this thread's copies for this step have arrived
        warp.bar_sync()  # all threads' have, and all have read the stage before, to be refilled
        if step + STAGES - 1 < steps:
            copy_stage(warp, a, b, step + STAGES - 1)
        warp.cp_async_commit_group()  # an empty group too, so that the number to wait for stays the same
        multiply_stage(warp, step, c)
    store(warp, d, row, column, c)
