"""Faulty kernels in the wild, up to Ampere: the mistakes of bug reports and of racecheck's and synccheck's manuals."""

import numpy as np
from kernels_wild_table import faulty, leader, one, words

# ------------------------------------------------------------------------------------------------ shared memory


@faulty("shared-race", words(128, 128), shared=512)
def a_block_reversed_without_a_barrier(warp, a, d):
    """The first example of racecheck's manual."""
    t = warp.threads
    warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    warp.st_global(d.at(t), warp.ld_shared(4 * (127 - t)))  # <- reported


@faulty("shared-race", words(1024, 1), shared=512)
def a_tree_that_synchronises_once(warp, a, d):
    """The barrier is before the loop, not in it."""
    t = warp.threads
    warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    warp.bar_sync()
    for width in (64, 32):
        with warp.only(t < width):
            warp.st_shared(4 * t, warp.ld_shared(4 * t) + warp.ld_shared(4 * (t + width)))  # <- reported


@faulty("lane-race", words(1024, 1), block=64, shared=256)
def volatile_where_a_syncwarp_belongs(warp, a, d):
    """The unrolled last warp of reductions written before Volta."""
    t = warp.threads
    warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    warp.bar_sync()
    if warp.warpid == 0:
        for width in (32, 16, 8, 4, 2, 1):
            warp.st_shared(4 * t, warp.ld_shared(4 * t) + warp.ld_shared(4 * (t + width)))  # <- reported


@faulty("lane-race", words(256, 64), block=32, shared=256)
def compaction_into_a_store_that_is_read_at_once(warp, a, d):
    """llama.cpp's expert ids: one loop fills a list by lane, the next reads it by position."""
    held = warp.ld_global(a.at(warp.laneid))[:, 0]
    wanted = held % 3 == 0
    chosen = warp.vote_sync("ballot", wanted)
    before = np.array([(chosen & (1 << lane) - 1).bit_count() for lane in range(32)])
    with warp.only(wanted):
        warp.st_shared(4 * before, held)
    with warp.only(warp.laneid < chosen.bit_count()):
        warp.st_global(d.at(warp.laneid), warp.ld_shared(4 * warp.laneid))  # <- reported


@faulty("shared-race", words(128, 128), shared=16)
def two_block_reductions_share_their_scratch(warp, a, d):
    """nvFuser's warp reduction: the second begins to store while a slow warp still reads the first's."""
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    for _ in range(2):
        for step in (16, 8, 4, 2, 1):
            x = x + warp.shfl_sync("bfly", x, step)
        with warp.only(warp.laneid == 0):
            warp.st_shared(4 * warp.warpid, x)  # <- reported
        warp.bar_sync()
        x = sum(np.asarray(warp.ld_shared(4 * part))[:, 0] for part in range(4))
    warp.st_global(d.at(warp.threads), x)


@faulty(("shared-race", "lane-race"), words(128, 128), shared=512)
def a_barrier_for_48_threads_that_was_dropped(warp, a, d):
    """TileLang: a guard that is not a multiple of 32 threads lost its barrier."""
    t = warp.threads
    with warp.only(t < 48):
        warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    with warp.only(t < 48):
        warp.st_global(d.at(t), warp.ld_shared(4 * (47 - t)))  # <- reported


@faulty(("shared-race", "lane-race"), words(128, 128), shared=512)
def a_barrier_hoisted_out_of_a_guard(warp, a, d):
    """TileLang: the barrier inside a divergent branch was moved in front of it."""
    t = warp.threads
    warp.bar_sync()
    with warp.only(t % 4 == 0):
        warp.st_shared(4 * t, warp.ld_global(a.at(t)))
        warp.st_global(d.at(t), warp.ld_shared(4 * ((t + 4) % 128)))  # <- reported


@faulty(("shared-race", "lane-race"), words(128, 128), shared=1024)
def the_scan_that_needs_a_second_buffer(warp, a, d):
    """Hillis and Steele in place: load, then store, and no barrier between the two."""
    t = warp.threads
    warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    for step in (1, 2, 4, 8, 16, 32, 64):
        warp.bar_sync()
        value = warp.ld_shared(4 * t)[:, 0] + np.where(t >= step, warp.ld_shared(4 * np.maximum(t - step, 0))[:, 0], 0)
        warp.st_shared(4 * t, value)  # <- reported


