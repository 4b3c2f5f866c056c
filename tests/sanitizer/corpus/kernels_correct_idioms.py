"""More correct kernels: idioms of real ones, attention, epilogues, reductions, several ways to wait."""

import numpy as np
from kernels_faulty_copies import EMPTY, FULL, LDMATRIX, STAGES, consume, pipeline, produce, release
from kernels_table import MMA, barrier, correct, finish, load, mma, one, ready, tiles

STMATRIX = "stmatrix.sync.aligned.m8n8.x4.shared.b16"


@correct(block=160, **STAGES)
def attention(warp, g):
    """S = Q K, then P made of S in registers is A of the second product; both accumulators live on."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 6)
        return
    total = warp.registers(4, fill=0)
    for step in range(6):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        scores = warp.registers(4)
        warp.wgmma_fence()
        mma(warp, scores, stage, 0)
        finish(warp)
        exponents = np.exp(scores.view(np.float32) - 1)
        p = warp.registers(4, fill=0)
        p[...] = exponents.view(np.uint32)
        total[...] = (total.view(np.float32) * np.float32(0.5)).view(np.uint32)
        warp.wgmma_fence()
        warp.run(MMA, total, p, tiles(stage)[1], 1, 1, 1, 0)
        finish(warp)
        release(warp, stage)
    warp.st_global(g + 16 * warp.threads, total, "v4.b32")


@correct(block=160, **STAGES)
def the_epilogue_uses_a_stage_again(warp, g):
    """Accumulators go through shared memory and out by a bulk store, where the tiles have been."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 4)
        return
    d = consume(warp, 4)
    warp.bar_sync(1, 128)
    warp.st_shared(16 * warp.threads, d, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync(1, 128)
    if warp.warpid == 0:
        with one(warp):
            warp.cp_async_bulk_global_shared(g, 0, 2048)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)


@correct(block=288, shared=8240)
def two_consumer_warpgroups_share_the_stages(warp, g):
    if warp.warpid == 8:
        with one(warp):
            for stage in range(2):
                warp.mbarrier_init(FULL + 8 * stage, 1)
                warp.mbarrier_init(EMPTY + 8 * stage, 2)
            warp.fence_mbarrier_init()
    warp.bar_sync()
    if warp.warpid == 8:
        warp.setmaxnreg("dec", 40)
        produce(warp, g, 6)
        return
    d = warp.registers(4, fill=0)
    for step in range(6):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        warp.wgmma_fence()
        mma(warp, d, stage)
        finish(warp)
        if warp.warpid % 4 == 0:
            release(warp, stage)  # one thread for its warpgroup, whose wgmma has ended


@correct(block=256, shared=8240)
def warpgroups_take_turns_at_the_tensor_cores(warp, g):
    """Ping-pong: named barriers give the order."""
    barrier(warp, 4096)
    if warp.warpid == 0:
        load(warp, 0, g, 2304, 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    mine, other = 1 + warp.warpgroup, 2 - warp.warpgroup
    if warp.warpgroup == 1:
        warp.bar_arrive(1, 256)
    for _ in range(3):
        warp.bar_sync(mine, 256)
        warp.wgmma_fence()
        mma(warp, d)
        warp.wgmma_commit_group()
        warp.bar_arrive(other, 256)
        warp.wgmma_wait_group(0)
    if warp.warpgroup == 0:
        warp.bar_sync(1, 256)


@correct(block=160, **STAGES)
def looking_before_waiting(warp, g):
    """test_wait first, and a wait only where it found nothing."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 6)
        return
    for step in range(6):
        stage, parity = step % 2, step // 2 % 2
        found = warp.mbarrier_test_wait(FULL + 8 * stage, parity)
        if not found:
            warp.mbarrier_wait(FULL + 8 * stage, parity)
        warp.run(LDMATRIX, 4096 * stage + 16 * warp.threads)
        warp.bar_warp_sync()
        release(warp, stage)


@correct(block=64, shared=4160)
def every_lane_copies_a_row(warp, g):
    """32 bulk copies, one a lane, counted by one mbarrier; later 32 bulk stores, each lane's own."""
    barrier(warp, 4096)
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(4096, 32 * 64)
        warp.bar_warp_sync()
        warp.cp_async_bulk_shared_global(64 * warp.laneid, g + 64 * warp.laneid, 64, 4096)
    warp.mbarrier_wait(4096, 0)
    for part in range(4):
        at = 64 * warp.laneid + 16 * part
        if warp.warpid == 1:
            warp.st_shared(2048 + at, warp.ld_shared(at, "v4.b32"), "v4.b32")
    if warp.warpid == 1:
        warp.fence_proxy_async()
        warp.cp_async_bulk_global_shared(g + 64 * warp.laneid, 2048 + 64 * warp.laneid, 64)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)
        warp.st_shared(2048 + 64 * warp.laneid, 0)


