"""Kernels with a wrong and a mended way, for the fixes that a rule has for special accesses.

Each is called as kernel(warp, g, way), where `way` is "wrong" or "mended": what the report of the first one advises
first. The result of the mended one does not depend on the order.
"""

from kernels_mended import stored

from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, finish

#: By name: the kernel, the rule, the words of the fix, and how it is launched.
VARIANTS: dict[str, tuple] = {}


def variant(rule, advice, **options):
    """Put a kernel with a wrong and a mended way into the table."""

    def add(kernel):
        VARIANTS[kernel.__name__] = kernel, rule, advice, {"block": 32, "shared": 8192, **options}
        return kernel

    return add


def wait(warp, flag):
    """All lanes wait until the flag is set."""
    while warp.ld_global(flag, order="acquire.gpu")[0, 0] == 0:
        warp.nanosleep(20)


@variant("global-race", "Order the two, so that it is certain which one comes first", grid=2)
def a_store_of_the_first_part_and_a_sum_of_the_second(warp, g, way):
    """Stream-K: the first peer stores its part, the other one adds its own."""
    if warp.ctaid[0] == 0:
        warp.st_global(g + 4 * warp.laneid, 1, order="relaxed.gpu" if way == "silenced" else "")
        warp.bar_sync()
        with warp.only(warp.laneid == 0):
            warp.fence()
            warp.st_global(g + 256, 1, order="relaxed.gpu")
    else:
        if way == "mended":
            wait(warp, g + 256)
        warp.red_global("add.u32", g + 4 * warp.laneid, 2)


@variant("global-race", "put bar.sync between them", block=64)
def a_store_of_one_warp_and_a_sum_of_the_other(warp, g, way):
    if warp.warpid == 0:
        warp.st_global(g + 4 * warp.laneid, 1)
    if way == "mended":
        warp.bar_sync()
    if warp.warpid == 1:
        warp.red_global("add.u32", g + 4 * warp.laneid, 2)


@variant("global-race", "If the load is one of a loop that waits for the other thread, make both strong", grid=2)
def a_flag_of_plain_accesses(warp, g, way):
    right = way == "mended"
    with warp.only(warp.laneid == 0):
        if warp.ctaid[0] == 0:
            warp.st_global(g, 1, order="release.gpu")
        else:
            for _ in range(100):
                if warp.ld_global(g, order="acquire.gpu" if right else "")[0, 0]:
                    break
                warp.nanosleep(20)
            while right and not warp.ld_global(g, order="acquire.gpu")[0, 0]:
                warp.nanosleep(20)


@variant("global-race", "compute the address from the number of the block, too", grid=2)
def two_blocks_store_their_results_in_one_place(warp, g, way):
    warp.st_global(g + 4 * warp.laneid + (128 * warp.ctaid[0] if way == "mended" else 0), warp.ctaid[0] + 1)


@variant("global-race", "compute the address from the number of the warp, too", block=64)
def two_warps_store_their_results_in_one_place(warp, g, way):
    warp.st_global(g + 4 * warp.laneid + (128 * warp.warpid if way == "mended" else 0), warp.warpid + 1)


@variant("global-race", "with scopes that reach both threads", grid=2)
def sums_whose_scope_is_the_block(warp, g, way):
    scope = "gpu" if way == "mended" else "cta"
    warp.run(f"red.relaxed.{scope}.global.add.u32", g + 4 * warp.laneid, 1)


@variant("shared-race", "wait for the first copy with cp.async.wait_group, and put bar.sync in between", block=64)
def two_warps_copy_to_one_place(warp, g, way):
    for each in range(2):
        if warp.warpid == each:
            warp.cp_async(16 * warp.laneid, g + 512 * each + 16 * warp.laneid, 16)
            warp.cp_async_commit_group()
            warp.cp_async_wait_group(0)
        if way == "mended":
            warp.bar_sync()


@variant("overwritten-early", "after its wait, the reader must arrive", block=160)
def a_producer_that_has_not_heard_that_the_tile_is_free(warp, g, way):
    """It polls a flag of the reader's, volatile, which orders nothing."""
    if warp.warpid == 4:
        for first in range(0, 2304, 512):
            warp.st_shared(first + 16 * warp.laneid, 0, "v4.b32")
        warp.st_shared(4096 + 4 * warp.laneid, 0)
        warp.fence_proxy_async()
    warp.bar_sync(1, 160)
    if warp.warpid < 4:
        d = warp.registers(4, fill=0)
        warp.wgmma_fence()
        warp.run(MMA, d, *TILES, *ORDINARY)
        finish(warp)
        stored(warp, g, d)
        with warp.only(warp.threads == 0):
            warp.st_shared(4096, 1, order="volatile")
        if way == "mended":
            warp.bar_sync(2, 160)
    else:
        while warp.ld_shared(4096 + 0 * warp.laneid, order="volatile")[0, 0] != 1:
            warp.nanosleep(20)
        if way == "mended":
            warp.bar_sync(2, 160)
        warp.st_shared(16 * warp.laneid, 1, "v4.b32")


@variant("overwritten-early", "Before the new copy, wait on the mbarrier of the copy before")
def a_copy_over_a_copy(warp, g, way):
    barrier(warp, 1024)
    for turn in range(2):
        with warp.only(warp.laneid == 0):
            if turn == 0:
                warp.mbarrier_arrive_expect_tx(1024, 512 if way == "mended" else 1024)
            elif way == "mended":
                warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(0, g + 512 * turn, 512, 1024)
        if way == "mended":
            warp.mbarrier_wait(1024, turn)
            warp.bar_sync()
    if way != "mended":
        warp.mbarrier_wait(1024, 0)


@variant("overwritten-early", "its readers arrive on the empty mbarrier of the block", grid=2, cluster=2)
def a_multicast_over_a_stage_that_the_peer_reads(warp, g, way):
    rank, full, empty = int(warp.cluster_ctarank), 1024, 1032
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(full, 1)
        warp.mbarrier_init(empty, 2 if way == "mended" else 1)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(full, 512)
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    for turn in range(2):
        if rank == 0 and turn:
            warp.mbarrier_wait(empty, 0)
        with warp.only(warp.laneid == 0):
            if rank == 0:
                warp.cp_async_bulk_shared_global(0, g + 512 * turn, 512, full, cta_mask=3)
        warp.mbarrier_wait(full, turn)
        x = warp.ld_shared(16 * warp.laneid, "v4.b32")
        warp.st_global(g + 1024 * (2 * rank + turn + 1) + 16 * warp.laneid, x, "v4.b32")
        warp.bar_sync()
        if turn == 0:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive_expect_tx(full, 512)
                if rank == 0 or way == "mended":
                    warp.run("mbarrier.arrive.release.cluster.shared::cluster.b64", warp.mapa(empty, 0))
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


@variant("mbarrier-init", "barrier.cluster in all threads of the cluster if other blocks use the", grid=2, cluster=2)
def an_mbarrier_that_the_other_block_signals_first(warp, g, way):
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(0, 1)
        warp.fence_mbarrier_init()
    if way == "mended":
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
    else:
        warp.bar_sync()
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_shared_cluster(warp.mapa(0, 1 - int(warp.cluster_ctarank)))
    warp.mbarrier_wait(0, 0)
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
