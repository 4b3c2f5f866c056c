"""Pairs after bug reports about whole kernels between blocks and clusters: reductions, scans, queues, pipelines."""

import numpy as np
from kernels_blocks import spin
from kernels_clusters import begin, meet
from kernels_pairs import leader, pair

FOUR = {"grid": 4, "block": 64, "cluster": 4, "shared": 1088}
TWO = {"grid": 2, "block": 64, "cluster": 2, "shared": 1088}
STAGES = 2
#: Full and empty mbarriers of each stage, behind two stages of 256 bytes.
FULL, EMPTY = (1024, 1032), (1040, 1048)


@pair(("exited-threads", "out-of-range"), 64, 64, **FOUR)
def a_reduction_in_the_cluster_without_its_last_barrier(warp, right, x, out):
    """Rank 0 adds up what the others have in shared memory; they leave as soon as they have stored it."""
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    meet(warp)
    if warp.cluster_ctarank == 0:
        parts = [warp.ld_shared_cluster(warp.mapa(4 * warp.threads, rank)) for rank in range(4)]  # <- reported
        warp.st_global(out.at(warp.threads), sum(np.asarray(part) for part in parts))
    if right:
        meet(warp)


@pair("overwritten-early", 6 * 64, **TWO)
def a_multicast_pipeline_that_waits_for_its_own_consumers(warp, right, x):
    """Each rank loads half of each stage for both; the empty mbarrier counts the release of the own block only."""
    rank = warp.cluster_ctarank
    with leader(warp):
        for stage in range(STAGES):
            warp.mbarrier_init(FULL[stage], 1)
            warp.mbarrier_init(EMPTY[stage], 2 if right else 1)
        warp.fence_mbarrier_init()
    meet(warp)
    for turn in range(6):
        stage, phase = turn % STAGES, turn // STAGES & 1
        with warp.only(warp.laneid == 0):
            if warp.warpid == 0:
                if turn >= STAGES:
                    warp.mbarrier_wait(EMPTY[stage], phase ^ 1)
                warp.mbarrier_arrive_expect_tx(FULL[stage], 256)
                half, source = 256 * stage + 128 * rank, x.at(64 * turn + 32 * rank)
                warp.cp_async_bulk_shared_global(half, source, 128, FULL[stage], cta_mask=3)  # <- reported
        if warp.warpid == 1:
            warp.mbarrier_wait(FULL[stage], phase)
            for half in (0, 128):
                warp.ld_shared(256 * stage + half + 4 * warp.laneid)  # <- reported
            warp.bar_warp_sync()
            with warp.only(warp.laneid == 0):
                for each in (0, 1) if right else (rank,):
                    warp.mbarrier_arrive_shared_cluster(warp.mapa(EMPTY[stage], each))
    meet(warp)


@pair("global-race", (4, 64), 4, 64, grid=4, block=64)
def stream_k_with_flags_for_the_block_alone(warp, right, parts, flags, out):
    """The block that finishes the tile waits for the partial sums of all others, but their release has no effect."""
    here, scope = warp.ctaid[0], "gpu" if right else "cta"
    if here:
        warp.st_global(parts.at(here, warp.threads), here)  # <- reported
        warp.bar_sync()
        with leader(warp):
            warp.fence("acq_rel", scope)
            warp.red_global("add.u32", flags, 1)
        return
    with leader(warp):
        while warp.warpid == 0 and warp.ld_global(flags, order="relaxed.gpu")[0, 0] < 3:
            warp.nanosleep(20)
        warp.fence()
    warp.bar_sync()
    found = sum(np.asarray(warp.ld_global(parts.at(part, warp.threads))) for part in range(1, 4))  # <- reported
    warp.st_global(out.at(warp.threads), found)


@pair("global-race", 4, 4, 4, 4, grid=4)
def look_back_over_a_prefix_that_follows_its_flag(warp, right, sums, prefixes, flags, out):
    """The flag says 1 for a sum and 2 for a prefix; the prefix is stored after the flag says that it is there."""
    here, before = warp.ctaid[0], 0
    with leader(warp):
        warp.st_global(sums.at(here), 1 + here)
        warp.st_global(flags.at(here), 1, order="release.gpu")
        for back in range(here - 1, -1, -1):
            while not (state := warp.ld_global(flags.at(back), order="acquire.gpu")[0, 0]):
                warp.nanosleep(20)
            before += int(warp.ld_global((prefixes if state == 2 else sums).at(back))[0, 0])  # <- reported
            if state == 2:
                break
        if right:
            warp.st_global(prefixes.at(here), before + 1 + here)
        warp.st_global(flags.at(here), 2, order="release.gpu")
        if not right:
            warp.st_global(prefixes.at(here), before + 1 + here)  # <- reported
        warp.st_global(out.at(here), before)


