"""Pairs about blocks that exit while other blocks of their cluster still write to them."""

from kernels_clusters import EMPTY, FULL, TWO, begin, meet, peer
from kernels_pairs import leader, pair


@pair("out-of-range", 64, **TWO)
def a_multicast_to_a_block_that_may_have_exited(warp, right, x):
    """The peer has no use for the last tile and exits; the copy arrives whether or not a thread waits for it."""
    begin(warp, FULL, expect=256)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)  # <- reported
    if right or warp.cluster_ctarank == 0:
        warp.mbarrier_wait(FULL, 0)


@pair("out-of-range", 64, **TWO)
def the_cluster_meets_but_waits_for_no_multicast(warp, right, x):
    """A barrier of the cluster shows that the copy has been issued, not that it has ended."""
    begin(warp, FULL, expect=256)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)  # <- reported
    if right or warp.cluster_ctarank == 0:
        warp.mbarrier_wait(FULL, 0)
    meet(warp)


@pair("out-of-range", **TWO)
def st_async_to_a_block_that_may_have_exited(warp, right):
    begin(warp, FULL)
    if warp.cluster_ctarank == 0:
        warp.st_async(peer(warp, 4 * warp.threads), 7, peer(warp, FULL))  # <- reported
        return
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
    if right:
        warp.mbarrier_wait(FULL, 0)


@pair("out-of-range", **TWO)
def a_copy_between_blocks_to_one_that_may_have_exited(warp, right):
    """cp.async.bulk from the own shared memory into the peer's."""
    begin(warp, FULL)
    if warp.cluster_ctarank == 0:
        warp.st_shared(4 * warp.threads, 7)
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_shared_cluster(peer(warp, 512), 0, 256, peer(warp, FULL))  # <- reported
        meet(warp)
        return
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
    if right:
        warp.mbarrier_wait(FULL, 0)
    meet(warp)


@pair(("out-of-range", "exited-threads"), **TWO)
def an_arrival_at_a_block_that_does_not_wait_for_it(warp, right):
    """The arrival is relaxed, which is enough: the wait shows that it has been made."""
    begin(warp, EMPTY)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            opcode = "mbarrier.arrive.relaxed.cluster.shared::cluster.b64"
            warp.run(opcode, peer(warp, EMPTY))  # <- reported
        elif right:
            warp.mbarrier_wait(EMPTY, 0)
