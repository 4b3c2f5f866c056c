"""Rung 3, mma.sync: a warp for each 64 x 32 of D, whose lanes load their own elements of the fragments."""

TILE_M, TILE_N, THREADS, WARP_M, WARP_N = 128, 128, 256, 64, 32

LAUNCH = TILE_M, TILE_N, THREADS, 0

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def load_pair(warp, matrix, row, column):
    rows, k = matrix.shape
    inside = (row < rows) & (column < k)
    with warp.only(inside):
        return warp.ld_global(matrix.at(row, column), "b32"), inside


def fragment(warp, loads):
    """The registers that were loaded, zeros beyond the edges. To look at them is to wait: load all of them first."""
    held = warp.registers(len(loads), fill=0)
    for register, (pair, inside) in enumerate(loads):
        held[inside, register] = pair[inside, 0]
    return held


def multiply(warp, a, b, row, column, step, c):
    down, along = warp.laneid // 4, 16 * step + warp.laneid % 4 * 2
    loads_a, loads_b = [], []
    for i in range(4):
        at = [(row + 16 * i + down + 8 * (r % 2), along + 8 * (r // 2)) for r in range(4)]
        loads_a.append([load_pair(warp, a, *each) for each in at])
    for j in range(4):
        at = [(column + 8 * j + down, along + 8 * r) for r in range(2)]
        loads_b.append([load_pair(warp, b, *each) for each in at])
    held_a = [fragment(warp, loads) for loads in loads_a]
    held_b = [fragment(warp, loads) for loads in loads_b]
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
