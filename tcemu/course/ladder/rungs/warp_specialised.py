"""Rung 8, warp-specialised: a warpgroup that only copies and two that only multiply, with registers moved to these."""

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

TILE_M, TILE_N, TILE_K, CONSUMERS = 128, 256, 64, 2
THREADS = 128 * CONSUMERS + 128
STAGES, A_BYTES = 4, TILE_M * TILE_K * 2
STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2
SHARED = STAGES * STAGE_BYTES + 16 * STAGES

LAUNCH = TILE_M, TILE_N, THREADS, SHARED, TILE_M, TILE_N

WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def full(stage):
    return STAGES * STAGE_BYTES + 8 * stage


def empty(stage):
    return full(STAGES + stage)


def begin(warp):
    with warp.only(warp.threads == 0):
        for stage in range(STAGES):
            warp.mbarrier_init(full(stage), 1)
            warp.mbarrier_init(empty(stage), 4 * CONSUMERS)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def produce(warp, a, b, steps):
    x, y, _ = warp.ctaid
    for step in range(steps):
        stage, turn = step % STAGES, step // STAGES
        tile = stage * STAGE_BYTES
        warp.mbarrier_wait(empty(stage), (turn + 1) % 2)
        warp.mbarrier_arrive_expect_tx(full(stage), STAGE_BYTES)
        warp.cp_async_bulk_tensor_shared_global(tile, a, (TILE_K * step, TILE_M * y), full(stage))
        warp.cp_async_bulk_tensor_shared_global(tile + A_BYTES, b, (TILE_K * step, TILE_N * x), full(stage))


def multiply_stage(warp, stage, c, first):
    tile = stage * STAGE_BYTES
    a = Descriptor.for_tile("f16", 64, TILE_K, swizzle=128, start=tile + warp.warpgroup * 64 * 128)
    b = Descriptor.for_tile("f16", TILE_N, TILE_K, swizzle=128, start=tile + A_BYTES)
    warp.wgmma_fence()
    for at in range(0, 128, 32):
        warp.run(WGMMA, c, a.step(at), b.step(at), at > 0 or not first, 1, 1, 0, 0)
    warp.wgmma_commit_group()


def release(warp, stage):
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive(empty(stage))


def consume(warp, c, steps):
    for step in range(steps):
        stage, turn = step % STAGES, step // STAGES
        warp.mbarrier_wait(full(stage), turn % 2)
        multiply_stage(warp, stage, c, step == 0)
        warp.wgmma_wait_group(1)
        if step > 0:
            release(warp, (step - 1) % STAGES)
    warp.wgmma_wait_group(0)


def store(warp, d, row, column, c):
    m, n = d.shape
    row, column = row + warp.laneid // 4, column + warp.laneid % 4 * 2
    for half in range(2):
        for j in range(TILE_N // 8):
            y, x = row + 8 * half, column + 8 * j
            with warp.only((y < m) & (x < n)):
                warp.st_global(d.at(y, x), c[:, 4 * j + 2 * half : 4 * j + 2 * half + 2], "v2.b32")


def kernel(warp, a, b, d):
    k, (x, y, _) = a.shape[1], warp.ctaid
    a = TensorMap.of(a, (TILE_K, TILE_M), swizzle=128)
    b = TensorMap.of(b, (TILE_K, TILE_N), swizzle=128)
    steps = (k + TILE_K - 1) // TILE_K
    begin(warp)
    if warp.warpgroup == CONSUMERS:
        warp.setmaxnreg("dec", 40)
        if warp.warpid == 4 * CONSUMERS:
            with warp.only(warp.laneid == 0):
                produce(warp, a, b, steps)
    else:
        warp.setmaxnreg("inc", 232)
        c = warp.registers(TILE_N // 2)
        consume(warp, c, steps)
        store(warp, d, TILE_M * y + 16 * warp.warpid, TILE_N * x, c)
