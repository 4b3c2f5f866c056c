"""Bugs that public trackers describe, each before its mended twin: fences, masks of lanes, counts, first phases.

Nothing is quoted: each kernel is the idea of the report that its docstring names, at the size of a test.
"""

import numpy as np
from kernels_wild_table import correct, faulty, leader, one, words

BAR, EMPTY = 4096, 4104


def copied(a, *_):
    """The first 512 words."""
    return np.concatenate([a[:512], np.zeros(len(a) - 512, np.uint32)])


def store_out(warp, out, size=2048, *, wait=True):
    """One thread copies `size` bytes from the start of shared memory."""
    with leader(warp):
        warp.cp_async_bulk_global_shared(out, 0, size)
        warp.cp_async_bulk_commit_group()
        if wait:
            warp.cp_async_bulk_wait_group(0, read=True)


def begin(warp, *counts):
    """Initialise mbarriers at BAR, EMPTY and so on."""
    with leader(warp):
        for number, count in enumerate(counts):
            warp.mbarrier_init(BAR + 8 * number, count)
        warp.fence_mbarrier_init()
    warp.bar_sync()


# ------------------------------------------------------------------------------------------------ proxies


@faulty("proxy-fence-missing", words(512, 512), shared=2048)
def an_empty_sequence_skips_the_fence(warp, a, out):
    """FlashKDA 24: the state is set to zero, and the fence is in a loop that an empty sequence does not enter."""
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    for _ in range(0):
        warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(out, 0, 2048)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(words(512, 512), lambda a: 0 * a, shared=2048)
def a_fence_after_the_zeros(warp, a, out):
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    for _ in range(0):
        warp.fence_proxy_async()
    warp.bar_sync()
    store_out(warp, out)


@faulty("proxy-fence-barrier", words(512, 512), shared=2048)
def the_fence_after_syncthreads(warp, a, out):
    """torchao 4278: __syncthreads, then the fence of each thread, then thread 0 stores by TMA."""
    warp.st_shared(16 * warp.threads, warp.ld_global(a + 16 * warp.threads, "v4.b32"), "v4.b32")
    warp.bar_sync()
    warp.fence_proxy_async()
    with leader(warp):
        warp.cp_async_bulk_global_shared(out, 0, 2048)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(words(512, 512), copied, shared=2048)
def the_fence_before_syncthreads(warp, a, out):
    warp.st_shared(16 * warp.threads, warp.ld_global(a + 16 * warp.threads, "v4.b32"), "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    store_out(warp, out)


@faulty("proxy-fence-missing", words(128, 32), block=64, shared=4200)
def a_flag_for_a_copy(warp, a, out):
    """DeepEP 621: the flag is polled with ordinary loads, and the data behind it is fetched by TMA."""
    begin(warp, 1)
    if warp.warpid == 0:
        warp.st_global(a + 4 * warp.laneid, 7)
        warp.bar_warp_sync()
        with one(warp):
            warp.st_global(a + 256, 1, order="release")
        return
    with one(warp):
        while warp.ld_global(a + 256, order="acquire")[0, 0] != 1:
            pass
        warp.mbarrier_arrive_expect_tx(BAR, 128)
        warp.cp_async_bulk_shared_global(0, a, 128, BAR)  # <- reported
    warp.mbarrier_wait(BAR, 0)
    warp.st_global(out + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))


@correct(words(128, 32), lambda a: np.full(32, 7, np.uint32), block=64, shared=4200)
def a_flag_after_a_proxy_fence(warp, a, out):
    begin(warp, 1)
    if warp.warpid == 0:
        warp.st_global(a + 4 * warp.laneid, 7)
        warp.fence_proxy_async()
        warp.bar_warp_sync()
        with one(warp):
            warp.st_global(a + 256, 1, order="release")
        return
    with one(warp):
        while warp.ld_global(a + 256, order="acquire")[0, 0] != 1:
            pass
        warp.mbarrier_arrive_expect_tx(BAR, 128)
        warp.cp_async_bulk_shared_global(0, a, 128, BAR)
    warp.mbarrier_wait(BAR, 0)
    warp.st_global(out + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))


# ------------------------------------------------------------------------------------------------ stores by TMA


