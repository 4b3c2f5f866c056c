"""Pairs from bug trackers, between blocks: clusters that share tiles, stream-K, look-back, counters, locks."""

from kernels_blocks import spin
from kernels_clusters import EMPTY, FULL, begin, meet, peer
from kernels_pairs import leader, pair

CLUSTER = {"grid": 2, "block": 64, "cluster": 2, "shared": 1088}
TWO = {"grid": 2, "block": 64}

# ------------------------------------------------------------------------------------------------ clusters


@pair("expect-tx", 64, **CLUSTER)
def only_rank_0_expects_the_shared_operand(warp, right, x):
    """B is multicast by rank 0 to both blocks; each has to expect it."""
    begin(warp, FULL)
    rank = warp.cluster_ctarank
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256 if right or rank == 0 else 128)  # <- reported
        warp.cp_async_bulk_shared_global(0, x, 128, FULL)
        if rank == 0:
            warp.cp_async_bulk_shared_global(128, x, 128, FULL, cta_mask=3)  # <- reported
    warp.mbarrier_wait(FULL, 0)  # <- reported
    meet(warp)


@pair(("deadlock", "expect-tx"), 64, **CLUSTER)
def a_mask_with_the_rank_in_place_of_its_bit(warp, right, x):
    """cta_mask = rank for 1 << rank."""
    begin(warp, FULL)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 128)  # <- reported
    if warp.cluster_ctarank == 1:
        with leader(warp):
            warp.cp_async_bulk_shared_global(0, x, 128, FULL, cta_mask=3 if right else 1)
    warp.mbarrier_wait(FULL, 0)  # <- reported
    meet(warp)


@pair(("deadlock", "exited-threads"), **CLUSTER)
def a_pair_of_blocks_with_loops_of_different_lengths(warp, right):
    """DeepGEMM 429: the two blocks of a cluster belong to groups with another K each; one waits for a release."""
    begin(warp, FULL, EMPTY)
    rank = warp.cluster_ctarank
    for step in range(2 if right or rank == 0 else 1):
        with leader(warp):
            if warp.warpid == 0 and rank == 0:
                warp.mbarrier_wait(EMPTY, step)  # <- reported
                warp.mbarrier_arrive_shared_cluster(peer(warp, FULL))
            elif warp.warpid == 0:
                warp.mbarrier_arrive_shared_cluster(peer(warp, EMPTY))
                warp.mbarrier_wait(FULL, step)
    meet(warp)


@pair("shared-race", **CLUSTER)
def a_release_for_the_block_of_what_the_peer_reads(warp, right):
    """CUTLASS 3324: the arrival that hands on bytes to the peer has the scope .cta."""
    begin(warp, FULL)
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    warp.bar_sync()
    with leader(warp):
        scope = "cluster" if right else "cta"
        there = peer(warp, FULL)
        warp.run(f"mbarrier.arrive.release.{scope}.shared::cluster.b64", there)
    warp.run("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", FULL, 0)
    warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    meet(warp)


@pair("shared-race", **CLUSTER)
def a_wait_for_the_block_of_what_the_peer_sends(warp, right):
    """The peer's arrival has the scope .cluster, and the wait here .cta: the two do not synchronise."""
    begin(warp, FULL)
    warp.st_shared_cluster(peer(warp, 4 * warp.threads), 1)  # <- reported
    warp.bar_sync()
    with leader(warp):
        warp.run("mbarrier.arrive.release.cluster.shared::cluster.b64", peer(warp, FULL))
    warp.run(f"mbarrier.try_wait.parity.acquire.{'cluster' if right else 'cta'}.shared::cta.b64", FULL, 0)
    warp.ld_shared(4 * warp.threads ^ 4)  # <- reported
    meet(warp)


@pair("shared-race", **CLUSTER)
def arrived_at_the_cluster_and_not_waited(warp, right):
    """cluster.barrier_arrive() without barrier_wait() before the peer's row is read."""
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    warp.barrier_cluster_arrive()
    if right:
        warp.barrier_cluster_wait()
    warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    if not right:
        warp.barrier_cluster_wait()
    meet(warp)


