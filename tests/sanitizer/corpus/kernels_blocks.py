"""Pairs about blocks that work together through global memory: flags, locks, last blocks, look-back, stream-K."""

import numpy as np
from kernels_pairs import leader, pair

TWO = {"grid": 2, "block": 64}


def spin(warp, flag, order):
    """Thread 0 waits until the flag is set."""
    with leader(warp):
        while warp.warpid == 0 and not warp.ld_global(flag, order=order)[0, 0]:
            warp.nanosleep(20)


@pair("global-race", 64, 1, **TWO)
def a_plain_flag(warp, right, data, flag):
    """Neither volatile nor atomic."""
    store, load = ("release.gpu", "acquire.gpu") if right else ("", "")
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order=store)  # <- reported
    else:
        spin(warp, flag, load)  # <- reported
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def a_fence_for_the_block_alone(warp, right, data, flag):
    """__threadfence_block in place of __threadfence, by the writer."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.fence("acq_rel", "gpu" if right else "cta")
            warp.st_global(flag, 1, order="relaxed.gpu")
    else:
        spin(warp, flag, "relaxed.gpu")
        warp.fence()
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def membar_cta_behind_the_loop(warp, right, data, flag):
    """The reader's membar reaches its own block only."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.membar("gl")
            warp.st_global(flag, 1, order="volatile")
    else:
        spin(warp, flag, "volatile")
        with leader(warp):
            warp.membar("gl" if right else "cta")
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def a_relaxed_publish(warp, right, data, flag):
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu" if right else "relaxed.gpu")
    else:
        spin(warp, flag, "acquire.gpu")
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def released_to_the_block_alone(warp, right, data, flag):
    """cuda::thread_scope_block for a flag that another block reads."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu" if right else "release.cta")  # <- reported
    else:
        spin(warp, flag, "acquire.gpu")  # <- reported
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def a_loop_that_acquires_nothing(warp, right, data, flag):
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
    else:
        spin(warp, flag, "acquire.gpu" if right else "relaxed.gpu")
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def one_thread_publishes_for_all(warp, right, data, flag):
    """The __syncthreads before the release is missing: thread 0 releases only its own stores."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        if right:
            warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
    else:
        spin(warp, flag, "acquire.gpu")
        warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def one_thread_waits_for_all(warp, right, data, flag):
    """The __syncthreads after the loop is missing: the other threads have not waited."""
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)  # <- reported
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
    else:
        spin(warp, flag, "acquire.gpu")
        if right:
            warp.bar_sync()
        warp.ld_global(data.at(warp.threads))  # <- reported


@pair("global-race", 1, 4, grid=4)
def a_counter_read_without_an_atomic(warp, right, count, out):
    """A strong load would only hide it; a loop that waits for all blocks finds one number."""
    with leader(warp):
        warp.red_global("add.u32", count, 1)  # <- reported
        seen = warp.ld_global(count, order="relaxed.gpu" if right else "")  # <- reported
        while right and seen[0, 0] < 4:
            warp.nanosleep(20)
            seen = warp.ld_global(count, order="relaxed.gpu")
        warp.st_global(out.at(warp.ctaid[0]), seen)


@pair("global-race", 1, grid=3)
def a_counter_that_the_first_block_clears(warp, right, count):
    """The others may have counted already; the host clears it before the launch."""
    with leader(warp):
        if warp.ctaid[0] == 0 and not right:
            warp.st_global(count, 7)  # <- reported
        warp.red_global("add.u32", count, 1)  # <- reported


def last_block(warp, before, after, parts, count, out):
    """threadFenceReduction, with a fence before the counter or behind it, or without."""
    with leader(warp):
        warp.st_global(parts.at(warp.ctaid[0]), 1 + warp.ctaid[0])
        if before:
            warp.fence()
        if warp.atom_global("inc.u32", count, 3)[0, 0] == 3:
            if after:
                warp.fence()
            warp.st_global(out, sum(np.asarray(warp.ld_global(parts.at(part))) for part in range(4)))


@pair("global-race", 4, 1, 1, grid=4)
def the_last_block_without_the_fence_before_the_counter(warp, right, parts, count, out):
    last_block(warp, right, True, parts, count, out)  # <- reported


@pair("global-race", 4, 1, 1, grid=4)
def the_last_block_without_the_fence_behind_the_counter(warp, right, parts, count, out):
    last_block(warp, True, right, parts, count, out)  # <- reported


@pair("global-race", 4, 4, 4, grid=4)
def look_back_reads_the_aggregate_before_its_flag(warp, right, sums, flags, out):
    """Decoupled look-back: the load of the predecessor's sum has slipped in front of the loop on its flag."""
    here, before = warp.ctaid[0], 0
    with leader(warp):
        if here:
            early = None if right else warp.ld_global(sums.at(here - 1))  # <- reported
            spin(warp, flags.at(here - 1), "acquire.gpu")
            before = warp.ld_global(sums.at(here - 1)) if right else early
        warp.st_global(sums.at(here), before + np.uint32(1))  # <- reported
        warp.st_global(flags.at(here), 1, order="release.gpu")


