"""Pairs from bug trackers, between blocks: look-back, barriers of a grid, rings of messages, queues, locks."""

import numpy as np
from kernels_clusters import meet
from kernels_pairs import leader, pair

TWO = {"grid": 2, "block": 64}
ONE = {"grid": 2, "block": 32}


def spin_to(warp, flag, least, order="acquire"):
    """Thread 0 waits until the flag is at least so high."""
    with leader(warp):
        while warp.warpid == 0 and warp.ld_global(flag, order=order)[0, 0] < least:
            warp.nanosleep(20)


@pair("global-race", 2, 64, **TWO)
def the_prefix_overwrites_the_sum_that_late_warps_read(warp, right, tiles, out):
    """cccl 4556: thread 0 puts the prefix in the place of the block's sum, which other warps have yet to read."""
    mine = warp.ld_global(tiles.at(warp.ctaid[0]))  # <- reported
    if right:
        warp.bar_sync()
    with leader(warp):
        warp.st_global(tiles.at(warp.ctaid[0]), 7)  # <- reported
    warp.st_global(out.at(warp.threads), mine, order="relaxed")


@pair("global-race", 2, 64, **ONE)
def flags_that_are_bytes_of_one_word(warp, right, flags, data):
    """vLLM 2760: each rank sets a byte, and all poll the word: strong, but not morally strong."""
    rank = warp.ctaid[0]
    warp.st_global(data.at(32 * rank + warp.laneid), 5)
    warp.bar_warp_sync()
    with leader(warp):
        if right:
            warp.st_global(flags.at(rank), 1, order="release.sys")
            while not warp.ld_global(flags.at(1 - rank), order="acquire.sys")[0, 0]:
                warp.nanosleep(20)
        else:
            warp.st_global(flags + rank, 1, "b8", order="release.sys")  # <- reported
            while warp.ld_global(flags, order="acquire.sys")[0, 0] != 0x101:  # <- reported
                warp.nanosleep(20)
    warp.bar_warp_sync()
    warp.ld_global(data.at(32 * (1 - rank) + warp.laneid))  # <- reported


@pair("flag-never-set", 2, **ONE)
def a_signal_cleared_before_all_have_seen_it(warp, right, flags):
    """mori 494: block 0 stores 1 and clears it at the end of the round; a slow block waits for the next 1."""
    with leader(warp):
        for turn in range(2):
            if warp.ctaid[0] == 0:
                warp.st_global(flags.at(0), turn + 1 if right else 1, order="release")
                if not right:
                    warp.st_global(flags.at(0), 0, order="release")
            else:
                while warp.ld_global(flags.at(0), order="acquire")[0, 0] <= (turn if right else 0):  # <- reported
                    warp.nanosleep(20)


@pair("flag-never-set", 1, **ONE)
def a_barrier_of_the_grid_used_twice(warp, right, count):
    """cuML 458: a block that reads late finds that the others have already arrived at the next barrier."""
    with leader(warp):
        for turn in range(2):
            warp.atom_global("add.u32", count, 1, order="acq_rel")
            while True:
                seen = warp.ld_global(count, order="acquire")[0, 0]  # <- reported
                if seen >= 2 * turn + 2 if right else seen % 2 == 0:
                    break
                warp.nanosleep(20)


@pair("flag-never-set", 3, grid=3, block=32)
def the_last_head_is_lost(warp, right, words):
    """DeepEP 212: the coordinator reads the head, then that the forwarder has ended, and misses its last head."""
    head, retired, told = (words.at(n) for n in range(3))
    with leader(warp):
        if warp.ctaid[0] == 0:
            for n in (1, 2):
                warp.st_global(head, n, order="relaxed")
            warp.st_global(retired, 1, order="release")
        elif warp.ctaid[0] == 1:
            done = 0
            while not done:
                if right:
                    done = warp.ld_global(retired, order="acquire")[0, 0]
                now = warp.ld_global(head, order="relaxed")
                if not right:
                    done = warp.ld_global(retired, order="acquire")[0, 0]
                warp.st_global(told, now, order="release")
                warp.nanosleep(20)
        else:
            while warp.ld_global(told, order="acquire")[0, 0] != 2:  # <- reported
                warp.nanosleep(20)


@pair("flag-never-set", 2, **ONE)
def flags_reset_by_their_owner_at_the_start(warp, right, flags):
    """TVM 16797: a rank resets its flag when a peer may have set it already."""
    rank = warp.ctaid[0]
    with leader(warp):
        if not right:
            warp.st_global(flags.at(rank), 0, order="relaxed")  # <- reported
        warp.st_global(flags.at(1 - rank), 1, order="release")  # <- reported
        while not warp.ld_global(flags.at(rank), order="acquire")[0, 0]:  # <- reported
            warp.nanosleep(20)


