"""Rung 10, persistent: as many blocks as multiprocessors; while a tile is stored, the next one is being copied."""

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

TILE_M, TILE_N, TILE_K, CONSUMERS = 128, 256, 64, 2
THREADS = 128 * CONSUMERS + 128
CLUSTER, GROUP = 2, 8
PART_N, EVERYONE = TILE_N // CLUSTER, (1 << CLUSTER) - 1
STAGES, A_BYTES = 4, TILE_M * TILE_K * 2
STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2
SHARED = STAGES * STAGE_BYTES + 16 * STAGES

LAUNCH = TILE_M, TILE_N, THREADS, SHARED, TILE_M, PART_N

WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def full(stage):
    return STAGES * STAGE_BYTES + 8 * stage


def empty(stage):
    return full(STAGES + stage)


def begin(warp):
    with warp.only(warp.threads == 0):
        for stage in range(STAGES):
            warp.mbarrier_init(full(stage), 1)
            warp.mbarrier_init(empty(stage), 4 * CONSUMERS * CLUSTER)
        warp.fence_mbarrier_init()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def place(warp, tile, m, n):
    """Where a tile is, in tiles: groups of GROUP pairs of rows are visited one after the other, each by columns."""
    down, across = -(-m // (CLUSTER * TILE_M)), -(-n // TILE_N)
    first, within = tile // (GROUP * across) * GROUP, tile % (GROUP * across)
    rows = min(GROUP, down - first)
    return CLUSTER * (first + within % rows) + warp.cluster_ctarank, within // rows


def tiles_of(m, n):
    return -(-m // (CLUSTER * TILE_M)) * -(-n // TILE_N)


def produce(warp, a, b, m, n, steps):
    part, count = PART_N * warp.cluster_ctarank, 0
    for tile in range(warp.ctaid[0], tiles_of(m, n), warp.nctaid[0]):
        y, x = place(warp, tile, m, n)
        for step in range(steps):
            stage, turn = count % STAGES, count // STAGES
            to = stage * STAGE_BYTES
            warp.mbarrier_wait(empty(stage), (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full(stage), STAGE_BYTES)  # the other block brings some of them
            warp.cp_async_bulk_tensor_shared_global(to, a, (TILE_K * step, TILE_M * y), full(stage))
            to, at = to + A_BYTES + 128 * part, (TILE_K * step, TILE_N * x + part)
            warp.cp_async_bulk_tensor_shared_global(to, b, at, full(stage), cta_mask=EVERYONE)
            count += 1


def multiply_stage(warp, stage, c, first):
    tile = stage * STAGE_BYTES
    a = Descriptor.for_tile("f16", 64, TILE_K, swizzle=128, start=tile + warp.warpgroup * 64 * 128)
    b = Descriptor.for_tile("f16", TILE_N, TILE_K, swizzle=128, start=tile + A_BYTES)
    warp.wgmma_fence()
    for at in range(0, 128, 32):
        warp.run(WGMMA, c, a.step(at), b.step(at), at > 0 or not first, 1, 1, 0, 0)
    warp.wgmma_commit_group()


def release(warp, stage):
    rank = warp.laneid
    with warp.only(rank < CLUSTER):
        warp.mbarrier_arrive_shared_cluster(warp.mapa(empty(stage), rank))


def consume(warp, c, steps, count):
    for step in range(steps):
        stage, turn = count % STAGES, count // STAGES
        warp.mbarrier_wait(full(stage), turn % 2)
        multiply_stage(warp, stage, c, step == 0)
        warp.wgmma_wait_group(1)
        if step > 0:
            release(warp, (count - 1) % STAGES)
        count += 1
    warp.wgmma_wait_group(0)
    release(warp, (count - 1) % STAGES)
    return count


def store(warp, d, row, column, c):
    m, n = d.shape
    row, column = row + warp.laneid // 4, column + warp.laneid % 4 * 2
    for half in range(2):
        for j in range(TILE_N // 8):
            y, x = row + 8 * half, column + 8 * j
            with warp.only((y < m) & (x < n)):
                warp.st_global(d.at(y, x), c[:, 4 * j + 2 * half : 4 * j + 2 * half + 2], "v2.b32")


def kernel(warp, a, b, d):
    (m, n), k = d.shape, a.shape[1]
    a = TensorMap.of(a, (TILE_K, TILE_M), swizzle=128)
    b = TensorMap.of(b, (TILE_K, PART_N), swizzle=128)
    steps = (k + TILE_K - 1) // TILE_K
    begin(warp)
    if warp.warpgroup == CONSUMERS:
        warp.setmaxnreg("dec", 40)
        if warp.warpid == 4 * CONSUMERS:
            with warp.only(warp.laneid == 0):
                produce(warp, a, b, m, n, steps)
    else:
        warp.setmaxnreg("inc", 232)
        count = 0
        for tile in range(warp.ctaid[0], tiles_of(m, n), warp.nctaid[0]):
            y, x = place(warp, tile, m, n)
            c = warp.registers(TILE_N // 2)
            count = consume(warp, c, steps, count)
            store(warp, d, TILE_M * y + 16 * warp.warpid, TILE_N * x, c)
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()  # until then, the other block signals this one's mbarriers and copies into its memory