@faulty("overwritten-early", words(512, 2048), shared=2048)
def commit_and_wait_after_the_loop(warp, a, out):
    """nvFuser 5448: the short way past the analysis left commit_group and wait_group out of the loop."""
    for turn in range(4):
        warp.st_shared(16 * warp.threads, turn, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(out + 2048 * turn, 0, 2048)
        warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(words(512, 2048), lambda a: np.repeat(np.arange(4, dtype=np.uint32), 512), shared=2048)
def commit_and_wait_in_the_loop(warp, a, out):
    for turn in range(4):
        warp.st_shared(16 * warp.threads, turn, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        store_out(warp, out + 2048 * turn)
        warp.bar_sync()


@faulty("overwritten-early", words(512, 512), shared=2048)
def the_last_store_is_not_awaited(warp, a, out):
    """Epilogues without tma_store_wait<0>: the block may end while TMA still reads its shared memory."""
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    store_out(warp, out, wait=False)  # <- reported


@correct(words(512, 512), lambda a: 0 * a + 1, shared=2048)
def the_last_store_is_awaited(warp, a, out):
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    store_out(warp, out)


# ------------------------------------------------------------------------------------------------ masks of lanes


@faulty("absent-lanes", words(32, 32), block=32)
def a_mask_of_five_lanes(warp, a, out):
    """CUTLASS 1094: canonical_warp_idx broadcast with the mask 0x1f, and all 32 lanes execute it."""
    x = warp.run("shfl.sync.idx.b32", warp.ld_global(a.at(warp.laneid)), 0, 0x1F, 0x1F)  # <- reported
    warp.st_global(out.at(warp.laneid), x)


@correct(words(32, 32), lambda a: 0 * a, block=32)
def a_mask_of_all_lanes(warp, a, out):
    x = warp.run("shfl.sync.idx.b32", warp.ld_global(a.at(warp.laneid)), 0, 0x1F, 0xFFFFFFFF)
    warp.st_global(out.at(warp.laneid), x)


@faulty("absent-lanes", words(32, 32), block=32)
def a_mask_by_the_remainder(warp, a, out):
    """Kokkos 1958: the mask of a group of 8 lanes, shifted by lane % 4 and not by lane / 8."""
    for group in range(4):
        with warp.only(warp.laneid // 8 == group):
            mask = 0xFF << 8 * (8 * group % 4)
            x = warp.run("shfl.sync.down.b32", warp.laneid, 4, 0x181F, mask)  # <- reported
            warp.st_global(out.at(warp.laneid), x)


@correct(words(32, 32), block=32)
def a_mask_by_the_quotient(warp, a, out):
    for group in range(4):
        with warp.only(warp.laneid // 8 == group):
            x = warp.run("shfl.sync.down.b32", warp.laneid, 4, 0x181F, 0xFF << 8 * group)
            warp.st_global(out.at(warp.laneid), x)


@faulty("absent-lanes", words(50, 2), block=64)
def a_reduction_behind_an_early_return(warp, a, out):
    """ArrayFire 3575 and many more: `if (i >= n) return;`, and the last warp reduces without its other lanes."""
    with warp.only(warp.threads >= 50):
        warp.exit()
    values = warp.ld_global(a.at(warp.threads))[:, 0]
    for distance in (16, 8, 4, 2, 1):
        values = values + warp.shfl_sync("down", values, distance)  # <- reported
    with warp.only(warp.laneid == 0):
        warp.st_global(out.at(warp.warpid), values)


@correct(words(50, 2), lambda a: np.array([a[:32].sum(), a[32:].sum()]), block=64)
def a_reduction_with_a_guarded_load(warp, a, out):
    inside = warp.threads < 50
    values = np.zeros(32, np.uint32)
    with warp.only(inside):
        values = np.where(inside, warp.ld_global(a.at(warp.threads))[:, 0], 0)
    for distance in (16, 8, 4, 2, 1):
        values = values + warp.shfl_sync("down", values, distance)
    with warp.only(warp.laneid == 0):
        warp.st_global(out.at(warp.warpid), values)


# ------------------------------------------------------------------------------------------------ counts and phases


@faulty("barrier-threads", words(32), block=384)
def a_barrier_for_a_warpgroup_too_many(warp, a):
    """FlashInfer 2957: one warpgroup transposes V, and its barrier counts the producer's threads, too."""
    if warp.warpgroup == 1:
        warp.bar_sync(2, 256)  # <- reported


@correct(words(32), block=384)
def a_barrier_for_one_warpgroup(warp, a):
    if warp.warpgroup == 1:
        warp.bar_sync(2, 128)


@faulty("deadlock", words(128), block=64, shared=4200)
def the_producer_begins_with_parity_0(warp, a):
    """FlashAttention 1317: a producer's first wait must find the phase before the first, whose parity is 1."""
    begin(warp, 1, 1)
    for turn in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY, turn & 1)  # <- reported
                warp.mbarrier_arrive_expect_tx(BAR, 128)
                warp.cp_async_bulk_shared_global(0, a, 128, BAR)
        else:
            warp.mbarrier_wait(BAR, turn & 1)  # <- reported
            warp.ld_shared(4 * warp.laneid)
            warp.bar_warp_sync()
            with one(warp):
                warp.mbarrier_arrive(EMPTY)


@correct(words(128), block=64, shared=4200)
def the_producer_begins_with_parity_1(warp, a):
    begin(warp, 1, 1)
    for turn in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY, turn & 1 ^ 1)
                warp.mbarrier_arrive_expect_tx(BAR, 128)
                warp.cp_async_bulk_shared_global(0, a, 128, BAR)
        else:
            warp.mbarrier_wait(BAR, turn & 1)
            warp.ld_shared(4 * warp.laneid)
            warp.bar_warp_sync()
            with one(warp):
                warp.mbarrier_arrive(EMPTY)


@faulty("shared-race", words(4, 128), shared=16)
def an_address_that_only_the_loop_orders(warp, a, out):
    """CUTLASS 2835: one warp publishes an address; with no tiles, there is no barrier before it is read."""
    if warp.warpid == 0:
        with one(warp):
            warp.st_shared(0, 42)
    for _ in range(0):
        warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_shared(0 * warp.laneid))  # <- reported


@correct(words(4, 128), lambda a: np.full(128, 42, np.uint32), shared=16)
def an_address_behind_a_barrier(warp, a, out):
    if warp.warpid == 0:
        with one(warp):
            warp.st_shared(0, 42)
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_shared(0 * warp.laneid))
