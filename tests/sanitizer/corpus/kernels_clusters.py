"""Pairs about the blocks of a cluster: distributed shared memory, remote mbarriers, multicast, st.async."""

import numpy as np
from kernels_pairs import leader, pair

TWO = {"grid": 2, "block": 64, "cluster": 2, "shared": 1088}
#: Where mbarriers are.
FULL, EMPTY = 1024, 1032


def meet(warp, order="release"):
    warp.barrier_cluster_arrive(order)
    warp.barrier_cluster_wait()


def begin(warp, *mbarriers, expect=0):
    """Thread 0 initialises mbarriers; all blocks of the cluster know of it."""
    with leader(warp):
        for mbarrier in mbarriers:
            warp.mbarrier_init(mbarrier, 1)
        warp.fence_mbarrier_init()
        if expect:
            warp.mbarrier_arrive_expect_tx(FULL, expect)
    meet(warp)


def peer(warp, address):
    """The same place in the other block of a cluster of two."""
    return warp.mapa(address, 1 - warp.cluster_ctarank)


@pair("shared-race", **TWO)
def a_barrier_of_the_block_for_the_cluster(warp, right):
    """__syncthreads in place of cluster.sync() before the other block's memory is read."""
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    if right:
        meet(warp)
    else:
        warp.bar_sync()
    warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    meet(warp)


@pair("shared-race", **TWO)
def a_relaxed_arrival_publishes_nothing(warp, right):
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    meet(warp, "release" if right else "relaxed")
    warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    meet(warp)


@pair("shared-race", **TWO)
def arrived_before_the_stores(warp, right):
    """The halves of the barrier are split, and the stores stand between them."""
    if right:
        warp.st_shared(4 * warp.threads, 1)
    warp.barrier_cluster_arrive()
    if not right:
        warp.st_shared(4 * warp.threads, 1)  # <- reported
    warp.barrier_cluster_wait()
    warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    meet(warp)


@pair("shared-race", **TWO)
def bins_of_the_other_block_before_they_are_cleared(warp, right):
    """The distributed histogram of the CUDA guide without its first cluster.sync()."""
    warp.st_shared(4 * warp.threads, 0)  # <- reported
    if right:
        meet(warp)
    warp.red_shared_cluster("add.u32", peer(warp, 4 * warp.threads), 1)  # <- reported
    meet(warp)


@pair("shared-race", **TWO)
def the_next_round_overwrites_what_the_peer_reads(warp, right):
    """A reduction in rounds with one barrier of the cluster for each round."""
    for turn in range(2):
        warp.st_shared(4 * warp.threads, turn)  # <- reported
        meet(warp)
        warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
        if right:
            meet(warp)
    meet(warp)


@pair("shared-race", **TWO)
def a_flag_in_the_peer_for_the_block_alone(warp, right):
    """st.release.cta and ld.acquire.cta of a flag in distributed shared memory; .cluster is needed."""
    scope = "cluster" if right else "cta"
    with leader(warp):
        warp.st_shared(512, 0)
    meet(warp)
    if warp.cluster_ctarank == 0:
        with leader(warp):
            warp.st_shared_cluster(peer(warp, 0), 5)  # <- reported
            warp.st_shared_cluster(peer(warp, 512), 1, order=f"release.{scope}")  # <- reported
    else:
        with leader(warp):
            while warp.warpid == 0 and not warp.ld_shared(512, order=f"acquire.{scope}")[0, 0]:  # <- reported
                warp.nanosleep(20)
            warp.ld_shared(0)  # <- reported
    meet(warp)


@pair(("exited-threads", "out-of-range"), **TWO)
def a_block_exits_while_its_peer_reads(warp, right):
    """The last cluster.sync() is missing."""
    warp.st_shared(4 * warp.threads, 1)
    meet(warp)
    if warp.cluster_ctarank == 0:
        warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    if right:
        meet(warp)


@pair(("exited-threads", "out-of-range"), **TWO)
def the_last_arrival_at_a_block_that_has_exited(warp, right):
    """A consumer releases the last stage to a producer that no longer waits."""
    begin(warp, EMPTY)
    if warp.cluster_ctarank == 0:
        with leader(warp):
            warp.mbarrier_arrive_shared_cluster(peer(warp, EMPTY))  # <- reported
    if right:
        meet(warp)


@pair("mbarrier-init", **TWO)
def an_mbarrier_that_the_peer_does_not_know_yet(warp, right):
    """After the initialisation only the threads of each block synchronise."""
    with leader(warp):
        warp.mbarrier_init(EMPTY, 1)
        warp.fence_mbarrier_init()
    if right:
        meet(warp)
    else:
        warp.bar_sync()
    with leader(warp):
        warp.mbarrier_arrive_shared_cluster(peer(warp, EMPTY))  # <- reported
        warp.mbarrier_wait(EMPTY, 0)
    meet(warp)


@pair("mbarrier-init", **TWO)
def a_relaxed_arrival_without_fence_mbarrier_init(warp, right):
    """CUTLASS arrives relaxed, which the fence in front of it makes enough."""
    with leader(warp):
        warp.mbarrier_init(EMPTY, 1)
        if right:
            warp.fence_mbarrier_init()
    meet(warp, "relaxed")
    with leader(warp):
        warp.mbarrier_arrive_shared_cluster(peer(warp, EMPTY))  # <- reported
        warp.mbarrier_wait(EMPTY, 0)
    meet(warp)