@pair("global-race", 8, 1, 64, **TWO)
def bins_read_behind_a_relaxed_count(warp, right, bins, count, out):
    """aiter 4007: the counts are atomic, the counter that says that they are complete is relaxed."""
    warp.red_global("add.u32", bins.at(warp.threads % 8), 1)  # <- reported
    if right:
        warp.fence()
    warp.bar_sync()
    with leader(warp):
        warp.atom_global("add.u32", count, 1)
        while warp.warpid == 0 and warp.ld_global(count, order="relaxed")[0, 0] < 2:
            warp.nanosleep(20)
        if right:
            warp.fence()
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_global(bins.at(warp.threads % 8)), order="relaxed")  # <- reported


@pair("global-race", 2, **ONE)
def a_status_and_a_sum_stored_at_once_and_loaded_in_two_halves(warp, right, state):
    """Look-back: the writer's 64 bits are one access, the reader's are two, and so none of them is atomic."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            warp.st_global(state, (9 << 32) | 1, "b64", order="relaxed")  # <- reported
        elif right:
            while warp.ld_global(state, "b64", order="relaxed")[0, 0] & 0xFF != 1:
                warp.nanosleep(20)
        else:
            while not warp.ld_global(state, order="relaxed")[0, 0]:  # <- reported
                warp.nanosleep(20)
            warp.ld_global(state.at(1), order="relaxed")  # <- reported


@pair("global-race", 64, 2, **TWO)
def a_workspace_for_the_next_tile(warp, right, part, flags):
    """Stream-K over two tiles with one place for partial sums: the second is stored while the first is added up."""
    for tile in range(2):
        if warp.ctaid[0] == 1:
            if right and tile:
                spin_to(warp, flags.at(1), tile)
                warp.bar_sync()
            warp.st_global(part.at(warp.threads), tile)  # <- reported
            warp.bar_sync()
            with leader(warp):
                warp.st_global(flags.at(0), tile + 1, order="release")
        else:
            spin_to(warp, flags.at(0), tile + 1)
            warp.bar_sync()
            warp.ld_global(part.at(warp.threads))  # <- reported
            warp.bar_sync()
            with leader(warp):
                warp.st_global(flags.at(1), tile + 1, order="release")


@pair("global-race", 2, 64, **ONE)
def a_ring_with_one_slot_too_few(warp, right, ends, slots):
    """The sender may be ahead by N tokens; it waits as if by N + 1."""
    head, tail = ends.at(0), ends.at(1)
    for token in range(5):
        slot = slots.at(32 * (token % 2) + warp.laneid)
        if warp.ctaid[0] == 0:
            spin_to(warp, head, token - (1 if right else 2))
            warp.bar_warp_sync()
            warp.st_global(slot, token)  # <- reported
            warp.bar_warp_sync()
            with leader(warp):
                warp.st_global(tail, token + 1, order="release")
        else:
            spin_to(warp, tail, token + 1)
            warp.bar_warp_sync()
            warp.ld_global(slot)  # <- reported
            warp.bar_warp_sync()
            with leader(warp):
                warp.st_global(head, token + 1, order="release")


@pair("global-race", 1, 2, **ONE)
def a_sequence_lock_around_plain_data(warp, right, sequence, data):
    """The reader discards what it read while the writer was writing, but reading it was a race."""
    how = "relaxed" if right else ""
    with leader(warp):
        if warp.ctaid[0] == 0:
            warp.st_global(sequence, 1, order="relaxed")
            warp.fence()
            for n in range(2):
                warp.st_global(data.at(n), 4, order=how)  # <- reported
            warp.st_global(sequence, 2, order="release")
        else:
            while True:
                before = warp.ld_global(sequence, order="acquire")[0, 0]
                for n in range(2):
                    warp.ld_global(data.at(n), order=how)  # <- reported
                warp.fence()
                if before % 2 == 0 and warp.ld_global(sequence, order="relaxed")[0, 0] == before:
                    break
                warp.nanosleep(20)


@pair("global-race", 1, 32, grid=3, block=32)
def a_table_that_one_block_fills(warp, right, state, table):
    """Whoever wins the compare-and-swap fills it; the others continue as soon as somebody has begun."""
    with leader(warp):
        won = warp.atom_global("cas.b32", state, 0, 1, order="acq_rel")[0, 0] == 0
    won = warp.shfl_sync("idx", np.full(32, won, np.uint32), 0)[0]
    if won:
        warp.st_global(table.at(warp.laneid), 3)  # <- reported
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_global(state, 2, order="release")
    elif right:
        spin_to(warp, state, 2)
        warp.bar_warp_sync()
    warp.ld_global(table.at(warp.laneid))  # <- reported


@pair("global-race", 1, 4, 4, **ONE)
def a_queue_whose_tail_runs_ahead_of_its_slots(warp, right, tail, slots, ready):
    """atomicAdd(tail) gives out a slot; the consumer takes it as soon as the tail is beyond it."""
    with leader(warp):
        if warp.ctaid[0] == 0:
            place = warp.atom_global("add.u32", tail, 1, order="acq_rel")[0, 0]
            warp.st_global(slots.at(int(place)), 8)  # <- reported
            warp.st_global(ready.at(int(place)), 1, order="release")
        else:
            spin_to(warp, ready.at(0) if right else tail, 1)
            warp.ld_global(slots.at(0))  # <- reported


@pair("global-race", 64, 1, grid=3, block=64)
def the_last_block_of_three_releases_what_it_has_not_acquired(warp, right, part, count):
    """A chain by a counter: each hand-over is a release, and the acquire of the middle block is missing."""
    rank = warp.ctaid[0]
    if rank < 2:
        if rank == 0:
            warp.st_global(part.at(warp.threads), 1)  # <- reported
        warp.bar_sync()
        with leader(warp):
            if rank == 1 and warp.warpid == 0:
                while not warp.ld_global(count, order="acquire" if right else "relaxed")[0, 0]:
                    warp.nanosleep(20)
                warp.st_global(count, 2, order="release")
            elif warp.warpid == 0:
                warp.st_global(count, 1, order="release")
    else:
        spin_to(warp, count, 2)
        warp.bar_sync()
        warp.ld_global(part.at(warp.threads))  # <- reported


@pair("global-race", 128, 1, grid=4, block=32, cluster=2)
def a_rank_that_arrives_for_its_cluster(warp, right, part, count):
    """Rank 0 counts for both blocks after a barrier of its own block."""
    here = 32 * warp.ctaid[0] + warp.laneid
    warp.st_global(part.at(here), 1)  # <- reported
    if right:
        meet(warp)
    else:
        warp.bar_sync()
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.atom_global("add.u32", count, 1, order="acq_rel")
            while warp.ld_global(count, order="acquire")[0, 0] < 2:
                warp.nanosleep(20)
    meet(warp)
    warp.ld_global(part.at((here + 96) % 128))  # <- reported


@pair("global-race", 32, 1, grid=4, block=32)
def stream_k_peers_added_in_any_order(warp, right, tile, locks):
    """Three peers add to the owner's tile by plain read-modify-write, each when the lock is at least 1."""
    me = warp.ctaid[0]
    spin_to(warp, locks.at(0), me if right else min(me, 1))
    warp.bar_warp_sync()
    warp.st_global(tile.at(warp.laneid), 1 + warp.ld_global(tile.at(warp.laneid)))  # <- reported
    warp.bar_warp_sync()
    with leader(warp):
        if right:
            warp.st_global(locks.at(0), me + 1, order="release")
        else:
            warp.atom_global("add.u32", locks.at(0), 1, order="release")