@pair("global-race", 3, grid=3)
def a_ticket_lock_that_is_handed_on_without_a_release(warp, right, a):
    """Tickets, the one that is served, and the sum that they guard."""
    with leader(warp):
        mine = warp.atom_global("add.u32", a.at(0), 1)[0, 0]
        while warp.ld_global(a.at(1), order="acquire.gpu")[0, 0] != mine:
            warp.nanosleep(20)
        warp.st_global(a.at(2), warp.ld_global(a.at(2)) + 1)  # <- reported
        warp.red_global("add.u32", a.at(1), 1, **({"order": "release.gpu"} if right else {}))


@pair("global-race", (4, 64), 1, 64, grid=4, block=64, shared=16)
def a_last_block_whose_first_thread_fences_for_all(warp, right, parts, count, out):
    """__threadfence and the counter by thread 0, with no __syncthreads before them."""
    here = warp.ctaid[0]
    warp.st_global(parts.at(here, warp.threads), 1)  # <- reported
    if right:
        warp.bar_sync()
    with leader(warp):
        if warp.warpid == 0:
            warp.fence()
            warp.st_shared(0, warp.atom_global("inc.u32", count, 3))
            warp.fence()
    warp.bar_sync()
    if warp.ld_shared(0)[0, 0] == 3:
        found = sum(np.asarray(warp.ld_global(parts.at(part, warp.threads))) for part in range(4))  # <- reported
        warp.st_global(out.at(warp.threads), found)


@pair("global-race", 128, 1, grid=2, block=64)
def a_message_of_volatile_stores_without_a_fence(warp, right, box, flag):
    """volatile keeps the compiler from reordering the stores, not the memory."""
    if warp.ctaid[0] == 0:
        warp.st_global(box.at(warp.threads), 5)  # <- reported
        if right:
            warp.membar("gl")
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="volatile")
        return
    spin(warp, flag, "volatile")
    with leader(warp):
        warp.membar("gl")
    warp.bar_sync()
    warp.ld_global(box.at(warp.threads))  # <- reported


@pair("global-race", (4, 64), 1, 64, grid=4, block=64, shared=16)
def a_reduction_where_each_thread_fences(warp, right, parts, count, out):
    """PyTorch's global_reduce: each thread fences before the barrier and after it; between them, one thread counts."""
    here = warp.ctaid[0]
    warp.st_global(parts.at(here, warp.threads), 1)  # <- reported
    warp.fence("sc") if right else None
    warp.bar_sync()
    with leader(warp):
        warp.st_shared(0, warp.atom_global("add.u32", count, 1))
    warp.bar_sync()
    if warp.ld_shared(0)[0, 0] == 3:
        warp.fence("sc")
        found = sum(np.asarray(warp.ld_global(parts.at(part, warp.threads))) for part in range(4))  # <- reported
        warp.st_global(out.at(warp.threads), found)


@pair("global-race", (4, 64), 1, 64, grid=4, block=64, shared=16)
def a_reduction_where_each_thread_fences_for_its_block(warp, right, parts, count, out):
    """The same with __threadfence_block behind the barrier: it brings nothing from other blocks."""
    here = warp.ctaid[0]
    warp.st_global(parts.at(here, warp.threads), 1)  # <- reported
    warp.fence("sc")
    warp.bar_sync()
    with leader(warp):
        warp.st_shared(0, warp.atom_global("add.u32", count, 1))
    warp.bar_sync()
    if warp.ld_shared(0)[0, 0] == 3:
        warp.fence("sc", "gpu" if right else "cta")
        found = sum(np.asarray(warp.ld_global(parts.at(part, warp.threads))) for part in range(4))  # <- reported
        warp.st_global(out.at(warp.threads), found)


@pair("shared-race", 1, 8, grid=2, block=64, shared=8)
def a_tile_number_overwritten_while_others_read_it(warp, right, queue, done):
    """A persistent kernel: thread 0 takes the next tile from a counter; one barrier for each round is not enough."""
    while True:
        with leader(warp):
            warp.st_shared(0, warp.atom_global("add.u32", queue, 1))  # <- reported
        warp.bar_sync()
        tile = int(warp.ld_shared(0)[0, 0])  # <- reported
        if tile >= 8:
            return
        with leader(warp):
            warp.st_global(done.at(tile), 1)
        if right:
            warp.bar_sync()


