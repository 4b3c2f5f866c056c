"""Pairs from bug trackers, in one block: phases, rings of messages, and orders of operations."""

import numpy as np
from kernels_clusters import EMPTY, FULL
from kernels_pairs import leader, pair


def begin(warp, *bars):
    with leader(warp):
        for bar in bars:
            warp.mbarrier_init(bar, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def wait_for(warp, flag, least):
    with warp.only(warp.laneid == 0):
        while int(warp.ld_shared(flag, order="acquire")[0, 0]) < least:
            warp.nanosleep(20)
    warp.bar_warp_sync()


@pair("tma-unwaited", 128, block=64, shared=1088)
def a_parity_of_the_loop_for_an_mbarrier_of_its_own(warp, right, x):
    """tilelang 2927: each step has an mbarrier of its own, all in their first phase; the wait asks for step & 1."""
    bars = (FULL, FULL + 8)
    with leader(warp):
        for bar in bars:
            warp.mbarrier_init(bar, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    for step in range(2):
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(bars[step], 256)
            warp.cp_async_bulk_shared_global(256 * step, x + 256 * step, 256, bars[step])
        warp.mbarrier_wait(bars[step], 0 if right else step & 1)  # <- reported
        warp.ld_shared(256 * step + 4 * warp.threads)  # <- reported


@pair(("tma-unwaited", "deadlock", "overwritten-early"), 512, block=64, shared=1088)
def a_phase_that_starts_again_with_each_tile(warp, right, x):
    """tilelang 2674: three steps a tile in a ring of two; the consumer counts them from 0 in each tile."""
    with leader(warp):
        for bar in range(FULL, 1056, 8):
            warp.mbarrier_init(bar, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    for turn in range(6):
        if warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                warp.mbarrier_wait(1040 + 8 * (turn % 2), (turn // 2 + 1) % 2)  # <- reported
                warp.mbarrier_arrive_expect_tx(1024 + 8 * (turn % 2), 128)
                to = 128 * (turn % 2)
                warp.cp_async_bulk_shared_global(to, x + 128 * turn, 128, 1024 + 8 * (turn % 2))  # <- reported
        else:
            count = turn if right else turn % 3
            warp.mbarrier_wait(1024 + 8 * (count % 2), count // 2 % 2)  # <- reported
            warp.ld_shared(128 * (count % 2) + 4 * warp.laneid)  # <- reported
            warp.bar_warp_sync()
            with warp.only(warp.laneid == 0):
                warp.mbarrier_arrive(1040 + 8 * (count % 2))  # <- reported


@pair(("shared-race", "deadlock", "mbarrier-arrivals"), block=64, shared=1088)
def the_last_wait_of_a_tile_does_not_flip_the_phase(warp, right):
    """helion 3621: each tile waits as often as it has steps, and flips one time less."""
    with leader(warp):
        warp.mbarrier_init(FULL, 32)
        warp.mbarrier_init(EMPTY, 32)
    warp.bar_sync()
    phase = 0
    for turn in range(6):
        if warp.warpid == 0:
            if turn:
                warp.mbarrier_wait(EMPTY, (turn - 1) % 2)  # <- reported
            warp.st_shared(4 * warp.laneid, turn)  # <- reported
            warp.mbarrier_arrive(1024)
        else:
            warp.mbarrier_wait(FULL, phase)  # <- reported
            warp.ld_shared(4 * warp.laneid)  # <- reported
            warp.mbarrier_arrive(EMPTY)
            if right or turn % 3 != 2:
                phase ^= 1


@pair(("mbarrier-arrivals", "deadlock", "shared-race"), block=64, shared=1088)
def an_empty_tile_that_arrives_for_nobody(warp, right):
    """flash-attention 2258: for a tile without work the one arrives, and the other does not wait."""
    with leader(warp):
        warp.mbarrier_init(FULL, 32)
    warp.bar_sync()
    phase = 0
    for work in (1, 0, 1):
        if warp.warpid == 0:
            if work or not right:
                warp.st_shared(4 * warp.laneid, work)  # <- reported
                warp.mbarrier_arrive(1024)  # <- reported
        elif work:
            warp.mbarrier_wait(FULL, phase)  # <- reported
            warp.ld_shared(4 * warp.laneid)  # <- reported
            phase ^= 1
        warp.bar_warp_sync()
        if right:
            warp.bar_sync()


@pair("shared-race", block=64, shared=256)
def a_fence_of_the_block_for_a_barrier(warp, right):
    """Kokkos 8648: __threadfence_block() orders a thread's own accesses and does not wait for other threads."""
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    if right:
        warp.bar_sync()
    else:
        warp.fence("acq_rel", "cta")
    warp.ld_shared(4 * (63 - warp.threads))  # <- reported


@pair("shared-race", block=64, shared=512)
def a_systolic_array_with_one_buffer(warp, right):
    """HeCBench 256: a thread reads what its neighbour stored in the last step, while the neighbour stores the next."""
    warp.st_shared(4 * warp.threads, 0)
    warp.st_shared(256 + 4 * warp.threads, 0)
    warp.bar_sync()
    for step in range(3):
        old, new = (256 * (step % 2), 256 * (1 - step % 2)) if right else (0, 0)
        held = warp.ld_shared(old + 4 * ((warp.threads - 1) % 64))  # <- reported
        warp.st_shared(new + 4 * warp.threads, held + 1)  # <- reported
        warp.bar_sync()


@pair(("mbarrier-arrivals", "shared-race", "cp-async-unwaited", "overwritten-early"), 64, block=32, shared=1088)
def arrivals_of_cp_async_without_noinc(warp, right, x):
    """cp.async.mbarrier.arrive.noinc takes arrivals that init has counted; here init has counted one, not 32."""
    with leader(warp):
        warp.mbarrier_init(FULL, 32 if right else 1)
    warp.bar_warp_sync()
    warp.cp_async(4 * warp.laneid, x.at(warp.laneid), 4)
    warp.cp_async_mbarrier_arrive(FULL, noinc=True)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * (31 - warp.laneid))  # <- reported


@pair(("overwritten-early", "shared-race"), 256, block=64, shared=256)
def the_storing_warp_changes_with_each_tile(warp, right, out):
    """wait_group counts the groups of the thread that executes it, and the tile before was another warp's."""
    for tile in range(3):
        if not right and warp.warpid == tile % 2:
            with warp.only(warp.laneid == 0):
                warp.cp_async_bulk_wait_group(0, read=True)
        if right and warp.warpid == 0:
            with warp.only(warp.laneid == 0):
                warp.cp_async_bulk_wait_group(0, read=True)
        warp.bar_sync()
        warp.st_shared(4 * warp.threads, tile)  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        if warp.warpid == (0 if right else tile % 2):
            with warp.only(warp.laneid == 0):
                warp.cp_async_bulk_global_shared(out + 256 * tile, 0, 256)
                warp.cp_async_bulk_commit_group()
    with warp.only(warp.laneid == 0):
        warp.cp_async_bulk_wait_group(0)


@pair(("shared-race", "overwritten-early"), block=64, shared=1088)
def a_ring_of_flags_in_shared_memory(warp, right):
    """A producer warp may be ahead by two messages; it waits as if by three."""
    with leader(warp):
        warp.st_shared(512, 0, "b64")
    warp.bar_sync()
    for n in range(5):
        slot = 128 * (n % 2)
        if warp.warpid == 0:
            wait_for(warp, 516, n - (1 if right else 2))
            warp.st_shared(slot + 4 * warp.laneid, n)  # <- reported
            warp.bar_warp_sync()
            with warp.only(warp.laneid == 0):
                warp.st_shared(512, n + 1, order="release")
        else:
            wait_for(warp, 512, n + 1)
            warp.ld_shared(slot + 4 * warp.laneid)  # <- reported
            warp.bar_warp_sync()
            with warp.only(warp.laneid == 0):
                warp.st_shared(516, n + 1, order="release")


@pair("overwritten-early", 512, block=64, shared=1088)
def armed_twice_where_one_arrival_is_counted(warp, right, x):
    """K and V arm the mbarrier each; it counts one arrival, so that V belongs to the next phase."""
    begin(warp, FULL)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256 if right else 128)
        for part in range(2):
            if part and not right:
                warp.mbarrier_arrive_expect_tx(FULL, 128)  # <- reported
            warp.cp_async_bulk_shared_global(128 * part, x + 128 * part, 128, FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)


@pair(("global-race",), 64, 64, grid=1, block=64, shared=1088)
def gathered_by_tma_before_the_indices_are_there(warp, right, table, index):
    """The index list is stored by warp 1 and used by warp 0's copies."""
    begin(warp, FULL)
    if warp.warpid == 1:
        warp.st_global(index.at(warp.laneid), 2)  # <- reported
    if right:
        warp.bar_sync()
    with leader(warp):
        row = int(warp.ld_global(index)[0, 0])  # <- reported
        warp.mbarrier_arrive_expect_tx(FULL, 32)
        warp.cp_async_bulk_shared_global(0, table + 32 * row, 32, FULL)
    warp.mbarrier_wait(FULL, 0)


@pair(("absent-lanes",), block=32)
def a_caller_that_its_own_mask_leaves_out(warp, right):
    """CUDA-Programming 44: all lanes call __shfl_sync with the mask of the lower half."""
    warp.run("shfl.sync.idx.b32", warp.laneid, 0, 0x1F, 0xFFFFFFFF if right else 0xFFFF)  # <- reported


@pair(("absent-lanes",), block=32)
def one_lane_leaves_the_loop_a_round_earlier(warp, right):
    """A loop over queues of different lengths with __ballot_sync(~0) inside."""
    rounds = np.where(warp.laneid < 31, 3, 2)
    for n in range(3):
        with warp.only((n < rounds) | right):
            warp.run("vote.sync.ballot.b32", warp.laneid < 4, 0xFFFFFFFF)  # <- reported


@pair("shared-race", block=64, shared=64)
def a_max_with_its_index_in_64_bits_cleared_in_32(warp, right):
    """atomicMax of 64 bits; a warp resets the upper half by a relaxed store."""
    with leader(warp):
        warp.st_shared(0, 0, "b64")
    warp.bar_sync()
    if warp.warpid == 0:
        warp.atom_shared("max.u64", 0, warp.laneid.astype(np.uint64))  # <- reported
    else:
        with warp.only(warp.laneid == 0):
            if right:
                warp.atom_shared("and.b64", 0, 0xFFFFFFFF)
            else:
                warp.st_shared(4, 0, order="relaxed")  # <- reported


@pair(("shared-race", "mbarrier-arrivals"), block=96, shared=1088)
def two_buffers_between_three_warps(warp, right):
    """A producer, a middle and a last warp, one mbarrier a hop: the middle stores over what the last still reads."""
    with leader(warp):
        for n in range(4):
            warp.mbarrier_init(1024 + 8 * n, 32)
    warp.bar_sync()
    first, second, back, back2 = (1024 + 8 * n for n in range(4))
    for turn in range(3):
        if warp.warpid == 0:
            if turn:
                warp.mbarrier_wait(back, (turn - 1) % 2)
            warp.st_shared(4 * warp.laneid, turn)
            warp.mbarrier_arrive(first)
        elif warp.warpid == 1:
            warp.mbarrier_wait(first, turn % 2)
            held = warp.ld_shared(4 * warp.laneid)
            warp.mbarrier_arrive(back)
            if turn and right:
                warp.mbarrier_wait(back2, (turn - 1) % 2)
            warp.st_shared(256 + 4 * warp.laneid, held)  # <- reported
            warp.mbarrier_arrive(second)  # <- reported
        else:
            warp.mbarrier_wait(second, turn % 2)  # <- reported
            warp.ld_shared(256 + 4 * (31 - warp.laneid))  # <- reported
            warp.mbarrier_arrive(back2)
