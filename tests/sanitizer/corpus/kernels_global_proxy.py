"""Ordinary writes to global memory that bulk copies use. Each faulty kernel precedes its mended twin."""

import numpy as np
from kernels_table import barrier, correct, faulty, one

BAR = 1024


def copy(warp, source, size=512):
    with one(warp):
        warp.mbarrier_arrive_expect_tx(BAR, size)
        warp.cp_async_bulk_shared_global(0, source, size, BAR)  # <- reported


def finish(warp):
    warp.mbarrier_wait(BAR, 0)
    warp.ld_shared(4 * warp.laneid)


@faulty("proxy-fence-missing", block=128)
def stored_and_copied_behind_a_barrier(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(BAR, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, BAR)  # <- reported
    finish(warp)


@correct(block=128)
def stored_fenced_and_copied_behind_a_barrier(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid == 0:
        copy(warp, g)
    finish(warp)


@faulty("proxy-fence-missing", block=128)
def fenced_for_shared_memory_only(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.fence_proxy_async("shared::cta")
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(BAR, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, BAR)  # <- reported
    finish(warp)


@correct(block=128)
def fenced_for_global_memory_only(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.fence_proxy_async("global")
    warp.bar_sync()
    if warp.warpid == 0:
        copy(warp, g)
    finish(warp)


@faulty("proxy-fence-thread", block=128)
def the_copying_thread_fences_for_all(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.fence_proxy_async()
            warp.mbarrier_arrive_expect_tx(BAR, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, BAR)  # <- reported
    finish(warp)


@faulty("proxy-fence-barrier", block=128)
def fenced_without_a_barrier(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 4 * warp.threads, warp.threads)
    warp.fence_proxy_async()
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(BAR, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, BAR)  # <- reported
    finish(warp)


@correct(block=128)
def stored_elsewhere(warp, g):
    barrier(warp, BAR)
    warp.st_global(g + 1024 + 4 * warp.threads, warp.threads)
    warp.bar_sync()
    if warp.warpid == 0:
        copy(warp, g)
    finish(warp)


@faulty("proxy-fence-missing", block=32)
def an_atomic_sum_and_a_reducing_copy(warp, g):
    warp.st_shared(4 * warp.laneid, np.uint32(1))
    warp.fence_proxy_async("shared::cta")
    warp.red_global("add.u32", g + 4 * warp.laneid, 1)
    warp.bar_warp_sync()
    with one(warp):
        warp.run("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", g, 0, 128)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)
