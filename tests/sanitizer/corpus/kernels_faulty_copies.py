"""Kernels that use asynchronous copies, barriers and mbarriers wrongly, or diverge."""

import numpy as np
from kernels_table import MMA, barrier, correct, faulty, finish, load, mma, one, ready, tiles

#: mbarriers behind two stages.
FULL, EMPTY = 8192, 8208
STAGES = {"shared": 8224}
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def produce(warp, g, steps, *, wait=True, expect=None):
    """Warp 4 copies the tiles of each step into two stages in turn."""
    for step in range(steps):
        stage, turn = step % 2, step // 2
        if wait:
            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)
        load(warp, 4096 * stage, g, 2304, FULL + 8 * stage, expect)


def consume(warp, steps, *, parity=None, early=False):
    """Warps 0 to 3 multiply the tiles of each step."""
    d = warp.registers(4, fill=0)
    for step in range(steps):
        stage, turn = step % 2, step // 2
        warp.mbarrier_wait(FULL + 8 * stage, turn % 2 if parity is None else parity)
        warp.wgmma_fence()
        mma(warp, d, stage)
        warp.wgmma_commit_group()
        if early:
            release(warp, stage)
        warp.wgmma_wait_group(0)
        if not early:
            release(warp, stage)
    return d


def release(warp, stage):
    with one(warp):
        warp.mbarrier_arrive(EMPTY + 8 * stage)


def pipeline(warp):
    """The mbarriers of two stages."""
    if warp.warpid == 0:
        with one(warp):
            for stage in range(2):
                warp.mbarrier_init(FULL + 8 * stage, 1)
                warp.mbarrier_init(EMPTY + 8 * stage, 4)
            warp.fence_mbarrier_init()
    warp.bar_sync()


# ------------------------------------------------------------------------------------------------ too early


@faulty("overwritten-early")
def the_tile_is_stored_behind_a_wait_that_is_too_weak(warp, g):
    d = warp.registers(4, fill=0)
    for _ in range(3):
        with warp.only(warp.threads < 128):
            warp.st_shared(16 * warp.threads, 1, "v4.b32")  # <- reported
        with warp.only(warp.threads < 16):
            warp.st_shared(2048 + 16 * warp.threads, 1, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        warp.wgmma_fence()
        mma(warp, d)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        warp.bar_sync()
    warp.wgmma_wait_group(0)


@faulty("overwritten-early", block=160, **STAGES)
def a_producer_that_waits_for_nothing(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        for step in range(4):
            with one(warp):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * (step % 2), 2304)
                warp.cp_async_bulk_shared_global(4096 * (step % 2), g, 2304, FULL + 8 * (step % 2))  # <- reported
            warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2 % 2)
    else:
        consume(warp, 4)


@faulty("overwritten-early", block=160, **STAGES)
def a_consumer_that_releases_before_its_wait(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        for step in range(4):
            stage = step % 2
            warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
            with one(warp):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2304)
                warp.cp_async_bulk_shared_global(4096 * stage, g, 2304, FULL + 8 * stage)  # <- reported
    else:
        consume(warp, 4, early=True)


@faulty("overwritten-early", block=32)
def the_source_of_a_bulk_store_changes(warp, g):
    for step in range(2):
        warp.st_shared(16 * warp.laneid, step, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_warp_sync()
        with one(warp):
            warp.cp_async_bulk_global_shared(g + 512 * step, 0, 512)
            warp.cp_async_bulk_commit_group()
    warp.cp_async_bulk_wait_group(0)


@faulty("overwritten-early", block=64)
def another_warp_waits_for_the_bulk_store(warp, g):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.cp_async_bulk_global_shared(g, 0, 1024)
            warp.cp_async_bulk_commit_group()
    else:
        warp.cp_async_bulk_wait_group(0, read=True)
    warp.bar_sync()
    warp.st_shared(16 * warp.threads, 2, "v4.b32")  # <- reported


@faulty("overwritten-early", block=64)
def a_bulk_load_over_bytes_that_are_being_read(warp, g):
    barrier(warp, 1024)
    for step in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_arrive_expect_tx(1024, 512)
                warp.cp_async_bulk_shared_global(0, g, 512, 1024)  # <- reported
        warp.mbarrier_wait(1024, step)
        if warp.warpid == 1:
            warp.ld_shared(16 * warp.laneid, "v4.b32")


# ------------------------------------------------------------------------------------------------ not waited for


@faulty("tma-unwaited", block=32)
def a_load_right_behind_the_copy(warp, g):
    barrier(warp, 1024)
    load(warp, 0, g, 512, 1024)
    x = warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported
    warp.st_global(g + 16 * warp.laneid, x, "v4.b32")
    warp.mbarrier_wait(1024, 0)


@faulty("tma-unwaited", block=64)
def only_the_copying_warp_waits(warp, g):
    barrier(warp, 1024)
    if warp.warpid == 0:
        load(warp, 0, g, 512, 1024)
        warp.mbarrier_wait(1024, 0)
    else:
        warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@faulty("tma-unwaited")
def wgmma_without_the_wait(warp, g):
    barrier(warp, 4096)
    if warp.warpid == 0:
        load(warp, 0, g, 2304, 4096)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)
    warp.mbarrier_wait(4096, 0)


