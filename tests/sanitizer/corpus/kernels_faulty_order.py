"""Kernels whose mistake shows in another way under another order of the warps, and is named alike in all of them."""

from kernels_faulty_copies import EMPTY, FULL, STAGES, consume, pipeline, produce, release
from kernels_table import MMA, barrier, faulty, finish, load, mma, one, tiles


@faulty("shared-race", block=64)
def the_reader_comes_first(warp, g):
    if warp.warpid == 1:
        warp.st_shared(4 * warp.laneid, 7)
    else:
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", block=64)
def the_reader_of_cp_async_comes_first(warp, g):
    if warp.warpid == 1:
        warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16)
        warp.cp_async_wait_all()
    else:
        warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@faulty("tma-unwaited", block=64)
def a_second_load_behind_the_release(warp, g):
    barrier(warp, 1024, 1032)
    if warp.warpid == 1:
        for step in range(2):
            warp.mbarrier_wait(1032, (step + 1) % 2)
            load(warp, 0, g, 512, 1024)
        return
    warp.mbarrier_wait(1024, 0)
    warp.ld_shared(16 * warp.laneid, "v4.b32")
    warp.bar_warp_sync()
    with one(warp):
        warp.mbarrier_arrive(1032)
    warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@faulty("overwritten-early", block=160, **STAGES)
def released_while_the_second_group_still_reads(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        for step in range(4):
            stage = step % 2
            warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
            with one(warp):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2304)
                warp.cp_async_bulk_shared_global(4096 * stage, g, 2304, FULL + 8 * stage)  # <- reported
        return
    d = warp.registers(4, fill=0)
    for step in range(4):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        warp.wgmma_fence()
        for _ in range(2):
            mma(warp, d, stage)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(1)
        release(warp, stage)
    warp.wgmma_wait_group(0)


@faulty("overwritten-early", block=32)
def another_lane_waits_for_the_bulk_store(warp, g):
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_warp_sync()
    with warp.only(warp.laneid == 0):
        warp.cp_async_bulk_global_shared(g, 0, 512)
        warp.cp_async_bulk_commit_group()
    with warp.only(warp.laneid == 5):
        warp.cp_async_bulk_wait_group(0, read=True)
    warp.bar_warp_sync()
    warp.st_shared(16 * warp.laneid, 2, "v4.b32")  # <- reported


@faulty("wgmma-uncommitted", block=160, **STAGES)
def nothing_is_committed_and_the_stage_is_filled_again(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 4)
        return
    d = warp.registers(4, fill=0)
    for step in range(4):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        warp.wgmma_fence()
        warp.run(MMA, d, *tiles(stage), 1, 1, 1, 0, 0)  # <- reported
        warp.wgmma_wait_group(0)
        release(warp, stage)


@faulty("tma-unwaited", block=160, **STAGES)
def a_consumer_that_never_waits(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 4)
        return
    d = warp.registers(4, fill=0)
    for step in range(4):
        stage = step % 2
        warp.wgmma_fence()
        warp.run(MMA, d, *tiles(stage), 1, 1, 1, 0, 0)  # <- reported
        finish(warp)
        release(warp, stage)


@faulty("overwritten-early", block=160, **STAGES)
def a_producer_that_waits_for_nobody(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                full = FULL + 8 * (step % 2)
                warp.mbarrier_arrive_expect_tx(full, 2304)  # <- reported
                warp.cp_async_bulk_shared_global(4096 * (step % 2), g, 2304, full)  # <- reported
    else:
        consume(warp, 4)


@faulty("proxy-fence-missing", block=256)
def cp_async_announced_and_not_fenced(warp, g):
    barrier(warp, 4096, count=128)
    if warp.warpgroup == 1:
        at = 16 * (warp.threads - 128)
        warp.cp_async(at, g + at, 16)
        with warp.only(at < 256):
            warp.cp_async(2048 + at, g + at, 16)
        warp.cp_async_mbarrier_arrive(4096, noinc=True)
        return
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)
