"""Pairs from bug trackers, in clusters: shared memory of a block that has not started, multicast, rings, locks."""

import numpy as np
from kernels_blocks import spin
from kernels_clusters import FULL, begin, meet, peer
from kernels_pairs import leader, pair
from kernels_wild_correct_wgmma import TILE, multiply

CLUSTER = {"grid": 2, "block": 64, "cluster": 2, "shared": 1088}


@pair("out-of-range", **CLUSTER)
def stored_into_a_block_that_may_not_have_started(warp, right):
    """triton (TLX) 2292: a store to the peer's memory without a barrier of the cluster before it."""
    if right:
        meet(warp)
    warp.st_shared_cluster(peer(warp, 4 * warp.threads), 1)  # <- reported
    meet(warp)
    warp.ld_shared(4 * warp.threads)


@pair("shared-race", **CLUSTER)
def added_to_a_counter_that_may_not_exist_yet(warp, right):
    """The same by an atomic operation: rank 1 counts at rank 0."""
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.st_shared(0, 0)  # <- reported
    if right:
        meet(warp)
    with leader(warp):
        if warp.cluster_ctarank == 1:
            warp.red_shared_cluster("add.u32", warp.mapa(0, 0), 1)  # <- reported
    meet(warp)


@pair(("shared-race", "overwritten-early"), 256, **CLUSTER)
def a_multicast_over_the_epilogue_of_the_peer(warp, right, x):
    """humming 56: a persistent cluster; the leader brings the next tile when its own epilogue is done."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank
    for tile in range(2):
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(FULL, 256)
            if rank == 0:
                source = x + 256 * tile
                warp.cp_async_bulk_shared_global(0, source, 256, FULL, cta_mask=3)  # <- reported
        warp.mbarrier_wait(FULL, tile)
        held = warp.ld_shared(4 * warp.threads)
        warp.bar_sync()
        warp.st_shared(4 * (63 - warp.threads), held)  # <- reported
        warp.bar_sync()
        warp.ld_shared(4 * warp.threads)  # <- reported
        warp.fence_proxy_async()
        if right:
            meet(warp)
        else:
            warp.bar_sync()
    meet(warp)


@pair(("mbarrier-init", "deadlock", "expect-tx"), 64, **CLUSTER)
def an_mbarrier_that_lies_elsewhere_in_the_peer(warp, right, x):
    """A multicast signals the mbarrier at the same place in each block; the layout depends on the rank."""
    rank = warp.cluster_ctarank
    here = FULL if right else FULL + 8 * rank
    begin(warp, here)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(here, 128)  # <- reported
        if rank == 0:
            warp.cp_async_bulk_shared_global(0, x, 128, here, cta_mask=3)  # <- reported
    warp.mbarrier_wait(here, 0)  # <- reported
    meet(warp)


@pair("out-of-range", **CLUSTER)
def the_rank_after_the_last(warp, right):
    """The right neighbour of a ring is rank + 1, also for the last."""
    warp.st_shared(4 * warp.threads, 1)
    meet(warp)
    rank = warp.cluster_ctarank + 1
    warp.ld_shared_cluster(warp.mapa(4 * warp.threads, rank % 2 if right else rank))  # <- reported
    meet(warp)


@pair("out-of-range", 64, **CLUSTER)
def a_mask_that_names_a_block_outside(warp, right, x):
    """The mask of rank and rank + 1, shifted by the rank."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 128)
        if rank == 1:
            warp.cp_async_bulk_shared_global(0, x, 128, FULL, cta_mask=3 if right else 3 << rank)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    meet(warp)


@pair("out-of-range", **CLUSTER)
def st_async_with_the_own_mbarrier(warp, right):
    """Data and mbarrier of st.async lie in the same block."""
    begin(warp, FULL, expect=256)
    bar = peer(warp, FULL) if right else warp.mapa(FULL, warp.cluster_ctarank)
    warp.st_async(peer(warp, 4 * warp.threads), 1, bar)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    meet(warp)


@pair(("deadlock", "mbarrier-arrivals"), grid=(1, 2), block=64, cluster=(1, 2), shared=1088)
def the_rank_taken_from_x_in_a_cluster_along_y(warp, right):
    """1 - blockIdx.x % 2 is the peer's rank only in a cluster along x."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank if right else warp.ctaid[0] % 2
    with leader(warp):
        warp.mbarrier_arrive_shared_cluster(warp.mapa(FULL, 1 - rank))  # <- reported
    warp.mbarrier_wait(FULL, 0)  # <- reported
    meet(warp)


@pair(("expect-tx", "deadlock"), 64, grid=4, block=32, cluster=4, shared=1088)
def bytes_times_the_size_of_the_cluster(warp, right, x):
    """tilelang 2644: a pair of blocks shares a load, and the expectation counts all four blocks of the cluster."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 64 * (2 if right else 4))  # <- reported
        mask = 0b11 << (rank & 2)
        warp.cp_async_bulk_shared_global(64 * (rank & 1), x.at(16 * rank), 64, FULL, cta_mask=mask)
    warp.mbarrier_wait(FULL, 0)  # <- reported
    meet(warp)


