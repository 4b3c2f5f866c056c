"""Pairs that differ in one line: whole kernels were changed line by line, and these changes had been misjudged."""

import numpy as np
from kernels_clusters import FULL, TWO, begin, meet, peer
from kernels_pairs import leader, pair

PAIR = {"grid": 2, "block": 32}


def last(warp, count):
    """Whether this block is the second to count, for all lanes."""
    with leader(warp):
        old = warp.atom_global("add.u32", count, 1)
    return warp.shfl_sync("idx", old, 0)[0, 0] == 1


# ------------------------------------------------------------------------------------------------ fences of lanes


@pair("global-race", (2, 32), 1, 32, **PAIR)
def each_lane_fences_and_lane_0_counts_at_once(warp, right, data, count, out):
    """vLLM's paged attention without its barrier: the count of lane 0 does not wait for the fences of others."""
    warp.st_global(data.at(warp.ctaid[0], warp.laneid), 7)
    warp.fence()
    if right:
        warp.bar_warp_sync()
    if last(warp, count):
        warp.bar_warp_sync()
        warp.fence()
        found = warp.ld_global(data.at(1 - warp.ctaid[0], warp.laneid))  # <- reported
        warp.st_global(out.at(warp.laneid), found)


@pair("global-race", (2, 32), 1, 32, **PAIR)
def both_branches_store_and_one_fences(warp, right, data, count, out):
    """The fence of one branch does not make that of the other void."""
    even = warp.laneid % 2 == 0
    for part in (even, ~even):
        with warp.only(part):
            warp.st_global(data.at(warp.ctaid[0], warp.laneid), 7)
            if right or part[0]:
                warp.fence()
    warp.bar_warp_sync()
    if last(warp, count):
        warp.bar_warp_sync()
        warp.fence()
        found = warp.ld_global(data.at(1 - warp.ctaid[0], warp.laneid))  # <- reported
        warp.st_global(out.at(warp.laneid), found)


@pair("global-race", 64, 1, grid=2, block=64, shared=8)
def one_lane_tells_another_warp_of_its_fence(warp, right, data, flag):
    """All lanes of a warp fence and one arrives: only this lane's stores are ordered."""
    if warp.ctaid[0] == 0:
        with leader(warp):
            warp.mbarrier_init(0, 1)
        warp.bar_sync()
        if warp.warpid == 1:
            warp.st_global(data.at(warp.laneid), 7)
            warp.fence()
            with warp.only(warp.laneid == 3):
                warp.mbarrier_arrive(0)
        else:
            warp.mbarrier_wait(0, 0)
            with leader(warp):
                warp.st_global(flag, 1, order="relaxed")
    elif warp.warpid == 0:
        with leader(warp):
            while not warp.ld_global(flag, order="acquire")[0, 0]:
                warp.nanosleep(20)
        warp.bar_warp_sync()
        with warp.only(warp.laneid == 3 if right else warp.laneid < 8):
            warp.ld_global(data.at(warp.laneid))  # <- reported


# ------------------------------------------------------------------------------------------------ blocks that exit


@pair("out-of-range", **TWO)
def a_block_that_sends_from_its_memory_and_exits(warp, right):
    """The receiver waits for the copy; the sender arrives at the barrier of the cluster and does not wait there."""
    begin(warp, FULL)
    if warp.cluster_ctarank == 0:
        warp.st_shared(4 * warp.threads, 7)
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_shared_cluster(peer(warp, 512), 0, 256, peer(warp, FULL))  # <- reported
        warp.barrier_cluster_arrive()
        if right:
            warp.barrier_cluster_wait()
        return
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
    warp.mbarrier_wait(FULL, 0)
    meet(warp)


# ------------------------------------------------------------------------------------------------ lanes and mbarriers


@pair("mbarrier-init", block=32, shared=64)
def each_lane_initialises_an_mbarrier_and_uses_it(warp, right):
    """A lane knows of the mbarrier that it has initialised itself, and not of its neighbour's."""
    with warp.only(warp.laneid < 4):
        lane = warp.laneid % 4
        warp.mbarrier_init(8 * lane, 1)
        warp.mbarrier_arrive(8 * (lane if right else (lane + 1) % 4))  # <- reported
        warp.mbarrier_wait(8 * lane, 0)


@pair("mbarrier-object", block=32, shared=64)
def all_lanes_initialise_one_mbarrier(warp, right):
    """A second mbarrier.init would make the arrivals before it void."""
    with warp.only(warp.laneid < (1 if right else 32)):
        warp.mbarrier_init(0, 32)  # <- reported
    warp.bar_warp_sync()
    warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)


# ------------------------------------------------------------------------------------------------ lanes that store


@pair("lanes-disagree", 64, block=64, shared=64)
def every_lane_stores_the_sum_of_the_warp(warp, right, out):
    """CUB's warp aggregates, which lane 31 holds: without its condition, the sum of any lane may stay."""
    total = warp.laneid
    for step in (1, 2, 4, 8, 16):
        above = warp.shfl_sync("up", total, step)
        total = np.where(warp.laneid >= step, total + above, total)
    with warp.only(warp.laneid >= (31 if right else 0)):
        warp.st_shared(4 * warp.warpid, total)  # <- reported
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_shared(0))


@pair("lanes-disagree", 4, block=32)
def lanes_that_store_one_value_or_several(warp, right, out):
    """Storing the same value is not a conflict, and with a strong store any of the values may remain."""
    warp.st_global(out.at(warp.laneid % 2), warp.laneid % 2)
    warp.st_global(out.at(2), warp.laneid, order="relaxed")
    warp.st_global(out.at(3), 5 if right else warp.laneid // 16)  # <- reported


@pair("deadlock", 1, block=64)
def a_loop_that_no_lane_of_a_warp_executes(warp, right, flag):
    """A GPU skips it; here, what warp 1 loads never changes."""
    with leader(warp):
        if warp.warpid == 0:
            warp.st_global(flag, 1, order="release")
        while (warp.active.any() or not right) and warp.ld_global(flag, order="acquire")[0, 0] != 1:  # <- reported
            warp.nanosleep(20)