@faulty("tma-unwaited", block=160, **STAGES)
def always_the_same_parity(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 4)
        return
    d = warp.registers(4, fill=0)
    for step in range(4):
        warp.mbarrier_wait(FULL + 8 * (step % 2), 0)  # <- reported
        warp.wgmma_fence()
        warp.run(MMA, d, *tiles(step % 2), 1, 1, 1, 0, 0)  # <- reported
        finish(warp)
        release(warp, step % 2)


@faulty("cp-async-unwaited", block=32)
def no_wait_for_cp_async(warp, g):
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16)
    warp.cp_async_commit_group()
    warp.bar_sync()
    warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported
    warp.cp_async_wait_group(0)


@faulty("cp-async-unwaited")
def the_wait_comes_behind_the_barrier(warp, g):
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
    warp.cp_async_commit_group()
    warp.bar_sync()
    warp.cp_async_wait_group(0)
    warp.ld_shared(2032 - 16 * warp.threads, "v4.b32")  # <- reported


@faulty("cp-async-unwaited")
def wait_group_1_where_0_is_meant(warp, g):
    for stage in range(2):
        warp.cp_async(2048 * stage + 16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_commit_group()
    warp.cp_async_wait_group(1)
    warp.bar_sync()
    warp.run(LDMATRIX, 2048 + 16 * warp.threads)  # <- reported
    warp.cp_async_wait_group(0)


@faulty("cp-async-unwaited", block=64)
def nobody_waits_on_the_mbarrier_of_cp_async(warp, g):
    barrier(warp, 1024, count=32)
    if warp.warpid == 0:
        warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16)
        warp.cp_async_mbarrier_arrive(1024, noinc=True)
    else:
        warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@faulty("shared-race", block=64)
def cp_async_waited_for_by_its_warp_alone(warp, g):
    if warp.warpid == 0:
        warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16)
        warp.cp_async_wait_all()
    else:
        warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


# ------------------------------------------------------------------------------------------------ bytes


@faulty("expect-tx", block=32)
def too_few_bytes_expected(warp, g):
    barrier(warp, 2048)
    with one(warp):
        warp.mbarrier_arrive_expect_tx(2048, 512)  # <- reported
        for part in range(2):
            warp.cp_async_bulk_shared_global(512 * part, g, 512, 2048)
    warp.mbarrier_wait(2048, 0)
    warp.ld_shared(512 + 16 * warp.laneid, "v4.b32")


@faulty("expect-tx", block=32)
def an_arrival_that_expects_nothing(warp, g):
    barrier(warp, 2048)
    with one(warp):
        warp.mbarrier_arrive(2048)
        warp.cp_async_bulk_shared_global(0, g, 512, 2048)  # <- reported
    warp.mbarrier_wait(2048, 0)
    warp.ld_shared(16 * warp.laneid, "v4.b32")


@faulty("expect-tx", block=32, shared=(1 << 17) + 8)
def more_bytes_than_an_mbarrier_counts(warp, g):
    """No expect_tx announces them, so that the tx-count falls below its limit, -(2^20 - 1)."""
    barrier(warp, 1 << 17)
    with one(warp):
        for _ in range(33):
            warp.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64", 1 << 17, 1 << 15)  # <- reported


@faulty("expect-tx", block=160, **STAGES)
def bytes_of_one_tile_where_two_are_copied(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        for step in range(4):
            stage = step % 2
            warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
            with one(warp):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2048)  # <- reported
                warp.cp_async_bulk_shared_global(4096 * stage, g, 2048, FULL + 8 * stage)
                warp.cp_async_bulk_shared_global(4096 * stage + 2048, g, 256, FULL + 8 * stage)
    else:
        consume(warp, 4)


# ------------------------------------------------------------------------------------------------ who takes part