@pair(("expect-tx", "deadlock"), 64, **TWO)
def a_multicast_to_a_block_that_expects_nothing(warp, right, x):
    rank = warp.cluster_ctarank
    begin(warp, FULL)
    with leader(warp):
        if right or rank == 0:
            warp.mbarrier_arrive_expect_tx(FULL, 256)
        else:
            warp.mbarrier_arrive(FULL)
    meet(warp)
    with leader(warp):
        if rank == 0:
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)  # <- reported
    warp.mbarrier_wait(FULL, 0)  # <- reported
    warp.ld_shared(4 * warp.threads)  # <- reported
    meet(warp)


@pair("tma-unwaited", 64, **TWO)
def a_block_that_does_not_wait_for_a_multicast(warp, right, x):
    """The block that issues the copy waits; the other one counts on the barrier of the cluster."""
    rank = warp.cluster_ctarank
    begin(warp, FULL, expect=256)
    with leader(warp):
        if rank == 0:
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)
    if rank == 0 or right:
        warp.mbarrier_wait(FULL, 0)
    meet(warp)
    warp.ld_shared(4 * warp.threads)  # <- reported
    meet(warp)


@pair("overwritten-early", 64, **TWO)
def a_stage_refilled_while_the_peer_reads_it(warp, right, x):
    """The producer of a multicast waits for the consumers of its own block only."""
    rank = warp.cluster_ctarank
    begin(warp, FULL, expect=256)
    for turn in range(2):
        with leader(warp):
            if rank == 0:
                warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)  # <- reported
        warp.mbarrier_wait(FULL, turn)
        warp.ld_shared(4 * warp.threads)  # <- reported
        warp.bar_sync()
        if turn == 0:
            with leader(warp):
                warp.mbarrier_arrive_expect_tx(FULL, 256)
            if right:
                meet(warp)
    meet(warp)


@pair("tma-unwaited", **TWO)
def st_async_read_without_a_wait(warp, right):
    """A barrier of the cluster does not wait for st.async."""
    begin(warp, FULL, expect=256)
    warp.st_async(peer(warp, 4 * warp.threads), 7, peer(warp, FULL))
    if right:
        warp.mbarrier_wait(FULL, 0)
    meet(warp)
    warp.ld_shared(4 * warp.threads)  # <- reported
    meet(warp)


@pair("uninitialised-shared", **TWO)
def red_async_onto_what_nobody_has_written(warp, right):
    """A sum in the peer's shared memory begins with whatever lies there, unless the peer clears it."""
    begin(warp, FULL, expect=256)
    if right:
        warp.st_shared(4 * warp.threads, 0)
    meet(warp)
    warp.red_async("add.u32", peer(warp, 4 * warp.threads), 7, peer(warp, FULL))  # <- reported
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)
    meet(warp)


@pair("expect-tx", **TWO)
def st_async_of_more_bytes_than_expected(warp, right):
    """Each element counts four bytes, not one."""
    begin(warp, FULL)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256 if right else 64)  # <- reported
    meet(warp)
    warp.st_async(peer(warp, 4 * warp.threads), 7, peer(warp, FULL))  # <- reported
    warp.mbarrier_wait(FULL, 0)  # <- reported
    warp.ld_shared(4 * warp.threads)  # <- reported
    meet(warp)


@pair(("shared-race", "overwritten-early"), **TWO)
def st_async_over_what_the_peer_still_stores(warp, right):
    """The peer clears its buffer with ordinary stores; nothing orders them with the data that this block sends."""
    begin(warp, FULL, expect=256)
    warp.st_shared(4 * warp.threads, 0)  # <- reported
    if right:
        meet(warp)
    warp.st_async(peer(warp, 4 * warp.threads), 7, peer(warp, FULL))  # <- reported
    warp.mbarrier_wait(FULL, 0)
    meet(warp)


@pair(("deadlock", "exited-threads"), **TWO)
def a_warp_that_skips_the_barrier_of_the_cluster(warp, right):
    """Only the warps that have work arrive; the barrier counts all threads that have not exited."""
    if warp.warpid == 0 or right or warp.cluster_ctarank == 0:
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()  # <- reported
    else:
        warp.bar_sync(1, 64)  # <- reported


@pair(("barrier-threads", "deadlock"), **TWO)
def arriving_twice_at_the_barrier_of_the_cluster(warp, right):
    """The wait that belongs to the first arrival is missing."""
    warp.barrier_cluster_arrive()
    if right:
        warp.barrier_cluster_wait()
    warp.barrier_cluster_arrive()  # <- reported
    warp.barrier_cluster_wait()


@pair(("barrier-threads", "deadlock"), **TWO)
def waiting_without_an_arrival(warp, right):
    """One warp arrives for its block, and all of them wait."""
    if right or warp.warpid == 0:
        warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()  # <- reported


@pair("global-race", 4, 1, grid=4, block=32, cluster=2)
def clusters_that_exchange_without_a_release(warp, right, sums, count):
    """barrier.cluster orders the blocks of one cluster, and nothing beyond it."""
    with leader(warp):
        warp.st_global(sums.at(warp.ctaid[0]), 1)  # <- reported
    meet(warp)
    with leader(warp):
        if right:
            warp.fence()
        if warp.atom_global("add.u32", count, 1)[0, 0] == 3:
            if right:
                warp.fence()
            np.sum([warp.ld_global(sums.at(part)) for part in range(4)])  # <- reported


@pair("warpgroup-divergent", grid=2, block=192, cluster=2)
def registers_given_back_by_three_warps_of_four(warp, right):
    """The block has six warps: the last two are a warpgroup of their own, which the missing ones do not spoil."""
    if warp.warpid >= 4 or warp.warpid < (4 if right else 3):
        warp.setmaxnreg("dec", 40)  # <- reported