@pair("global-race", 1, 2, grid=3, block=32)
def a_message_forwarded_by_a_rank_that_only_polls_relaxed(warp, right, data, flags):
    """NVLink to RDMA: the forwarder sees the tail relaxed, fences in one block scope, and passes it on."""
    rank = warp.ctaid[0]
    with leader(warp):
        if rank == 0:
            warp.st_global(data, 5)  # <- reported
            warp.fence()
            warp.st_global(flags.at(0), 1, order="relaxed")
        elif rank == 1:
            spin_to(warp, flags.at(0), 1, "relaxed")
            warp.fence("acq_rel", "gpu" if right else "cta")
            warp.st_global(flags.at(1), 1, order="relaxed")
        else:
            spin_to(warp, flags.at(1), 1, "relaxed")
            warp.fence()
            warp.ld_global(data)  # <- reported


@pair("flag-never-set", 2, **ONE)
def two_locks_in_opposite_orders(warp, right, locks):
    """Each block takes its own lock first, and then the other's."""
    with leader(warp):
        first = 0 if right else warp.ctaid[0]
        for n in (first, 1 - first):
            while warp.atom_global("cas.b32", locks.at(n), 0, 1, order="acquire")[0, 0]:  # <- reported
                warp.nanosleep(20)
        for n in range(2):
            warp.atom_global("exch.b32", locks.at(n), 0, order="release")