@pair(("out-of-range", "exited-threads"), **CLUSTER)
def the_rank_that_only_sends_leaves_first(warp, right):
    """Rank 0 reads from rank 1, which has nothing more to do."""
    warp.st_shared(4 * warp.threads, 1)
    meet(warp)
    if warp.cluster_ctarank == 0:
        warp.ld_shared_cluster(peer(warp, 4 * warp.threads))  # <- reported
    if right:
        meet(warp)


# ------------------------------------------------------------------------------------------------ stream-K, look-back


@pair("global-race", 64, 1, 64, **TWO)
def a_fix_up_whose_flag_is_set_by_one_warp(warp, right, part, flag, out):
    """Lane 0 of warp 0 counts when its own warp is done; the other warp may still store its part of the tile."""
    if warp.ctaid[0] == 0:
        warp.st_global(part.at(warp.threads), 3)  # <- reported
        if right:
            warp.bar_sync()
        else:
            warp.bar_warp_sync()
        with leader(warp):
            warp.atom_global("add.u32", flag, 1, order="release")
        return
    spin(warp, flag, "acquire")
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_global(part.at(warp.threads)))  # <- reported


@pair("global-race", 64, 1, **TWO)
def the_fix_up_writes_the_tile_that_the_owner_writes(warp, right, tile, flag):
    """llama.cpp 13299: the owner of a tile writes it while the fix-up adds to it."""
    if warp.ctaid[0] == 0:
        warp.st_global(tile.at(warp.threads), 3)  # <- reported
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    if right:
        spin(warp, flag, "acquire.gpu")
        warp.bar_sync()
    warp.st_global(tile.at(warp.threads), 1 + warp.ld_global(tile.at(warp.threads)))  # <- reported


@pair("global-race", 1, 1, **TWO)
def a_sum_and_its_status_in_two_words(warp, right, total, status):
    """Decoupled look-back: without a release between them, a reader may find the status before the sum."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            warp.st_global(total, 9)
            warp.st_global(status, 1, order="release.gpu" if right else "volatile")
        else:
            while warp.warpid == 0 and not warp.ld_global(status, order="acquire.gpu")[0, 0]:
                warp.nanosleep(20)
            if warp.warpid == 0:
                warp.ld_global(total)  # <- reported


@pair("global-race", 64, **TWO)
def split_k_into_an_output_that_block_0_clears(warp, right, out):
    """atomicAdd of partial sums; the first block zeroes the output, which is the host's to do."""
    if warp.ctaid[0] == 0 and not right:
        warp.st_global(out.at(warp.threads), 0)  # <- reported
    warp.red_global("add.u32", out.at(warp.threads), 1)  # <- reported


@pair("global-race", 64, 1, **TWO)
def read_through_the_cache_that_is_not_coherent(warp, right, data, flag):
    """__ldg of data that another block of the same launch has written, with or without a flag."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 3)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    spin(warp, flag, "acquire.gpu")
    warp.bar_sync()
    warp.run("ld.global.b32" if right else "ld.global.nc.b32", data.at(warp.threads))  # <- reported


@pair("global-race", 1, 64, **TWO)
def a_lock_taken_with_cas_and_given_back_early(warp, right, lock, data):
    """atomicExch(lock, 0) is relaxed: a fence must stand before it."""
    with leader(warp):
        if warp.warpid:
            return
        while warp.atom_global("cas.b32", lock, 0, 1, order="acquire")[0, 0]:
            warp.nanosleep(20)
        warp.st_global(data, 1 + warp.ld_global(data))  # <- reported
        if right:
            warp.fence()
        warp.atom_global("exch.b32", lock, 0)


@pair(("flag-never-set", "deadlock"), 1, grid=2, block=32)
def a_barrier_of_the_grid_that_counts_one_too_many(warp, right, count):
    """gridDim.x + 1 arrivals are awaited."""
    with leader(warp):
        warp.atom_global("add.u32", count, 1, order="acq_rel")
        while warp.ld_global(count, order="acquire")[0, 0] < (2 if right else 3):  # <- reported
            warp.nanosleep(20)
