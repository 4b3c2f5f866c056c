"""Rung 3, mma.sync: a warp for each 64 x 32 of D, whose lanes load their own elements of the fragments."""

import numpy as np

TILE_M, TILE_N, THREADS, WARP_M, WARP_N = 128, 128, 256, 64, 32

LAUNCH = TILE_M, TILE_N, THREADS, 0

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def load_pair(warp, matrix, row, column):
    rows, k = matrix.shape
    pair = warp.registers(1, fill=0)
    inside = (row < rows) & (column < k)
    with warp.only(inside):
        held = warp.ld_global(matrix.at(row, column), "b32")
        pair[inside] = held[inside]
    return pair


def multiply(warp, a, b, row, column, step, c):
    down, along = warp.laneid // 4, 16 * step + warp.laneid % 4 * 2
    held_a, held_b = [], []
    for i in range(4):
        pairs = [load_pair(warp, a, row + 16 * i + down + 8 * (r % 2), along + 8 * (r // 2)) for r in range(4)]
        held_a.append(np.hstack(pairs))
    for j in range(4):
        pairs = [load_pair(warp, b, column + 8 * j + down, along + 8 * r) for r in range(2)]
        held_b.append(np.hstack(pairs))
    for i in range(4):
        for j in range(4):
            c[i][j] = warp.run(MMA, held_a[i], held_b[j], c[i][j])


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
    for step in range((k + 15) // 16):
        multiply(warp, a, b, row, column, step, c)
    store(warp, d, row, column, c)