def _ones():
    return np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)


@faulty(("shared-race", "lane-race"), _ones, block=(16, 16), shared=2048)
def the_tiled_product_with_one_barrier(warp, a, b):
    """The barrier behind the inner loop is missing: the next tile is stored while others still multiply."""
    x, y, _ = warp.tid
    for k in (0, 16):
        warp.st_shared(4 * (16 * y + x), warp.ld_global(a.at(y, k + x)))  # <- reported
        warp.st_shared(1024 + 4 * (16 * y + x), warp.ld_global(b.at(k + y, x)))  # <- reported
        warp.bar_sync()
        for i in range(16):
            warp.ld_shared(4 * (16 * y + i))
            warp.ld_shared(1024 + 4 * (16 * i + x))


@faulty("uninitialised-shared", words(256, 100), block=128, shared=4 * 132)
def a_halo_that_is_loaded_on_one_side(warp, a, d):
    t = warp.threads
    warp.st_shared(4 * (t + 2), warp.ld_global(a.at(t)))
    with warp.only(t < 2):
        warp.st_shared(4 * t, 0)
    warp.bar_sync()
    total = sum(np.asarray(warp.ld_shared(4 * (t + shift)))[:, 0] for shift in range(5))  # <- reported
    with warp.only(t < 100):
        warp.st_global(d.at(t), total)


@faulty("out-of-range", words(4096), shared=32 * 32 * 4)
def a_padded_tile_in_memory_without_the_padding(warp, a):
    for row in range(warp.warpid, 32, 4):
        warp.st_shared(4 * (33 * row + warp.laneid), warp.ld_global(a.at(32 * row + warp.laneid)))  # <- reported


@faulty("out-of-range", words(1000, 1000), grid=8)
def a_grid_rounded_up_without_a_guard(warp, a, d):
    at = 128 * warp.ctaid[0] + warp.threads
    warp.st_global(d.at(at), warp.ld_global(a.at(at)))  # <- reported


@faulty("misaligned", words(4096, 4096))
def wide_loads_of_a_matrix_with_odd_rows(warp, a, d):
    """float4 loads of rows of 33 floats."""
    row = warp.threads // 8
    held = warp.ld_global(a + 4 * (33 * row) + 16 * (warp.threads % 8), "v4.b32")  # <- reported
    warp.st_global(d + 16 * warp.threads, held, "v4.b32")


@faulty("uninitialised-registers", words(128, 128))
def lanes_beyond_the_edge_keep_what_they_had(warp, a, d):
    """The loaded value is declared outside the guard and never set there."""
    held = warp.registers(1)
    with warp.only(warp.threads < 100):
        held[warp.active] = np.asarray(warp.ld_global(a.at(warp.threads)))[warp.active]
    warp.st_global(d.at(warp.threads), held)  # <- reported


# ------------------------------------------------------------------------------------------------ barriers


@faulty("exited-threads", words(1000, 1000), block=128, shared=512)
def an_early_return_in_front_of_a_barrier(warp, a, d):
    """Everybody's first bug: `if (i >= n) return;` and a barrier below."""
    if warp.warpid == 3:
        return
    warp.st_shared(4 * warp.threads, 1)
    warp.bar_sync()  # <- reported
    warp.ld_shared(4 * (95 - warp.threads))


@faulty("aligned-divergent", words(128, 128), block=64, shared=256)
def a_barrier_in_a_branch_of_the_threads(warp, a, d):
    """synccheck's manual: divergent threads in the block."""
    t = warp.threads
    with warp.only(t % 2 == 0):
        warp.st_shared(4 * t, 1)
        warp.bar_sync()  # <- reported


@faulty(("exited-threads", "deadlock"), words(4096, 4096), block=384, shared=1024)
def compute_warps_alone_at_a_barrier_for_all(warp, a, d):
    """TinyGEMM on H100: eight warps copy and leave, four meet at __syncthreads for their reduction."""
    if warp.warpid >= 4:
        with one(warp):
            warp.ld_global(a)
        return
    warp.st_shared(4 * warp.threads, 1)
    warp.bar_sync()  # <- reported
    if warp.warpid == 0:
        warp.ld_shared(4 * warp.laneid + 128)


