"""Pairs from bug trackers about counts: of bytes, of arrivals, at named barriers, and of groups of copies."""

import numpy as np
from kernels_clusters import FULL, begin, meet
from kernels_pairs import leader, pair

ONE = {"block": 32, "shared": 2112}
TWO = {"block": 64, "shared": 2112}


@pair(("expect-tx", "tma-unwaited"), 64, **TWO)
def bytes_expected_behind_the_own_arrival(warp, right, x):
    """All threads arrive, and thread 0 expects the bytes after that: the last arrival may come first."""
    with leader(warp):
        warp.mbarrier_init(FULL, 64)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    with leader(warp):
        if right:
            warp.mbarrier_expect_tx(FULL, 256)
    warp.mbarrier_arrive(FULL)
    with leader(warp):
        if not right:
            warp.mbarrier_expect_tx(FULL, 256)  # <- reported
        warp.cp_async_bulk_shared_global(0, x, 256, FULL)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)  # <- reported


@pair(("expect-tx", "tma-unwaited"), 64, **TWO)
def one_thread_expects_and_another_arrives(warp, right, x):
    """Thread 0 arrives and copies, thread 32 expects the bytes, and one arrival is counted."""
    with leader(warp):
        warp.mbarrier_init(FULL, 2 if right else 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    with leader(warp):
        warp.mbarrier_arrive(FULL)
        warp.cp_async_bulk_shared_global(0, x, 128, FULL)  # <- reported
    with warp.only(warp.threads == 32):
        warp.mbarrier_expect_tx(FULL, 128)  # <- reported
        if right:
            warp.mbarrier_arrive(FULL)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.laneid)  # <- reported


@pair(("expect-tx", "tma-unwaited"), 64, grid=2, cluster=2, **TWO)
def bytes_expected_by_the_loader_for_its_peer(warp, right, x):
    """Rank 0 expects the bytes of a multicast at both mbarriers; rank 1 arrives at its own when it likes."""
    begin(warp, FULL)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            for rank in range(2):
                opcode = "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64"
                warp.run(opcode, warp.mapa(FULL, rank), 256)  # <- reported
    if right:
        meet(warp)
    with leader(warp):
        warp.mbarrier_arrive(FULL)
        if warp.cluster_ctarank == 0:
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)  # <- reported
    meet(warp)


@pair(("expect-tx", "deadlock"), 64, **ONE)
def a_box_left_out_at_the_edge(warp, right, x):
    """The copy behind the edge is left out; complete_tx has to count its bytes, or nobody may expect them."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(FULL, 256)  # <- reported
        warp.cp_async_bulk_shared_global(0, x, 128, FULL)
        if right:
            warp.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64", FULL, 128)
    warp.bar_warp_sync()
    warp.mbarrier_wait(FULL, 0)  # <- reported
    warp.ld_shared(4 * warp.laneid)


@pair(("barrier-threads", "deadlock"), **TWO)
def arrivals_at_a_named_barrier_run_ahead(warp, right):
    """flashinfer 4732: math warps arrive for tile n + 1 while the warp that stores has not synchronised for tile n."""
    for tile in range(4):
        name = 1 + tile % 2 if right else 1
        warp.bar_arrive(name, 64) if warp.warpid == 0 else warp.bar_sync(name, 64)  # <- reported
        if right:
            warp.bar_sync(3, 64)


@pair(("barrier-threads", "deadlock"), **TWO)
def a_tile_without_work_only_arrives(warp, right):
    """vLLM 26026: a warp without work arrives at the epilogue's barrier and is back for the next tile at once."""
    for work in (1, 0, 0, 1):
        if warp.warpid or work or right:
            warp.bar_sync(2, 64)  # <- reported
        else:
            warp.bar_arrive(2, 64)  # <- reported