@pair("global-race", 64, 1, grid=3, block=32, cluster=3, shared=1088)
def seen_here_and_told_to_the_peer_by_a_relaxed_arrival(warp, right, data, flag):
    """Rank 1 acquires; its arrival at rank 2 is relaxed, so it orders nothing for rank 2."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank
    if rank == 0:
        warp.st_global(data.at(warp.laneid), 5)  # <- reported
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release")
    elif rank == 1:
        spin(warp, flag, "acquire")
        with leader(warp):
            how = "release" if right else "relaxed"
            warp.run(f"mbarrier.arrive.{how}.cluster.shared::cluster.b64", warp.mapa(FULL, 2))
    else:
        warp.run("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", FULL, 0)
        warp.ld_global(data.at(warp.laneid))  # <- reported
    meet(warp)


@pair(("proxy-fence-missing", "proxy-fence-barrier", "proxy-fence-thread"), 64, **CLUSTER)
def stored_by_the_peer_and_copied_out_here(warp, right, out):
    """Rank 1 stores into the staging buffer of rank 0, whose thread copies it out: the writer has to fence."""
    meet(warp)
    if warp.cluster_ctarank == 1:
        warp.st_shared_cluster(peer(warp, 4 * warp.threads), 4)
        if right:
            warp.fence_proxy_async()
    meet(warp)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.cp_async_bulk_global_shared(out, 0, 256)  # <- reported
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)
    meet(warp)


@pair(("shared-race",), **CLUSTER)
def a_lock_in_the_peer_given_back_relaxed(warp, right):
    """A lock in rank 0's memory guards a word beside it."""
    with leader(warp):
        warp.st_shared(0, 0, "b64")
    meet(warp)
    with leader(warp):
        if warp.warpid == 0:
            lock, word = warp.mapa(0, 0), warp.mapa(4, 0)
            while warp.atom_shared_cluster("exch.b32", lock, 1, order="acquire")[0, 0]:
                warp.nanosleep(20)
            warp.st_shared_cluster(word, 1 + warp.ld_shared_cluster(word))  # <- reported
            warp.atom_shared_cluster("exch.b32", lock, 0, order="release" if right else "")
    meet(warp)