@faulty(("deadlock", "exited-threads"), words(128), block=160, shared=1024)
def a_named_barrier_for_one_warp_too_many(warp, a):
    """QuACK's epilogue load: the count was of another configuration's warps."""
    if warp.warpid == 4:
        warp.bar_sync(1, 160)  # <- reported
    elif warp.warpid < 3:
        warp.bar_arrive(1, 160)


@faulty("deadlock", words(128), block=64)
def two_warps_wait_for_each_other(warp, a):
    """Each waits at the barrier that the other would reach later."""
    warp.bar_sync(1 + warp.warpid, 64)  # <- reported
    warp.bar_sync(2 - warp.warpid, 64)


@faulty(("barrier-threads", "shared-race", "deadlock"), words(4096), block=256, shared=1024)
def both_groups_take_the_same_named_barrier(warp, a):
    """Two groups of four warps, meant to meet separately, share barrier 1 of 128 threads: any arriving warp counts."""
    group, t = warp.warpid // 4, warp.threads % 128
    for _ in range(2):
        warp.st_shared(512 * group + 4 * t, 1)  # <- reported
        warp.bar_sync(1, 128)  # <- reported
        warp.ld_shared(512 * group + 4 * (127 - t))  # <- reported


@faulty("shared-race", words(4096), block=64, shared=256)
def arriving_where_waiting_is_needed(warp, a):
    """The consumer arrives at full instead of waiting there."""
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 1)  # <- reported
        warp.bar_sync(1, 64)
    else:
        warp.bar_arrive(1, 64)
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", words(4096), block=64, shared=256)
def a_ring_without_its_empty_barrier(warp, a):
    """The producer waits until the buffer is full, never until it is empty."""
    for _ in range(3):
        if warp.warpid == 0:
            warp.st_shared(4 * warp.laneid, 1)  # <- reported
            warp.bar_sync(1, 64)
        else:
            warp.bar_sync(1, 64)
            warp.ld_shared(4 * (31 - warp.laneid))  # <- reported


@faulty("lane-race", words(4096), block=32, shared=256)
def half_a_warp_synchronises_for_the_other(warp, a):
    """__syncwarp inside the branch: the lanes that read were not there."""
    with warp.only(warp.laneid < 16):
        warp.st_shared(4 * warp.laneid, 1)
        warp.bar_warp_sync()
    with warp.only(warp.laneid >= 16):
        warp.ld_shared(4 * (warp.laneid - 16))  # <- reported


# ------------------------------------------------------------------------------------------------ mbarriers


@faulty("mbarrier-init", words(4096), shared=1032)
def nobody_waits_for_the_initialisation(warp, a):
    """nvFuser's first mbarrier test: no __syncthreads behind the init."""
    with leader(warp):
        warp.mbarrier_init(1024, 128)
    warp.st_shared(4 * warp.threads, 1)
    warp.mbarrier_arrive(1024)  # <- reported
    warp.mbarrier_wait(1024, 0)


@faulty("mbarrier-init", words(4096), shared=2064)
def an_mbarrier_that_is_armed_and_never_initialised(warp, a):
    """A CuTe DSL report: init_tx_bytes, which arms, was taken for init."""
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2048, 2048)  # <- reported
        warp.cp_async_bulk_shared_global(0, a, 2048, 2048)
    warp.bar_sync()
    warp.mbarrier_wait(2048, 0)


@faulty("deadlock", words(4096), block=160, shared=1032)
def one_lane_arrives_where_32_are_counted(warp, a):
    """The count is of threads, and one thread of each warp arrives."""
    with leader(warp):
        warp.mbarrier_init(1024, 128)
    warp.bar_sync()
    if warp.warpid == 4:
        warp.mbarrier_wait(1024, 0)  # <- reported
        return
    with one(warp):
        warp.mbarrier_arrive(1024)


