"""Correct kernels that look wrong: release sequences, locks by exchange, credits, blocks that leave early."""

import numpy as np
from kernels_blocks import spin
from kernels_clusters import EMPTY, FULL, begin, meet, peer
from kernels_wild_table import correct, leader

CLUSTER = {"grid": 2, "block": 64, "cluster": 2, "shared": 1088}
TWO = {"grid": 2, "block": 64}
ONE = {"grid": 2, "block": 32}


def zeros(*sizes):
    return lambda: tuple(np.zeros(size, np.uint32) for size in sizes)


@correct(zeros(), **CLUSTER)
def bytes_that_come_before_they_are_expected(warp):
    """complete_tx before expect_tx in the same phase: the pending arrival keeps the phase open."""
    begin(warp, FULL)
    warp.st_async(peer(warp, 4 * warp.threads), 1, peer(warp, FULL))
    meet(warp)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)
    meet(warp)


@correct(zeros(), **CLUSTER)
def a_rank_that_returns_at_once(warp):
    """sglang 25575: the short branch uses rank 0 only; barrier.cluster does not wait for threads that have exited."""
    if warp.cluster_ctarank:
        return
    warp.st_shared(4 * warp.threads, 1)
    meet(warp)
    warp.ld_shared(4 * (63 - warp.threads))


@correct(zeros(), **CLUSTER)
def halos_with_two_buffers(warp):
    for step in range(5):
        at = 256 * (step % 2)
        warp.st_shared(at + 4 * warp.threads, step)
        meet(warp)
        warp.ld_shared_cluster(peer(warp, at + 4 * warp.threads))
    meet(warp)


@correct(zeros(), **ONE)
def lanes_0_and_16_exchange_alone(warp):
    """gunrock 324: the mask names two lanes, and both are there."""
    with warp.only(warp.laneid % 16 == 0):
        warp.run("shfl.sync.bfly.b32", warp.laneid, 16, 0x1F, 0x00010001)
    warp.shfl_sync("up", warp.laneid, 8)


@correct(zeros(64, 3), grid=3, block=64)
def a_counter_in_the_middle_of_a_release_sequence(warp, data, words):
    """Relaxed additions by others continue the chain that the first release began."""
    count = words.at(0)
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 1)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(count, 1, order="release")
    elif warp.ctaid[0] == 1:
        with leader(warp):
            while warp.warpid == 0 and not warp.ld_global(count, order="relaxed")[0, 0]:
                warp.nanosleep(20)
            warp.atom_global("add.u32", count, 1)
    else:
        with leader(warp):
            while warp.warpid == 0 and warp.ld_global(count, order="acquire")[0, 0] < 2:
                warp.nanosleep(20)
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))


@correct(zeros(1, 1), **TWO)
def a_lock_by_exchange_and_fences(warp, lock, data):
    """while (atomicExch(&lock, 1)); __threadfence(); ... __threadfence(); atomicExch(&lock, 0);"""
    with leader(warp):
        if warp.warpid:
            return
        while warp.atom_global("exch.b32", lock, 1)[0, 0]:
            warp.nanosleep(20)
        warp.fence()
        warp.st_global(data, 1 + warp.ld_global(data))
        warp.fence()
        warp.atom_global("exch.b32", lock, 0)


@correct(zeros(), block=128, shared=64)
def a_lock_by_exchange_in_shared_memory(warp):
    with leader(warp):
        warp.st_shared(0, 0, "b64")
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        while warp.atom_shared("exch.b32", 0, 1, order="acquire")[0, 0]:
            warp.nanosleep(20)
        warp.st_shared(4, 1 + warp.ld_shared(4))
        warp.st_shared(0, 0, order="release")


@correct(zeros(), block=64, shared=64)
def a_word_set_by_an_exchange_whose_result_nobody_uses(warp):
    with leader(warp):
        warp.atom_shared("exch.b32", 0, 0)
    warp.bar_sync()
    warp.red_shared("add.u32", 0, 1)


