"""Rung 2, wmma: a warp for each 16 x 16 of D."""

TILE_M, TILE_N, THREADS = 32, 32, 128

LAUNCH = TILE_M, TILE_N, THREADS, 0

LOAD_A = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
LOAD_B = "wmma.load.b.sync.aligned.col.m16n16k16.global.f16"
MMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
STORE = "wmma.store.d.sync.aligned.row.m16n16k16.global.f32"


def kernel(warp, a, b, d):
    (m, n), k, (x, y, _) = d.shape, a.shape[1], warp.ctaid
    row, column = TILE_M * y + 16 * (warp.warpid // 2), TILE_N * x + 16 * (warp.warpid % 2)
    c = warp.registers(8, fill=0)
    for i in range(0, k, 16):
        held_a = warp.run(LOAD_A, a.at(row, i), k)
        held_b = warp.run(LOAD_B, b.at(column, i), k)
        c = warp.run(MMA, held_a, held_b, c)
    warp.run(STORE, d.at(row, column), c, n)