@correct(block=128)
def double_buffered_tiles_with_one_barrier(warp, g):
    """The step's barrier is between reading the other buffer and the next stores to it."""
    held = warp.ld_global(g + 16 * warp.threads, "v4.b32")
    for step in range(4):
        warp.st_shared(2048 * (step % 2) + 16 * warp.threads, held, "v4.b32")
        warp.bar_sync()
        held = warp.ld_global(g + 2048 * step + 16 * warp.threads, "v4.b32")
        warp.ld_shared(2048 * (step % 2) + 16 * (127 - warp.threads), "v4.b32")


@correct(block=256)
def a_sum_of_the_block(warp, g):
    """Shuffles inside a warp, one value a warp in shared memory, the first warp adds them."""
    x = warp.ld_global(g + 4 * warp.threads)[:, 0]
    for step in (16, 8, 4, 2, 1):
        x = x + warp.shfl_sync("bfly", x, step)
    with warp.only(warp.laneid == 0):
        warp.st_shared(4 * warp.warpid, x)
    warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(warp.laneid < 8):
            x = warp.ld_shared(4 * warp.laneid)
            warp.st_global(g + 4 * warp.laneid, x)


@correct(block=128)
def an_exchange_through_stmatrix(warp, g):
    """Each warp its own part: stmatrix, sync, wide loads, sync."""
    base = 512 * warp.warpid
    d = warp.registers(4, fill=1)
    for _ in range(3):
        warp.run(STMATRIX, base + 16 * warp.laneid, d)
        warp.bar_warp_sync()
        warp.st_global(g + base + 16 * warp.laneid, warp.ld_shared(base + 16 * warp.laneid, "v4.b32"), "v4.b32")
        warp.bar_warp_sync()


@correct(block=256)
def partial_sums_of_two_warpgroups(warp, g):
    """Split K: the second warpgroup hands its accumulator over in shared memory."""
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    at = 4096 + 16 * (warp.threads % 128)
    if warp.warpgroup == 1:
        warp.st_shared(at, d, "v4.b32")
    warp.bar_sync()
    if warp.warpgroup == 0:
        other = warp.ld_shared(at, "v4.b32")
        d[...] = (d.view(np.float32) + other.view(np.float32)).view(np.uint32)
        warp.st_global(g + 16 * warp.threads, d, "v4.b32")


@correct(block=160, shared=4160)
def cp_async_producers_arrive_without_noinc(warp, g):
    """Warps 0 to 3 copy and arrive when the copies end; warp 4 reads, behind 1 arrival of its own."""
    barrier(warp, 4096, count=1)
    if warp.warpid < 4:
        warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_mbarrier_arrive(4096)
    warp.bar_sync()
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive(4096)
        warp.mbarrier_wait(4096, 0)
        for part in range(4):
            warp.ld_shared(512 * part + 16 * warp.laneid, "v4.b32")


@correct(block=256, shared=4160)
def cp_async_of_producers_for_wgmma_of_others(warp, g):
    """The thread that waits for the mbarrier of cp.async fences before its wgmma: only it knows that they ended."""
    barrier(warp, 4096, count=128)
    if warp.warpgroup == 1:
        at = 16 * (warp.threads - 128)
        warp.cp_async(at, g + at, 16)
        with warp.only(at < 256):
            warp.cp_async(2048 + at, g + at, 16)
        warp.cp_async_mbarrier_arrive(4096, noinc=True)
        return
    warp.mbarrier_wait(4096, 0)
    warp.fence_proxy_async()
    warp.bar_sync(1, 128)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)