@pair(("overwritten-early", "shared-race"), grid=2, block=32, cluster=2, shared=1088)
def a_ring_in_the_peer_with_a_slot_too_few(warp, right):
    """Rank 0 writes tokens into rank 1's memory; credits come back by arrivals; it starts with three for two slots."""
    for at in (1024, 1032, 1040, 1048):
        with leader(warp):
            warp.mbarrier_init(at, 1)
    with leader(warp):
        warp.fence_mbarrier_init()
    meet(warp)
    slots = 2
    for token in range(6):
        slot, turn = token % slots, token // slots
        if warp.cluster_ctarank == 0:
            ahead = token if right else token - 1
            if ahead >= slots:
                warp.mbarrier_wait(1040 + 8 * (ahead % slots), (ahead // slots - 1) % 2)
            warp.st_async(peer(warp, 128 * slot + 4 * warp.laneid), token, peer(warp, 1024 + 8 * slot))  # <- reported
        else:
            with leader(warp):
                warp.mbarrier_arrive_expect_tx(1024 + 8 * slot, 128)
            warp.mbarrier_wait(1024 + 8 * slot, turn % 2)
            warp.ld_shared(128 * slot + 4 * warp.laneid)  # <- reported
            warp.bar_warp_sync()
            with leader(warp):
                warp.mbarrier_arrive_shared_cluster(peer(warp, 1040 + 8 * slot))
    meet(warp)


@pair("barrier-threads", grid=2, block=64, cluster=2)
def one_warp_arrives_at_the_cluster_and_does_not_wait(warp, right):
    """The producer warp arrives for the others and ends; in the next round it is missing."""
    for _ in range(2):
        warp.barrier_cluster_arrive()  # <- reported
        if warp.warpid or right:
            warp.barrier_cluster_wait()  # <- reported


@pair("shared-race", **CLUSTER)
def counted_at_rank_0_with_the_scope_of_a_block(warp, right):
    """atomicAdd_block on a counter in distributed shared memory."""
    with leader(warp):
        warp.st_shared(0, 0)
    meet(warp)
    scope = "cluster" if right else "cta"
    warp.red_shared_cluster("add.u32", warp.mapa(0, 0), 1, order=f"relaxed.{scope}")  # <- reported
    meet(warp)


@pair("overwritten-early", 1024, grid=4, block=64, cluster=4, shared=1088)
def a_multicast_ring_whose_empty_counts_two_of_four(warp, right, x):
    """Each of four ranks brings a quarter for all; empty counts the consumers of two."""
    rank = warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_init(1024, 1)
        warp.mbarrier_init(1032, 4 if right else 2)  # <- reported
        warp.fence_mbarrier_init()
    meet(warp)
    for turn in range(3):
        if warp.warpid == 0:
            with leader(warp):
                warp.mbarrier_wait(1032, (turn + 1) % 2)  # <- reported
                warp.mbarrier_arrive_expect_tx(1024, 256)
                source = x + 256 * turn + 64 * rank
                warp.cp_async_bulk_shared_global(64 * rank, source, 64, 1024, cta_mask=15)  # <- reported
        else:
            warp.mbarrier_wait(1024, turn % 2)
            warp.ld_shared(4 * warp.laneid)  # <- reported
            warp.ld_shared(128 + 4 * warp.laneid)  # <- reported
            warp.bar_warp_sync()
            with warp.only(warp.laneid < 4):
                warp.mbarrier_arrive_shared_cluster(warp.mapa(1032, warp.laneid % 4))  # <- reported
    meet(warp)


@pair("shared-race", grid=4, block=32, cluster=4, shared=256)
def a_tree_over_ranks_with_one_barrier_too_few(warp, right):
    """log2 steps of a reduction in distributed shared memory; the barrier is before the loop."""
    rank = warp.cluster_ctarank
    warp.st_shared(4 * warp.laneid, rank)  # <- reported
    meet(warp)
    for step in (2, 1):
        if rank < step:
            other = warp.ld_shared_cluster(warp.mapa(4 * warp.laneid, rank + step))  # <- reported
            warp.st_shared(4 * warp.laneid, other + warp.ld_shared(4 * warp.laneid))  # <- reported
        if right:
            meet(warp)
    if not right:
        meet(warp)


@pair("overwritten-early", grid=2, block=128, cluster=2, shared=2 * 8192 + 64)
def st_async_into_a_tile_that_wgmma_still_reads(warp, right):
    """The release to the peer is before wgmma.wait_group."""
    bar, free = 2 * TILE, 2 * TILE + 8
    with leader(warp):
        warp.mbarrier_init(bar, 1)
        warp.mbarrier_init(free, 1)
        warp.fence_mbarrier_init()
    for part in range(8):
        warp.st_shared(16 * warp.threads + 2048 * part, 0, "v4.b32")
    warp.fence_proxy_async()
    meet(warp)
    if warp.cluster_ctarank == 0:
        c = warp.registers(32, fill=0)
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(bar, 2048)
        warp.wgmma_fence()
        multiply(warp, c, 0, TILE)
        warp.wgmma_commit_group()
        if right:
            warp.wgmma_wait_group(0)
            warp.bar_sync()
        with leader(warp):
            warp.mbarrier_arrive_shared_cluster(peer(warp, free))
        warp.wgmma_wait_group(0)
        warp.mbarrier_wait(bar, 0)
    else:
        warp.mbarrier_wait(free, 0)
        zero = np.zeros((32, 4), np.uint32)
        warp.st_async(peer(warp, 16 * warp.threads), zero, peer(warp, bar), "v4.b32")  # <- reported
    meet(warp)


@pair("deadlock", 64, grid=2, block=64, cluster=2, shared=2112)
def a_stage_released_to_one_rank(warp, right, x):
    """humming 53: both ranks multicast, and each waits for the consumers of both; they tell rank 0 only."""
    full, empty, rank = 1024, 1032, warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_init(full, 1)
        warp.mbarrier_init(empty, 2)
        warp.fence_mbarrier_init()
    meet(warp)
    for turn in range(3):
        if warp.warpid:
            warp.mbarrier_wait(full, turn % 2)
            warp.ld_shared(8 * warp.laneid)
            warp.bar_warp_sync()
            with warp.only(warp.laneid < 1 + right):
                warp.mbarrier_arrive_shared_cluster(warp.mapa(empty, np.minimum(warp.laneid, 1)))
        else:
            with leader(warp):
                warp.mbarrier_wait(empty, 1 - turn % 2)  # <- reported
                warp.mbarrier_arrive_expect_tx(full, 256)
                warp.cp_async_bulk_shared_global(128 * rank, x + 128 * rank, 128, full, cta_mask=3)
    meet(warp)


@pair("expect-tx", 64, grid=2, block=64, cluster=2, shared=2112)
def a_stage_that_is_not_armed_again(warp, right, x):
    """A scheduler in rank 0 sends tiles to both ranks; rank 1 frees a slot and forgets to expect the next tile."""
    full, empty, rank = 1024, 1032, warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_init(full, 1)
        warp.mbarrier_init(empty, 2)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(full, 4)
    meet(warp)
    for turn in range(4):
        with warp.only(warp.laneid == 0):
            if warp.warpid:
                warp.mbarrier_wait(full, turn % 2)
                warp.ld_shared(0)
                if turn < 3 and (right or not rank or turn != 1):
                    warp.mbarrier_arrive_expect_tx(full, 4)  # <- reported
                warp.mbarrier_arrive_shared_cluster(warp.mapa(empty, 0))
            elif rank == 0:
                warp.mbarrier_wait(empty, 1 - turn % 2)
                for other in range(2):
                    warp.st_async(warp.mapa(0, other), turn, warp.mapa(full, other))  # <- reported
    meet(warp)
