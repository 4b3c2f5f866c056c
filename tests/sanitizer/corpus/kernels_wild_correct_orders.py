"""Correct kernels in the wild: volatile and relaxed accesses that need no order, mbarriers armed in several ways."""

import numpy as np
from kernels_blocks import spin
from kernels_clusters import FULL, begin, meet
from kernels_wild_table import correct, leader

ONE = {"grid": 2, "block": 32}
TWO = {"grid": 2, "block": 64}


def zeros(*sizes):
    return lambda: tuple(np.zeros(size, np.uint32) for size in sizes)


@correct(zeros(8, 1), grid=4, block=64, shared=16)
def the_sum_of_the_programming_guide(warp, result, count):
    """threadFenceReduction: results are volatile, the writer fences, and the last block loads them without a fence."""
    with leader(warp):
        warp.st_global(result.at(warp.ctaid[0]), 5, order="volatile")
        warp.fence("sc")
        warp.st_shared(0, warp.atom_global("inc.u32", count, 3))
    warp.bar_sync()
    if warp.ld_shared(0)[0, 0] == 3:
        warp.ld_global(result.at(warp.laneid % 4), order="volatile")


@correct(zeros(64, 4), **TWO)
def flags_polled_in_another_order_than_they_are_set(warp, data, flags):
    if warp.ctaid[0] == 0:
        warp.st_global(data.at(warp.threads), 5)
        warp.fence()
        warp.bar_sync()
        with leader(warp):
            for number in range(4):
                warp.st_global(flags.at(number), 1, order="volatile")
    else:
        for number in (3, 2, 1, 0):
            spin(warp, flags.at(number), "volatile")
        warp.fence()
        warp.bar_sync()
        warp.fence()
        warp.ld_global(data.at(warp.threads))


@correct(zeros(2), **ONE)
def counters_that_are_only_shown(warp, counters):
    """Any values will do: nothing is concluded from them."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            for number in range(3):
                warp.st_global(counters.at(0), number, order="relaxed")
                warp.st_global(counters.at(1), number, order="relaxed")
        else:
            for counter in (1, 0):
                warp.ld_global(counters.at(counter), order="relaxed")


@correct(zeros(4, 2), grid=4, block=32)
def a_stop_flag_that_nobody_waits_for(warp, done, words):
    """A block that finds the flag late does a little more work."""
    queue, stop = words.at(0), words.at(1)
    with leader(warp):
        while (item := int(warp.atom_global("add.u32", queue, 1)[0, 0])) < 8:
            if warp.ld_global(stop, order="relaxed")[0, 0]:
                break
            if item == 5:
                warp.st_global(stop, 1, order="relaxed")
            warp.red_global("add.u32", done.at(warp.ctaid[0]), 1)


@correct(zeros(2, 1), **ONE)
def a_sequence_lock_around_relaxed_words(warp, data, number):
    """Words and number are strong, and fences order them; a reader that finds another number reads again."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            for turn in range(3):
                warp.st_global(number, 2 * turn + 1, order="relaxed")
                warp.fence()
                for word in range(2):
                    warp.st_global(data.at(word), turn, order="relaxed")
                warp.st_global(number, 2 * turn + 2, order="release")
            return
        while True:
            before = warp.ld_global(number, order="acquire")[0, 0]
            words = [warp.ld_global(data.at(word), order="relaxed")[0, 0] for word in range(2)]
            warp.fence()
            if before and before % 2 == 0 and before == warp.ld_global(number, order="relaxed")[0, 0]:
                break
            warp.nanosleep(20)
        assert words[0] == words[1]


@correct(zeros(64), **ONE)
def data_and_flag_in_one_word(warp, line):
    """NCCL's LL: 4 bytes of data and a flag of 4 bytes are stored, and polled, as 8 bytes."""
    if warp.ctaid[0] == 0:
        warp.st_global(line.at(2 * warp.laneid), np.full(32, 9 << 32 | 5, np.uint64), "b64", order="volatile")
        return
    while True:
        words = warp.ld_global(line.at(2 * warp.laneid), "b64", order="volatile").view(np.uint32).reshape(32, 2)
        if (words[:, 1] == 9).all():
            break
        warp.nanosleep(20)
    assert (words[:, 0] == 5).all()


@correct(zeros(64), block=64, shared=1088)
def one_thread_expects_and_all_arrive(warp, x):
    """cuda::memcpy_async with a barrier of all threads: thread 0 expects the bytes before its own arrival."""
    with leader(warp):
        warp.mbarrier_init(FULL, 64)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    for _ in range(2):
        with leader(warp):
            warp.cp_async_bulk_shared_global(0, x, 256, FULL)
            warp.mbarrier_expect_tx(FULL, 256)
        token = warp.mbarrier_arrive(FULL)
        warp.mbarrier_wait(FULL, state=token)
        warp.ld_shared(4 * warp.threads)
        warp.bar_sync()


@correct(zeros(64), cluster=2, shared=1088, **TWO)
def rank_0_arms_both_mbarriers(warp, x):
    begin(warp, FULL)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            for rank in range(2):
                warp.mbarrier_arrive_expect_tx_shared_cluster(warp.mapa(FULL, rank), 256)
            warp.cp_async_bulk_shared_global(0, x, 256, FULL, cta_mask=3)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.threads)
    meet(warp)


@correct(zeros(64), block=64, shared=1088)
def bytes_that_a_thread_counts_itself(warp, x):
    """A stage that is half a copy and half ordinary stores: complete_tx counts the latter."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
        warp.cp_async_bulk_shared_global(0, x, 128, FULL)
    if warp.warpid:
        warp.st_shared(128 + 4 * warp.laneid, 1)
        warp.bar_warp_sync()
        with warp.only(warp.laneid == 0):
            warp.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64", FULL, 128)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.laneid)
    warp.bar_sync()
    warp.ld_shared(128 + 4 * warp.laneid)


@correct(zeros(64), block=32, shared=1088)
def each_half_elects_a_lane_that_copies(warp, x):
    """elect.sync in a part of the warp elects one of its lanes."""
    with leader(warp):
        for number in range(2):
            warp.mbarrier_init(FULL + 8 * number, 1)
        warp.fence_mbarrier_init()
    warp.bar_warp_sync()
    for number, half in enumerate((warp.laneid < 16, warp.laneid >= 16)):
        with warp.only(half), warp.only(warp.elect_sync()):
            warp.mbarrier_arrive_expect_tx(FULL + 8 * number, 64)
            warp.cp_async_bulk_shared_global(64 * number, x + 64 * number, 64, FULL + 8 * number)
    for number in range(2):
        warp.mbarrier_wait(FULL + 8 * number, 0)
    warp.ld_shared(4 * warp.laneid)


@correct(zeros(), block=64, shared=1088)
def the_bytes_of_an_mbarrier_for_data_and_back(warp):
    """inval, a barrier, data, a barrier, and init at the same place: its phases begin at 0 again."""
    for _ in range(2):
        with leader(warp):
            warp.mbarrier_init(FULL, 64)
        warp.bar_sync()
        warp.mbarrier_arrive(FULL)
        warp.mbarrier_wait(FULL, 0)
        warp.bar_sync()
        with leader(warp):
            warp.mbarrier_inval(FULL)
            warp.st_shared(FULL, 7)
        warp.bar_sync()
        warp.ld_shared(FULL + 0 * warp.laneid)
        warp.bar_sync()