@pair(("barrier-threads", "shared-race"), block=128, shared=512)
def two_reductions_with_one_name(warp, right):
    """flashinfer 4533: two pairs of warps reduce at one named barrier."""
    for turn in range(3):
        at = 64 * (turn % 2)
        with warp.only(warp.laneid == 0):
            warp.st_shared(at + 4 * warp.warpid, turn)  # <- reported
        warp.bar_sync(1 + warp.warpid // 2 if right else 1, 64)  # <- reported
        warp.ld_shared(at + 4 * (warp.warpid ^ 1) + 0 * warp.laneid)  # <- reported


@pair(("mbarrier-arrivals", "expect-tx", "overwritten-early"), 1024, **TWO)
def six_mbarriers_for_eight_loads(warp, right, x):
    """Fuser 5862: two groups take the mbarriers of a ring in turn, and meet at two of them."""
    count = 8 if right else 6
    with leader(warp):
        for number in range(count):
            warp.mbarrier_init(1024 + 8 * number, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    loads = [(64 * load, 1024 + 8 * (load % count)) for load in range(4 * warp.warpid, 4 * warp.warpid + 4)]
    for turn in range(2):
        for at, bar in loads:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive_expect_tx(bar, 64)  # <- reported
                warp.cp_async_bulk_shared_global(at, x + at, 64, bar)  # <- reported
        for at, bar in loads:
            warp.mbarrier_wait(bar, turn)  # <- reported
            warp.ld_shared(at + 4 * (warp.laneid % 16))
        warp.bar_warp_sync()


@pair("cp-async-unwaited", 64, **ONE)
def a_stage_of_two_groups_waited_for_as_one(warp, right, x):
    """tilelang 2505: the two operands of a stage are committed apart, and wait_group counts stages."""
    for turn in range(4):
        stage = 256 * (turn % 2)
        for half in (0, 128):
            warp.cp_async(stage + half + 4 * warp.laneid, x.at(warp.laneid), 4)
            warp.cp_async_commit_group()
        if turn:
            warp.cp_async_wait_group(2 if right else 3)
            warp.bar_warp_sync()
            for half in (0, 128):
                warp.ld_shared((256 - stage) + half + 4 * (31 - warp.laneid))  # <- reported
            warp.bar_warp_sync()


@pair("overwritten-early", 512, 512, **ONE)
def a_copy_through_two_stages_that_waits_for_a_store_too_few(warp, right, x, y):
    """DeepEP 657: wait_group<stages - 1> in front of the load into the stage that has just been stored."""
    with leader(warp):
        for stage in range(2):
            warp.mbarrier_init(1024 + 8 * stage, 1)
        warp.fence_mbarrier_init()
        for turn in range(8):
            stage = turn % 2
            if turn >= 2:
                warp.mbarrier_wait(1024 + 8 * stage, turn // 2 - 1 & 1)
                warp.cp_async_bulk_global_shared(y + 256 * (turn - 2), 256 * stage, 256)
                warp.cp_async_bulk_commit_group()
                warp.cp_async_bulk_wait_group(0 if right else 1, read=True)
            if turn < 6:
                warp.mbarrier_arrive_expect_tx(1024 + 8 * stage, 256)
                source = x + 256 * turn
                warp.cp_async_bulk_shared_global(256 * stage, source, 256, 1024 + 8 * stage)  # <- reported
        warp.cp_async_bulk_wait_group(0)


@pair("lane-race", block=32, shared=64)
def a_vote_taken_for_a_barrier(warp, right):
    """cuCollections 337: lane 0 stores a counter, all lanes vote, and read it: a vote orders no memory."""
    with leader(warp):
        warp.st_shared(0, 5)  # <- reported
    warp.vote_sync("ballot", warp.laneid < 4)
    if right:
        warp.bar_warp_sync()
    warp.ld_shared(0 * warp.laneid)  # <- reported


@pair("absent-lanes", 1, block=32)
def a_mask_by_ballot_for_a_reduction_of_a_warp(warp, right, out):
    """cuda-samples 398: the lanes of the ballot reduce, and read from lanes that it does not name."""
    total = warp.laneid
    with warp.only(warp.laneid < (32 if right else 4)):
        for step in (16, 8, 4, 2, 1):
            mask = 0xFFFFFFFF if right else 0xF
            total = np.asarray(total) + warp.run("shfl.sync.down.b32", total, step, 0x1F, mask)  # <- reported
        with leader(warp):
            warp.st_global(out, total)


@pair("mbarrier-arrivals", 64, **TWO)
def an_arrival_for_a_tile_without_work(warp, right, x):
    """FlashAttention 2258: for an empty tile, the producer arrives on the full mbarrier, for which no warp waits."""
    begin(warp, FULL, FULL + 8)
    for turn, steps in enumerate((1, 0, 1)):
        phase = min(turn, 1)
        with warp.only(warp.laneid == 0):
            if warp.warpid == 0 and steps:
                warp.mbarrier_wait(FULL + 8, 1 - phase)
                warp.mbarrier_arrive_expect_tx(FULL, 128)
                warp.cp_async_bulk_shared_global(0, x, 128, FULL)
            elif warp.warpid == 0 and not right:
                warp.mbarrier_arrive(FULL)  # <- reported
        if warp.warpid == 1 and steps:
            warp.mbarrier_wait(FULL, phase)
            warp.ld_shared(4 * warp.laneid)
            warp.bar_warp_sync()
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive(FULL + 8)


@pair(("uninitialised-shared", "shared-race"), **TWO)
def the_parity_of_the_tile_for_the_phase(warp, right):
    """The first tile has the number 1, and the wait for its phase the parity of the tile."""
    with leader(warp):
        warp.mbarrier_init(FULL, 32)
        warp.mbarrier_init(FULL + 8, 32)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    for tile in (1, 2, 3):
        phase = tile - 1
        if warp.warpid:
            warp.mbarrier_wait(FULL, (phase if right else tile) % 2)
            warp.ld_shared(124 - 4 * warp.laneid)  # <- reported
            warp.mbarrier_arrive(FULL + 8)
        else:
            warp.mbarrier_wait(FULL + 8, 1 - phase % 2)
            warp.st_shared(4 * warp.laneid, tile)
            warp.mbarrier_arrive(FULL)
