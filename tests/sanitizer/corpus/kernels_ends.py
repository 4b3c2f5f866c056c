"""What is reported first, what is only a hint, and what is pending at the end. Faulty kernels precede their twins."""

import numpy as np
from kernels_table import MMA, A, B, barrier, correct, faulty, fill, finish, load, one, ready, tiles

from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of

BAR = 1024


def leave(warp, g, *, commit=True, wait=True):
    """One lane copies 512 bytes out of shared memory."""
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_warp_sync()
    with one(warp):
        warp.cp_async_bulk_global_shared(g, 0, 512)
        if commit:
            warp.cp_async_bulk_commit_group()
        if wait:
            warp.cp_async_bulk_wait_group(0, read=True)


# ------------------------------------------------------------------------------------------------ the end


@faulty("overwritten-early", block=32)
def the_block_ends_under_a_store(warp, g):
    leave(warp, g, wait=False)  # <- reported


@faulty("overwritten-early", block=32)
def a_store_that_was_never_committed(warp, g):
    leave(warp, g, commit=False)  # <- reported


@faulty("overwritten-early", block=32)
def another_lane_waits_for_the_store(warp, g):
    leave(warp, g, wait=False)  # <- reported
    with warp.only(warp.laneid == 31):
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(block=32)
def the_store_has_read_its_source(warp, g):
    leave(warp, g)


# ------------------------------------------------------------------------------------------------ races


@faulty("shared-race", block=64)
def warps_race_and_lanes_do_too(warp, g):
    """A histogram without atomics: a barrier or an atomic mends both, bar.warp.sync does not."""
    place = 4 * (warp.threads % 16)
    count = warp.ld_shared(place) if g.nbytes < 0 else 1
    warp.st_shared(place, warp.threads)  # <- reported
    warp.ld_shared(4 * ((warp.threads + 1) % 16))
    assert count == 1


@faulty("lane-race", block=64)
def only_lanes_race(warp, g):
    base = 256 * warp.warpid
    warp.st_shared(base + 4 * warp.laneid, warp.laneid)
    warp.ld_shared(base + 4 * (31 - warp.laneid))  # <- reported
    warp.bar_sync()


@correct(block=64)
def all_warps_write_the_same_zeros(warp, g):
    """Harmless, and a hint: whoever writes last, the bytes are the same."""
    warp.st_shared(4 * warp.laneid, 7)
    warp.bar_sync()
    warp.ld_shared(4 * warp.laneid)


# ------------------------------------------------------------------------------------------------ proxies


@faulty("proxy-fence-barrier")
def all_threads_fence_after_the_barrier(warp, g):
    """The order is wrong, whichever thread fences."""
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.bar_sync()
    warp.fence_proxy_async()
    if warp.warpid == 0:
        with one(warp):
            warp.cp_async_bulk_global_shared(g, 0, 2048)  # <- reported
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=True)


@correct()
def all_threads_fence_before_the_barrier(warp, g):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.cp_async_bulk_global_shared(g, 0, 2048)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=True)


@correct(block=32)
def a_stage_is_read_and_filled_again(warp, g):
    """Only a hint: no fence.proxy.async between the loads and the refill, as in CUTLASS."""
    barrier(warp, BAR)
    for turn in range(3):
        load(warp, 0, g, 512, BAR)
        warp.mbarrier_wait(BAR, turn & 1)
        warp.ld_shared(16 * warp.laneid, "v4.b32")
        warp.bar_warp_sync()


# ------------------------------------------------------------------------------------------------ on the way


def copy_rows(warp, g):
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)


@faulty("cp-async-unwaited", block=64)
def a_group_that_was_never_committed(warp, g):
    copy_rows(warp, g)
    warp.cp_async_wait_group(0)
    warp.bar_sync()
    warp.ld_shared(16 * (63 - warp.threads), "v4.b32")  # <- reported


@faulty("cp-async-unwaited", block=64)
def a_wait_that_leaves_the_group(warp, g):
    copy_rows(warp, g)
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(1)
    warp.bar_sync()
    warp.ld_shared(16 * (63 - warp.threads), "v4.b32")  # <- reported


@correct(block=64)
def a_wait_that_covers_the_group(warp, g):
    copy_rows(warp, g)
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)
    warp.bar_sync()
    warp.ld_shared(16 * (63 - warp.threads), "v4.b32")


@faulty("overwritten-early")
def refilled_under_a_group_that_was_not_committed(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)
    warp.st_shared(A + 16 * warp.threads, np.uint32(1), "v4.b32")  # <- reported
    finish(warp)


@correct()
def refilled_after_the_wait(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, 1, 1, 0, 0)
    finish(warp)
    warp.bar_sync()
    fill(warp)
    assert A < B


MAP, REPLACE = 2048, "tensormap.replace.tile.global_address.global.b1024.b64"


@faulty("not-a-tensor-map", block=32)
def a_map_whose_address_alone_was_put_in(warp, g):
    """tensormap.replace changes a field: the other fields are those of the map that was there, and there was none."""
    barrier(warp, 1024)
    with one(warp):
        warp.run(REPLACE, g + MAP, g)
        warp.run("fence.proxy.tensormap::generic.release.gpu")
        warp.run("fence.proxy.tensormap::generic.acquire.gpu", g + MAP, 128)
        warp.mbarrier_arrive_expect_tx(1024, 64)
        warp.cp_async_bulk_tensor_shared_global(0, g + MAP, (0,), 1024)  # <- reported


@correct(block=32)
def a_map_copied_and_its_address_put_in(warp, g):
    barrier(warp, 1024)
    with one(warp):
        for word, value in enumerate(words_of(TensorMap.of(g, (64,)))):
            warp.st_global(g + MAP + 4 * word, value)
        warp.run(REPLACE, g + MAP, g + 4096)
        warp.run("fence.proxy.tensormap::generic.release.gpu")
        warp.run("fence.proxy.tensormap::generic.acquire.gpu", g + MAP, 128)
        warp.mbarrier_arrive_expect_tx(1024, 64)
        warp.cp_async_bulk_tensor_shared_global(0, g + MAP, (0,), 1024)
    warp.mbarrier_wait(1024, 0)
    warp.ld_shared(4 * (warp.laneid % 16))


@faulty("stale-load", block=64)
def a_relaxed_count_before_relaxed_results(warp, g):
    """One warp stores results and counts them; the other waits for the count. All of it is relaxed."""
    if warp.warpid == 0:
        warp.st_global(g + 64 + 4 * warp.laneid, 5, order="relaxed")
        warp.red_global("add.u32", g, 1, order="relaxed")
    elif warp.warpid == 1:
        with one(warp):
            for half in (0, 16, 32):
                while warp.ld_global(g, order="relaxed")[0, 0] < half:
                    warp.nanosleep(20)
        warp.bar_warp_sync()
        warp.ld_global(g + 64 + 4 * warp.laneid, order="relaxed")  # <- reported


@correct(block=64)
def a_count_that_releases_relaxed_results(warp, g):
    if warp.warpid == 0:
        warp.st_global(g + 64 + 4 * warp.laneid, 5, order="relaxed")
        warp.red_global("add.u32", g, 1, order="release")
    elif warp.warpid == 1:
        with one(warp):
            while warp.ld_global(g, order="acquire")[0, 0] < 32:
                warp.nanosleep(20)
        warp.bar_warp_sync()
        warp.ld_global(g + 64 + 4 * warp.laneid, order="relaxed")