@faulty("aligned-divergent", block=32)
def ldmatrix_by_eight_lanes(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    with warp.only(warp.laneid < 8):
        warp.run("ldmatrix.sync.aligned.m8n8.x1.shared.b16", 16 * warp.laneid)  # <- reported


@faulty("exited-threads", block=64)
def a_warp_leaves_before_the_barrier(warp, g):
    if warp.warpid == 1:
        return
    warp.bar_sync()  # <- reported


@faulty("exited-threads", block=96)
def a_named_barrier_counts_a_warp_that_left(warp, g):
    if warp.warpid == 2:
        return
    warp.bar_sync(1, 96)  # <- reported


@faulty("barrier-threads", block=160)
def a_producer_that_counts_itself_alone(warp, g):
    if warp.warpid == 4:
        warp.bar_arrive(1, 64)  # <- reported
    else:
        warp.bar_sync(1, 160)  # <- reported


@faulty("deadlock", block=64)
def a_barrier_that_one_warp_leaves_out(warp, g):
    if warp.warpid == 0:
        warp.bar_sync(1, 64)  # <- reported
    else:
        warp.bar_sync(2, 64)


# ------------------------------------------------------------------------------------------------ hints


@faulty("wgmma-fence-unneeded")
def a_fence_with_nothing_behind_it(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    warp.wgmma_fence()  # <- reported


@faulty("wgmma-fence-unneeded")
def a_fence_between_mmas_of_one_group(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_fence()  # <- reported
    mma(warp, d)
    finish(warp)


@faulty("mbarrier-init-fence", block=64)
def another_thread_fences_the_init(warp, g):
    if warp.warpid == 0:
        with warp.only(warp.laneid == 3):
            warp.mbarrier_init(1024, 1)
        with one(warp):
            warp.fence_mbarrier_init()
    warp.bar_sync()
    if warp.warpid == 1:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, 1024)  # <- reported
    warp.mbarrier_wait(1024, 0)


@faulty("overwritten-early", block=160, **STAGES)
def a_producer_with_the_same_parity_for_ever(warp, g):
    pipeline(warp)
    if warp.warpid < 4:
        consume(warp, 4)
        return
    for step in range(4):
        stage = step % 2
        warp.mbarrier_wait(EMPTY + 8 * stage, 1)  # <- reported
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2304)  # <- reported
            warp.cp_async_bulk_shared_global(4096 * stage, g, 2304, FULL + 8 * stage)  # <- reported
        if step < 2:
            warp.mbarrier_wait(FULL + 8 * stage, 0)


@faulty("cp-async-src-size", block=32)
def columns_left_instead_of_bytes(warp, g):
    """The last row has 6 columns of 4 bytes; the size at its edge is not limited to what a lane copies."""
    left = 24 - 16 * (warp.laneid % 2)
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16, left)  # <- reported
    warp.cp_async_wait_all()


@correct(block=32)
def bytes_left_between_nothing_and_a_whole_copy(warp, g):
    left = np.clip(24 - 16 * (warp.laneid % 4), 0, 16)
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16, left)
    warp.cp_async_wait_all()


# ------------------------------------------------------------------------------------------------ launch control

CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
QUERY = "clusterlaunchcontrol.query_cancel"


def ask(warp, phase):
    """The response to a request, in all lanes."""
    with one(warp):
        warp.fence_proxy_async()
        warp.mbarrier_arrive_expect_tx(64, 16)
        warp.run(CANCEL, 16 * phase, 64)
    warp.mbarrier_wait(64, phase % 2)
    return warp.run("ld.shared.b128", 16 * phase)


@faulty("cancel-after-failure", block=32, target="sm_100a")
def the_loop_goes_on_after_a_failure(warp, g):
    barrier(warp, 64)
    for phase in range(3):
        with one(warp):
            warp.fence_proxy_async()
            warp.mbarrier_arrive_expect_tx(64, 16)
            warp.run(CANCEL, 16 * phase, 64)  # <- reported
        warp.mbarrier_wait(64, phase % 2)
        warp.run(f"{QUERY}.is_canceled.pred.b128", warp.run("ld.shared.b128", 16 * phase))


@faulty("cancel-response", block=32, target="sm_100a")
def all_three_of_a_failure(warp, g):
    barrier(warp, 64)
    warp.run(f"{QUERY}.get_first_ctaid.v4.b32.b128", ask(warp, 0))  # <- reported


@faulty("cancel-response", block=32, target="sm_100a")
def no_request_was_made(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    response = warp.run("ld.shared.b128", 16 * warp.laneid)
    warp.run(f"{QUERY}.is_canceled.pred.b128", response)  # <- reported