@correct(zeros(64), block=64, shared=1088)
def consumers_that_leave_by_arrive_drop(warp, x):
    """The second consumer warp needs one tile only."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.mbarrier_init(EMPTY, 64)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    for tile in range(3):
        if tile:
            if warp.warpid == 0:
                warp.mbarrier_wait(EMPTY, (tile - 1) % 2)
            else:
                return
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(FULL, 256)
            warp.cp_async_bulk_shared_global(0, x, 256, FULL)
        warp.mbarrier_wait(FULL, tile % 2)
        warp.ld_shared(4 * warp.laneid)
        if warp.warpid:
            warp.mbarrier_arrive_drop(EMPTY)
        else:
            warp.mbarrier_arrive(EMPTY)


@correct(zeros(64, 128), block=64, shared=1088)
def stored_by_tma_and_loaded_again_over_it(warp, x, out):
    """The buffer that a store has read is refilled by the same thread: both are in the async proxy."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.fence_mbarrier_init()
        for tile in range(2):
            warp.mbarrier_arrive_expect_tx(FULL, 256)
            warp.cp_async_bulk_shared_global(0, x, 256, FULL)
            warp.mbarrier_wait(FULL, tile)
            warp.cp_async_bulk_global_shared(out + 256 * tile, 0, 256)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=True)
        warp.cp_async_bulk_wait_group(0)


@correct(zeros(64, 2, 64), grid=4, block=32, cluster=2, shared=1088)
def the_leaders_of_clusters_meet_for_all(warp, part, count, out):
    """cluster.sync, the leaders count, cluster.sync: a barrier of the grid in two levels."""
    here = 32 * (warp.ctaid[0] % 2) + warp.laneid
    if warp.ctaid[0] < 2:
        warp.st_global(part.at(here), 1)
    meet(warp)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.atom_global("add.u32", count, 1, order="acq_rel")
            while warp.ld_global(count, order="acquire")[0, 0] < 2:
                warp.nanosleep(20)
    meet(warp)
    warp.ld_global(part.at(63 - here))


@correct(zeros(8, 8), **ONE)
def a_bounded_queue_with_numbers_in_its_slots(warp, numbers, items):
    """Vyukov's queue: a slot's number says whose turn it is."""
    with leader(warp):
        for n in range(6):
            slot = n % 2
            turn = 2 * (n // 2) + (warp.ctaid[0] == 1)
            while warp.ld_global(numbers.at(slot), order="acquire")[0, 0] != turn:
                warp.nanosleep(20)
            if warp.ctaid[0] == 0:
                warp.st_global(items.at(slot), n)
            else:
                warp.ld_global(items.at(slot))
            warp.st_global(numbers.at(slot), turn + 1, order="release")


@correct(zeros(), block=96, shared=512)
def three_warps_that_hand_on_in_a_ring_of_named_barriers(warp):
    me = warp.warpid
    for turn in range(3):
        held = warp.laneid
        if me or turn:
            warp.bar_sync(1 + me, 64)
            held = warp.ld_shared(4 * ((warp.laneid + 1) % 32))
        warp.bar_warp_sync()
        warp.st_shared(4 * warp.laneid, held)
        if me < 2 or turn < 2:
            warp.bar_arrive(1 + (me + 1) % 3, 64)


@correct(zeros(64, 1), **TWO)
def published_with_a_fence_by_each_thread_and_volatile(warp, data, flag):
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5, order="volatile")
        warp.membar("gl")
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="volatile")
    else:
        spin(warp, flag, "volatile")
        warp.bar_sync()
        warp.membar("gl")
        warp.ld_global(data.at(warp.threads))


@correct(zeros(), **CLUSTER)
def started_seen_by_an_arrival_of_the_peer(warp):
    """Rank 1 arrives at rank 0 after the cluster's barrier; later accesses need no other proof."""
    begin(warp, FULL)
    if warp.cluster_ctarank == 1:
        warp.st_shared(4 * warp.threads, 3)
        warp.bar_sync()
        with leader(warp):
            warp.mbarrier_arrive_shared_cluster(peer(warp, FULL))
    else:
        warp.run("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", FULL, 0)
        warp.ld_shared_cluster(peer(warp, 4 * warp.threads))
    meet(warp)


@correct(zeros(4), **ONE)
def a_wide_state_stored_and_loaded_as_a_vector(warp, state):
    """st.relaxed.v2.b32 and ld.relaxed.b32: scalars of the same size."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            warp.st_global(state, np.array([[1, 9]] * 32, np.uint32), "v2.b32", order="relaxed")
        else:
            while not warp.ld_global(state, order="relaxed")[0, 0]:
                warp.nanosleep(20)
            warp.ld_global(state.at(1), order="relaxed")
