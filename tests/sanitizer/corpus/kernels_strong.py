"""Pairs about strong accesses, volatile or relaxed, that are taken to be in order, and do not race."""

from kernels_clusters import meet, peer
from kernels_pairs import leader, pair


def until(warp, load, least):
    """Thread 0 loads a word again and again, until it is large enough."""
    with leader(warp):
        while warp.warpid == 0 and load()[0, 0] < least:
            warp.nanosleep(20)
    warp.bar_sync()


@pair("stale-load", (2, 64), 2, grid=2, block=64)
def an_all_reduce_with_volatile_signals(warp, right, data, signals):
    """vLLM 8404: each rank stores its part and a signal, and waits for the peer's; all of it is volatile."""
    mine = warp.ctaid[0]
    for turn in range(2):
        warp.st_global(data.at(mine, warp.threads), turn, order="volatile")
        if right:
            warp.fence("sc", "sys")
        warp.bar_sync()
        with leader(warp):
            warp.st_global(signals.at(mine), 2 * turn + 1, order="volatile")
        until(warp, lambda turn=turn: warp.ld_global(signals.at(1 - mine), order="volatile"), 2 * turn + 1)
        warp.ld_global(data.at(1 - mine, warp.threads), order="volatile")  # <- reported
        warp.bar_sync()
        with leader(warp):
            warp.st_global(signals.at(mine), 2 * turn + 2, order="volatile")
        until(warp, lambda turn=turn: warp.ld_global(signals.at(1 - mine), order="volatile"), 2 * turn + 2)


@pair("stale-load", 4, 4, grid=4, block=32)
def a_look_back_at_volatile_sums(warp, right, sums, states):
    """AcceleratedKernels.jl 98: the sum and its state are two words, both loaded and stored as volatile."""
    tile = 3 - warp.ctaid[0]
    with leader(warp):
        before = 0
        if tile:
            while not warp.ld_global(states.at(tile - 1), order="volatile")[0, 0]:
                warp.nanosleep(20)
            before = warp.ld_global(sums.at(tile - 1), order="volatile")  # <- reported
        warp.st_global(sums.at(tile), 1 + before, order="volatile")
        if right:
            warp.fence("sc")
        warp.st_global(states.at(tile), 1, order="volatile")


@pair("stale-load", 4, 1, grid=4, block=64, shared=16)
def volatile_results_and_a_count_without_a_fence(warp, right, result, count):
    """The sum of the programming guide without its __threadfence()."""
    with leader(warp):
        warp.st_global(result.at(warp.ctaid[0]), 5, order="volatile")
        if right:
            warp.fence("sc")
        warp.st_shared(0, warp.atom_global("inc.u32", count, 3))
    warp.bar_sync()
    if warp.ld_shared(0)[0, 0] == 3:
        warp.ld_global(result.at(warp.laneid % 4), order="volatile")  # <- reported


@pair("stale-load", block=64, shared=512)
def a_volatile_message_to_the_next_warp(warp, right):
    """Between the warps of a block, too: volatile keeps the compiler from moving the accesses, and no more."""
    with leader(warp):
        warp.st_shared(256, 0)
    warp.bar_sync()
    if warp.warpid:
        warp.st_shared(4 * warp.laneid, 5, order="volatile")
        if right:
            warp.fence("sc", "cta")
        warp.bar_warp_sync()
        with warp.only(warp.laneid == 0):
            warp.st_shared(256, 1, order="volatile")
    else:
        while not warp.ld_shared(256, order="volatile")[0, 0]:
            warp.nanosleep(20)
        warp.ld_shared(4 * warp.laneid, order="volatile")  # <- reported


@pair("stale-load", grid=2, block=32, cluster=2, shared=512)
def a_relaxed_message_to_the_peer(warp, right):
    """Rank 1 stores into the memory of rank 0, which waits for the word behind the data."""
    warp.st_shared(256, 0)
    meet(warp)
    if warp.cluster_ctarank:
        warp.st_shared_cluster(peer(warp, 4 * warp.laneid), 5, order="relaxed.cluster")
        warp.bar_warp_sync()
        with leader(warp):
            order = "release.cluster" if right else "relaxed.cluster"
            warp.st_shared_cluster(peer(warp, 256), 1, order=order)
    else:
        until(warp, lambda: warp.ld_shared(256, order="relaxed.cluster"), 1)
        warp.ld_shared(4 * warp.laneid, order="relaxed.cluster")  # <- reported
    meet(warp)


@pair("stale-load", 2, 8, grid=3, block=32)
def a_task_behind_a_relaxed_count(warp, right, counts, tasks):
    """A deque of tasks: the owner's count publishes nothing, and thieves acquire it without waiting for it."""
    with leader(warp):
        if warp.ctaid[0]:
            for _ in range(4):
                taken = warp.ld_global(counts.at(1), order="acquire")[0, 0]
                if taken < warp.ld_global(counts.at(0), order="acquire")[0, 0]:
                    task = warp.ld_global(tasks.at(taken), order="relaxed")  # <- reported
                    if warp.atom_global("cas.b32", counts.at(1), taken, taken + 1)[0, 0] == taken:
                        assert task[0, 0] == 9
        else:
            for n in range(4):
                warp.st_global(tasks.at(n), 9, order="relaxed")
                warp.st_global(counts.at(0), n + 1, order="release" if right else "relaxed")
