"""Faulty kernels in the wild: atomics, flags, locks and barriers that reduce, used wrongly."""

import numpy as np
from kernels_wild_table import faulty, leader, words


@faulty("uninitialised-shared", words(128), shared=64)
def bins_that_nobody_cleared(warp, a):
    held = warp.ld_global(a.at(warp.threads))[:, 0].astype(np.int64)
    warp.red_shared("add.u32", 4 * (held % 16), 1)  # <- reported


@faulty("shared-race", words(128), shared=64)
def counting_begins_while_bins_are_cleared(warp, a):
    with warp.only(warp.threads >= 112):
        warp.st_shared(4 * (warp.threads % 16), 0)  # <- reported
    warp.red_shared("add.u32", 4 * (warp.threads % 16), 1)  # <- reported


@faulty(("shared-race", "lane-race"), words(128), shared=64)
def counting_without_atomics(warp, a):
    """bins[x]++ by many threads."""
    with warp.only(warp.threads < 16):
        warp.st_shared(4 * warp.threads, 0)
    warp.bar_sync()
    place = 4 * (warp.threads % 16)
    warp.st_shared(place, warp.ld_shared(place) + 1)  # <- reported


@faulty(("shared-race", "lane-race"), words(128), shared=64)
def counts_are_read_before_everybody_has_counted(warp, a):
    with warp.only(warp.threads < 16):
        warp.st_shared(4 * warp.threads, 0)
    warp.bar_sync()
    warp.red_shared("add.u32", 4 * (warp.threads % 16), 1)  # <- reported
    with warp.only(warp.threads < 16):
        warp.ld_shared(4 * warp.threads)  # <- reported


def _flag(warp):
    """A flag at 128, 0 at first."""
    with leader(warp):
        warp.st_shared(128, 0)
    warp.bar_sync()


@faulty("shared-race", words(128), block=64, shared=132)
def a_plain_flag(warp, a):
    """Neither volatile nor atomic; the compiler may keep it in a register, too."""
    _flag(warp)
    if warp.warpid == 0:
        with leader(warp):
            warp.st_shared(128, 1)  # <- reported
    else:
        while not warp.ld_shared(128)[0, 0]:  # <- reported
            pass


@faulty("shared-race", words(128), block=64, shared=132)
def a_volatile_flag_without_fences(warp, a):
    """volatile keeps the flag, and nothing keeps the data in front of it."""
    _flag(warp)
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 5)
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_shared(128, 1, order="volatile")
    else:
        while not warp.ld_shared(128, order="volatile")[0, 0]:
            pass
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", words(128), block=64, shared=132)
def released_and_never_acquired(warp, a):
    """The reader's loop is relaxed, and there is no fence after it."""
    _flag(warp)
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 5)
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_shared(128, 1, order="release")
    else:
        while not warp.ld_shared(128, order="relaxed")[0, 0]:
            pass
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", words(128), block=64, shared=132)
def the_flag_is_raised_before_the_data(warp, a):
    _flag(warp)
    if warp.warpid == 0:
        with leader(warp):
            warp.st_shared(128, 1, order="release")
        warp.st_shared(4 * warp.laneid, 5)  # <- reported
    else:
        while not warp.ld_shared(128, order="acquire")[0, 0]:
            pass
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", words(128), block=64, shared=132)
def lane_0_raises_the_flag_for_its_warp(warp, a):
    """No __syncwarp between the stores of 32 lanes and the release of one."""
    _flag(warp)
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, 5)
        with leader(warp):
            warp.st_shared(128, 1, order="release")
    else:
        while not warp.ld_shared(128, order="acquire")[0, 0]:
            pass
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", words(128), shared=8)
def a_lock_given_back_without_a_fence(warp, a):
    """Stores inside the lock may become visible after the unlock."""
    with leader(warp):
        warp.st_shared(0, 0, "b64")
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        while warp.atom_shared("cas.b32", 0, 0, 1)[0, 0]:
            pass
        warp.st_shared(4, warp.ld_shared(4) + 1)  # <- reported
        warp.atom_shared("exch.b32", 0, 0)


@faulty("flag-never-set", words(128), block=64, shared=4)
def a_lock_that_is_kept(warp, a):
    """The branch that leaves early forgets to unlock."""
    with leader(warp):
        warp.st_shared(0, 0)
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        while warp.atom_shared("cas.b32", 0, 0, 1)[0, 0]:  # <- reported
            pass


@faulty("shared-race", words(128), shared=20)
def the_last_warp_sums_what_it_cannot_know(warp, a):
    """threadFenceReduction without its fence: a relaxed counter shows who is last, not that the sums are stored."""
    with leader(warp):
        warp.st_shared(16, 0)
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        warp.st_shared(4 * warp.warpid, 1)
        if warp.atom_shared("add.u32", 16, 1)[0, 0] == 3:
            for part in range(4):
                warp.ld_shared(4 * part)  # <- reported


@faulty(("shared-race", "lane-race"), lambda: (np.zeros(1, np.uint32),), shared=4)
def the_next_tile_with_one_barrier(warp, next_tile):
    """The second barrier is missing: the next number is stored while a slow warp still reads this one."""
    while True:
        with leader(warp):
            warp.st_shared(0, warp.atom_global("add.u32", next_tile, 1))  # <- reported
        warp.bar_sync()
        if warp.ld_shared(0)[0, 0] >= 3:  # <- reported
            return


@faulty("lane-race", words(64), block=32, shared=256)
def volatile_lanes_that_count_on_running_in_step(warp, a):
    """The warp-synchronous reduction as it was really written, with volatile."""
    t = warp.laneid
    for half in (0, 32):
        warp.st_shared(4 * (t + half), warp.ld_global(a.at(t + half)))
    warp.bar_warp_sync()
    for width in (32, 16, 8, 4, 2, 1):
        other = warp.ld_shared(4 * (t + width) % 256, order="volatile")  # <- reported
        warp.st_shared(4 * t, warp.ld_shared(4 * t, order="volatile") + other, order="volatile")  # <- reported


@faulty(("exited-threads", "deadlock"), words(128), shared=64)
def a_vote_of_the_block_that_one_warp_misses(warp, a):
    """__syncthreads_or is a barrier: a warp that has left the loop is missing there."""
    rounds = 1 if warp.warpid == 2 else 2
    for _ in range(rounds):
        warp.bar_red("or", True)  # <- reported


@faulty("misaligned", words(128), shared=64)
def a_64_bit_counter_behind_one_of_32(warp, a):
    with leader(warp):
        warp.st_shared(0, 0)
        warp.st_shared(4, 0)
        warp.st_shared(8, 0)
    warp.bar_sync()
    warp.red_shared("add.u64", 4, 1)  # <- reported


@faulty("out-of-range", words(128), shared=64)
def a_value_beyond_the_last_bin(warp, a):
    with warp.only(warp.threads < 16):
        warp.st_shared(4 * warp.threads, 0)
    warp.bar_sync()
    held = warp.ld_global(a.at(warp.threads))[:, 0].astype(np.int64)
    warp.red_shared("add.u32", 4 * (held // 7), 1)  # <- reported
