"""Rung 4, ldmatrix: the block copies tiles to shared memory, from where each warp loads its fragments."""

TILE_M, TILE_N, TILE_K, THREADS, WARP_M, WARP_N = 128, 128, 64, 256, 64, 32
A_BYTES = TILE_M * TILE_K * 2
SHARED = A_BYTES + TILE_N * TILE_K * 2

LAUNCH = TILE_M, TILE_N, THREADS, SHARED

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def place(row, unit):
    return 128 * row + 16 * unit


def copy_tile(warp, to, matrix, first, column):
    rows, k = matrix.shape
    loads = []
    for begin in range(0, TILE_M * 8, THREADS):
        i = begin + warp.threads
        row, x = first + i // 8, column + i % 8 * 8
        inside = (row < rows) & (x < k)
        with warp.only(inside):
            loads.append((i, inside, warp.ld_global(matrix.at(row, x), "v4.b32")))
    for i, inside, unit in loads:  # only now: to look at a register is to wait for its load
        held = warp.registers(4, fill=0)
        held[inside] = unit[inside]
        warp.st_shared(to + place(i // 8, i % 8), held, "v4.b32")


def copy_stage(warp, a, b, step):
    x, y, _ = warp.ctaid
    tile = 0
    copy_tile(warp, tile, a, TILE_M * y, TILE_K * step)
    copy_tile(warp, tile + A_BYTES, b, TILE_N * x, TILE_K * step)


def multiply_stage(warp, c):
    tile = 0
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
    for step in range((k + TILE_K - 1) // TILE_K):
        copy_stage(warp, a, b, step)
        warp.bar_sync()  # all have copied
        multiply_stage(warp, c)
        warp.bar_sync()  # all have read
    store(warp, d, row, column, c)
