"""Kernels that use shared memory, registers and fragments wrongly, with ordinary loads and stores."""

import numpy as np
from kernels_table import MMA, barrier, faulty, fill, finish, mma, one, tiles

from tcemu.machine.launch import launch

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
WMMA_A = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"
WMMA_B = "wmma.load.b.sync.aligned.col.m16n16k16.shared.f16"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


def multiply(warp, scale_d=1):
    """A whole mma_async on the tiles that are there."""
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d, scale_d=scale_d)
    finish(warp)


# ------------------------------------------------------------------------------------------------ proxies


@faulty("proxy-fence-missing")
def cp_async_a_barrier_and_wgmma(warp, g):
    for part in range(2):
        warp.cp_async(2048 * part + 16 * warp.threads, g + 16 * warp.threads, 16)
    warp.cp_async_wait_all()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-missing")
def the_second_tile_without_a_fence(warp, g):
    d = warp.registers(4, fill=0)
    for step in range(2):
        fill(warp)
        if step == 0:
            warp.fence_proxy_async()
        warp.bar_sync()
        warp.wgmma_fence()
        warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
        finish(warp)
        warp.bar_sync()


@faulty("proxy-fence-missing", block=256)
def a_producer_that_never_fences(warp, g):
    barrier(warp, 4096, count=128)
    if warp.warpgroup == 0:
        fill(warp)
        warp.mbarrier_arrive(4096)
        return
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-missing")
def a_bulk_store_of_plain_stores(warp, g):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.cp_async_bulk_global_shared(g, 0, 2048)  # <- reported
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)


@faulty("proxy-fence-missing")
def a_bulk_load_over_plain_stores(warp, g):
    barrier(warp, 4096)
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(4096, 2048)
            warp.cp_async_bulk_shared_global(0, g, 2048, 4096)  # <- reported
    warp.mbarrier_wait(4096, 0)


@faulty("proxy-fence-thread")
def one_lane_fences_for_its_warp(warp, g):
    fill(warp)
    with one(warp):
        warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-thread", block=256)
def the_consumer_fences_behind_the_barrier(warp, g):
    if warp.warpgroup == 0:
        fill(warp)
        warp.bar_sync()
        return
    warp.bar_sync()
    warp.fence_proxy_async()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-thread")
def the_copying_thread_fences_for_the_writers(warp, g):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.fence_proxy_async()
            warp.cp_async_bulk_global_shared(g, 0, 2048)  # <- reported
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)


@faulty("proxy-fence-barrier")
def the_barrier_before_the_fence(warp, g):
    fill(warp)
    warp.bar_sync()
    warp.fence_proxy_async()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-barrier", block=256)
def a_producer_that_fences_and_tells_nobody(warp, g):
    if warp.warpgroup == 0:
        fill(warp)
        warp.fence_proxy_async()
        return
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("proxy-fence-barrier", block=32)
def lanes_fence_and_one_copies(warp, g):
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.fence_proxy_async()
    with one(warp):
        warp.cp_async_bulk_global_shared(g, 0, 512)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


# ------------------------------------------------------------------------------------------------ races


@faulty("shared-race", block=64)
def a_neighbour_without_a_barrier(warp, g):
    warp.st_shared(4 * warp.threads, warp.threads)
    x = warp.ld_shared(4 * (63 - warp.threads))  # <- reported
    warp.st_global(g + 4 * warp.threads, x)


@faulty("shared-race", block=64)
def one_warp_writes_and_the_other_reads(warp, g):
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 7)
    else:
        warp.st_global(g + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))  # <- reported


@faulty("shared-race", block=64)
def the_next_step_overwrites_too_early(warp, g):
    for step in range(3):
        if warp.warpid == 0:
            warp.st_shared(4 * warp.laneid, step)  # <- reported
        warp.bar_sync()
        if warp.warpid == 1:
            warp.st_global(g + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))


@faulty("shared-race", block=96)
def a_barrier_for_others(warp, g):
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 1)
    if warp.warpid < 2:
        warp.bar_sync(1, 64)
    if warp.warpid == 2:
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("lane-race", block=32)
def a_transpose_that_forgets_the_second_sync(warp, g):
    for step in range(2):
        warp.st_shared(4 * warp.laneid, step)  # <- reported
        warp.bar_warp_sync()
        warp.st_global(g + 4 * warp.laneid, warp.ld_shared(4 * (31 - warp.laneid)))


@faulty("lane-race", block=32)
def half_the_lanes_synchronise(warp, g):
    warp.st_shared(4 * warp.laneid, 1)
    with warp.only(warp.laneid < 16):
        warp.bar_warp_sync()
    warp.ld_shared(4 * (31 - warp.laneid))  # <- reported


@faulty("ldmatrix-unsynced", block=64)
def ldmatrix_of_another_warps_stores(warp, g):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.bar_warp_sync()
    warp.run(LDMATRIX, 512 - 512 * warp.warpid + 16 * warp.laneid)  # <- reported