@faulty("mbarrier-arrivals", words(4096), block=160, shared=1032)
def every_lane_arrives_where_warps_are_counted(warp, a):
    """The count is of warps, and elect_one was forgotten."""
    with leader(warp):
        warp.mbarrier_init(1024, 4)
    warp.bar_sync()
    if warp.warpid < 4:
        warp.mbarrier_arrive(1024)  # <- reported
    else:
        warp.mbarrier_wait(1024, 0)


@faulty("shared-race", words(4096), block=160, shared=1032)
def an_elected_lane_arrives_for_stores_of_its_warp(warp, a):
    """cuDNN front end: 32 lanes store, one arrives, and only what that one stored is released by it."""
    with leader(warp):
        warp.mbarrier_init(1024, 1)
    warp.bar_sync()
    if warp.warpid == 4:
        for part in range(4):
            warp.st_shared(128 * part + 4 * warp.laneid, part)
        with one(warp):
            warp.mbarrier_arrive(1024)
        return
    warp.mbarrier_wait(1024, 0)
    warp.ld_shared(4 * warp.threads)  # <- reported


@faulty("deadlock", words(4096), block=64, shared=1040)
def a_producer_that_waits_for_a_buffer_nobody_has_used(warp, a):
    """The first wait on an empty mbarrier has the parity of the phase before the first; here it has 0."""
    with leader(warp):
        warp.mbarrier_init(1024, 1)
        warp.mbarrier_init(1032, 1)
    warp.bar_sync()
    for step in range(2):
        if warp.warpid == 0:
            warp.mbarrier_wait(1032, step % 2)  # <- reported
            warp.st_shared(4 * warp.laneid, step)
            warp.bar_warp_sync()
            with one(warp):
                warp.mbarrier_arrive(1024)
        else:
            warp.mbarrier_wait(1024, step % 2)  # <- reported
            warp.ld_shared(4 * warp.laneid)
            warp.bar_warp_sync()
            with one(warp):
                warp.mbarrier_arrive(1032)


@faulty("shared-race", words(4096), block=64, shared=1040)
def a_consumer_that_looks_once_and_goes_on(warp, a):
    """test_wait returns false, and its result is ignored. The producer waits for the consumer, so it must be false."""
    with leader(warp):
        warp.mbarrier_init(1024, 32)
    warp.bar_sync()
    if warp.warpid == 0:
        warp.bar_sync(1, 64)
        warp.st_shared(4 * warp.laneid, 1)  # <- reported
        warp.mbarrier_arrive(1024)
    else:
        warp.mbarrier_test_wait(1024, 0)
        warp.bar_arrive(1, 64)
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("mbarrier-object", words(4096), block=64, shared=1040)
def a_tile_that_reaches_into_the_mbarriers(warp, a):
    """A struct that is 16 bytes too small."""
    with leader(warp):
        warp.mbarrier_init(1016, 1)
    warp.bar_sync()
    warp.st_shared(16 * warp.threads, 0, "v4.b32")  # <- reported


@faulty("mbarrier-object", words(4096), block=64, shared=1040)
def mbarriers_initialised_again_for_the_next_tile(warp, a):
    """A persistent loop with the init inside and no inval."""
    for _ in range(2):
        with leader(warp):
            warp.mbarrier_init(1024, 64)  # <- reported
        warp.bar_sync()
        warp.mbarrier_arrive(1024)
        warp.mbarrier_wait(1024, 0)
        warp.bar_sync()


@faulty(("shared-race", "deadlock"), words(4096), block=64, shared=1040)
def a_parity_that_is_not_turned(warp, a):
    """The consumer waits for parity 0 each time: in the second step it continues at once, or it waits in vain."""
    with leader(warp):
        warp.mbarrier_init(1024, 32)
        warp.mbarrier_init(1032, 32)
    warp.bar_sync()
    for step in range(3):
        if warp.warpid == 0:
            warp.mbarrier_wait(1032, (step + 1) % 2)  # <- reported
            warp.st_shared(4 * warp.laneid, step)  # <- reported
            warp.mbarrier_arrive(1024)
        else:
            warp.mbarrier_wait(1024, 0)  # <- reported
            warp.ld_shared(4 * warp.laneid)  # <- reported
            warp.mbarrier_arrive(1032)