@pair(("shared-race", "overwritten-early"), **TWO)
def a_scheduler_that_overwrites_the_tile_of_its_peer(warp, right):
    """Rank 0 sends the number of the next tile to both blocks before the peer has read the last one."""
    begin(warp, *FULL, *EMPTY)
    for turn in range(3):
        with leader(warp):
            if warp.cluster_ctarank == 0 and warp.warpid == 0:
                for each in (0, 1):
                    warp.st_shared_cluster(warp.mapa(0, each), turn)  # <- reported
        meet(warp)
        warp.ld_shared(0 * warp.laneid)  # <- reported
        if right:
            meet(warp)
    meet(warp)


@pair("shared-race", 64, **TWO)
def a_histogram_read_before_the_peer_has_added(warp, right, out):
    """The distributed histogram of the CUDA guide without the cluster.sync() after the additions."""
    warp.st_shared(4 * warp.threads, 0)
    meet(warp)
    warp.red_shared_cluster("add.u32", warp.mapa(4 * warp.threads, 1 - warp.cluster_ctarank), 1)  # <- reported
    if right:
        meet(warp)
    held = warp.ld_shared(4 * warp.threads)  # <- reported
    if warp.cluster_ctarank == 0:
        warp.st_global(out.at(warp.threads), held)
    meet(warp)


@pair(("deadlock", "mbarrier-arrivals", "out-of-range"), **TWO)
def a_release_sent_to_the_own_block(warp, right):
    """mapa with the block's own rank: the peer waits forever."""
    rank = warp.cluster_ctarank
    begin(warp, EMPTY[0])
    with leader(warp):
        if warp.warpid == 0:
            if rank:
                warp.mbarrier_arrive_shared_cluster(warp.mapa(EMPTY[0], 0 if right else rank))
            else:
                warp.mbarrier_wait(EMPTY[0], 0)  # <- reported
    meet(warp)  # <- reported


@pair(("flag-never-set", "deadlock"), 5, grid=4, resident=2)
def a_chain_that_waits_for_blocks_that_cannot_start(warp, right, a):
    """Each block waits for the one behind it; only as many run as fit. A ticket at the start mends it."""
    with leader(warp):
        here = warp.ctaid[0]
        if right:
            here = 3 - int(warp.atom_global("add.u32", a.at(4), 1)[0, 0])
        if here < 3:
            while not warp.ld_global(a.at(here + 1), order="acquire.gpu")[0, 0]:  # <- reported
                warp.nanosleep(20)
        warp.st_global(a.at(here), 1, order="release.gpu")


@pair("global-race", 64, 2, grid=4, block=64)
def the_counter_cleared_for_the_next_launch_too_early(warp, right, parts, counts):
    """The last block to arrive clears the counter on which the others still wait."""
    with leader(warp):
        if warp.warpid == 0:
            last = warp.atom_global("add.u32", counts.at(0), 1, order="acq_rel.gpu")[0, 0] == 3
            if last and not right:
                warp.st_global(counts.at(0), 0)  # <- reported
            while not last and warp.ld_global(counts.at(0), order="acquire.gpu")[0, 0] < 4:  # <- reported
                warp.nanosleep(20)
            if right and warp.atom_global("add.u32", counts.at(1), 1, order="acq_rel.gpu")[0, 0] == 3:
                warp.st_global(counts.at(0), 0)
                warp.st_global(counts.at(1), 0)


@pair("tma-unwaited", **TWO)
def sums_in_the_peer_that_are_read_before_they_have_come(warp, right):
    """cp.reduce.async.bulk into the peer's memory: the barrier of the cluster does not wait for it."""
    begin(warp, FULL[0])
    there, other = 1 - warp.cluster_ctarank, 4 * warp.threads
    warp.st_shared(other, 1)
    warp.st_shared(256 + other, 0)
    warp.fence_proxy_async()
    meet(warp)
    with leader(warp):
        if warp.warpid == 0:
            warp.mbarrier_arrive_expect_tx(FULL[0], 256)
            opcode = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
            warp.run(opcode, warp.mapa(256, there), 0, 256, warp.mapa(FULL[0], there))
    if right:
        warp.mbarrier_wait(FULL[0], 0)
    meet(warp)
    warp.ld_shared(256 + other)  # <- reported
    if not right:
        warp.mbarrier_wait(FULL[0], 0)
    meet(warp)