@pair("global-race", (2, 64), 1, 64, **TWO)
def stream_k_loads_a_partial_tile_too_early(warp, right, kept, flag, out):
    """The block that finishes a tile loads the partial sums and only then waits for them."""
    if warp.ctaid[0] == 0:
        warp.st_global(kept.at(0, warp.threads), 3)  # <- reported
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    early = None if right else warp.ld_global(kept.at(0, warp.threads))  # <- reported
    spin(warp, flag, "acquire.gpu")
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_global(kept.at(0, warp.threads)) if right else early)


@pair("global-race", 64, 1, shared=264, **TWO)
def a_bulk_copy_of_a_partial_tile(warp, right, kept, flag):
    """The producer copies the partial tile while the other block still writes it."""
    if warp.ctaid[0] == 0:
        warp.st_global(kept.at(warp.threads), 3)  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    with leader(warp):
        warp.mbarrier_init(256, 1)
        warp.fence_mbarrier_init()
        if right:
            spin(warp, flag, "acquire.gpu")
        warp.mbarrier_arrive_expect_tx(256, 256)
        warp.cp_async_bulk_shared_global(0, kept, 256, 256)  # <- reported
    warp.bar_sync()
    warp.mbarrier_wait(256, 0)


@pair("global-race", 132, **TWO)
def tiles_that_overlap(warp, right, out):
    """The tile of a block is one row too long: two blocks write the same elements."""
    width = 64 if right else 60
    warp.st_global(out.at(width * warp.ctaid[0] + warp.threads), warp.ctaid[0])  # <- reported


@pair("global-race", 128, 128, **TWO)
def a_stencil_in_place(warp, right, x, y):
    """Each element gets its left neighbour's old value; the block before may have changed it already."""
    place = 64 * warp.ctaid[0] + warp.threads
    held = warp.ld_global(x.at(np.maximum(place - 1, 0)))  # <- reported
    warp.bar_sync()
    warp.st_global((y if right else x).at(place), held + place[:, None].astype(np.uint32))  # <- reported


@pair("global-race", 2, grid=3)
def a_lock_without_fences(warp, right, a):
    """atomicCAS and atomicExch are relaxed: accesses inside the lock are not ordered with the next owner's."""
    with leader(warp):
        while warp.atom_global("cas.b32", a.at(0), 0, 1)[0, 0]:
            warp.nanosleep(20)
        if right:
            warp.fence()
        warp.st_global(a.at(1), warp.ld_global(a.at(1)) + 1)  # <- reported
        if right:
            warp.fence()
        warp.atom_global("exch.b32", a.at(0), 0)


@pair("global-race", 2, grid=3)
def a_lock_given_back_by_a_plain_store(warp, right, a):
    with leader(warp):
        while warp.atom_global("cas.b32", a.at(0), 0, 1, order="acquire.gpu")[0, 0]:  # <- reported
            warp.nanosleep(20)
        warp.st_global(a.at(1), warp.ld_global(a.at(1)) + 1)
        warp.fence()
        warp.st_global(a.at(0), 0, order="release.gpu" if right else "")  # <- reported


@pair("global-race", 128, 1, **TWO)
def a_barrier_of_the_grid_without_fences(warp, right, data, count):
    """Each block counts and waits for the count; there is no fence before the one or after the other."""
    place = 64 * warp.ctaid[0] + warp.threads
    warp.st_global(data.at(place), 5)  # <- reported
    warp.bar_sync()
    with leader(warp):
        if right:
            warp.fence()
        warp.atom_global("add.u32", count, 1)
        while warp.warpid == 0 and warp.ld_global(count, order="relaxed.gpu")[0, 0] < 2:
            warp.nanosleep(20)
        if right:
            warp.fence()
    warp.bar_sync()
    warp.ld_global(data.at(127 - place))  # <- reported


@pair("global-race", 64, block=64)
def warps_of_a_block_exchange_through_global_memory(warp, right, data):
    warp.st_global(data.at(warp.threads), 5)  # <- reported
    if right:
        warp.bar_sync()
    warp.ld_global(data.at(63 - warp.threads))  # <- reported


@pair("lane-race", 32)
def lanes_exchange_through_global_memory(warp, right, data):
    warp.st_global(data.at(warp.laneid), 5)  # <- reported
    if right:
        warp.bar_warp_sync()
    warp.ld_global(data.at(31 - warp.laneid))  # <- reported


@pair("out-of-range", 100, 100, **TWO)
def the_last_block_reads_beyond_the_end(warp, right, x, out):
    place = 64 * warp.ctaid[0] + warp.threads
    with warp.only(place < (100 if right else 128)):
        warp.ld_global(x.at(place))  # <- reported


@pair("flag-never-set", 1, grid=2)
def a_flag_that_the_other_block_forgets(warp, right, flag):
    if warp.ctaid[0]:
        while not warp.ld_global(flag, order="acquire.gpu")[0, 0]:  # <- reported
            warp.nanosleep(20)
    elif right:
        warp.st_global(flag, 1, order="release.gpu")