@correct(block=128)
def rows_at_the_edge_are_zeros(warp, g):
    """Lanes outside store zeros, so that all of the tile is there."""
    row = warp.threads // 2
    with warp.only(row < 50):
        warp.st_shared(16 * warp.threads, warp.ld_global(g + 16 * warp.threads, "v4.b32"), "v4.b32")
    with warp.only(row >= 50):
        warp.st_shared(16 * warp.threads, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(2048 + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    with warp.only(16 * warp.warpid + warp.laneid // 4 < 50):
        warp.st_global(g + 16 * warp.threads, d, "v4.b32")


@correct(grid=(2, 2), block=160, **STAGES)
def several_tiles_for_each_block(warp, g):
    """A persistent kernel: phases continue counting from tile to tile."""
    pipeline(warp)
    step = 0
    for _ in range(2):
        d = warp.registers(4, fill=0)
        for _ in range(3):
            stage, turn = step % 2, step // 2
            step += 1
            if warp.warpid == 4:
                warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)
                load(warp, 4096 * stage, g, 2304, FULL + 8 * stage)
                continue
            warp.mbarrier_wait(FULL + 8 * stage, turn % 2)
            warp.wgmma_fence()
            mma(warp, d, stage)
            finish(warp)
            release(warp, stage)
        if warp.warpid < 4:
            warp.st_global(g + 4096 + 16 * warp.threads, d, "v4.b32")


@correct(block=32)
def a_shuffle_between_loads_and_stores(warp, g):
    """All lanes have loaded, because they shuffle the loaded values."""
    warp.st_shared(4 * warp.laneid, warp.laneid)
    warp.bar_warp_sync()
    x = warp.shfl_sync("bfly", warp.ld_shared(4 * warp.laneid)[:, 0], 1)
    warp.st_shared(4 * (31 - warp.laneid), x)


@correct(block=32)
def one_lane_waits_and_reads(warp, g):
    barrier(warp, 1024)
    load(warp, 0, g, 512, 1024)
    with one(warp):
        warp.mbarrier_wait(1024, 0)
        warp.st_global(g, warp.ld_shared(0))


@correct(block=96, shared=1056)
def a_copy_hands_on_what_its_issuer_knew(warp, g):
    """Warp 0 has read; warp 1 knows, and copies; warp 2 saw the copy end, and stores."""
    barrier(warp, 1024, 1032)
    if warp.warpid == 0:
        warp.st_shared(16 * warp.laneid, 0, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_warp_sync()
        warp.ld_shared(496 - 16 * warp.laneid, "v4.b32")
        warp.bar_warp_sync()
        with one(warp):
            warp.mbarrier_arrive(1032)
    if warp.warpid == 1:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.mbarrier_wait(1032, 0)
            warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    if warp.warpid == 2:
        warp.mbarrier_wait(1024, 0)
        warp.st_shared(16 * warp.laneid, 1, "v4.b32")


@correct(block=160, **STAGES)
def a_in_registers_and_one_thread_releases(warp, g):
    """A wgmma that has completed shows that its four warps have loaded its operands."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 4)
        return
    d = warp.registers(4, fill=0)
    for step in range(4):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        a = warp.run(LDMATRIX, 4096 * stage + 16 * warp.threads)
        warp.wgmma_fence()
        warp.run(MMA, d, a, tiles(stage)[1], 1, 1, 1, 0)
        finish(warp)
        with warp.only(warp.laneid % 8 == 0):
            if warp.warpid == 0:
                warp.mbarrier_arrive(EMPTY + 8 * stage)


@correct()
def a_fence_inside_a_group_for_other_registers(warp, g):
    ready(warp)
    first, second = warp.registers(4, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, first)
    second[...] = 1
    warp.wgmma_fence()
    mma(warp, second)
    finish(warp)