@faulty("ldmatrix-unsynced", block=32, target="sm_80")
def wmma_load_behind_a_store(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.run(WMMA_A, 0, 16)  # <- reported


# ------------------------------------------------------------------------------------------------ nothing written


@faulty("uninitialised-shared")
def a_tile_that_is_stored_in_part(warp, g):
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported
    finish(warp)


@faulty("uninitialised-shared", block=32)
def half_the_rows_of_an_ldmatrix(warp, g):
    with warp.only(warp.laneid < 16):
        warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    warp.run(LDMATRIX, 16 * warp.laneid)  # <- reported


@faulty("uninitialised-shared", block=32)
def the_store_comes_after_a_barrier(warp, g):
    warp.ld_shared(4 * warp.laneid)  # <- reported
    warp.bar_sync()
    warp.st_shared(4 * warp.laneid, 0)


@faulty("uninitialised-registers", block=32)
def lanes_that_loaded_nothing(warp, g):
    with warp.only(warp.laneid < 8):
        x = warp.ld_global(g + 4 * warp.laneid)
    total = x + 1  # <- reported
    warp.st_global(g + 4 * warp.laneid, total)


# ------------------------------------------------------------------------------------------------ addresses


@faulty("out-of-range", block=32, shared=256)
def past_the_end_of_shared_memory(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")  # <- reported


@faulty("out-of-range", shared=2048)
def a_descriptor_past_the_end(warp, g):
    d = warp.registers(4, fill=0)
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)  # <- reported


@faulty("misaligned", block=32)
def ldmatrix_rows_at_8_bytes(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    warp.run(LDMATRIX, 8 * warp.laneid)  # <- reported


# ------------------------------------------------------------------------------------------------ fragments


@faulty("wmma-mixed", block=32, target="sm_80")
def a_fragment_of_another_shape(warp, g):
    a = warp.run("wmma.load.a.sync.aligned.row.m32n8k16.global.f16", g, 16)
    b = warp.run(WMMA_B.replace("shared", "global"), g, 16)
    warp.run(WMMA, a, b, warp.registers(8, fill=0))  # <- reported


@faulty("wmma-mixed", block=32, target="sm_70")
def rows_loaded_as_columns_on_volta(warp, g):
    a = warp.run("wmma.load.a.sync.aligned.col.m16n16k16.global.f16", g, 16)
    b = warp.run(WMMA_B.replace("shared", "global"), g, 16)
    warp.run(WMMA, a, b, warp.registers(8, fill=0))  # <- reported


@faulty("wmma-mixed", block=32, target="sm_80")
def rows_loaded_as_columns_on_ampere(warp, g):
    a = warp.run("wmma.load.a.sync.aligned.col.m16n16k16.global.f16", g, 16)
    b = warp.run(WMMA_B.replace("shared", "global"), g, 16)
    warp.run(WMMA, a, b, warp.registers(8, fill=0))  # <- reported


@faulty("wmma-mixed", block=32, target="sm_80")
def a_fragment_of_another_architecture(warp, g):
    a = on_volta(g.shape[0])
    b = warp.run(WMMA_B.replace("shared", "global"), g, 16)
    warp.run(WMMA, a, b, warp.registers(8, fill=0))  # <- reported


def on_volta(size):
    """A fragment of A that a launch on sm_70 has loaded."""
    kept = []
    load = WMMA_A.replace("shared", "global")
    launch(lambda warp, g: kept.append(warp.run(load, g, 16)), args=(np.zeros(size, np.uint8),), target="sm_70")
    return kept[0]


# ------------------------------------------------------------------------------------------------ mbarriers


@faulty("mbarrier-object", block=32)
def an_mbarrier_made_twice(warp, g):
    with one(warp):
        for _ in range(2):
            warp.mbarrier_init(0, 1)  # <- reported


@faulty("mbarrier-init", block=64)
def no_barrier_behind_init(warp, g):
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_init(0, 1)
            warp.mbarrier_arrive(0)
    else:
        warp.mbarrier_wait(0, 0)  # <- reported


@faulty("mbarrier-init", block=64)
def arriving_behind_somebody_elses_init(warp, g):
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_init(0, 33)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive(0)
    else:
        warp.mbarrier_arrive(0)  # <- reported


@faulty("mbarrier-arrivals", block=64)
def one_warp_arrives_for_the_next_phase_too(warp, g):
    barrier(warp, 0, count=2)
    if warp.warpid == 0:
        with one(warp):
            for count in (2, 1, 2):
                warp.mbarrier_arrive(0, count)  # <- reported


@faulty("global-race", grid=2, block=32)
def two_blocks_write_the_same_elements(warp, g):
    warp.st_global(g + 4 * warp.laneid, 1 + warp.ctaid[0])  # <- reported
